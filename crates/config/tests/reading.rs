//! What a file says, and what is said about it.

#![expect(clippy::panic, reason = "the helpers of a test")]

use std::path::Path;

use metaclaw_config::{
    ClawType, Config, ConfigError, Effect, Kind, Loaded, LocalSecrets, Mode, Reference, Secrets, TimeOfDay, Warning,
    keys, load_with, parse,
};
use rstest::rstest;

#[track_caller]
fn read(text: &str) -> Loaded {
    match parse(text, Path::new("config.yaml")) {
        Ok(loaded) => loaded,
        Err(error) => panic!("{error}"),
    }
}

#[track_caller]
fn wrong(text: &str) -> String {
    match parse(text, Path::new("config.yaml")) {
        Ok(loaded) => panic!("{loaded:?}"),
        Err(error) => error.to_string(),
    }
}

fn only_warning(loaded: &Loaded) -> &Warning {
    assert_eq!(loaded.warnings.len(), 1, "{:?}", loaded.warnings);
    &loaded.warnings[0]
}

#[rstest]
#[case("")]
#[case("# nothing but a comment\n")]
#[case("---\n")]
#[case("{}")]
#[case("llm:\nproxy: ~\nskills: null\nscheduler:\n  calendar:\n")]
#[case("mode:\nproxy:\n  port: null\n")]
fn a_file_that_says_nothing_gives_the_defaults(#[case] text: &str) {
    let loaded = read(text);
    assert_eq!(loaded.config, Config::default());
    assert_eq!(loaded.warnings, []);
    assert!(loaded.sources.is_empty());
}

#[rstest]
#[case("mode: \"\"\n")]
#[case("proxy:\n  host: ''\n  port: \"\"\n")]
#[case("scheduler:\n  sleep_start: \"\"\n  calendar:\n    token_path: \"\"\n")]
#[case("skills:\n  dir: \"\"\n  enabled: \"\"\n")]
fn an_empty_text_where_there_must_be_something_is_the_default(#[case] text: &str) {
    assert_eq!(read(text), Loaded::default());
}

#[test]
fn an_empty_text_where_nothing_may_be_is_nothing() {
    assert_eq!(read("rl:\n  prm_url: \"\"\n").config.rl.prm_url, "");
}

#[test]
fn the_documented_example_is_understood() {
    let loaded = read(
        r#"
mode: auto                 # "auto" | "rl" | "skills_only"
claw_type: openclaw
llm:
  auth_method: api_key
  provider: kimi
  model_id: moonshotai/Kimi-K2.5
  api_base: https://api.moonshot.cn/v1
  api_key: sk-1
proxy:
  port: 30000
  api_key: ""
skills:
  enabled: true
  dir: ~/.metaclaw/skills
  retrieval_mode: template
  top_k: 6
  task_specific_top_k: 10
  auto_evolve: true
rl:
  enabled: false
  backend: auto
  model: moonshotai/Kimi-K2.5
  api_key: ""
  base_url: ""
  tinker_api_key: ""
  tinker_base_url: ""
  prm_url: https://api.openai.com/v1
  prm_model: gpt-5.2
  prm_api_key: ""
  lora_rank: 32
  batch_size: 4
  resume_from_ckpt: ""
  evolver_api_base: ""
  evolver_api_key: ""
  evolver_model: gpt-5.2
opd:
  enabled: false
  teacher_url: ""
  teacher_model: ""
  teacher_api_key: ""
  kl_penalty_coef: 1.0
max_context_tokens: 20000
context_window: 0
scheduler:
  enabled: false
  sleep_start: "23:00"
  sleep_end: "07:00"
  idle_threshold_minutes: 30
  min_window_minutes: 15
  calendar:
    enabled: false
    credentials_path: ""
    token_path: ""
"#,
    );
    assert_eq!(loaded.warnings, []);
    let config = loaded.config;
    assert_eq!(config.llm.api_key.expose(), "sk-1");
    assert_eq!(config.scheduler.sleep_end, TimeOfDay::new(7, 0).unwrap());
    // This provider's own API calls the model by another name.
    let upstream = config.upstream().unwrap();
    assert_eq!(upstream.model_for(Some("gpt-4o")).unwrap(), "kimi-k2.5");
}

#[rstest]
#[case("madmax", Mode::Auto)]
#[case("MadMax", Mode::Auto)]
#[case("rl", Mode::Rl)]
#[case("skills_only", Mode::SkillsOnly)]
fn old_names_of_the_modes_are_understood(#[case] word: &str, #[case] mode: Mode) {
    assert_eq!(read(&format!("mode: {word}\n")).config.mode, mode);
}

