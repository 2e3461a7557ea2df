//! The product as a user runs it: the `metaclaw` binary in a process of its own, with a home folder of its own, spoken to
//! through its port and its command only.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::agent::Agent;
use crate::provider::Provider;
use crate::wire::Conn;
use crate::{until, within};

/// The provider key that every test configures; it must never come out anywhere but in the provider's request.
pub const UPSTREAM_KEY: &str = "sk-upstream-canary-7f3a9c";
/// The key that agents must show.
pub const PROXY_KEY: &str = "mc-proxy-canary-51be02";
/// The model that `llm.model_id` names.
pub const MODEL: &str = "fake-large";

/// What a finished command said.
#[derive(Debug)]
pub struct Said {
    /// Exit code; -1 after a signal.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Said {
    /// Standard output as JSON, for a command that succeeded.
    ///
    /// # Panics
    /// When the command failed or did not print JSON.
    pub fn json(&self) -> Value {
        assert_eq!(self.code, 0, "the command failed: {self:#?}");
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("not JSON ({e}): {self:#?}"))
    }

    /// Both outputs.
    pub fn all(&self) -> String {
        format!("{}{}", self.out, self.err)
    }
}

/// One installation: a home, a config, and the service while it runs.
#[derive(Debug)]
pub struct Product {
    root: TempDir,
    port: u16,
    /// Keeps the port from the tests of other processes.
    _held: std::fs::File,
    child: Option<Child>,
    starts: usize,
    env: Vec<(String, String)>,
}

impl Product {
    /// A home whose config names this provider, not started yet. `changes` is merged over the usual settings; a null
    /// removes a key.
    pub fn at(provider: &Provider, changes: &Value) -> Self {
        Self::with_base(&provider.base(), changes)
    }

    /// As [`Product::at`] with the provider's base URL.
    pub fn with_base(base: &str, changes: &Value) -> Self {
        let product = Self::bare();
        let mut settings = json!({
            "mode": "skills_only",
            "llm": {"provider": "custom", "api_base": base, "api_key": UPSTREAM_KEY, "model_id": MODEL,
                    "dialect": "openai-chat"},
            "proxy": {"host": "127.0.0.1", "port": product.port, "api_key": PROXY_KEY},
            "skills": {"enabled": true, "auto_evolve": false},
        });
        merge(&mut settings, changes);
        product.write_config(&yaml(&settings));
        product
    }

    /// An empty home without a config.
    pub fn bare() -> Self {
        let root = tempfile::Builder::new().prefix("metaclaw-").tempdir().expect("a temporary folder");
        std::fs::create_dir_all(root.path().join("home")).expect("a home folder");
        let (port, held) = free_port();
        Self { root, port, _held: held, child: None, starts: 0, env: Vec::new() }
    }

    /// A started product with the usual settings.
    pub async fn started(provider: &Provider, changes: &Value) -> Self {
        let mut product = Self::at(provider, changes);
        product.start().await;
        product
    }

    /// A folder for anything the test wants to keep beside the product's home.
    pub fn folder(&self) -> &Path {
        self.root.path()
    }

    /// The product's home folder (`METACLAW_HOME`).
    pub fn home(&self) -> PathBuf {
        self.root.path().join("home").join(".metaclaw")
    }

    /// The file by which the desktop app starts at login.
    pub fn login_entry(&self) -> PathBuf {
        self.root.path().join("home/.config/autostart/MetaClaw.desktop")
    }

    /// The port it is told to listen on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Takes another port; counts from the next start, with a config written again.
    pub fn set_port(&mut self, port: u16) {
        self.port = port;
    }

