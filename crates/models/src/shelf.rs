//! The folder in which models are kept, named for the models: a GGUF file for each that answers, a folder for each that makes
//! vectors. What a user puts there counts too.

use std::io;
use std::path::{Path, PathBuf};

use crate::hold::{Held, hold};
use crate::offers::{Offer, Purpose, Source, offer};

/// Ending of a model's file.
const GGUF: &str = "gguf";
/// Files of a model for search.
const SEARCH: [&str; 3] = ["config.json", "tokenizer.json", "model.safetensors"];

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shelf {
    dir: PathBuf,
}

/// A model that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// What it is called in the settings.
    pub id: String,
    /// What it is for.
    pub purpose: Purpose,
    /// Its file or folder.
    pub file: PathBuf,
    /// Bytes.
    pub size: u64,
}

impl Shelf {
    /// The shelf in a folder, which need not exist yet.
    #[must_use]
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// The folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where a model that answers is, or would be.
    #[must_use]
    pub fn file(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.{GGUF}"))
    }

    /// Where an offer is once it was fetched, and the folder that its files are in.
    pub(crate) fn place(&self, offer: &Offer) -> (PathBuf, PathBuf) {
        match offer.purpose {
            Purpose::Chat => (self.file(offer.id), self.dir.clone()),
            Purpose::Search => (self.dir.join(offer.id), self.dir.join(offer.id)),
        }
    }

    /// The models that are there, by name.
    ///
    /// # Errors
    /// The folder is there and cannot be read.
    pub fn kept(&self) -> io::Result<Vec<Kept>> {
        let entries = match std::fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut kept = Vec::new();
        for entry in entries {
            let path = entry?.path();
            kept.extend(answering(&path).or_else(|| searching(&path)));
        }
        kept.sort_by(|a, b| (a.purpose, &a.id).cmp(&(b.purpose, &b.id)));
        Ok(kept)
    }

    /// The file that `llm.model_id` means: a path of a GGUF file, the name of a model here, or, where nothing is said,
    /// the best that is here. `None`: there is none.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<Kept> {
        if let Some(file) = Self::named(id) {
            return answering(&file);
        }
        let kept: Vec<Kept> =
            self.kept().unwrap_or_default().into_iter().filter(|kept| kept.purpose == Purpose::Chat).collect();
        if id.is_empty() {
            let best = crate::offers::OFFERS.iter().find_map(|offer| kept.iter().find(|kept| kept.id == offer.id));
            return best.or(kept.first()).cloned();
        }
        kept.into_iter().find(|kept| kept.id == id)
    }

    /// The file that `llm.model_id` names by its path, if it does; `~/` is the user's own folder.
    #[must_use]
    pub fn named(id: &str) -> Option<PathBuf> {
        if !id.contains(['/', '\\']) || !is_gguf(Path::new(id)) {
            return None;
        }
        let at_home = id.strip_prefix("~/").and_then(|rest| Some(std::env::home_dir()?.join(rest)));
        Some(at_home.unwrap_or_else(|| PathBuf::from(id)))
    }

    /// Removes a model and what a broken-off fetch left of it. Returns the bytes that became free; `None`: it is not here.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn remove(&self, id: &str) -> io::Result<Option<u64>> {
        // Only what a listing would show: an id is no path.
        let kept = self.kept()?.into_iter().filter(|kept| kept.id == id);
        let files = kept.flat_map(|kept| match kept.purpose {
            Purpose::Chat => vec![kept.file],
            Purpose::Search => SEARCH.map(|name| kept.file.join(name)).to_vec(),
        });
        let left = offer(id).map(|offer| self.begun(offer)).unwrap_or_default();
        let mut freed = None;
        for file in files.chain(left) {
            match std::fs::metadata(&file) {
                Ok(meta) => {
                    std::fs::remove_file(&file)?;
                    *freed.get_or_insert(0) += meta.len();
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        if freed.is_some() {
            // A folder with something else in it stays.
            let sources = offer(id).map(|offer| offer.sources).unwrap_or_default();
            let begun = sources.iter().map(|source| self.part(id, source));
            for folder in begun.chain([self.dir.join(id)]) {
                let _ = std::fs::remove_dir(folder);
            }
        }
        Ok(freed)
    }

    /// Everything that an offer ever has here, whether it is here or not: each file, or each folder with the files in it.
    #[must_use]
    pub fn all_of(&self, offer: &Offer) -> Vec<(PathBuf, Vec<PathBuf>)> {
        let begun = self.begun(offer);
        let within = |folder: &Path| begun.iter().filter(|file| file.starts_with(folder)).cloned().collect();
        let parts = offer.sources.iter().map(|source| self.part(offer.id, source));
        let mut all: Vec<_> = parts.map(|part| (part.clone(), within(&part))).collect();
        let (place, folder) = self.place(offer);
        let files = offer.files.iter().map(|file| folder.join(file.name)).collect();
        all.push((place, files));
        all
    }

    /// Keeps others from fetching an offer until what is returned is dropped; the inner `Err` names the process that fetches
    /// it now. The folder must be there.
    ///
    /// # Errors
    /// The lock's file cannot be used.
    pub fn hold(&self, offer: &Offer) -> io::Result<Result<Held, Option<u32>>> {
        hold(&self.lock(offer.id))
    }

    /// Says that a model is being fetched, to all processes.
    #[must_use]
    pub fn lock(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.lock"))
    }

    /// The folder for what has come of a model so far. Every source gives other files, so each has one of its own.
    pub(crate) fn part(&self, id: &str, source: &Source) -> PathBuf {
        let from = match source {
            Source::Hub { .. } => "hub",
            Source::Package { .. } => "package",
        };
        self.dir.join(format!("{id}.{from}.part"))
    }

    /// The files in a source's folder: the package, if it is one, and those of the offer.
    pub(crate) fn begun(&self, offer: &Offer) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for source in offer.sources {
            let part = self.part(offer.id, source);
            if let Source::Package { wheel, .. } = source {
                files.push(part.join(wheel));
            }
            files.extend(offer.files.iter().map(|file| part.join(file.name)));
        }
        files
    }
}

