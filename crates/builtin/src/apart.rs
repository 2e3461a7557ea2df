//! Templates of strangers in a process of their own: this very program with the verb [`VERB`], which reads the template and
//! what goes into it from its standard input, gives itself limits, and writes the text. However it ends, the caller hears
//! of it and goes on.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::template::{Conversation, Rendering};

/// The verb of the program that renders.
const VERB: &str = "render-template";
/// Address space and processor time of the process, and the longest that is waited for it.
const MEMORY: u64 = 512 << 20;
const SECONDS: u64 = 10;
const PATIENCE: Duration = Duration::from_secs(20);
/// Longest text that is taken from it.
const LONGEST: u64 = 64 << 20;
/// Between two looks whether anybody still waits.
const LOOK: Duration = Duration::from_millis(10);

/// This process knows the verb.
static KNOWN: AtomicBool = AtomicBool::new(false);

/// What the process is asked.
#[derive(Serialize)]
struct Order<'a> {
    source: &'a str,
    begin: &'a str,
    end: &'a str,
    /// Absent: the template is only to be looked at.
    conversation: Option<&'a Conversation>,
}

#[derive(Deserialize)]
struct Ordered {
    source: String,
    begin: String,
    end: String,
    conversation: Option<Conversation>,
}

/// Why there is no text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unrendered {
    /// The template says what it does not take.
    Refused(String),
    /// It broke off, in this way.
    Broken(String),
    /// Nobody waits any more.
    Ended,
}

/// To be asked first thing in `main`: whether this process was started to render a template. Then it has done so, and ends
/// with what is returned.
#[must_use]
pub fn rendered() -> Option<ExitCode> {
    KNOWN.store(true, Ordering::Relaxed);
    if std::env::args_os().nth(1).is_none_or(|verb| verb != VERB) {
        return None;
    }
    Some(if limited().is_ok() && work().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The program that renders templates: this one, if it asks [`rendered`] first thing.
#[must_use]
pub fn renderer() -> Option<PathBuf> {
    if !KNOWN.load(Ordering::Relaxed) {
        return None;
    }
    // The program that runs, even where another was put in its place.
    let own = PathBuf::from("/proc/self/exe");
    if own.exists() { Some(own) } else { std::env::current_exe().ok() }
}

fn limited() -> std::io::Result<()> {
    let both = |limit| Rlimit { current: Some(limit), maximum: Some(limit) };
    setrlimit(Resource::Core, both(0))?;
    setrlimit(Resource::As, both(MEMORY))?;
    setrlimit(Resource::Cpu, both(SECONDS))?;
    Ok(())
}

fn work() -> std::io::Result<()> {
    let mut order = Vec::new();
    std::io::stdin().lock().read_to_end(&mut order)?;
    let answer = match serde_json::from_slice::<Ordered>(&order) {
        Ok(order) => answer(order),
        Err(error) => Err(error.to_string()),
    };
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &answer)?;
    out.flush()
}

fn answer(order: Ordered) -> Result<String, String> {
    let rendering = Rendering::new(&order.source, order.begin, order.end)?;
    order.conversation.map_or_else(|| Ok(String::new()), |conversation| rendering.render(conversation))
}

/// Has another process look at a template, or render it.
pub(crate) fn render(
    program: &Path,
    (source, begin, end): (&str, &str, &str),
    conversation: Option<&Conversation>,
    ended: &dyn Fn() -> bool,
) -> Result<String, Unrendered> {
    let broken = |error: std::io::Error| Unrendered::Broken(format!("no process could be had for it: {error}"));
    let order = serde_json::to_vec(&Order { source, begin, end, conversation })
        .map_err(|error| Unrendered::Broken(error.to_string()))?;
    let mut child = Command::new(program)
        .arg(VERB)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(broken)?;
    let (to, from) = (child.stdin.take(), child.stdout.take());
    let (said, heard) = mpsc::channel();
    let begun = Instant::now();
    let mut stopped = None;
    let text = std::thread::scope(|scope| {
        // A process that ends early reads no further: how it ended is what counts.
        scope.spawn(move || to.map(|mut to| to.write_all(&order)));
        scope.spawn(move || {
            let mut text = Vec::new();
            let _ = from.map(|from| from.take(LONGEST + 1).read_to_end(&mut text));
            let _ = said.send(text);
        });
        loop {
            match heard.recv_timeout(LOOK) {
                Ok(text) => return text,
                Err(RecvTimeoutError::Disconnected) => return Vec::new(),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if stopped.is_none() && (ended() || begun.elapsed() > PATIENCE) {
                stopped =
                    Some(if ended() { Unrendered::Ended } else { Unrendered::Broken("it found no end".to_owned()) });
                // Its pipes close with it, and the threads here end.
                let _ = child.kill();
            }
        }
    });
    if text.len() as u64 > LONGEST {
        let _ = child.kill();
    }
    let status = child.wait().map_err(broken)?;
    if let Some(stopped) = stopped {
        return Err(stopped);
    }
    if text.len() as u64 > LONGEST {
        return Err(Unrendered::Broken("it says too much".to_owned()));
    }
    if !status.success() {
        return Err(Unrendered::Broken(how(status)));
    }
    serde_json::from_slice::<Result<String, String>>(&text)
        .map_err(|error| Unrendered::Broken(error.to_string()))?
        .map_err(Unrendered::Refused)
}

fn how(status: ExitStatus) -> String {
    let limits = format!("it took more than {SECONDS} seconds, {} MB or its stack", MEMORY >> 20);
    status.signal().map_or(limits.clone(), |signal| format!("{limits} (signal {signal})"))
}