#[rstest]
#[case("23:00", 1380)]
#[case("\"23:00\"", 1380)]
#[case("1380", 1380)] // what a YAML 1.1 writer made of 23:00
#[case("7:05", 425)]
#[case("00:00", 0)]
fn times_are_understood_quoted_or_not(#[case] text: &str, #[case] minutes: u16) {
    let loaded = read(&format!("scheduler:\n  sleep_start: {text}\n"));
    assert_eq!(loaded.config.scheduler.sleep_start.minutes(), minutes);
}

#[rstest]
#[case("7")]
#[case("24:00")]
#[case("12:60")]
#[case("\"1380\"")]
#[case("23:00:00")]
#[case("night")]
fn what_is_no_time_is_refused(#[case] text: &str) {
    assert!(wrong(&format!("scheduler:\n  sleep_start: {text}\n")).contains("scheduler.sleep_start"));
}

#[rstest]
#[case("on", true)]
#[case("Yes", true)]
#[case("TRUE", true)]
#[case("\"true\"", true)]
#[case("1", true)]
#[case("off", false)]
#[case("no", false)]
#[case("'false'", false)]
#[case("0", false)]
fn the_words_of_old_yaml_are_booleans(#[case] text: &str, #[case] value: bool) {
    assert_eq!(read(&format!("memory:\n  enabled: {text}\n")).config.memory.enabled, value);
}

#[rstest]
#[case("30000", Some(30000))]
#[case("\"30000\"", Some(30000))]
#[case("30_000", Some(30000))]
#[case("0x7530", Some(30000))]
#[case("30000.0", Some(30000))]
#[case("65536", None)]
#[case("-1", None)]
#[case("030000", None)]
#[case("30000.5", None)]
#[case("1e4", None)]
#[case("many", None)]
#[case("[30000]", None)]
fn ports_are_whole_numbers(#[case] text: &str, #[case] port: Option<u16>) {
    let parsed = parse(&format!("proxy:\n  port: {text}\n"), Path::new("c"));
    assert_eq!(parsed.ok().map(|loaded| loaded.config.proxy.port), port);
}

#[rstest]
#[case("0123456")]
#[case("1e5")]
#[case("0x1F")]
#[case("1_000")]
#[case("2024-01-01")]
#[case("12:30")]
#[case("yes")]
#[case(".5")]
fn texts_that_look_like_numbers_stay_texts(#[case] text: &str) {
    let config = read(&format!("llm:\n  api_key: {text}\n  model_id: {text}\n")).config;
    assert_eq!(config.llm.api_key.expose(), text);
    assert_eq!(config.llm.model_id, text);
}

