//! The program's command line, read at the start and again when a second start hands its own over.

use clap::Parser;

/// MetaClaw's window and tray icon around the service. Without a display: metaclaw start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Parser)]
#[command(name = "metaclaw-app", version, about)]
pub(crate) struct Args {
    /// Show only the tray icon. This is what happens at login.
    #[arg(long)]
    pub background: bool,

    /// Open the window on a page: home, conversations, skills, memory, training, schedule, connections or settings.
    #[arg(long, value_name = "PAGE", value_parser = page, conflicts_with = "background")]
    pub page: Option<String>,
}

/// A page's address is letters, digits and what stands between them: it becomes the fragment of a URL.
fn page(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '%');
    if !text.is_empty() && text.chars().all(fits) {
        Ok(text.to_owned())
    } else {
        Err("no page is called so".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::nothing(&[], Some(Args::default()))]
    #[case::login(&["--background"], Some(Args { background: true, page: None }))]
    #[case::page(&["--page", "skills/git"], Some(Args { background: false, page: Some("skills/git".into()) }))]
    #[case::both(&["--background", "--page", "skills"], None)]
    #[case::script(&["--page", "home\"');alert(1)"], None)]
    #[case::elsewhere(&["--page", "https://evil.example"], None)]
    fn the_command_line_says_what_is_shown(#[case] given: &[&str], #[case] expected: Option<Args>) {
        let read = Args::try_parse_from(std::iter::once(&"metaclaw-app").chain(given)).ok();
        assert_eq!(read, expected);
    }
}