    /// `127.0.0.1:PORT`.
    pub fn addr(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Adds a variable to the environment of the service and of all commands.
    pub fn env(&mut self, name: &str, value: &str) {
        self.env.push((name.to_owned(), value.to_owned()));
    }

    /// Writes `config.yaml`.
    pub fn write_config(&self, text: &str) {
        std::fs::create_dir_all(self.home()).expect("the home folder");
        std::fs::write(self.home().join("config.yaml"), text).expect("the config file");
    }

    /// Reads `config.yaml`.
    pub fn config(&self) -> String {
        std::fs::read_to_string(self.home().join("config.yaml")).expect("the config file")
    }

    /// Writes a skill of the user's own.
    pub fn write_skill(&self, name: &str, description: &str, body: &str) {
        let text = format!("---\nname: {name}\ndescription: {description}\n---\n\n{body}\n");
        self.write_skill_file(name, &text);
    }

    /// Writes a SKILL.md as it is.
    pub fn write_skill_file(&self, name: &str, text: &str) {
        let folder = self.home().join("skills").join(name);
        std::fs::create_dir_all(&folder).expect("the skill's folder");
        std::fs::write(folder.join("SKILL.md"), text).expect("the skill's file");
    }

    /// A command line of the product with its environment: nothing of ours leaks in but the path.
    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(binary());
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.root.path().join("home"))
            .env("METACLAW_HOME", self.home())
            .env("LANG", "C.UTF-8")
            .envs(self.env.iter().map(|(n, v)| (n, v)))
            .stdin(Stdio::null())
            .current_dir(self.root.path())
            .kill_on_drop(true);
        command
    }

    /// Runs a command to its end.
    pub async fn cli(&self, args: &[&str]) -> Said {
        let output = within("the command ends", self.command(args).output()).await.expect("the binary runs");
        Said {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs a command with `--json` and reads what it prints.
    pub async fn json(&self, args: &[&str]) -> Value {
        self.cli(&[args, &["--json"]].concat()).await.json()
    }

    /// Starts the service in the foreground and waits until it answers.
    ///
    /// # Panics
    /// When it ends instead.
    pub async fn start(&mut self) {
        if let Err(said) = self.try_start().await {
            panic!("the service did not start: {said:#?}");
        }
    }

    /// Starts the service in the foreground; an `Err` holds what it said when it ended by itself.
    pub async fn try_start(&mut self) -> Result<(), Said> {
        self.spawn(&["start"]);
        self.healthy().await
    }

    /// Starts the service with these arguments and does not wait.
    pub fn spawn(&mut self, args: &[&str]) {
        self.starts += 1;
        let file = |kind: &str| {
            std::fs::File::create(self.root.path().join(format!("{}.{kind}", self.starts))).expect("an output file")
        };
        let (out, err) = (file("out"), file("err"));
        self.child = Some(self.command(args).stdout(out).stderr(err).spawn().expect("the binary runs"));
    }

    /// Waits until the spawned service answers `GET /healthz`; an `Err` holds what it said when it ended instead.
    pub async fn healthy(&mut self) -> Result<(), Said> {
        let addr = self.addr();
        let child = self.child.as_mut().expect("the service was spawned");
        tokio::select! {
            biased;
            status = child.wait() => Err(self.said(status.expect("a status"))),
            () = until("the service answers /healthz", || async { health(&addr).await.then_some(()) }) => Ok(()),
        }
    }

    fn said(&mut self, status: ExitStatus) -> Said {
        self.child = None;
        Said { code: status.code().unwrap_or(-1), out: self.output("out"), err: self.output("err") }
    }

    /// What the last started service wrote so far; `kind` is `out` or `err`.
    pub fn output(&self, kind: &str) -> String {
        let path = self.root.path().join(format!("{}.{kind}", self.starts));
        String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
    }

    /// Process id of the running service.
    ///
    /// # Panics
    /// When it does not run.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().and_then(Child::id).expect("the service runs")
    }

    /// Ends the service at once, as a power cut would for its process.
    pub async fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().await.expect("a kill");
        }
    }

    /// Sends SIGTERM.
    pub async fn terminate(&self) {
        signal(self.pid(), "TERM").await;
    }

    /// Waits for the service to end.
    pub async fn ended(&mut self) -> Said {
        let mut child = self.child.take().expect("the service was spawned");
        let status = within("the service ends", child.wait()).await.expect("a status");
        self.said(status)
    }

    /// SIGTERM and wait.
    pub async fn stop(&mut self) -> Said {
        self.terminate().await;
        self.ended().await
    }

    /// An agent that talks to this product with its key.
    pub fn agent(&self) -> Agent {
        Agent::new(&self.addr()).with_header("authorization", &format!("Bearer {PROXY_KEY}"))
    }

    /// The last turns of the journal, oldest first, as `turns --json` prints them.
    pub async fn turns(&self) -> Vec<Value> {
        let mut turns = self.json(&["turns", "--limit", "500"]).await.as_array().expect("a list of turns").clone();
        turns.sort_by_key(|t| t["id"].as_i64());
        turns
    }
}

/// Sends a signal by name.
pub async fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().await;
    assert!(status.expect("kill runs").success(), "cannot signal {pid}");
}

/// Whether `GET /healthz` says 200.
pub async fn health(addr: &str) -> bool {
    let ask = async {
        let mut conn = Conn::connect(addr).await?;
        conn.send(format!("GET /healthz HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\n\r\n").as_bytes()).await?;
        conn.response_head("GET").await
    };
    ask.await.is_ok_and(|head| head.status == 200)
}

