//! Programs of other people that tests run against, where they are installed: SDKs in the tests' own virtual environment,
//! and the peers of `$METACLAW_PEERS` (default `~/.cache/metaclaw-peers`). A test whose peer is missing says so and passes.

use std::io::Write;
use std::path::{Path, PathBuf};

/// The repository's root.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the repository")
}

/// The Python of `tests/.venv`, where `make test` put the SDKs.
pub fn python() -> Option<PathBuf> {
    let folder = std::env::var_os("METACLAW_TEST_VENV").map_or_else(|| repository().join("tests/.venv"), PathBuf::from);
    found(folder.join("bin/python"), "the Python SDKs (run `make test`)")
}

/// A file of an installed peer; `ready` marks a finished installation.
pub fn peer(name: &str, file: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("METACLAW_PEERS").map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HOME")?;
        Some(Path::new(&home).join(".cache/metaclaw-peers"))
    })?;
    let folder = cache.join(name);
    found(folder.join("ready"), &format!("the peer {name:?}"))?;
    found(folder.join(file), &format!("{file:?} of the peer {name:?}"))
}

/// The small model that MetaClaw itself fetches for those who try it: named in `METACLAW_TEST_MODEL`, or beside the peers,
/// where `make test` puts it.
pub fn small_model() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("METACLAW_TEST_MODEL") {
        return found(PathBuf::from(named), "the model of METACLAW_TEST_MODEL");
    }
    let cache = std::env::var_os("METACLAW_PEERS").map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HOME")?;
        Some(Path::new(&home).join(".cache/metaclaw-peers"))
    })?;
    let other = cache.join("llm/smollm2-135m-instruct.gguf");
    if other.exists() {
        return Some(other);
    }
    found(cache.join("builtin/models/smollm2-135m-instruct.gguf"), "the small model (run `make test`)")
}

fn found(path: PathBuf, what: &str) -> Option<PathBuf> {
    if path.exists() {
        return Some(path);
    }
    skipped(&format!("{what} ({} is missing)", path.display()));
    assert!(std::env::var_os("METACLAW_NO_SKIP").is_none(), "{what} is missing and METACLAW_NO_SKIP is set");
    None
}

/// Says that a test passes without what it needs.
pub fn skipped(what: &str) {
    let line = format!("SKIPPED: not installed here: {what}\n");
    eprint!("{line}");
    // Test runners hide the output of a test that passes; `make test` shows this file at its end.
    if let Some(list) = std::env::var_os("METACLAW_SKIPPED") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(list);
        file.and_then(|mut file| file.write_all(line.as_bytes())).ok();
    }
}

/// Runs a scenario of `tests/clients/SCRIPT` against a host and returns what the SDK saw.
///
/// # Panics
/// When the script fails.
pub async fn sdk(python: &Path, script: &str, addr: &str, key: &str, scenario: &str) -> serde_json::Value {
    let base = if script.starts_with("openai") { format!("http://{addr}/v1") } else { format!("http://{addr}") };
    let mut command = tokio::process::Command::new(python);
    command
        .arg(repository().join("tests/clients").join(script))
        .args([&base, key, scenario])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("PYTHONIOENCODING", "utf-8")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .kill_on_drop(true);
    let output = crate::within_for(10 * crate::PATIENCE, scenario, command.output()).await.expect("python runs");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script} {scenario} failed:\n{err}");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{script} {scenario} printed no JSON ({e}): {err}"))
}

/// A command of a real agent: a home of its own, and no way to anywhere but this machine.
pub fn agent_command(program: &Path, home: &Path) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(program);
    let nowhere = "http://127.0.0.1:9";
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home)
        .env("NO_COLOR", "1")
        .env("CI", "1")
        .envs(["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"].map(|name| (name, nowhere)))
        .envs(["NO_PROXY", "no_proxy"].map(|name| (name, "127.0.0.1,localhost")))
        .current_dir(home)
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true);
    command
}

/// Runs an agent to its end, and returns its standard output.
///
/// # Panics
/// When it fails or does not end.
pub async fn run_agent(mut command: tokio::process::Command) -> String {
    let output =
        crate::within_for(10 * crate::PATIENCE, "the agent ends", command.output()).await.expect("the agent runs");
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed with {}:\n{out}\n{err}", output.status);
    out
}
