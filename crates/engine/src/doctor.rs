//! The doctor: one look at everything that can keep a turn from working, each with what to do about it.

use std::path::Path;

use crate::api::{Check, Grade, ProviderTest};
use crate::core::{Core, sentence};
use crate::{lock, port};

/// All checks. `live` makes one short call to the provider.
pub(crate) async fn checks(core: &Core, live: bool) -> Vec<Check> {
    let mut found = vec![home(core), config_file(core).await];
    found.push(service(core).await);
    found.push(key(core));
    found.push(provider(core, live).await);
    found.push(skills(core));
    found.push(journal(core).await);
    found.extend(later(core));
    found
}

fn check(id: &str, grade: Grade, message: impl Into<String>) -> Check {
    Check { id: id.to_owned(), grade, message: message.into(), hint: None }
}

impl Check {
    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

fn home(core: &Core) -> Check {
    let dir = core.home().dir();
    if !dir.exists() {
        return check("home", Grade::Warn, format!("{} does not exist yet.", dir.display()))
            .hint("The first start makes it: metaclaw start");
    }
    let probe = dir.join(".writable");
    if let Err(error) = std::fs::write(&probe, b"").and_then(|()| std::fs::remove_file(&probe)) {
        return check("home", Grade::Bad, format!("{} cannot be written: {error}.", dir.display()))
            .hint("Make it yours, or set METACLAW_HOME to a folder that is.");
    }
    match open_to_others(dir) {
        true => check("home", Grade::Warn, format!("{} can be entered by other users of this machine.", dir.display()))
            .hint(format!("Close it: chmod 700 {}", dir.display())),
        false => check("home", Grade::Good, format!("{} is writable, and yours alone.", dir.display())),
    }
}

#[cfg(unix)]
fn open_to_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn open_to_others(_path: &Path) -> bool {
    false
}

async fn config_file(core: &Core) -> Check {
    let path = core.config_path();
    let reading = core.reading();
    if let Some(problem) = &reading.problem {
        return check("config", Grade::Bad, sentence(problem))
            .hint("Mend that line; the last good settings stay in use.");
    }
    if reading.missing {
        return check("config", Grade::Bad, format!("{} does not exist.", path.display()))
            .hint("Write it step by step: metaclaw setup");
    }
    if let Some(held) = &reading.held {
        return check("config", Grade::Warn, sentence(held)).hint("If that is not meant, put back what is missing.");
    }
    let owned = path.to_path_buf();
    if core.files().ask(move || open_to_others(&owned)).await == Ok(true) {
        return check("config", Grade::Warn, format!("{} can be read by other users of this machine.", path.display()))
            .hint(format!("Close it: chmod 600 {}", path.display()));
    }
    if let Some(first) = reading.findings.first() {
        let place = if first.line > 0 { format!("line {}: ", first.line) } else { String::new() };
        let more = match reading.findings.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        return check("config", Grade::Warn, format!("{place}{}: {}{more}", first.key, first.message))
            .hint("See all of it: metaclaw config validate");
    }
    check("config", Grade::Good, format!("{} is in order.", path.display()))
}

async fn service(core: &Core) -> Check {
    let running = core.running().ok().map(|run| (run.addr, std::process::id(), run.listen_note(&core.config())));
    if let Some((addr, pid, note)) = running {
        if !crate::health::answers(addr).await {
            return check("service", Grade::Bad, format!("Process {pid} runs, but {addr} does not answer."))
                .hint("What happened: metaclaw logs\nStart anew: metaclaw restart");
        }
        let said = format!("Process {pid} answers on {addr}.");
        return match note {
            None => check("service", Grade::Good, said),
            Some(note) => check("service", Grade::Warn, said).hint(note),
        };
    }
    if let Some(holder) = lock::holder(&core.home().lock_path()) {
        let who = holder.map_or("A process".to_owned(), |holder| format!("Process {}", holder.pid));
        return check(
            "service",
            Grade::Warn,
            format!("{who} holds this home, but its control socket does not answer."),
        )
        .hint("It may be starting or stopping. If it stays so: metaclaw stop --force");
    }
    let wanted = core.config().listen().addr;
    if std::net::TcpListener::bind(wanted).is_err() {
        let who = port::listener(wanted.port())
            .map_or("another program".to_owned(), |found| format!("{} (process {})", found.name, found.pid));
        return check("service", Grade::Bad, format!("Not running, and port {} is taken by {who}.", wanted.port()))
            .hint("End that program, or choose another port: metaclaw config set proxy.port N");
    }
    check("service", Grade::Warn, format!("Not running. Port {} is free.", wanted.port()))
        .hint("Start it: metaclaw start --daemon")
}

fn key(core: &Core) -> Check {
    let config = core.config();
    let listen = config.listen();
    // Of a running service its socket counts, which may be another one than the file asks for by now.
    let note = match core.running() {
        Ok(run) => run.listen_note(&config),
        Err(_) => listen.refused,
    };
    if let Some(note) = note {
        return check("key", Grade::Warn, sentence(&note));
    }
    if let Some(concern) = listen.concern {
        return check("key", Grade::Warn, sentence(&concern));
    }
    if config.proxy.api_key.is_empty() {
        return check(
            "key",
            Grade::Warn,
            "proxy.api_key is not set: every program of this machine can use your provider.",
        )
        .hint("Set one, and give it to your agents: metaclaw config set proxy.api_key");
    }
    check("key", Grade::Good, "Agents must show proxy.api_key.")
}

async fn provider(core: &Core, live: bool) -> Check {
    if let Err(error) = core.config().upstream() {
        return check("provider", Grade::Bad, sentence(&error.what)).hint(sentence(&error.todo));
    }
    if !live {
        return check("provider", Grade::Skipped, "Set up; not called.");
    }
    match crate::provider::test(core, &ProviderTest::default()).await {
        Ok(report) if report.ok => check("provider", Grade::Good, report.message),
        Ok(report) => check("provider", Grade::Bad, report.message).hint("Change it: metaclaw setup"),
        Err(problem) => Check { hint: problem.hint, ..check("provider", Grade::Bad, problem.message) },
    }
}

fn skills(core: &Core) -> Check {
    if !core.config().skills.enabled {
        return check("skills", Grade::Skipped, "Switched off.");
    }
    let library = core.library();
    let count = library.snapshot().len();
    let unusable = library.problems().into_iter().filter(skills::Problem::is_error).collect::<Vec<_>>();
    match (count, unusable.first()) {
        (0, None) => check("skills", Grade::Warn, format!("No skills in {}.", library.dir().display()))
            .hint("The built-in ones are written by the next start."),
        (_, None) => check("skills", Grade::Good, format!("{count} skills can be used.")),
        (_, Some(first)) => {
            check("skills", Grade::Warn, format!("{count} skills can be used, {} cannot: {first}", unusable.len()))
                .hint("See all of it: metaclaw skills validate")
        }
    }
}

async fn journal(core: &Core) -> Check {
    if let Some(trouble) = core.journal_trouble() {
        return check("journal", Grade::Bad, trouble.what).hint(trouble.todo);
    }
    match core.journal().await {
        Ok(None) => check("journal", Grade::Skipped, "Nothing recorded yet."),
        Ok(Some(store)) => {
            let newest = store.turns(&store::TurnFilter { limit: 1, ..store::TurnFilter::default() }).await;
            match newest {
                Ok(_) => check("journal", Grade::Good, format!("{} can be read.", store.path().display())),
                Err(error) => check("journal", Grade::Bad, sentence(&error)),
            }
        }
        Err(problem) => Check { hint: problem.hint, ..check("journal", Grade::Bad, problem.message) },
    }
}

/// Settings the file sets that do nothing in this release.
fn later(core: &Core) -> Option<Check> {
    let (loaded, _) = core.read_config();
    let idle: Vec<String> = config::keys()
        .iter()
        .filter(|key| {
            loaded.source(key.path).is_some() && loaded.config.get(key.path).is_some_and(|now| now != key.default)
        })
        .filter_map(|key| match key.effect {
            config::Effect::Later(note) => Some(format!("{}: {note}", key.path)),
            _ => None,
        })
        .collect();
    if idle.is_empty() {
        return None;
    }
    Some(check("later", Grade::Warn, "Some settings of the file come with a later release.").hint(idle.join("\n")))
}
