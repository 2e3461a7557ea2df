//! The window: made when it is opened, destroyed when it is closed, so that no web view runs unseen. It shows the pages
//! of this program and nothing else.

use std::sync::Arc;
use std::time::Duration;

use tauri::{AppHandle, Manager, WebviewUrl, WebviewWindow, WebviewWindowBuilder};
use tokio::sync::Notify;

use crate::app::Shell;

/// Its name in capabilities/window.json.
const LABEL: &str = "main";
/// How long the first picture may take before the drawing is taken for broken. A busy machine needs seconds.
const BLANK: Duration = Duration::from_secs(20);

/// Shows the window, in front, on `page` if one is meant.
pub(crate) fn open(app: &AppHandle, page: Option<&str>) {
    if let Some(window) = app.get_webview_window(LABEL) {
        if let Some(page) = page {
            go(&window, page);
        }
        for done in [window.unminimize(), window.show(), window.set_focus()] {
            if let Err(error) = done {
                tracing::warn!(%error, "the window did not come to the front");
            }
        }
        return;
    }
    let painted = Arc::new(Notify::new());
    app.state::<Shell>().painted.store(Arc::clone(&painted));
    match build(app, page) {
        Ok(window) => watch(app, &window, painted),
        Err(error) => tracing::error!(%error, "the window cannot be opened"),
    }
}

fn build(app: &AppHandle, page: Option<&str>) -> tauri::Result<WebviewWindow> {
    let start = page.map_or("index.html".to_owned(), |page| format!("index.html#/{page}"));
    let builder = WebviewWindowBuilder::new(app, LABEL, WebviewUrl::App(start.into()))
        .title("MetaClaw")
        .inner_size(1100.0, 720.0)
        .min_inner_size(900.0, 600.0)
        // Beside everything else, so that what is removed with the home is all there is.
        .data_directory(app.state::<Shell>().home.window_dir())
        // The page takes dropped skills itself.
        .disable_drag_drop_handler()
        .on_navigation(is_ours)
        .on_new_window(|_, _| tauri::webview::NewWindowResponse::Deny);
    builder.build()
}

/// The pages of this program, which Tauri serves under an address of its own.
fn is_ours(url: &tauri::Url) -> bool {
    match url.scheme() {
        "tauri" => url.host_str() == Some("localhost"),
        // Windows has no schemes of one's own.
        "http" | "https" => cfg!(windows) && url.host_str() == Some("tauri.localhost"),
        _ => false,
    }
}

fn go(window: &WebviewWindow, page: &str) {
    let moved = window.url().and_then(|mut url| {
        url.set_fragment(Some(&format!("/{page}")));
        window.navigate(url)
    });
    if let Err(error) = moved {
        tracing::warn!(%error, page, "the window did not go to the page");
    }
}

/// Ends what belongs to the window when it is gone, and looks whether it draws.
fn watch(app: &AppHandle, window: &WebviewWindow, painted: Arc<Notify>) {
    let handle = app.clone();
    let gone = tokio_util::sync::CancellationToken::new();
    let closing = gone.clone();
    window.on_window_event(move |event| {
        if matches!(event, tauri::WindowEvent::Destroyed) {
            closing.cancel();
            handle.state::<Shell>().window_events.end();
        }
    });
    let (app, opened) = (app.clone(), tokio::time::Instant::now());
    let tasks = app.state::<Shell>().tasks.clone();
    tasks.spawn(async move {
        tokio::select! {
            () = painted.notified() => tracing::info!(after = ?opened.elapsed(), "the window has drawn"),
            () = gone.cancelled() => {}
            () = tokio::time::sleep(BLANK) => crate::webkit::blank(&app),
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("tauri://localhost/index.html#/skills", true)]
    #[case("tauri://localhost.evil.example/", false)]
    #[case("https://evil.example/", false)]
    #[case("http://127.0.0.1:30000/", false)]
    #[case("file:///etc/passwd", false)]
    #[case("data:text/html,x", false)]
    #[case("javascript:alert(1)", false)]
    fn the_window_goes_nowhere_else(#[case] url: &str, #[case] ours: bool) {
        assert_eq!(is_ours(&url.parse().unwrap()), ours);
    }
}
