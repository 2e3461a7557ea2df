//! Files that the window hands to the person: into the folder for downloads, never over what is there, readable by them
//! alone. The web view's own downloads would need a navigation, which the window does not allow.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Longest name, bytes.
const LONGEST: usize = 120;
/// So many files of one name are told apart.
const ALIKE: u32 = 1000;

/// Writes `text` as a new file into `folder`, which is made if it is not there. Another number is put behind the name while
/// a file is called so. Returns where it is.
///
/// # Errors
/// The name is no plain file name, or the file cannot be written.
pub(crate) fn keep(folder: &Path, name: &str, text: &str) -> io::Result<PathBuf> {
    if !is_plain(name) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no file can be called so"));
    }
    fs::create_dir_all(folder)?;
    let (stem, end) = name.rfind('.').map_or((name, ""), |dot| name.split_at(dot));
    let names = std::iter::once(name.to_owned()).chain((2..ALIKE).map(|n| format!("{stem} ({n}){end}")));
    for name in names {
        let path = folder.join(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(&path) {
            Ok(mut file) => return file.write_all(text.as_bytes()).map(|()| path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// A name and nothing else: no folder, nothing hidden.
fn is_plain(name: &str) -> bool {
    let odd = |c: char| c.is_control() || matches!(c, '/' | '\\' | ':');
    !name.is_empty() && name.len() <= LONGEST && !name.starts_with('.') && !name.contains(odd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[test]
    fn a_file_is_never_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("Downloads");
        let [first, second] = ["a", "b"].map(|text| keep(&folder, "memory.2026.jsonl", text).unwrap());
        assert_eq!(
            (first.clone(), second.clone()),
            (folder.join("memory.2026.jsonl"), folder.join("memory.2026 (2).jsonl"))
        );
        assert_eq!([first, second].map(|path| fs::read_to_string(path).unwrap()), ["a", "b"]);
    }

    #[cfg(unix)]
    #[test]
    fn only_the_person_can_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = keep(dir.path(), "diagnostics", "{}").unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[rstest]
    #[case("")]
    #[case("../.bashrc")]
    #[case(".bashrc")]
    #[case("a/b")]
    #[case("a\\b")]
    #[case("C:a")]
    #[case("a\nb")]
    fn nothing_else_than_a_name_is_taken(#[case] name: &str) {
        let dir = tempfile::tempdir().unwrap();
        assert!(keep(dir.path(), name, "x").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
