//! Where requests go, with which credentials and which model.

#![expect(clippy::panic, reason = "the helpers of a test")]

use std::path::Path;

use metaclaw_config::{BaseUrl, Config, Credentials, NotConfigured, Upstream, parse, preset, presets};
use rstest::rstest;

#[track_caller]
fn config(text: &str) -> Config {
    match parse(text, Path::new("config.yaml")) {
        Ok(loaded) => loaded.config,
        Err(error) => panic!("{error}"),
    }
}

fn upstream(llm: &str) -> Result<Upstream, NotConfigured> {
    config(&format!("llm: {{{llm}}}\n")).upstream()
}

#[rstest]
#[case("https://api.openai.com/v1", "openai-chat", "https://api.openai.com/v1")]
#[case("https://api.openai.com", "openai-chat", "https://api.openai.com/v1")]
#[case("api.openai.com/", "openai-chat", "https://api.openai.com/v1")]
#[case("https://api.openai.com/v1/chat/completions", "openai-chat", "https://api.openai.com/v1")]
#[case("https://api.openai.com/v1/Responses/", "openai-responses", "https://api.openai.com/v1")]
#[case("HTTPS://api.anthropic.com/v1/messages", "anthropic-messages", "https://api.anthropic.com/v1")]
#[case("https://api.anthropic.com", "anthropic-messages", "https://api.anthropic.com/v1")]
#[case("https://api.moonshot.cn/anthropic", "anthropic-messages", "https://api.moonshot.cn/anthropic/v1")]
#[case("https://api.moonshot.cn/anthropic/", "anthropic-messages", "https://api.moonshot.cn/anthropic/v1")]
#[case(
    "https://generativelanguage.googleapis.com",
    "openai-chat",
    "https://generativelanguage.googleapis.com/v1beta/openai"
)]
#[case("https://ark.cn-beijing.volces.com/", "openai-chat", "https://ark.cn-beijing.volces.com/api/v3")]
#[case("https://openrouter.ai/api", "openai-chat", "https://openrouter.ai/api/v1")]
#[case("https://openrouter.ai/api", "anthropic-messages", "https://openrouter.ai/api/v1")]
#[case(
    "https://dashscope.aliyuncs.com/compatible-mode",
    "openai-chat",
    "https://dashscope.aliyuncs.com/compatible-mode/v1"
)]
#[case("https://api.moonshot.cn", "anthropic-messages", "https://api.moonshot.cn/anthropic/v1")]
#[case("https://gw.example/llm", "openai-chat", "https://gw.example/llm")]
#[case("https://gw.example//llm//v2/models?x=1#y", "openai-chat", "https://gw.example/llm/v2")]
#[case("127.0.0.1:8080", "openai-chat", "http://127.0.0.1:8080/v1")]
#[case("localhost:11434/v1/", "openai-chat", "http://localhost:11434/v1")]
#[case("192.168.1.5:8000", "openai-chat", "http://192.168.1.5:8000/v1")]
#[case("[::1]:8000", "openai-chat", "http://[::1]:8000/v1")]
#[case("http://box:8000", "openai-chat", "http://box:8000/v1")]
#[case("  https://x.example/v1  ", "openai-chat", "https://x.example/v1")]
fn addresses_are_understood_as_people_paste_them(#[case] text: &str, #[case] dialect: &str, #[case] base: &str) {
    assert_eq!(BaseUrl::parse(text).unwrap().for_dialect(dialect), base);
}

#[rstest]
#[case("")]
#[case("ftp://x.example")]
#[case("openai")]
#[case("https://")]
#[case("https:///v1")]
#[case("https://me:pw@x.example")]
#[case("https://x.example:port")]
#[case("https://x y.example")]
#[case("https://x.example:")]
fn what_is_no_address_is_refused(#[case] text: &str) {
    assert!(BaseUrl::parse(text).is_err());
}

