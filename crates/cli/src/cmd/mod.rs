//! One module per verb. Each asks the control API and prints what it answers.

pub(crate) mod config;
pub(crate) mod doctor;
mod first_turn;
mod learning;
pub(crate) mod logs;
pub(crate) mod memory;
pub(crate) mod models;
pub(crate) mod restart;
pub(crate) mod sessions;
pub(crate) mod setup;
pub(crate) mod skills;
pub(crate) mod start;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod turns;
pub(crate) mod uninstall;
mod wizard;

use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::Cli;
use crate::exit::{Fail, io};
use crate::out::Out;

/// Prints the completion script of a shell.
pub(crate) fn completion(out: &Out, shell: clap_complete::Shell) -> Result<ExitCode, Fail> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "metaclaw", &mut script);
    out.raw(&script);
    Ok(ExitCode::SUCCESS)
}

/// Writes the man pages.
pub(crate) fn man(folder: &std::path::Path) -> Result<ExitCode, Fail> {
    let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Cli::command(), folder));
    written.map_err(|error| io(&format!("{} cannot be written", folder.display()), &error))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the OpenAPI description.
pub(crate) fn openapi(out: &Out) -> Result<ExitCode, Fail> {
    out.line(&engine::api::openapi_json());
    Ok(ExitCode::SUCCESS)
}

/// `?a=b&c=d` from the pairs that have a value.
fn query(pairs: &[(&str, Option<String>)]) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        if let Some(value) = value {
            text.push(if text.is_empty() { '?' } else { '&' });
            text.push_str(name);
            text.push('=');
            text.push_str(&engine::client::segment(value));
        }
    }
    text
}

/// "1 skill", "2 skills".
fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// 1,234,567
fn figure(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_grouped_and_queries_escaped() {
        assert_eq!([7, 1_234, 1_234_567].map(figure).to_vec(), ["7", "1,234", "1,234,567"]);
        assert_eq!(query(&[("a", None), ("b", Some("x y&z".into())), ("c", Some("1".into()))]), "?b=x%20y%26z&c=1");
    }
}
