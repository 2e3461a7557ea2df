//! Whether this program runs already in the session. Asked before anything of the desktop begins: the plugin that sees to
//! it afterwards ends the second run under GTK's threads, and one of them may still want what is gone by then.

use zbus::Connection;

/// What the plugin is called on the bus: the identifier in tauri.conf.json, and its own.
const NAME: &str = "ai.metaclaw.app.SingleInstance";
const PATH: &str = "/ai/metaclaw/app/SingleInstance";
const INTERFACE: &str = "org.SingleInstance.DBus";

/// Gives the command line to the run that is there. False: nobody has taken it, and this is the first as far as is known.
pub(crate) fn took_over() -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.is_ok_and(|runtime| runtime.block_on(tell()).is_ok())
}

async fn tell() -> zbus::Result<()> {
    let args: Vec<String> = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let folder = std::env::current_dir().unwrap_or_default();
    let bus = Connection::session().await?;
    bus.call_method(Some(NAME), PATH, Some(INTERFACE), "ExecuteCallback", &(args, folder.to_string_lossy())).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_that_the_plugin_makes() {
        let settings: serde_json::Value = serde_json::from_str(include_str!("../tauri.conf.json")).unwrap();
        assert_eq!(NAME, format!("{}.SingleInstance", settings["identifier"].as_str().unwrap()));
        assert_eq!(PATH, format!("/{}", NAME.replace('.', "/")));
    }
}