#[test]
fn wrong_values_are_all_named_with_line_key_and_what_is_allowed() {
    let text = "mode: turbo\nproxy:\n  port: 70000\n  host: my-box\nllm:\n  - 1\nskills: on\n";
    insta::assert_snapshot!(wrong(text), @r#"
    config.yaml: line 1: mode: found "turbo"; allowed: auto, rl, skills_only
      line 3: proxy.port: found "70000"; allowed: a whole number from 0 to 65535
      line 4: proxy.host: found "my-box"; allowed: an IP address such as 127.0.0.1, 0.0.0.0 or ::1, or localhost
      line 6: llm: found a list; allowed: a section: indented lines of the form key: value
      line 7: skills: found a value; allowed: a section: indented lines of the form key: value
    "#);
}

#[rstest]
#[case("a: [1\nb: 2\n")]
#[case("a: b: c\n")]
#[case("a: \"x\n")]
#[case("a: 1\n---\nb: 2\n")]
#[case("a: !!python/object:os.system x\n")]
#[case("a: *nobody\n")]
fn what_is_no_yaml_is_an_error_with_a_line(#[case] text: &str) {
    match parse(text, Path::new("config.yaml")) {
        Err(ConfigError::Syntax { line, .. }) => assert!(line >= 1),
        other => panic!("{other:?}"),
    }
}

#[rstest]
#[case("proxy:\n  prot: 1\n", 2, "proxy.prot", Some("proxy.port"))]
#[case("api_key: x\n", 1, "api_key", Some("llm.api_key"))]
#[case("llm:\n  apikey: x\n", 2, "llm.apikey", Some("llm.api_key"))]
#[case("max-context-tokens: 1\n", 1, "max-context-tokens", Some("max_context_tokens"))]
#[case("something:\n  else: 1\n  entirely: 2\n", 1, "something", None)]
fn unknown_keys_are_warnings_with_the_nearest_name(
    #[case] text: &str,
    #[case] line: usize,
    #[case] key: &str,
    #[case] meant: Option<&str>,
) {
    let loaded = read(text);
    let warning = only_warning(&loaded);
    assert_eq!((warning.line, warning.key.as_str()), (line, key));
    assert_eq!(warning.suggestion, meant.map(|key| format!("did you mean {key}?")));
}

#[test]
fn a_key_that_stands_twice_counts_the_last_time() {
    let loaded = read("mode: rl\nproxy: {port: 1}\nmode: skills_only\n");
    assert_eq!(loaded.config.mode, Mode::SkillsOnly);
    assert!(only_warning(&loaded).message.contains("line 3"));
}

#[test]
fn old_names_count_where_the_new_ones_say_nothing() {
    let loaded = read("rl:\n  tinker_api_key: old\n  api_key: \"\"\n  tinker_base_url: https://t.example\n");
    assert_eq!(loaded.config.rl.api_key.expose(), "old");
    assert_eq!(loaded.config.rl.base_url, "https://t.example");
    assert_eq!(loaded.source("rl.api_key").unwrap().alias, Some("rl.tinker_api_key"));
    let loaded = read("rl:\n  tinker_api_key: old\n  api_key: new\n");
    assert_eq!(loaded.config.rl.api_key.expose(), "new");
    assert_eq!(only_warning(&loaded).key, "rl.tinker_api_key");
}

#[test]
fn anchors_and_merges_are_followed() {
    let loaded = read("base: &b\n  provider: kimi\n  api_key: k\nllm:\n  <<: *b\n  api_key: mine\n");
    assert_eq!(loaded.config.llm.provider, "kimi");
    assert_eq!(loaded.config.llm.api_key.expose(), "mine");
}

#[test]
fn documents_that_multiply_themselves_are_refused() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let inner = vec![format!("*a{}", level - 1); 8].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{inner}]\n"));
    }
    assert!(matches!(parse(&text, Path::new("c")), Err(ConfigError::Syntax { .. })));
    let mut text = String::from("a0: &a0 [x]\n");
    for level in 1..200 {
        text.push_str(&format!("a{level}: &a{level} [*a{}]\n", level - 1));
    }
    assert!(matches!(parse(&text, Path::new("c")), Err(ConfigError::Syntax { .. })));
    let deep = format!("a: {}{}", "[".repeat(500), "]".repeat(500));
    assert!(matches!(parse(&deep, Path::new("c")), Err(ConfigError::Syntax { .. })));
}

#[test]
fn a_provider_of_ones_own_needs_its_address() {
    let loaded = read("llm:\n  provider: zhipu\n  api_base: https://open.example/v4\n");
    assert_eq!(loaded.config.llm.provider, "custom");
    assert_eq!(only_warning(&loaded).key, "llm.provider");
    assert!(wrong("llm:\n  provider: zhipu\n").contains("kimi, qwen"));
    assert_eq!(read("llm:\n  provider: Moonshot\n").config.llm.provider, "kimi");
}

#[test]
fn secrets_are_never_shown() {
    let text = "llm:\n  api_key: sk-very-secret\n  headers: {X-Key: sk-very-secret}\nproxy:\n  port: sk-very-secret\n";
    assert!(!wrong(text).contains("very-secret"));
    let config = read(&text.replace("port: sk-very-secret", "port: 1")).config;
    assert!(!format!("{config:?}").contains("very-secret"));
    assert!(!config.llm.api_key.to_string().contains("very-secret"));
    for key in keys() {
        assert!(!config.get(key.path).unwrap().to_string().contains("very-secret"), "{}", key.path);
    }
    let url = wrong("llm:\n  api_base: https://me:very-secret@api.example/v1\n");
    assert!(!url.contains("very-secret"), "{url}");
}

struct OneSecret;
impl Secrets for OneSecret {
    fn get(&self, reference: &Reference) -> Result<String, String> {
        match reference {
            Reference::Keychain(name) if name == "kimi" => Ok("from-keychain\n".to_owned()),
            _ => Err("nothing there".to_owned()),
        }
    }
}

#[test]
fn references_to_secrets_are_followed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.yaml");
    std::fs::write(dir.path().join("key"), "from-file\nsecond line\n").unwrap();
    std::fs::write(&file, "llm:\n  api_key: env:K\n  fallback:\n    api_key: file:key\nrl:\n  api_key: env:GONE\n")
        .unwrap();
    let local = LocalSecrets::new(|name: &str| (name == "K").then(|| "from-env".to_owned()), dir.path());
    let loaded = load_with(&file, &local).unwrap();
    assert_eq!(loaded.config.llm.api_key.expose(), "from-env");
    assert_eq!(loaded.config.llm.fallback.api_key.expose(), "from-file");
    assert!(loaded.config.rl.api_key.is_empty() && loaded.config.rl.api_key.is_configured());
    let warning = only_warning(&loaded);
    assert_eq!((warning.line, warning.key.as_str()), (6, "rl.api_key"));

    std::fs::write(&file, "llm:\n  api_key: keychain:kimi\n").unwrap();
    assert_eq!(load_with(&file, &OneSecret).unwrap().config.llm.api_key.expose(), "from-keychain");
}

