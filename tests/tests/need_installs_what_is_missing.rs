//! `scripts/need`, which `make` calls first: on a bare Debian it installs each missing package on its own, and takes Rust
//! from rustup's own installer where the release has none or only an old one; elsewhere it says what is missing.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use metaclaw_tests::product::Said;
use tempfile::TempDir;
use tokio::process::Command;

/// A machine made of a few real tools and some that only write down how they were called.
struct Machine {
    root: TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { root: tempfile::tempdir().expect("a folder") };
        fs::create_dir_all(machine.bin()).expect("a folder");
        for tool in ["sh", "sed", "sort", "head", "dirname", "uname", "grep", "env", "cat", "chmod", "mkdir"] {
            let real = ["/usr/bin", "/bin"].iter().map(|dir| Path::new(dir).join(tool)).find(|path| path.exists());
            symlink(real.expect("a POSIX tool"), machine.bin().join(tool)).expect("a link");
        }
        machine.tool("id", "echo 0");
        machine
    }

    /// With an apt that has these packages, each of which brings a command of the given name; `-` = none.
    fn debian(packages: &[(&str, &str)]) -> Self {
        let machine = Self::new();
        let bin = machine.bin().display().to_string();
        let known =
            packages.iter().map(|(package, _)| format!("{package}) echo 'Candidate: 1.0' ;;")).collect::<String>();
        machine.tool("apt-cache", &format!("case $2 in {known} *) echo 'Candidate: (none)' ;; esac"));
        let brings = packages
            .iter()
            .filter(|(_, tool)| *tool != "-")
            .map(|(package, tool)| format!("{package}) printf '#!/bin/sh\\n' >{bin}/{tool}; chmod 755 {bin}/{tool} ;;"))
            .collect::<String>();
        let log = machine.log().display().to_string();
        machine.tool(
            "apt-get",
            &format!("echo \"$*\" >>{log}; for last; do :; done; [ \"$1\" = update ] || case $last in {brings} esac"),
        );
        machine
    }

    fn bin(&self) -> PathBuf {
        self.root.path().join("bin")
    }

    fn log(&self) -> PathBuf {
        self.root.path().join("calls")
    }

    fn tool(&self, name: &str, script: &str) {
        let path = self.bin().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a tool");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("its mode");
    }

    async fn need(&self, tools: &[&str]) -> Said {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/need");
        let output = Command::new("/bin/sh")
            .arg(script)
            .args(tools)
            .env_clear()
            .env("PATH", self.bin())
            .env("HOME", self.root.path())
            .output()
            .await
            .expect("the script runs");
        Said {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }
}

/// What rustup's installer leaves behind: a cargo in the home's own folder.
const INSTALLER: &str = "cat <<'END'\nmkdir -p \"$HOME/.cargo/bin\"\nprintf '#!/bin/sh\\necho cargo 1.99.0\\n' \
                         >\"$HOME/.cargo/bin/cargo\"\nchmod 755 \"$HOME/.cargo/bin/cargo\"\nEND";

#[tokio::test]
async fn a_package_that_the_release_has_not_stops_no_other() {
    let machine = Machine::debian(&[("wrk", "wrk"), ("hey", "hey")]);
    let said = machine.need(&["wrk", "absent", "hey"]).await;
    assert_eq!(said.code, 1, "{said:#?}");
    assert!(said.err.contains("missing: the program \"absent\"") && !said.err.contains("wrk"), "{said:#?}");
    let calls = machine.calls();
    assert!(calls.lines().any(|call| call.ends_with(" wrk")) && calls.lines().any(|call| call.ends_with(" hey")));
    assert!(!calls.contains("absent"), "{calls}");
    assert_eq!(machine.need(&["wrk", "hey"]).await.code, 0);
}

#[tokio::test]
async fn rust_comes_from_its_own_installer_where_the_release_has_none_or_an_old_one() {
    for old in [false, true] {
        let machine = Machine::debian(&[("ca-certificates", "-")]);
        machine.tool("curl", INSTALLER);
        if old {
            machine.tool("cargo", "echo cargo 1.65.0");
        }
        let said = machine.need(&["cargo"]).await;
        assert_eq!(said.code, 0, "{said:#?}");
        assert!(said.out.contains("https://sh.rustup.rs"), "{said:#?}");
        assert_eq!(machine.need(&["cargo"]).await.out, "", "the second time nothing is left to do");
    }
}

#[tokio::test]
async fn elsewhere_it_says_what_is_missing_and_how_to_get_it() {
    let machine = Machine::new();
    machine.tool("cargo", "echo cargo 1.65.0");
    let said = machine.need(&["cargo", "wrk"]).await;
    assert_eq!(said.code, 1);
    assert!(said.err.contains("https://sh.rustup.rs | sh") && said.err.contains("\"wrk\""), "{said:#?}");
    machine.tool("cargo", "echo 'cargo 1.100.0 (abc 2027-01-01)'");
    assert_eq!(machine.need(&["cargo"]).await.code, 0);
}
