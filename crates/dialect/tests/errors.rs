//! Errors read as the agent's SDK expects them, whatever the upstream sent.

use metaclaw_dialect::{ApiError, ApiErrorOrRaw, Dialect, ErrorKind, RequestError, upstream_error};
use rstest::rstest;

fn rendered(error: &ApiError, dialect: Dialect) -> String {
    String::from_utf8_lossy(&error.render(dialect)).into_owned()
}

#[test]
fn each_dialect_has_its_own_form() {
    let error = ApiError::from(RequestError::MissingMessages { field: "messages" });
    assert_eq!(error.status, 400);
    assert_eq!(
        rendered(&error, Dialect::Chat),
        r#"{"error":{"message":"`messages` is missing or empty; it must hold at least one message","type":"invalid_request_error","param":"messages","code":null},"detail":"`messages` is missing or empty; it must hold at least one message"}"#
    );
    assert_eq!(
        rendered(&error, Dialect::Messages),
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"`messages` is missing or empty; it must hold at least one message"}}"#
    );
}

#[test]
fn json_of_the_same_family_goes_on_as_it_is() {
    let body = br#"{"error":{"message":"slow down"}}"#;
    assert_eq!(upstream_error(Dialect::Chat, Dialect::Responses, 429, None, body), ApiErrorOrRaw::Raw);
}

fn translated(status: u16, content_type: Option<&str>, body: &str) -> ApiError {
    match upstream_error(Dialect::Messages, Dialect::Chat, status, content_type, body.as_bytes()) {
        ApiErrorOrRaw::Error(error) => error,
        ApiErrorOrRaw::Raw => ApiError::new(0, ErrorKind::Internal, "passed on as it is"),
    }
}

#[rstest]
#[case(
    529,
    None,
    r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
    ErrorKind::Overloaded,
    "Overloaded"
)]
#[case(
    400,
    None,
    r#"{"error":"model not found, try pulling it"}"#,
    ErrorKind::InvalidRequest,
    "model not found, try pulling it"
)]
#[case(404, None, r#"{"detail":"Not Found"}"#, ErrorKind::NotFound, "Not Found")]
#[case(418, None, r#"{"odd":1}"#, ErrorKind::InvalidRequest, r#"{"odd":1}"#)]
#[case(
    502,
    Some("text/html"),
    "<html><head><title>502 Bad Gateway</title><style>a{b:c}</style></head><body>nginx</body></html>",
    ErrorKind::Upstream,
    "The model provider answered with status 502 and a web page instead of an API answer: 502 Bad Gateway nginx"
)]
#[case(
    503,
    None,
    "  upstream connect error \n",
    ErrorKind::Overloaded,
    "The model provider answered with status 503 and text instead of an API answer: upstream connect error"
)]
#[case(500, None, "", ErrorKind::Internal, "The model provider answered with status 500 and no message.")]
fn the_message_survives_every_form(
    #[case] status: u16,
    #[case] content_type: Option<&str>,
    #[case] body: &str,
    #[case] kind: ErrorKind,
    #[case] message: &str,
) {
    let error = translated(status, content_type, body);
    assert_eq!((error.status, error.kind, error.message.as_str()), (status, kind, message));
}

#[test]
fn long_pages_are_cut() {
    let page = format!("<p>{}", "<script>x</script>日本語 ".repeat(20_000));
    assert_eq!(translated(500, Some("text/html"), &page).message.chars().count(), 500);
}