#[test]
fn a_proxy_key_that_cannot_be_read_stops_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.yaml");
    std::fs::write(&file, "proxy:\n  api_key: env:GONE\n").unwrap();
    let error = load_with(&file, &OneSecret).unwrap_err().to_string();
    assert!(error.contains("line 2: proxy.api_key"), "{error}");
}

#[test]
fn every_key_is_documented_once_and_its_default_is_read_back() {
    let mut seen = std::collections::HashSet::new();
    for key in keys() {
        for name in std::iter::once(&key.path).chain(key.aliases) {
            assert!(seen.insert(*name), "{name} stands twice");
        }
        assert!(key.doc.len() > 5 && key.doc.ends_with(['.', ')']), "{}: {}", key.path, key.doc);
        assert!(!key.doc.contains("  "), "{}: {}", key.path, key.doc);
        let mut config = Config::default();
        let text = match &key.default {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        config.set(key.path, &text).unwrap_or_else(|problem| panic!("{problem}"));
        assert_eq!(config, Config::default(), "{}", key.path);
    }
}

/// `INSTA_UPDATE=always cargo test` writes it anew.
#[test]
fn the_reference_for_people_is_that_of_the_table() {
    let mut text = String::from(
        "# Settings\n\nEvery key of `config.yaml`. Written from the key table by a test; do not edit.\n\n\
         | key | default | what it does |\n|---|---|---|\n",
    );
    for key in keys() {
        let state = match key.effect {
            Effect::Live => String::new(),
            Effect::Later(note) => format!(" *Not yet: {note}.*"),
            Effect::Accepted(note) => format!(" *Does nothing: {note}.*"),
        };
        let words = match key.kind {
            Kind::Choice { of } => format!(" One of {}.", of.join(", ")),
            _ => String::new(),
        };
        let old = key.aliases.iter().map(|alias| format!(" Old name: `{alias}`.")).collect::<String>();
        text.push_str(&format!("| `{}` | `{}` | {}{words}{old}{state} |\n", key.path, key.default_text(), key.doc));
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("SETTINGS.md");
    if std::env::var("INSTA_UPDATE").as_deref() == Ok("always") {
        std::fs::write(&file, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), text);
}

#[test]
fn a_value_can_be_overridden_for_one_run() {
    let mut config = Config::default();
    config.set("proxy.port", "30001").unwrap();
    config.set("llm.model_map", "{a: b}").unwrap();
    config.set("proxy.allowed_hosts", "one, two").unwrap();
    assert_eq!(config.proxy.port, 30001);
    assert_eq!(config.llm.model_map["a"], "b");
    assert_eq!(config.proxy.allowed_hosts, ["one", "two"]);
    assert_eq!(config.changed(&Config::default()), ["llm.model_map", "proxy.port", "proxy.allowed_hosts"]);
    assert_eq!(config.set("proxy.prot", "1").unwrap_err().allowed, "proxy.port");
    assert!(config.set("mode", "turbo").is_err());
}

#[test]
fn a_model_without_another_name_is_not_sent_as_an_empty_one() {
    let text = "llm:\n  model_map: {gpt-4o: , o3: \"\", o4: mine}\n";
    let map = read(text).config.llm.model_map;
    assert_eq!(map.into_iter().collect::<Vec<_>>(), [("o4".to_owned(), "mine".to_owned())]);
}

#[test]
fn a_list_in_quotes_is_a_list() {
    let text = "skills:\n  disabled: \"[a-b, c]\"\n";
    assert_eq!(read(text).config.skills.disabled, ["a-b", "c"]);
}

#[test]
fn the_old_form_of_claw_type_counts_only_where_the_new_one_is_not_written() {
    let claw = |text: &str| parse(text, Path::new("config.yaml")).expect("reads");
    assert_eq!(claw("configure_openclaw: false\n").config.claw_type, ClawType::None);
    let both = claw("configure_openclaw: off\nclaw_type: openclaw\n");
    assert_eq!(both.config.claw_type, ClawType::OpenClaw);
    assert!(both.warnings.iter().any(|warning| warning.message.contains("claw_type, which is there as well, counts")));
}