fn is_gguf(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case(GGUF))
}

/// The model in a GGUF file, if it is one by its name.
fn answering(file: &Path) -> Option<Kept> {
    let meta = std::fs::metadata(file).ok().filter(std::fs::Metadata::is_file)?;
    let id = file.file_stem().filter(|_| is_gguf(file))?.to_str()?.to_owned();
    Some(Kept { id, purpose: Purpose::Chat, size: meta.len(), file: file.to_path_buf() })
}

/// The model in a folder, if all its files are there.
fn searching(folder: &Path) -> Option<Kept> {
    let sizes = SEARCH.map(|name| std::fs::metadata(folder.join(name)).ok().filter(std::fs::Metadata::is_file));
    let size = sizes.into_iter().map(|meta| meta.map(|meta| meta.len())).sum::<Option<u64>>()?;
    let id = folder.file_name()?.to_str().filter(|name| !name.ends_with(".part"))?.to_owned();
    Some(Kept { id, purpose: Purpose::Search, size, file: folder.to_path_buf() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_found_by_name_by_path_and_as_the_best_there_is() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path().join("models"));
        assert_eq!(shelf.kept().unwrap(), []);
        assert_eq!(shelf.find(""), None);
        std::fs::create_dir(shelf.dir()).unwrap();
        for (name, bytes) in [("a.gguf", 3), ("smollm2-135m-instruct.gguf", 5), ("b.part", 7), ("c.txt", 9)] {
            std::fs::write(shelf.dir().join(name), vec![0; bytes]).unwrap();
        }
        std::fs::write(shelf.dir().join("Other.GGUF"), b"x").unwrap();
        std::fs::create_dir(shelf.dir().join("folder.gguf")).unwrap();
        let ids: Vec<String> = shelf.kept().unwrap().into_iter().map(|kept| kept.id).collect();
        assert_eq!(ids, ["Other", "a", "smollm2-135m-instruct"]);
        assert_eq!(shelf.find("").unwrap().id, "smollm2-135m-instruct");
        assert_eq!(shelf.find("a").unwrap().size, 3);
        assert_eq!(shelf.find("b"), None);
        let path = shelf.dir().join("a.gguf");
        assert_eq!(shelf.find(path.to_str().unwrap()).unwrap().file, path);
        assert_eq!(shelf.find(shelf.dir().join("folder.gguf").to_str().unwrap()), None);
        let home = std::env::home_dir().unwrap();
        assert_eq!(Shelf::named("~/models/Mine.GGUF"), Some(home.join("models/Mine.GGUF")));
        assert_eq!(Shelf::named("mine.gguf"), None);
    }

    #[test]
    fn removing_takes_only_what_is_on_the_shelf() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path().join("models"));
        std::fs::create_dir(shelf.dir()).unwrap();
        std::fs::write(dir.path().join("mine.gguf"), b"x").unwrap();
        let qwen = offer("qwen3-0.6b").unwrap();
        let part = shelf.part(qwen.id, &qwen.sources[0]);
        std::fs::create_dir(&part).unwrap();
        std::fs::write(part.join("qwen3-0.6b.gguf"), b"xyz").unwrap();
        assert_eq!(shelf.remove("../mine").unwrap(), None);
        assert!(dir.path().join("mine.gguf").exists());
        assert_eq!(shelf.remove("qwen3-0.6b").unwrap(), Some(3));
        assert_eq!(shelf.remove("qwen3-0.6b").unwrap(), None);
        assert!(!part.exists());
    }

    #[test]
    fn a_model_for_search_is_a_folder_with_all_its_files_and_never_answers() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path().join("models"));
        let folder = shelf.dir().join("minilm");
        std::fs::create_dir_all(&folder).unwrap();
        for (at, name) in SEARCH.iter().enumerate() {
            assert_eq!(shelf.kept().unwrap(), [], "only {at} files");
            std::fs::write(folder.join(name), b"123").unwrap();
        }
        let kept = shelf.kept().unwrap();
        assert_eq!((kept[0].id.as_str(), kept[0].purpose, kept[0].size), ("minilm", Purpose::Search, 9));
        assert_eq!((shelf.find("minilm"), shelf.find("")), (None, None));
        std::fs::write(folder.join("notes.txt"), b"mine").unwrap();
        assert_eq!(shelf.remove("minilm").unwrap(), Some(9));
        assert!(folder.join("notes.txt").exists());
        assert_eq!(shelf.kept().unwrap(), []);
    }
}
