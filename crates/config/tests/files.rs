//! The file on disk: private, whole, and never lost.

use std::fs;
use std::path::Path;
use std::thread;

use metaclaw_config::{
    Answers, ConfigError, Edit, EditError, Home, Mode, apply, create, first_config, generate_key, get, load, parse,
    set, unset,
};
use proptest::prelude::*;

#[cfg(unix)]
fn mode_of(path: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    Some(fs::metadata(path).ok()?.permissions().mode() & 0o777)
}

#[cfg(unix)]
#[test]
fn files_are_for_the_user_only() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(dir.path().join("new"));
    home.ensure().unwrap();
    assert_eq!(mode_of(home.dir()), Some(0o700));
    let path = home.config_path();
    fs::write(&path, "mode: auto\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    set(&path, "mode", "rl").unwrap();
    assert_eq!(mode_of(&path), Some(0o600));
    let names: Vec<_> = fs::read_dir(home.dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "nothing but the file and its lock is left: {names:?}");
}

#[test]
fn a_file_is_begun_where_there_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deeper/config.yaml");
    assert!(matches!(load(&path), Err(ConfigError::Missing { .. })));
    let change = set(&path, "llm.api_key", "k").unwrap();
    assert_eq!((change.before.as_str(), change.after.as_str()), (Some(""), Some("(set)")));
    assert_eq!(load(&path).unwrap().config.llm.api_key.expose(), "k");
    unset(&path, "llm.api_key").unwrap();
    assert_eq!(get(&path, "llm.api_key").unwrap().unwrap(), "");
    assert_eq!(get(&path, "no.such").unwrap(), None);
}

#[test]
fn a_broken_file_is_not_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.yaml");
    for broken in [&b"mode: [\n"[..], b"mode: auto\n# \xff\n"] {
        fs::write(&path, broken).unwrap();
        assert!(matches!(set(&path, "mode", "rl"), Err(EditError::Broken(ConfigError::Syntax { .. }))));
        assert_eq!(fs::read(&path).unwrap(), broken);
    }
}

#[test]
fn a_file_that_is_no_settings_file_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.yaml");
    fs::write(&path, vec![b'#'; 5 << 20]).unwrap();
    assert!(matches!(load(&path), Err(ConfigError::Unreadable { .. })));
    assert!(matches!(load(dir.path()), Err(ConfigError::Unreadable { .. })));
}

/// A pipe never begins and a device never ends: neither is waited for, as a config file or as the file of a secret.
#[cfg(unix)]
#[test]
fn pipes_and_devices_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.yaml");
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for special in [pipe.as_path(), Path::new("/dev/zero")] {
        std::os::unix::fs::symlink(special, &path).unwrap();
        let error = load(&path).unwrap_err();
        assert!(matches!(error, ConfigError::Unreadable { .. }) && error.to_string().contains("no regular file"));
        assert!(matches!(set(&path, "mode", "rl"), Err(EditError::Broken(ConfigError::Unreadable { .. }))));
        fs::remove_file(&path).unwrap();
        fs::write(&path, format!("llm:\n  api_key: file:{}\n", special.display())).unwrap();
        let loaded = load(&path).unwrap();
        assert!(loaded.warnings[0].message.contains("no regular file"), "{:?}", loaded.warnings);
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn all_edits_are_made_or_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.yaml");
    fs::write(&path, "mode: auto\n").unwrap();
    let edits = |port: &str| {
        [
            Edit::Set { key: "mode".to_owned(), value: "rl".to_owned() },
            Edit::Set { key: "proxy.port".to_owned(), value: port.to_owned() },
        ]
    };
    assert!(apply(&path, &edits("x")).is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "mode: auto\n");
    apply(&path, &edits("1")).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "mode: rl\nproxy:\n  port: 1\n");
}

