//! Where memory is opened for the control API, with or without a service, and what can be imported into it. Files of old
//! installs are only read.

use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use memory::Memory;
use serde_json::{Value, json};
use store::Store;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::{MemoryImport, MemoryImported, Problem, memory_problem, store_problem};
use crate::core::Core;

/// How every SQLite database begins.
const SQLITE: &[u8] = b"SQLite format 3\0";
/// Longest export that is read.
const LONGEST: u64 = 1 << 30;

impl Core {
    /// Memory for reading; `None` while there is no journal.
    pub(crate) async fn memory(&self) -> Result<Option<Memory>, Problem> {
        if let Some(run) = &self.0.run {
            return Ok(Some(run.memories.memory()));
        }
        if let Some(store) = self.0.writable.get() {
            return Ok(Some(self.memory_over(store)));
        }
        Ok(self.journal().await?.map(|store| self.memory_over(store)))
    }

    /// Memory for changing it. Without a service the database is opened, and made if need be.
    pub(crate) async fn memory_to_change(&self) -> Result<Memory, Problem> {
        if let Some(run) = &self.0.run {
            return Ok(run.memories.memory());
        }
        let open = || async {
            self.home().ensure().map_err(|error| {
                crate::api::problem::io(&format!("{} cannot be used", self.home().dir().display()), &error)
            })?;
            let path = self.home().db_path();
            Store::open(&path, store::Options::default(), &TaskTracker::new(), CancellationToken::new())
                .await
                .map_err(store_problem)
        };
        Ok(self.memory_over(self.0.writable.get_or_try_init(open).await?))
    }

    fn memory_over(&self, store: &Store) -> Memory {
        let memory = Memory::open(store.clone(), memory::Settings::default());
        proxy::MemorySettings::from_config(&self.config(), &memory, TimeZone::system()).memory
    }

    /// Memory was changed: the running service takes it over.
    pub(crate) fn memory_changed(&self) {
        if let Some(run) = &self.0.run {
            run.memories.changed();
        }
    }

    /// Words were taken out of the journal.
    pub(crate) fn memory_forgotten(&self) {
        if let Some(agents) = self.0.run.as_ref().and_then(|run| run.agents.get()) {
            agents.journal_changed();
        }
        self.memory_changed();
    }

    /// Imports an export, an old database or an old policy.
    pub(crate) async fn import_memory(&self, import: MemoryImport) -> Result<MemoryImported, Problem> {
        let now_ms = self.clock().now_ms();
        let scope = import.scope.as_deref().filter(|scope| !scope.is_empty());
        if let Some(text) = import.text {
            let room = self.memory_to_change().await?;
            let summary = room.import(&text, scope, now_ms).await.map_err(memory_problem)?;
            return Ok(imported("the given text".to_owned(), summary));
        }
        let path = if import.path.is_empty() { self.old_database()? } else { PathBuf::from(&import.path) };
        if !path.is_absolute() {
            return Err(Problem::invalid("The path must be absolute."));
        }
        // Old installs say `store_path` for a folder as well.
        let path = if path.is_dir() { path.join("memory.db") } else { path };
        let from = path.display().to_string();
        let unreadable = |error: &std::io::Error| crate::api::problem::io(&format!("{from} cannot be read"), error);
        let meta = std::fs::metadata(&path).map_err(|error| unreadable(&error))?;
        if starts_with(&path, SQLITE).map_err(|error| unreadable(&error))? {
            let room = self.memory_to_change().await?;
            let scratch = scratch(self.home().dir()).map_err(|error| unreadable(&error))?;
            let summary = room.import_legacy(&path, scratch.path(), scope, now_ms).await.map_err(memory_problem)?;
            return Ok(imported(from, summary));
        }
        if meta.len() > LONGEST {
            return Err(Problem::invalid(format!("{from} is larger than any export.")));
        }
        let text = std::fs::read_to_string(&path).map_err(|error| unreadable(&error))?;
        if let Some(policy) = policy(&text) {
            return self.import_policy(from, &policy).await;
        }
        let room = self.memory_to_change().await?;
        let summary = room.import(&text, scope, now_ms).await.map_err(memory_problem)?;
        Ok(imported(from, summary))
    }

    /// The database of an old install, as the settings say where it is, or a copy that was set aside.
    fn old_database(&self) -> Result<PathBuf, Problem> {
        let config = self.config();
        let dir = self.home().resolve(&config.memory.dir);
        let named = &config.memory.store_path;
        let first = if named.is_empty() { dir.join("memory.db") } else { self.home().resolve(named) };
        let mut tried = vec![first, dir.join("memory.db.corrupt")];
        tried.retain(|path| path.exists());
        tried.into_iter().next().ok_or_else(|| {
            Problem::not_found(format!("There is no old memory in {}.", dir.display()))
                .hint("Name the file: metaclaw memory import FILE")
        })
    }

    async fn import_policy(&self, from: String, policy: &Value) -> Result<MemoryImported, Problem> {
        let keys = [
            ("memory.max_injected_units", policy.get("max_injected_units")),
            ("memory.max_injected_tokens", policy.get("max_injected_tokens")),
        ];
        let edits: Vec<(&str, Option<Value>)> =
            keys.into_iter().filter_map(|(key, value)| Some((key, Some(value?.clone())))).collect();
        self.edit_config(&edits).await?;
        let settings: Vec<String> =
            edits.iter().map(|(key, value)| format!("{key} = {}", value.clone().unwrap_or(json!(null)))).collect();
        let message = format!("Settings taken over: {}.", settings.join(", "));
        Ok(MemoryImported { from, settings, message, ..MemoryImported::default() })
    }
}

fn imported(from: String, summary: memory::Summary) -> MemoryImported {
    let mut message = format!("{} memories added, {} left out.", summary.added, summary.skipped);
    if summary.unverified > 0 {
        message.push_str(&format!(
            " {} are labelled `unverified`: the old version could turn their sense round.",
            summary.unverified
        ));
    }
    MemoryImported {
        from,
        added: summary.added,
        skipped: summary.skipped,
        unverified: summary.unverified,
        settings: Vec::new(),
        message,
    }
}

/// An old policy file, if it is one.
fn policy(text: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(text).ok()?;
    let is_policy = value.get("max_injected_units").is_some() || value.get("max_injected_tokens").is_some();
    (is_policy && value.get("content").is_none()).then_some(value)
}

fn starts_with(path: &Path, with: &[u8]) -> std::io::Result<bool> {
    use std::io::Read;
    let mut head = vec![0; with.len()];
    let mut file = std::fs::File::open(path)?;
    let read = file.read(&mut head)?;
    Ok(head.get(..read) == Some(with))
}

/// A private folder that is gone when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "the copy of the old memory was not removed");
        }
    }
}

fn scratch(home: &Path) -> std::io::Result<Scratch> {
    let path = home.join(format!("import-{}", uuid::Uuid::new_v4().simple()));
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&path)?;
    Ok(Scratch(path))
}
