//! Who may speak to the agents' port: Host, Origin, content type and key, over raw sockets so that every odd head is sent
//! as it stands. Loopback is no trust boundary: a web page can reach it.

use metaclaw_tests::answer::Api;
use metaclaw_tests::product::{PROXY_KEY, Product, health};
use metaclaw_tests::provider::Provider;
use metaclaw_tests::wire::Conn;
use metaclaw_tests::{agent::hello, until, within};
use rstest::rstest;
use serde_json::{Value, json};

/// Sends a head made of these lines (`{port}` is filled in) with a good body, and returns the status; 0 when the
/// connection is closed without an answer.
async fn status(product: &Product, first: &str, lines: &[String]) -> u16 {
    let body = hello(Api::Chat, "hi", false).to_string();
    let mut head = format!("{first}\r\n");
    for line in lines {
        head.push_str(&line.replace("{port}", &product.port().to_string()));
        head.push_str("\r\n");
    }
    head.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
    let mut conn = Conn::connect(&product.addr()).await.expect("a connection");
    conn.send(head.as_bytes()).await.expect("a request");
    within("an answer or an end", conn.response_head("POST")).await.map_or(0, |head| head.status)
}

fn lines(extra: &[&str]) -> Vec<String> {
    let mut all = vec!["content-type: application/json".to_owned(), format!("authorization: Bearer {PROXY_KEY}")];
    all.extend(extra.iter().map(|l| (*l).to_owned()));
    all
}

const POST: &str = "POST /v1/chat/completions HTTP/1.1";

#[rstest]
#[case::by_number("host: 127.0.0.1:{port}", true)]
#[case::by_name("host: localhost:{port}", true)]
#[case::by_name_in_capitals("Host: LOCALHOST:{port}", true)]
#[case::ipv6("host: [::1]:{port}", true)]
#[case::without_port("host: 127.0.0.1", true)]
#[case::other_loopback("host: 127.0.0.10:{port}", true)]
#[case::suffix("host: 127.0.0.1.evil.com:{port}", false)]
#[case::suffix_of_name("host: localhost.evil.com:{port}", false)]
#[case::prefix("host: evil-localhost:{port}", false)]
#[case::other_site("host: evil.com", false)]
#[case::other_site_with_our_port("host: evil.com:{port}", false)]
#[case::private_address("host: 192.168.1.7:{port}", false)]
#[case::user_info("host: 127.0.0.1@evil.com", false)]
#[case::user_info_before("host: evil.com@127.0.0.1:{port}", false)]
#[case::decimal("host: 2130706433:{port}", false)]
#[case::empty("host: ", false)]
#[case::comma("host: 127.0.0.1:{port}, evil.com", false)]
#[case::bad_port("host: 127.0.0.1:99999999", false)]
#[case::mapped("host: [::ffff:7f00:1.evil.com]:{port}", false)]
#[tokio::test]
async fn only_hosts_that_are_this_machine(#[case] host: &str, #[case] allowed: bool) {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    let got = status(&product, POST, &lines(&[host])).await;
    assert_eq!(got == 200, allowed, "{host} got {got}");
    assert_eq!(provider.seen().len(), usize::from(allowed));
    if !allowed {
        assert!((400..500).contains(&got) || got == 0, "{host} got {got}");
        let open = status(&product, "GET /healthz HTTP/1.1", &[host.to_owned()]).await;
        assert_ne!(open, 200, "even /healthz must not answer {host}");
    }
}

#[tokio::test]
async fn a_missing_or_doubled_host_is_refused() {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    assert_ne!(status(&product, POST, &lines(&[])).await, 200);
    let both = ["host: 127.0.0.1:{port}", "host: evil.com"];
    assert_ne!(status(&product, POST, &lines(&both)).await, 200);
    let same = ["host: 127.0.0.1:{port}", "host: 127.0.0.1:{port}"];
    assert_ne!(status(&product, POST, &lines(&same)).await, 200);
    let absolute = "POST http://evil.com/v1/chat/completions HTTP/1.1";
    assert_ne!(status(&product, absolute, &lines(&["host: 127.0.0.1:{port}"])).await, 200);
    let old = "POST /v1/chat/completions HTTP/1.0";
    assert_ne!(status(&product, old, &lines(&[])).await, 200);
    assert!(provider.seen().is_empty());
}

#[rstest]
#[case::none(&[], true)]
#[case::other_site(&["origin: https://evil.com"], false)]
#[case::looks_like_us(&["origin: http://127.0.0.1.evil.com:{port}"], false)]
#[case::opaque(&["origin: null"], false)]
#[case::a_page_of_this_machine(&["origin: http://localhost:5173"], true)]
#[case::doubled(&["origin: http://127.0.0.1:{port}", "origin: https://evil.com"], false)]
#[case::configured(&["origin: https://chat.example"], true)]
#[case::configured_with_other_scheme(&["origin: http://chat.example"], false)]
#[tokio::test]
async fn web_pages_get_in_only_by_name(#[case] extra: &[&str], #[case] allowed: bool) {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({"proxy": {"allowed_origins": ["https://chat.example"]}})).await;
    let all = lines(&[&["host: 127.0.0.1:{port}"], extra].concat());
    let got = status(&product, POST, &all).await;
    assert_eq!(got == 200, allowed, "{extra:?} got {got}");
    assert_eq!(provider.seen().len(), usize::from(allowed));
}

