//! The control socket's two ends. A socket's path may have only about a hundred bytes; a longer one is reached through
//! its folder's open handle where the system has names for those (Linux).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// Longest path that every system takes for a socket (macOS: 104 bytes with the closing zero).
const LONGEST: usize = 103;

/// Makes the socket, readable and writable for its owner only. What stood at `path` must be gone.
pub(crate) fn bind(path: &Path) -> io::Result<UnixListener> {
    let (name, _folder) = short(path)?;
    let listener = UnixListener::bind(name)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(listener)
}

/// Connects to the socket.
pub(crate) async fn connect(path: &Path) -> io::Result<UnixStream> {
    let (name, _folder) = short(path)?;
    UnixStream::connect(name).await
}

/// A name of the path that fits into a socket's address, and the open folder that it goes through.
fn short(path: &Path) -> io::Result<(PathBuf, Option<File>)> {
    let length = path.as_os_str().len();
    if length <= LONGEST {
        return Ok((path.to_path_buf(), None));
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::from(io::ErrorKind::InvalidFilename));
    };
    let handle = File::open(folder)?;
    let through = PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()));
    if !through.is_dir() {
        let message =
            format!("the path has {length} bytes, and a socket's path may have {LONGEST}; use a shorter folder");
        return Err(io::Error::new(io::ErrorKind::InvalidFilename, message));
    }
    Ok((through.join(name), Some(handle)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_socket_deep_in_the_tree_is_made_and_reached() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a-folder-with-a-long-name-of-forty-letters".repeat(4));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("control.sock");
        let listener = bind(&path).unwrap();
        assert!(path.exists());
        let stream = connect(&path).await.unwrap();
        stream.writable().await.unwrap();
        listener.accept().await.unwrap();
    }
}
