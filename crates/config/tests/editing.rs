//! One value changes; everything else in the file stays as it was written.

use std::path::Path;

use metaclaw_config::{Edit, EditError, edit_text, parse};
use rstest::rstest;

const FILE: &str = "config.yaml";

fn set(text: &str, key: &str, value: &str) -> Result<String, EditError> {
    let edit = Edit::Set { key: key.to_owned(), value: value.to_owned() };
    edit_text(text, Path::new(FILE), &[edit]).map(|(text, _)| text)
}

fn unset(text: &str, key: &str) -> Result<String, EditError> {
    edit_text(text, Path::new(FILE), &[Edit::Unset { key: key.to_owned() }]).map(|(text, _)| text)
}

const FULL: &str = "\
# top comment

mode: auto   # inline

llm:
    # about the provider
    provider: 'kimi'
    model_id: \"x\"   # which
    mystery: [a,   b]

# between
proxy: {port: 30000,  api_key: k }   # flow
other:
  kept: |
    text # not a comment
      more
skills:
";

#[test]
fn values_change_in_place() {
    let out = set(FULL, "mode", "rl").unwrap();
    assert_eq!(out, FULL.replace("mode: auto ", "mode: rl "));
    let out = set(FULL, "llm.provider", "openai").unwrap();
    assert_eq!(out, FULL.replace("'kimi'", "'openai'"));
    let out = set(FULL, "llm.model_id", "a \"b\"").unwrap();
    assert_eq!(out, FULL.replace("\"x\"", "\"a \\\"b\\\"\""));
    let out = set(FULL, "proxy.port", "1").unwrap();
    assert_eq!(out, FULL.replace("30000", "1"));
}

#[test]
fn keys_are_added_at_the_end_of_their_section() {
    let out = set(FULL, "llm.api_key", "0123456").unwrap();
    assert_eq!(out, FULL.replace("[a,   b]\n", "[a,   b]\n    api_key: \"0123456\"\n"));
    let out = set(FULL, "proxy.host", "::1").unwrap();
    assert_eq!(out, FULL.replace("api_key: k }", "api_key: k, host: \"::1\" }"));
    let out = set(FULL, "skills.top_k", "3").unwrap();
    assert_eq!(out, format!("{FULL}    top_k: 3\n"));
    let out = set(FULL, "scheduler.calendar.enabled", "on").unwrap();
    assert_eq!(out, format!("{FULL}scheduler:\n    calendar:\n        enabled: true\n"));
    let out = set(FULL, "llm.fallback.provider", "moonshot").unwrap();
    assert_eq!(out, FULL.replace("[a,   b]\n", "[a,   b]\n    fallback:\n        provider: kimi\n"));
}

#[test]
fn keys_are_taken_out_with_their_line() {
    assert_eq!(unset(FULL, "mode").unwrap(), FULL.replace("mode: auto   # inline\n", ""));
    assert_eq!(unset(FULL, "proxy.port").unwrap(), FULL.replace("port: 30000,  ", ""));
    assert_eq!(unset(FULL, "proxy.api_key").unwrap(), FULL.replace(",  api_key: k", ""));
    assert_eq!(unset(FULL, "llm.api_key").unwrap(), FULL);
    let one = "llm:\n  provider: kimi\n# end\n";
    assert_eq!(unset(one, "llm.provider").unwrap(), "llm:\n# end\n");
}

#[rstest]
#[case("", "mode: rl\n")]
#[case("# only a comment", "# only a comment\nmode: rl")]
#[case("# only a comment\n", "# only a comment\nmode: rl\n")]
#[case("{}\n", "{mode: rl}\n")]
#[case("---\n", "---\nmode: rl\n")]
#[case("---\nproxy: {}\n...\n", "---\nproxy: {}\nmode: rl\n...\n")]
#[case("mode:\n", "mode: rl\n")]
#[case("mode:   # later\n", "mode: rl   # later\n")]
#[case("mode: ~\n", "mode: rl\n")]
#[case("mode: null # x\n", "mode: rl # x\n")]
#[case("mode: |\n  auto\nclaw_type: none\n", "mode: rl\nclaw_type: none\n")]
#[case("mode: auto\nmode: auto\n", "mode: auto\nmode: rl\n")]
#[case("\"mode\": auto\n", "\"mode\": rl\n")]
#[case("proxy:\r\n  port: 1\r\n", "proxy:\r\n  port: 1\r\nmode: rl\r\n")]
#[case("\u{feff}mode: auto\n", "\u{feff}mode: rl\n")]
fn odd_files_are_edited_too(#[case] before: &str, #[case] after: &str) {
    assert_eq!(set(before, "mode", "rl").unwrap(), after);
}

#[rstest]
#[case("llm: ~  # c\nmode: rl\n", "llm:   # c\n  provider: kimi\nmode: rl\n")]
#[case("llm:\n  # c\nmode: rl\n", "llm:\n  provider: kimi\n  # c\nmode: rl\n")]
#[case("llm: {}\n", "llm: {provider: kimi}\n")]
#[case("llm: {model_id: a,}\n", "llm: {model_id: a, provider: kimi,}\n")]
#[case("llm:\n  api_key: |\n    a\n\n# end\n", "llm:\n  api_key: |\n    a\n  provider: kimi\n\n# end\n")]
fn empty_and_odd_sections_are_filled(#[case] before: &str, #[case] after: &str) {
    assert_eq!(set(before, "llm.provider", "kimi").unwrap(), after);
}