/// The built `metaclaw`: `$METACLAW_BIN`, else the one beside the test's own binary.
///
/// # Panics
/// When there is none.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("METACLAW_BIN") {
        return path.into();
    }
    let own = std::env::current_exe().expect("the test's own path");
    let profile = own.ancestors().find(|p| p.ends_with("deps")).and_then(Path::parent).or(own.parent());
    let path = profile.expect("a build folder").join("metaclaw");
    assert!(path.exists(), "{} is missing: run `cargo build -p metaclaw-cli` first", path.display());
    path
}

/// A free port below the range that outgoing connections take theirs from, and the lock that keeps it ours: tests run in
/// many processes, and a port is free until its service has started.
fn free_port() -> (u16, std::fs::File) {
    let locks = std::env::temp_dir().join("metaclaw-test-ports");
    std::fs::create_dir_all(&locks).expect("a folder for locks");
    let seed = std::process::id() as usize;
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    loop {
        let n = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let port = 11_000 + u16::try_from((seed * 7919 + n * 13) % 21_000).expect("below 32000");
        let file = std::fs::File::options().create(true).truncate(false).write(true).open(locks.join(port.to_string()));
        let Ok(file) = file else { continue };
        if file.try_lock().is_ok() && std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return (port, file);
        }
    }
}

/// Merges `changes` into `base`: objects by key, a null removes, anything else replaces.
pub fn merge(base: &mut Value, changes: &Value) {
    match (base, changes) {
        (Value::Object(base), Value::Object(changes)) => {
            for (key, value) in changes {
                if value.is_null() {
                    base.remove(key);
                } else {
                    merge(base.entry(key.clone()).or_insert(Value::Object(Map::new())), value);
                }
            }
        }
        (base, changes) => *base = changes.clone(),
    }
}

/// The settings as block-style YAML, as a person would write them.
pub fn yaml(settings: &Value) -> String {
    fn write(out: &mut String, value: &Value, indent: usize) {
        let Value::Object(map) = value else { return };
        for (key, value) in map {
            out.push_str(&" ".repeat(indent));
            match value {
                Value::Object(inner) if !inner.is_empty() => {
                    out.push_str(&format!("{key}:\n"));
                    write(out, value, indent + 2);
                }
                _ => out.push_str(&format!("{key}: {value}\n")),
            }
        }
    }
    let mut out = String::new();
    write(&mut out, settings, 0);
    out
}

/// Name of the skill that [`Product::teach`] writes.
pub const SKILL: &str = "zebrafish-care";
/// A question that this skill, and no other, is for.
pub const QUESTION: &str = "How warm must the zebrafish aquarium be, and how do I feed zebrafish larvae?";

impl Product {
    /// Writes a skill that only zebrafish questions find.
    pub fn teach(&self) {
        self.write_skill(
            SKILL,
            "Keeping zebrafish in an aquarium. Use for questions on zebrafish water, larvae and feeding.",
            "# Zebrafish\n\n1. Keep the aquarium at 28.5 degrees.\n2. Feed larvae rotifers, twice a day.",
        );
    }
}

impl Product {
    /// Starts the service in a mount namespace of its own, through a shell script that ends in `exec "$@"`. `false`, with
    /// a message, where this machine does not let us make one.
    pub async fn spawn_in_mounts(&mut self, script: &str) -> bool {
        let Some(mut command) = self.in_mounts(script, &["start"]).await else { return false };
        self.starts += 1;
        let file = |kind: &str| {
            std::fs::File::create(self.root.path().join(format!("{}.{kind}", self.starts))).expect("an output file")
        };
        let (out, err) = (file("out"), file("err"));
        self.child = Some(command.stdout(out).stderr(err).spawn().expect("unshare runs"));
        true
    }

    /// Runs a command to its end in a mount namespace as [`Product::spawn_in_mounts`] makes it.
    pub async fn cli_in_mounts(&self, script: &str, args: &[&str]) -> Option<Said> {
        let mut command = self.in_mounts(script, args).await?;
        let output = within("the command ends", command.output()).await.expect("unshare runs");
        Some(Said {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    async fn in_mounts(&self, script: &str, args: &[&str]) -> Option<Command> {
        let may = Command::new("unshare").args(["-rm", "true"]).stderr(Stdio::null()).status().await;
        if !may.is_ok_and(|status| status.success()) {
            crate::peers::skipped("mount namespaces (unshare -rm)");
            return None;
        }
        let ours = self.command(args);
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-ec", script, "sh"]).arg(ours.as_std().get_program()).args(args).env_clear();
        for (name, value) in ours.as_std().get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command.stdin(Stdio::null()).current_dir(self.root.path()).kill_on_drop(true);
        Some(command)
    }
}