#[test]
fn writers_at_the_same_time_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.yaml");
    thread::scope(|scope| {
        for writer in 0..8 {
            let path = &path;
            scope.spawn(move || {
                for entry in 0..10 {
                    set(path, &format!("llm.model_map.m{writer}-{entry}"), "x").unwrap();
                }
            });
        }
    });
    assert_eq!(load(&path).unwrap().config.llm.model_map.len(), 80);
}

#[cfg(unix)]
#[test]
fn a_linked_file_stays_linked() {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().join("dotfiles.yaml");
    let link = dir.path().join("config.yaml");
    fs::write(&real, "mode: auto\n").unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    set(&link, "mode", "rl").unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&real).unwrap(), "mode: rl\n");
}

#[test]
fn a_first_file_is_never_put_over_another() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.yaml");
    create(&path, "mode: rl\n").unwrap();
    assert!(matches!(create(&path, "mode: auto\n"), Err(EditError::Io { .. })));
    assert_eq!(fs::read_to_string(&path).unwrap(), "mode: rl\n");
}

#[test]
fn the_first_file_is_complete_and_has_a_key() {
    let answers = Answers {
        mode: Mode::SkillsOnly,
        provider: "moonshot".to_owned(),
        model_id: "1e5".to_owned(),
        api_key: " 0123 ".to_owned(),
        ..Answers::default()
    };
    let text = first_config(&answers, &[7; 24]);
    insta::assert_snapshot!(text);
    let loaded = parse(&text, Path::new("config.yaml")).unwrap();
    assert_eq!(loaded.warnings, []);
    let config = loaded.config;
    assert_eq!((config.llm.provider.as_str(), config.llm.model_id.as_str()), ("kimi", "1e5"));
    assert_eq!(config.llm.api_key.expose(), "0123");
    assert_eq!(config.proxy.api_key.expose(), generate_key(&[7; 24]));
    assert_eq!(config.proxy.api_key.expose().len(), 35);
    parse(&first_config(&Answers::default(), &[0; 24]), Path::new("config.yaml")).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_first_file_says_what_was_answered(model in ".{0,40}", key in "[ -~]{0,40}", random: [u8; 24]) {
        let answers = Answers { model_id: model.clone(), api_key: key.clone(), ..Answers::default() };
        let config = parse(&first_config(&answers, &random), Path::new("c")).unwrap().config;
        prop_assert_eq!(config.llm.model_id.as_str(), model.trim_end_matches(['\r', '\n']));
        if config.llm.api_key.reference().is_none() {
            prop_assert_eq!(config.llm.api_key.expose(), key.trim());
        }
    }
}

#[test]
fn the_home_folder_is_found() {
    let home = |pairs: &'static [(&'static str, &'static str)]| {
        Home::from_env(move |name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    };
    let user = home(&[("HOME", "/home/u")]).unwrap();
    assert_eq!(user.config_path(), Path::new("/home/u/.metaclaw/config.yaml"));
    assert_eq!(user.resolve("~/x"), Path::new("/home/u/x"));
    assert_eq!(user.resolve("~/.metaclaw/skills"), user.skills_dir());
    assert_eq!(user.resolve("~/.metaclawx"), Path::new("/home/u/.metaclawx"));
    let other = home(&[("HOME", "/home/u"), ("METACLAW_HOME", "~/mc")]).unwrap();
    assert_eq!(other.dir(), Path::new("/home/u/mc"));
    // The documented default of skills.dir follows the home folder.
    assert_eq!(other.resolve("~/.metaclaw/skills"), Path::new("/home/u/mc/skills"));
    assert_eq!(other.resolve("records"), Path::new("/home/u/mc/records"));
    assert_eq!(other.resolve("/abs"), Path::new("/abs"));
    assert!(home(&[]).is_err());
    assert!(home(&[("METACLAW_HOME", "relative")]).is_err());
    assert_eq!(home(&[("HOME", "/h"), ("METACLAW_HOME", "  ")]).unwrap().dir(), Path::new("/h/.metaclaw"));
}