#[test]
fn every_preset_is_complete() {
    let wanted = [
        "kimi",
        "qwen",
        "openai",
        "minimax",
        "novita",
        "openrouter",
        "volcengine",
        "anthropic",
        "deepseek",
        "gemini",
        "groq",
        "ollama",
        "lmstudio",
        "llamacpp",
        "vllm",
        "builtin",
        "custom",
    ];
    for id in wanted {
        assert!(preset(id).is_some(), "{id}");
    }
    for preset in presets() {
        assert!(["openai-chat", "openai-responses", "anthropic-messages"].contains(&preset.dialect.as_str()));
        if preset.later.is_some() || preset.id == "custom" || preset.id == "builtin" {
            continue;
        }
        let base = BaseUrl::parse(&preset.api_base).unwrap();
        assert_eq!(base.for_dialect(&preset.dialect), preset.api_base, "{}", preset.id);
        if !preset.local {
            assert!(preset.hosts.contains(&base.host().to_owned()), "{}", preset.id);
            assert!(
                preset.key_env.is_some() && preset.key_url.is_some() && !preset.model_id.is_empty(),
                "{}",
                preset.id
            );
        }
        for door in &preset.also {
            let url = BaseUrl::parse(&base.with_path(&door.path)).unwrap();
            assert_eq!(url.for_dialect(&door.dialect), base.with_path(&door.path), "{}", preset.id);
        }
    }
}

#[test]
fn a_preset_needs_only_a_key() {
    let up = upstream("provider: deepseek, api_key: k").unwrap();
    assert_eq!(up.base_url, "https://api.deepseek.com/v1");
    assert_eq!(up.credentials, Credentials::Key("k".into()));
    assert_eq!(up.quirks["developer_role"], false);
    assert_eq!(up.base_for("anthropic-messages"), Some("https://api.deepseek.com/anthropic/v1"));
    assert_eq!(up.base_for("openai-responses"), None);
}

#[rstest]
#[case("anthropic", "anthropic-messages", &[("x-api-key", "k")])]
#[case("kimi", "anthropic-messages", &[("x-api-key", "k"), ("authorization", "Bearer k")])]
#[case("kimi", "openai-chat", &[("authorization", "Bearer k")])]
fn the_key_travels_in_the_headers_that_the_provider_reads(
    #[case] provider: &str,
    #[case] dialect: &str,
    #[case] wanted: &[(&str, &str)],
) {
    let up = upstream(&format!("provider: {provider}, api_key: k")).unwrap();
    let headers = up.auth_headers(dialect);
    let shown: Vec<_> = headers.iter().map(|(name, value)| (*name, value.expose())).collect();
    assert_eq!(shown, wanted);
}

#[test]
fn a_local_server_needs_no_key() {
    let up = upstream("provider: llamacpp").unwrap();
    assert_eq!(
        (up.base_url.as_str(), &up.credentials, up.local),
        ("http://127.0.0.1:8080/v1", &Credentials::None, true)
    );
    let up = upstream("provider: custom, api_base: 'localhost:9999'").unwrap();
    assert_eq!((up.base_url.as_str(), &up.credentials), ("http://localhost:9999/v1", &Credentials::None));
}

#[test]
fn a_known_host_is_recognised_behind_custom() {
    let up = upstream("provider: custom, api_base: 'https://api.moonshot.ai/v1', api_key: k").unwrap();
    assert_eq!(up.provider, "kimi");
    assert_eq!(up.quirks["store"], false);
    let up = upstream("provider: custom, api_base: 'https://api.moonshot.ai/anthropic', api_key: k").unwrap();
    assert_eq!(up.dialect, "anthropic-messages");
    assert_eq!(up.base_for("openai-chat"), Some("https://api.moonshot.ai/v1"));
}

#[test]
fn a_provider_behind_ones_own_gateway_keeps_its_dialect_but_not_its_doors() {
    let up = upstream("provider: anthropic, api_base: 'https://gw.example', api_key: k").unwrap();
    assert_eq!((up.base_url.as_str(), up.dialect), ("https://gw.example/v1", "anthropic-messages"));
    let up = upstream("provider: kimi, api_base: 'https://gw.example/v1', api_key: k, model_id: moonshotai/Kimi-K2.5");
    let up = up.unwrap();
    assert!(up.also.is_empty());
    assert_eq!(up.model_for(None).unwrap(), "moonshotai/Kimi-K2.5");
}