#[rstest]
#[case("llm.api_key", "0123456")]
#[case("llm.api_key", "1e5")]
#[case("llm.model_id", "1e5")]
#[case("llm.model_id", "yes")]
#[case("llm.model_id", "null")]
#[case("llm.model_id", "~")]
#[case("llm.model_id", "")]
#[case("llm.model_id", "a: b # c")]
#[case("llm.model_id", "- x")]
#[case("llm.model_id", "*x")]
#[case("llm.model_id", "模型\u{85}\u{2028}\u{7f}\u{1}")]
#[case("llm.model_id", "0x10")]
#[case("llm.model_id", "12:30")]
#[case("llm.model_id", "true")]
#[case("llm.model_id", "[a]")]
#[case("llm.model_id", "{{a")]
fn texts_are_read_back_as_they_were_given(#[case] key: &str, #[case] value: &str) {
    for before in ["", "llm: {a: 1}\n", "llm:\n  model_id: 'x'\n  api_key: \"x\"\n", FULL] {
        let out = set(before, key, value).unwrap();
        let config = parse(&out, Path::new(FILE)).unwrap().config;
        let read = if key.ends_with("api_key") { config.llm.api_key.expose() } else { &config.llm.model_id };
        assert_eq!(read, value, "{out}");
    }
}

#[test]
fn lists_keep_their_lines_and_comments() {
    let text = "proxy:\n  allowed_hosts:\n    # the box\n    - a.local   # here\n    - b.local\n  port: 1\n";
    let out = set(text, "proxy.allowed_hosts", "a.local, b.local, c.local").unwrap();
    assert_eq!(out, text.replace("    - b.local\n", "    - b.local\n    - c.local\n"));
    let out = set(text, "proxy.allowed_hosts", "a.local").unwrap();
    assert_eq!(out, text.replace("    - b.local\n", ""));
    assert!(matches!(set(text, "proxy.allowed_hosts", "z.local"), Err(EditError::ByHand { line: 4, .. })));
}

#[test]
fn maps_change_entry_by_entry() {
    let text = "llm:\n  model_map:\n    # small ones\n    gpt-4o-mini: small\n    b: c\n";
    let out = set(text, "llm.model_map.gpt-4o-mini", "tiny").unwrap();
    assert_eq!(out, text.replace("small\n    b", "tiny\n    b"));
    let out = set(text, "llm.model_map", "{gpt-4o-mini: small, 'claude-*': c}").unwrap();
    assert_eq!(out, text.replace("    b: c\n", "    \"claude-*\": c\n"));
    let out = unset(text, "llm.model_map.b").unwrap();
    assert_eq!(out, text.replace("    b: c\n", ""));
    let out = set("", "llm.headers.X-Org", "env:ORG").unwrap();
    assert_eq!(out, "llm:\n  headers:\n    X-Org: env:ORG\n");
    assert!(set("", "llm.headers.X Org", "x").is_err());
}

#[test]
fn old_names_are_edited_where_they_stand() {
    let text = "rl:\n  tinker_api_key: old\n";
    assert_eq!(set(text, "rl.api_key", "new").unwrap(), "rl:\n  tinker_api_key: new\n");
    assert_eq!(unset(text, "rl.api_key").unwrap(), "rl:\n");
    let both = "rl:\n  tinker_api_key: old\n  api_key: x\n";
    assert_eq!(set(both, "rl.tinker_api_key", "new").unwrap(), "rl:\n  tinker_api_key: old\n  api_key: new\n");
}

#[test]
fn what_would_reach_other_values_is_left_to_a_person() {
    let shared = "a: &x kimi\nllm:\n  provider: *x\n  model_id: &m big\nb: *m\n";
    assert!(set(shared, "llm.provider", "openai").unwrap().contains("provider: openai"));
    assert!(matches!(set(shared, "llm.model_id", "small"), Err(EditError::ByHand { line: 4, .. })));
    let alias = "base: &b {provider: kimi}\nllm: *b\n";
    assert!(matches!(set(alias, "llm.provider", "openai"), Err(EditError::ByHand { .. })));
    let merge = "base: &b\n  provider: kimi\nllm:\n  <<: *b\n  model_id: x\n";
    let out = set(merge, "llm.provider", "openai").unwrap();
    assert_eq!(out, format!("{merge}  provider: openai\n"));
}

#[rstest]
#[case("proxy.port", "70000")]
#[case("mode", "turbo")]
#[case("llm.provider", "nobody")]
#[case("llm.api_base", "not an address")]
#[case("scheduler.sleep_start", "7")]
#[case("llm.api_key", "two\nlines")]
#[case("skills.disabled", "[a, b")]
#[case("skills.disabled", "[a, b] c")]
fn wrong_values_are_not_written(#[case] key: &str, #[case] value: &str) {
    match set("", key, value) {
        Err(EditError::NotAllowed(problem)) => assert_eq!(problem.key, key),
        other => panic!("{other:?}"),
    }
}

#[test]
fn unknown_keys_are_not_written() {
    let error = set("", "proxy.prot", "1").unwrap_err().to_string();
    assert_eq!(error, "there is no key proxy.prot; did you mean proxy.port?");
}

#[test]
fn a_wrong_value_can_be_mended_beside_another_one() {
    let text = "mode: turbo\nproxy:\n  port: x\n";
    assert_eq!(set(text, "mode", "rl").unwrap(), "mode: rl\nproxy:\n  port: x\n");
}

#[test]
fn a_file_that_is_no_yaml_is_refused() {
    assert!(matches!(set("a: [\n", "mode", "rl"), Err(EditError::Broken(_))));
}
