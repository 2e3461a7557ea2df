//! Who listens on a TCP port of this machine, so that "the port is taken" can name the program. Linux reads `/proc`;
//! elsewhere, and for other users' processes, the answer is "unknown".

use std::path::Path;

/// A program that listens on a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Process id.
    pub pid: u32,
    /// The program's short name.
    pub name: String,
}

/// The program that listens on `port`, as far as this user may see it.
pub(crate) fn listener(port: u16) -> Option<Listener> {
    let proc = Path::new("/proc");
    let inodes: Vec<String> = ["net/tcp", "net/tcp6"]
        .iter()
        .filter_map(|table| std::fs::read_to_string(proc.join(table)).ok())
        .flat_map(|table| listening_inodes(&table, port))
        .collect();
    if inodes.is_empty() {
        return None;
    }
    let wanted: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    for entry in std::fs::read_dir(proc).ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(files) = std::fs::read_dir(entry.path().join("fd")) else { continue };
        let holds = files
            .flatten()
            .filter_map(|file| std::fs::read_link(file.path()).ok())
            .any(|link| link.to_str().is_some_and(|link| wanted.iter().any(|want| want == link)));
        if holds {
            let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            return Some(Listener { pid, name: name.trim().to_owned() });
        }
    }
    None
}

/// Socket inodes in a `/proc/net/tcp` table that are in state LISTEN (0A) on `port`.
fn listening_inodes(table: &str, port: u16) -> Vec<String> {
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let local = fields.get(1)?.rsplit(':').next()?;
            let listens = *fields.get(3)? == "0A" && u16::from_str_radix(local, 16).ok()? == port;
            listens.then(|| fields.get(9).map(ToString::to_string)).flatten()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listening_sockets_of_the_port_are_found() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
                     0: 0100007F:7530 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 111 1 0 100 0\n\
                     1: 0100007F:7530 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1000 0 222 1 0 100 0\n\
                     2: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 333 1 0 100 0\n";
        assert_eq!(listening_inodes(table, 30000), ["111"]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn our_own_listener_is_named() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let found = listener(socket.local_addr().unwrap().port()).unwrap();
        assert_eq!(found.pid, std::process::id());
    }
}