#[test]
fn the_dialect_can_be_chosen() {
    let up = upstream("provider: openai, api_key: k, dialect: openai-responses").unwrap();
    assert_eq!((up.dialect, up.also.len()), ("openai-responses", 0));
}

#[rstest]
#[case("", "llm.api_base")]
#[case("provider: kimi", "llm.api_key")]
#[case("provider: openai-codex", "llm.provider")]
#[case("provider: anthropic, auth_method: oauth_token", "llm.auth_method")]
#[case("provider: kimi, api_key: 'env:X'", "llm.api_key")]
fn what_is_missing_is_said_with_what_to_do(#[case] llm: &str, #[case] key: &str) {
    let error = upstream(llm).unwrap_err();
    assert_eq!(error.key, key);
    assert!(error.to_string().len() > 20);
}

#[test]
fn the_built_in_model_needs_neither_address_nor_key_and_ignores_those_of_others() {
    for llm in ["provider: builtin", "provider: builtin, api_base: 'https://api.moonshot.cn/v1', api_key: k"] {
        let up = upstream(llm).unwrap();
        assert!(up.is_builtin() && up.local);
        assert_eq!((up.base_url.as_str(), up.dialect, &up.credentials), ("", "openai-chat", &Credentials::None));
    }
    assert!(!upstream("provider: ollama").unwrap().is_builtin());
}

#[test]
fn passthrough_needs_no_key() {
    let up = upstream("provider: anthropic, auth_method: passthrough").unwrap();
    assert_eq!(up.credentials, Credentials::Caller);
}

#[rstest]
#[case(Some("gpt-4o"), Some("big"))]
#[case(Some("gpt-4o-mini"), Some("small"))]
#[case(Some("claude-haiku-4"), Some("haiku"))]
#[case(Some("claude-opus"), Some("claude"))]
#[case(None, Some("big"))]
fn models_are_mapped_before_model_id(#[case] asked: Option<&str>, #[case] sent: Option<&str>) {
    let up = upstream(
        "provider: custom, api_base: 'http://h.example', model_id: big, \
         model_map: {gpt-4o-mini: small, 'claude-*': claude, 'claude-haiku*': haiku}",
    )
    .unwrap();
    assert_eq!(up.model_for(asked).as_deref(), sent);
}

#[test]
fn without_model_id_the_agents_choice_is_sent() {
    let up = upstream("provider: custom, api_base: 'http://h.example'").unwrap();
    assert_eq!(up.model_for(Some("x")).as_deref(), Some("x"));
    assert_eq!(up.model_for(None), None);
}

#[test]
fn a_fallback_is_a_provider_of_its_own() {
    assert_eq!(config("").fallback(), Ok(None));
    let with = config("llm:\n  fallback: {provider: groq, api_key: k, model_id: m}\n");
    let up = with.fallback().unwrap().unwrap();
    assert_eq!(
        (up.base_url.as_str(), up.model_for(Some("x")).unwrap().as_ref()),
        ("https://api.groq.com/openai/v1", "m")
    );
    let error = config("llm:\n  fallback: {provider: groq, api_key: k}\n").fallback().unwrap_err();
    assert_eq!(error.key, "llm.fallback.model_id");
}

#[test]
fn openrouter_is_told_the_name_and_headers_can_be_replaced() {
    let text = "llm: {provider: openrouter, api_key: k, headers: {x-title: Mine, X-Org: o}}\n\
                openrouter: {app_url: 'https://a.example'}\n";
    let up = config(text).upstream().unwrap();
    let headers: Vec<_> = up.headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    assert_eq!(headers, [("HTTP-Referer", "https://a.example"), ("X-Org", "o"), ("x-title", "Mine")]);
}