/// What a page can send without a preflight: text/plain, a form, no type at all.
#[rstest]
#[case::json("content-type: application/json", true)]
#[case::json_with_charset("content-type: application/json; charset=utf-8", true)]
#[case::json_in_capitals("content-type: Application/JSON", true)]
#[case::text("content-type: text/plain", false)]
#[case::form("content-type: application/x-www-form-urlencoded", false)]
#[case::multipart("content-type: multipart/form-data; boundary=x", false)]
#[case::hidden("content-type: text/plain; application/json", false)]
#[case::none("x-nothing: 1", false)]
#[tokio::test]
async fn a_post_must_say_that_it_is_json(#[case] line: &str, #[case] allowed: bool) {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    let all = [line, "host: 127.0.0.1:{port}", &format!("authorization: Bearer {PROXY_KEY}")].map(str::to_owned);
    let got = status(&product, POST, &all).await;
    assert_eq!(got, if allowed { 200 } else { 415 }, "{line}");
    assert_eq!(provider.seen().len(), usize::from(allowed));
}

#[rstest]
#[case::bearer(&format!("authorization: Bearer {PROXY_KEY}"), true)]
#[case::bearer_in_small_letters(&format!("authorization: bearer {PROXY_KEY}"), true)]
#[case::api_key(&format!("x-api-key: {PROXY_KEY}"), true)]
#[case::none("x-nothing: 1", false)]
#[case::wrong("authorization: Bearer wrong", false)]
#[case::empty("authorization: Bearer ", false)]
#[case::longer(&format!("authorization: Bearer {PROXY_KEY}x"), false)]
#[case::shorter(&format!("authorization: Bearer {}", &PROXY_KEY[..8]), false)]
#[case::basic(&format!("authorization: Basic {PROXY_KEY}"), false)]
#[case::in_a_cookie(&format!("cookie: key={PROXY_KEY}"), false)]
#[tokio::test]
async fn every_route_but_health_needs_the_key(#[case] line: &str, #[case] allowed: bool) {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    let all = ["host: 127.0.0.1:{port}", "content-type: application/json", line].map(str::to_owned);
    for route in [
        "POST /v1/chat/completions",
        "POST /v1/responses",
        "POST /v1/messages",
        "POST /v1/messages/count_tokens",
        "GET /v1/models",
        "POST /v1/anything",
        "GET /nothing",
    ] {
        let got = status(&product, &format!("{route} HTTP/1.1"), &all).await;
        assert_eq!(got != 401, allowed, "{route} with {line} got {got}");
    }
    assert!(health(&product.addr()).await);
    if !allowed {
        assert!(provider.all().is_empty());
    }
}

#[tokio::test]
async fn without_a_configured_key_any_key_of_a_local_agent_will_do() {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({"proxy": {"api_key": null}})).await;
    for line in ["authorization: Bearer metaclaw", "x-api-key: metaclaw", "x-nothing: 1"] {
        let all = ["host: 127.0.0.1:{port}", "content-type: application/json", line].map(str::to_owned);
        assert_eq!(status(&product, POST, &all).await, 200, "{line}");
    }
    let all = lines(&["host: evil.com"]);
    assert_ne!(status(&product, POST, &all).await, 200);
}

/// A browser asks first; it must hear no, and the request it asked about must not run.
#[tokio::test]
async fn a_preflight_gives_no_foreign_page_leave() {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    let request = format!(
        "OPTIONS /v1/chat/completions HTTP/1.1\r\nhost: {}\r\norigin: https://evil.com\r\n\
         access-control-request-method: POST\r\naccess-control-request-headers: content-type\r\n\r\n",
        product.addr()
    );
    let coming = product.agent().open_raw("OPTIONS", request.as_bytes()).await.expect("an answer");
    let allowed = coming.head.header("access-control-allow-origin");
    assert!(coming.head.status >= 400, "{:?}", coming.head);
    assert_eq!(allowed, None, "{:?}", coming.head);
    assert!(provider.all().is_empty());
}

/// Every config that the older wizard wrote: all addresses, no key. It must work for this machine and for no other.
#[rstest]
#[case::old_wizard(json!({"host": "0.0.0.0", "api_key": null}), true)]
#[case::with_key(json!({"host": "0.0.0.0"}), false)]
#[tokio::test]
async fn all_addresses_need_a_key(#[case] proxy: Value, #[case] loopback_only: bool) {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({ "proxy": proxy })).await;
    let listening = std::fs::read_to_string("/proc/net/tcp").expect("the list of sockets");
    let port = format!("{:04X}", product.port());
    let wide = listening.contains(&format!(" 00000000:{port} 00000000:0000 0A"));
    assert_eq!(wide, !loopback_only);
    if loopback_only {
        // The service may answer before it has said everything.
        until("it says how to open it safely: proxy.api_key", || async {
            (product.output("err") + &product.output("out")).contains("proxy.api_key").then_some(())
        })
        .await;
    }
}
