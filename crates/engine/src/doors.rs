//! The two served doors of the control API: the Unix socket for this user's programs, and on request loopback TCP for a
//! browser, behind a bearer token and Host and Origin checks. The TCP door also serves the window's pages.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, header};
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;
use tower_http::services::{ServeDir, ServeFile};

use crate::api::{Code, Problem};
use crate::serve::{self, Lifeline};

/// What a page of ours may load: only itself.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; connect-src 'self'; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// Opens the Unix socket and serves `router` on it.
///
/// # Errors
/// The socket cannot be made. The caller holds the home's lock, so an old socket file is nobody's.
pub(crate) fn unix(path: &Path, router: Router, life: &Lifeline) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    serve::unix(crate::socket::bind(path)?, router, life);
    Ok(())
}

/// The TCP door as it was opened.
#[derive(Clone, Debug)]
pub(crate) struct TcpDoor {
    /// Where it listens.
    pub addr: SocketAddr,
}

/// Opens loopback TCP on `port` (0 = any) and serves `router` behind `token`, and the pages in `pages`.
///
/// # Errors
/// The port is taken.
pub(crate) async fn tcp(
    port: u16,
    router: Router,
    token: &str,
    pages: Option<PathBuf>,
    life: &Lifeline,
) -> std::io::Result<TcpDoor> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let addr = listener.local_addr()?;
    serve::tcp(listener, guarded(router, token, addr.port(), pages), life);
    Ok(TcpDoor { addr })
}

/// The API behind its token, beside the pages, all behind the Host and Origin checks.
fn guarded(router: Router, token: &str, port: u16, pages: Option<PathBuf>) -> Router {
    let token: Arc<str> = token.into();
    let api = router.layer(middleware::from_fn(move |request: Request, next: Next| {
        let token = Arc::clone(&token);
        async move {
            if shows(request.headers(), &token) {
                next.run(request).await
            } else {
                Problem::new(Code::Unauthorized, "The token of the control API is missing or wrong.")
                    .hint("It stands in the file control.token of the MetaClaw folder.")
                    .into_response()
            }
        }
    }));
    let outside = match pages {
        Some(dir) => {
            let index = ServeFile::new(dir.join("index.html"));
            Router::new().fallback_service(ServeDir::new(dir).fallback(index))
        }
        None => Router::new().fallback(|| async {
            Problem::not_found("The window's pages are not installed here; only the control API is served.")
        }),
    };
    // The API's own fallback answers below /api, the pages answer everything else.
    let split = middleware::from_fn(move |request: Request, next: Next| {
        let api = api.clone();
        async move {
            if request.uri().path().starts_with("/api/") { call(api, request).await } else { next.run(request).await }
        }
    });
    let checks = middleware::from_fn(move |request: Request, next: Next| async move {
        if let Err(problem) = check_source(request.headers(), port) {
            return problem.into_response();
        }
        let mut response = next.run(request).await;
        let headers = response.headers_mut();
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        response
    });
    outside.layer(split).layer(checks)
}

async fn call(api: Router, request: http::Request<Body>) -> Response {
    match tower::ServiceExt::oneshot(api, request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

fn shows(headers: &HeaderMap, token: &str) -> bool {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (all.next(), all.next()) else { return false };
    let Some((scheme, shown)) = value.as_bytes().split_at_checked(7) else { return false };
    scheme.eq_ignore_ascii_case(b"bearer ") && bool::from(shown.ct_eq(token.as_bytes()))
}

/// Exactly one Host, one of our own names with our port; an Origin, if there is one, of the same kind.
pub(crate) fn check_source(headers: &HeaderMap, port: u16) -> Result<(), Problem> {
    let refused = |what: &str| {
        Err(Problem::new(Code::Forbidden, format!("{what} is not served here."))
            .hint(format!("Use http://127.0.0.1:{port}/")))
    };
    let names = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    let ours = |text: &str| names.iter().any(|name| name.eq_ignore_ascii_case(text));
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next().and_then(|host| host.to_str().ok()), hosts.next()) {
        (Some(host), None) if ours(host) => {}
        _ => return refused("This host name"),
    }
    for origin in headers.get_all(header::ORIGIN) {
        let authority = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://"));
        if !authority.is_some_and(ours) {
            return refused("A request from this web page");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use http::StatusCode;
    use rstest::rstest;

    async fn ask(path: &str, headers: &[(&str, &str)]) -> StatusCode {
        let router = Router::new().route("/api/v1/x", get(|| async { "x" }));
        let router = guarded(router, "right", 8080, None);
        let mut request = http::Request::builder().uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        call(router, request.body(Body::empty()).unwrap()).await.status()
    }

    const HOST: (&str, &str) = ("host", "127.0.0.1:8080");
    const TOKEN: (&str, &str) = ("authorization", "Bearer right");

    #[rstest]
    #[case::right(&[HOST, TOKEN], StatusCode::OK)]
    #[case::name(&[("host", "localhost:8080"), TOKEN], StatusCode::OK)]
    #[case::same_origin(&[HOST, TOKEN, ("origin", "http://127.0.0.1:8080")], StatusCode::OK)]
    #[case::no_token(&[HOST], StatusCode::UNAUTHORIZED)]
    #[case::wrong_token(&[HOST, ("authorization", "Bearer wrong")], StatusCode::UNAUTHORIZED)]
    #[case::longer_token(&[HOST, ("authorization", "Bearer right2")], StatusCode::UNAUTHORIZED)]
    #[case::two_tokens(&[HOST, TOKEN, TOKEN], StatusCode::UNAUTHORIZED)]
    #[case::no_host(&[TOKEN], StatusCode::FORBIDDEN)]
    #[case::two_hosts(&[HOST, HOST, TOKEN], StatusCode::FORBIDDEN)]
    #[case::rebinding(&[("host", "127.0.0.1.evil.com:8080"), TOKEN], StatusCode::FORBIDDEN)]
    #[case::other_port(&[("host", "127.0.0.1:8081"), TOKEN], StatusCode::FORBIDDEN)]
    #[case::no_port(&[("host", "127.0.0.1"), TOKEN], StatusCode::FORBIDDEN)]
    #[case::foreign_origin(&[HOST, TOKEN, ("origin", "http://evil.com")], StatusCode::FORBIDDEN)]
    #[case::null_origin(&[HOST, TOKEN, ("origin", "null")], StatusCode::FORBIDDEN)]
    #[case::other_scheme(&[HOST, TOKEN, ("origin", "https://127.0.0.1:8080")], StatusCode::FORBIDDEN)]
    #[tokio::test]
    async fn the_tcp_door_asks_for_host_origin_and_token(
        #[case] headers: &[(&str, &str)],
        #[case] expected: StatusCode,
    ) {
        assert_eq!(ask("/api/v1/x", headers).await, expected);
    }

    #[tokio::test]
    async fn pages_need_no_token_but_the_right_host() {
        assert_eq!(ask("/", &[HOST]).await, StatusCode::NOT_FOUND);
        assert_eq!(ask("/", &[("host", "evil.com")]).await, StatusCode::FORBIDDEN);
    }
}