#[rstest]
#[case("127.0.0.1", "", "127.0.0.1:30000", false)]
#[case("localhost", "", "127.0.0.1:30000", false)]
#[case("::1", "", "[::1]:30000", false)]
#[case("[::1]", "", "[::1]:30000", false)]
#[case("0.0.0.0", "", "127.0.0.1:30000", true)]
#[case("'::'", "", "127.0.0.1:30000", true)]
#[case("'*'", "", "127.0.0.1:30000", true)]
#[case("192.168.1.5", "", "127.0.0.1:30000", true)]
#[case("'2001:db8::1'", "", "[::1]:30000", true)]
#[case("0.0.0.0", "0123456789abcdef", "0.0.0.0:30000", false)]
#[case("'::'", "0123456789abcdef", "[::]:30000", false)]
fn nothing_is_opened_to_the_network_without_a_key(
    #[case] host: &str,
    #[case] key: &str,
    #[case] addr: &str,
    #[case] refused: bool,
) {
    let host = if host == "[::1]" { "'[::1]'" } else { host };
    let listen = config(&format!("proxy:\n  host: {host}\n  api_key: '{key}'\n")).listen();
    assert_eq!(listen.addr.to_string(), addr);
    assert_eq!(listen.refused.is_some(), refused);
    assert_eq!(listen.concern, None);
}

#[test]
fn a_short_key_on_an_open_port_is_a_concern() {
    let listen = config("proxy: {host: 0.0.0.0, api_key: metaclaw}\n").listen();
    assert_eq!(listen.addr.to_string(), "0.0.0.0:30000");
    assert!(listen.concern.is_some() && listen.refused.is_none());
}

#[test]
fn an_address_of_another_provider_is_pointed_out_and_believed() {
    let loaded =
        parse("llm:\n  provider: openai\n  api_key: k\n  api_base: https://api.moonshot.cn/v1\n", Path::new("c"))
            .unwrap();
    assert_eq!((loaded.warnings.len(), loaded.warnings[0].line), (1, 4));
    assert!(loaded.warnings[0].message.contains("Kimi"));
    assert_eq!(loaded.config.upstream().unwrap().provider, "kimi");
}

#[rstest]
#[case("minimax", "https://api.minimax.chat/v1")]
#[case("novita", "https://api.novita.ai/v3/openai")]
fn old_hosts_of_providers_are_pointed_out(#[case] provider: &str, #[case] base: &str) {
    let text = format!("llm:\n  provider: {provider}\n  api_base: {base}\n");
    let loaded = parse(&text, Path::new("c")).unwrap();
    assert_eq!((loaded.warnings.len(), loaded.warnings[0].line), (1, 3));
}

#[test]
fn the_model_that_writes_skills_is_the_one_that_answers_unless_another_is_named() {
    let llm = "llm: {provider: custom, api_base: 'https://a.example/v1', api_key: k, model_id: m}\n";
    let up = config(llm).evolver().unwrap();
    assert_eq!((up.base_url.as_str(), up.model_id.as_str()), ("https://a.example/v1", "m"));
    let up = config(&format!("{llm}rl: {{evolver_model: other}}\n")).evolver().unwrap();
    assert_eq!((up.base_url.as_str(), up.model_id.as_str()), ("https://a.example/v1", "other"));
    let up = config(&format!("{llm}rl: {{evolver_api_base: 'http://127.0.0.1:9/v1', evolver_model: local}}\n"));
    let up = up.evolver().unwrap();
    assert_eq!((up.base_url.as_str(), &up.credentials), ("http://127.0.0.1:9/v1", &Credentials::None));
}

#[test]
fn the_key_of_one_server_is_never_shown_to_another() {
    let llm = "llm: {provider: custom, api_base: 'https://a.example/v1', api_key: k, model_id: m}\n";
    let other = config(&format!("{llm}rl: {{evolver_api_base: 'https://b.example/v1', evolver_model: x}}\n"));
    assert_eq!(other.evolver().unwrap().credentials, Credentials::None);
    let same = config(&format!("{llm}rl: {{evolver_api_base: 'https://a.example/other/v1'}}\n")).evolver().unwrap();
    assert_eq!((same.credentials, same.model_id.as_str()), (Credentials::Key("k".into()), "m"));
}

