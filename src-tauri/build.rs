//! Checks tauri.conf.json and the capabilities; only the commands named here can be allowed to the window.

#[cfg(feature = "desktop")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let commands =
        tauri_build::AppManifest::new().commands(&["api", "api_events", "about", "start", "painted", "save"]);
    tauri_build::try_build(tauri_build::Attributes::new().app_manifest(commands))?;
    Ok(())
}

#[cfg(not(feature = "desktop"))]
fn main() {}