#[rstest]
#[case("llm: {provider: custom, api_base: 'https://a.example/v1', auth_method: passthrough}\n", "llm.auth_method")]
#[case("llm: {provider: custom, api_base: 'https://a.example/v1', api_key: k}\n", "rl.evolver_model")]
#[case("mode: auto\n", "llm.provider")]
fn where_nobody_can_write_skills_it_is_said_what_to_do(#[case] text: &str, #[case] key: &str) {
    let error = config(text).evolver().unwrap_err();
    assert!(error.key == key || key == "llm.provider", "{error:?}");
    assert!(!error.todo.is_empty());
}

const ANSWERS: &str = "llm: {provider: custom, api_base: 'https://a.example/v1', api_key: k, model_id: m}\n";

#[rstest]
#[case::nothing_said("")]
#[case::no_key_for_the_address_that_stands_by_itself("rl: {prm_url: 'https://api.openai.com/', prm_model: x}\n")]
#[case::no_address("rl: {prm_url: '', prm_api_key: p}\n")]
fn nobody_judges_unless_somebody_is_named(#[case] rl: &str) {
    assert_eq!(config(&format!("{ANSWERS}{rl}")).judge().unwrap(), None);
    let openai = "llm: {provider: openai, api_key: k, model_id: m}\n";
    assert_eq!(config(&format!("{openai}{rl}")).judge().unwrap(), None, "the chat's key is not taken for it");
}

#[rstest]
#[case::by_its_key("rl: {prm_api_key: p}\n", "https://api.openai.com/v1", Credentials::Key("p".into()), "gpt-5.2")]
#[case::elsewhere(
    "rl: {prm_url: 'http://127.0.0.1:9', prm_model: j}\n",
    "http://127.0.0.1:9/v1",
    Credentials::None,
    "j"
)]
#[case::another_server("rl: {prm_url: 'https://b.example/v1'}\n", "https://b.example/v1", Credentials::None, "gpt-5.2")]
#[case::the_same_server("rl: {prm_url: 'https://a.example/v1', prm_model: ' j '}\n", "https://a.example/v1",
    Credentials::Key("k".into()), "j")]
#[case::a_key_of_its_own("rl: {prm_url: 'https://a.example/v1', prm_api_key: p}\n", "https://a.example/v1",
    Credentials::Key("p".into()), "gpt-5.2")]
fn a_judge_is_asked_where_it_is_with_its_own_key(
    #[case] rl: &str,
    #[case] base: &str,
    #[case] credentials: Credentials,
    #[case] model: &str,
) {
    let judge = config(&format!("{ANSWERS}{rl}")).judge().unwrap().unwrap();
    assert_eq!((judge.base_url.as_str(), judge.model_id.as_str()), (base, model));
    assert_eq!(judge.credentials, credentials);
}

#[rstest]
#[case::built_in("rl: {prm_url: 'http://127.0.0.1:9', prm_provider: builtin}\n", "rl.prm_provider")]
#[case::no_model("rl: {prm_url: 'http://127.0.0.1:9', prm_model: ''}\n", "rl.prm_model")]
#[case::a_key_that_is_nowhere("rl: {prm_api_key: 'env:METACLAW_NO_SUCH_KEY'}\n", "rl.prm_api_key")]
#[case::known_and_without_a_key("rl: {prm_url: 'https://api.moonshot.cn/v1'}\n", "rl.prm_api_key")]
#[case::the_agents_credentials(
    "llm: {provider: custom, api_base: 'https://a.example/v1', auth_method: passthrough}\nrl: {prm_url: 'https://a.example/v1'}\n",
    "rl.prm_api_key"
)]
fn a_judge_that_cannot_be_asked_is_told_with_what_to_do(#[case] rl: &str, #[case] key: &str) {
    let text = if rl.starts_with("llm:") { rl.to_owned() } else { format!("{ANSWERS}{rl}") };
    let error = config(&text).judge().unwrap_err();
    assert_eq!(error.key, key, "{error:?}");
    assert!(!error.what.is_empty() && !error.todo.is_empty());
}
