//! The living folder: what is found, what stays active when files break, and that every change can be undone.

#![expect(clippy::unwrap_used, reason = "a test helper may fail the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use metaclaw_skills::{Draft, Error, Library, Limits, Origin, Query, builtin, install_builtin, validate};
use tempfile::TempDir;

fn home() -> (TempDir, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("skills");
    (temp, dir)
}

fn write(dir: &Path, at: &str, name: &str, body: &str) -> PathBuf {
    let path = dir.join(at).join("SKILL.md");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, format!("---\nname: {name}\ndescription: About {name}.\n---\n{body}\n")).unwrap();
    path
}

fn names(library: &Library) -> Vec<String> {
    library.snapshot().skills().iter().map(|s| s.name.clone()).collect()
}

fn draft(name: &str, body: &str) -> Draft {
    Draft {
        name: name.into(),
        description: format!("About {name}: when needed."),
        body: body.into(),
        ..Draft::default()
    }
}

#[test]
fn a_missing_folder_is_an_empty_library() {
    let (_temp, dir) = home();
    let library = Library::open(&dir);
    assert!(library.snapshot().is_empty() && library.problems().is_empty());
    assert!(library.snapshot().search(&Query { text: "review", ..Query::default() }, &Limits::default()).is_empty());
}

#[test]
fn skills_are_found_two_levels_deep_and_dot_folders_are_not_searched() {
    let (_temp, dir) = home();
    write(&dir, "one", "one", "b");
    write(&dir, "group/two", "two", "b");
    write(&dir, "one/three", "three", "a skill's own folder is not searched");
    write(&dir, "a/b/four", "four", "too deep");
    write(&dir, ".git/five", "five", "hidden");
    assert_eq!(names(&Library::open(&dir)), ["one", "two"]);
}

#[cfg(unix)]
#[test]
fn links_out_of_the_folder_are_refused_and_links_inside_count_once() {
    use std::os::unix::fs::symlink;
    let (temp, dir) = home();
    write(temp.path(), "outside", "outside", "secret");
    write(&dir, "inside", "inside", "b");
    symlink(temp.path().join("outside"), dir.join("outside")).unwrap();
    symlink(dir.join("inside"), dir.join("link")).unwrap();
    fs::create_dir_all(dir.join("file-link")).unwrap();
    symlink(temp.path().join("outside/SKILL.md"), dir.join("file-link/SKILL.md")).unwrap();
    symlink(&dir, dir.join("loop")).unwrap();
    let library = Library::open(&dir);
    assert_eq!(names(&library), ["inside"]);
    let problems = library.problems();
    assert_eq!(problems.iter().filter(|p| p.message.contains("leads out")).count(), 2, "{problems:?}");
}

#[test]
fn the_last_good_version_stays_active_while_a_file_is_broken() {
    let (_temp, dir) = home();
    let path = write(&dir, "one", "one", "good");
    let library = Library::open(&dir);
    fs::write(&path, "---\nname: one\n").unwrap();
    let change = library.reload();
    assert!(change.problems_changed && change.removed.is_empty());
    assert_eq!(library.snapshot().get("one").unwrap().body, "good");
    assert!(library.problems()[0].fix.contains("stays active"));
    write(&dir, "one", "one", "better");
    assert_eq!(library.reload().changed, ["one"]);
    assert_eq!(library.snapshot().get("one").unwrap().body, "better");
    assert!(library.problems().is_empty());
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
    assert_eq!(library.reload().removed, ["one"]);
}

#[test]
fn an_unchanged_reload_changes_nothing() {
    let (_temp, dir) = home();
    write(&dir, "one", "one", "b");
    let library = Library::open(&dir);
    let before = library.snapshot();
    assert!(library.reload().is_empty());
    assert!(Arc::ptr_eq(&before, &library.snapshot()));
}

#[test]
fn of_two_skills_with_one_name_the_first_counts_and_the_second_is_told() {
    let (_temp, dir) = home();
    write(&dir, "a", "same", "first");
    write(&dir, "b", "same", "second");
    let library = Library::open(&dir);
    assert_eq!(library.snapshot().get("same").unwrap().body, "first");
    assert!(library.problems().iter().any(|p| p.is_error() && p.message.contains("is taken by")));
}

#[test]
fn added_skills_are_spec_clean_and_a_taken_name_is_refused() {
    let (_temp, dir) = home();
    let library = Library::open(&dir);
    let added = library.add(&draft("mine", "first"), false, 1).unwrap();
    assert_eq!((added.body.as_str(), added.origin), ("first", Origin::User));
    assert!(
        validate(&dir).iter().all(|found| found.severity == metaclaw_skills::Severity::Note),
        "no more than advice"
    );
    assert!(matches!(library.add(&draft("mine", "x"), false, 2), Err(Error::Exists { .. })));
    library.add(&draft("mine", "second"), true, 3).unwrap();
    assert_eq!(library.snapshot().get("mine").unwrap().body, "second");
    let old = library.trash().unwrap();
    assert_eq!(old.len(), 1);
    library.restore(&old[0].id, true, 4).unwrap();
    assert_eq!(library.snapshot().get("mine").unwrap().body, "first");
}

#[test]
fn names_that_leave_the_folder_are_refused() {
    let (temp, dir) = home();
    let library = Library::open(&dir);
    for name in ["../../x", "..", "/etc", "a/b", "", "A", "a\nb", ".metaclaw"] {
        assert!(matches!(library.add(&draft(name, "b"), true, 1), Err(Error::Invalid { .. })), "{name:?}");
    }
    assert!(matches!(library.restore("../skills", false, 1), Err(Error::NotInTrash { .. })));
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
}

#[test]
fn removing_can_be_undone_with_all_files_of_the_skill() {
    let (_temp, dir) = home();
    write(&dir, "group/one", "one", "b");
    fs::write(dir.join("group/one/extra.txt"), "x").unwrap();
    let library = Library::open(&dir);
    let gone = library.remove("one", 5).unwrap();
    assert!(names(&library).is_empty() && !dir.join("group/one").exists());
    assert!(matches!(library.remove("one", 6), Err(Error::NotFound { .. })));
    library.restore(&gone.id, false, 7).unwrap();
    assert_eq!(fs::read_to_string(dir.join("group/one/extra.txt")).unwrap(), "x");
    assert!(library.trash().unwrap().is_empty());
    let again = library.remove("one", 8).unwrap();
    assert_eq!(library.empty_trash(8).unwrap(), 0);
    assert_eq!(library.empty_trash(9).unwrap(), 1);
    assert!(matches!(library.restore(&again.id, false, 10), Err(Error::NotInTrash { .. })));
}

#[test]
fn a_rewrite_keeps_the_other_files_and_can_be_undone() {
    let (_temp, dir) = home();
    write(&dir, "one", "one", "old");
    fs::write(dir.join("one/extra.txt"), "x").unwrap();
    let library = Library::open(&dir);
    library.rewrite("one", "---\nname: one\ndescription: d\n---\nnew\n", 1).unwrap();
    assert_eq!(library.snapshot().get("one").unwrap().body, "new");
    assert!(dir.join("one/extra.txt").exists());
    assert!(matches!(library.rewrite("one", "no front matter", 2), Err(Error::Invalid { .. })));
    let id = library.trash().unwrap()[0].id.clone();
    assert_eq!(library.restore(&id, true, 3).unwrap().body, "old");
}

#[test]
fn a_misspelt_name_is_answered_with_the_nearest_one() {
    let (_temp, dir) = home();
    install_builtin(&dir).unwrap();
    let error = Library::open(&dir).remove("code-reviews", 1).unwrap_err();
    assert!(error.to_string().contains("did you mean `code-review`?"), "{error}");
}

#[test]
fn disabled_skills_are_kept_but_not_found_also_by_another_process() {
    let (_temp, dir) = home();
    install_builtin(&dir).unwrap();
    let (one, other) = (Library::open(&dir), Library::open(&dir));
    let query = Query { text: "please review this code", ..Query::default() };
    let found = |library: &Library| {
        library.snapshot().search(&query, &Limits::default()).iter().any(|h| h.skill.name == "code-review")
    };
    assert!(found(&one));
    let before = one.snapshot().fingerprint();
    assert!(one.disable("code-review").unwrap() && !one.disable("code-review").unwrap());
    assert!(!found(&one) && found(&other));
    assert_ne!(before, one.snapshot().fingerprint());
    assert_eq!(other.reload().changed, ["code-review"]);
    assert!(!found(&other) && other.snapshot().get("code-review").is_some());
    assert!(other.enable("code-review").unwrap() && found(&other));
    one.reload();
    assert_eq!(before, one.snapshot().fingerprint());
    let unwanted = ["code-review".to_owned()].into();
    let query = Query { disabled: Some(&unwanted), ..query };
    assert!(one.snapshot().search(&query, &Limits::default()).iter().all(|h| h.skill.name != "code-review"));
}

#[test]
fn a_folder_of_skills_is_imported_and_bad_ones_are_told() {
    let (temp, dir) = home();
    let source = temp.path().join("pack");
    write(&source, "good", "good", "b");
    fs::create_dir_all(source.join("good/references")).unwrap();
    fs::write(source.join("good/references/a.md"), "a").unwrap();
    write(&source, "evil", "../evil", "b");
    let library = Library::open(&dir);
    let report = library.import(&source, false, 1).unwrap();
    assert_eq!(report.names, ["good"]);
    assert!(report.problems.iter().any(|p| p.message.contains("../evil")));
    assert!(dir.join("good/references/a.md").exists());
    assert!(matches!(library.import(&source.join("good"), false, 2), Err(Error::Exists { .. })));
    assert_eq!(library.import(&source.join("good"), true, 3).unwrap().replaced.len(), 1);
    assert!(matches!(library.import(temp.path().join("none").as_path(), false, 4), Err(Error::Import { .. })));
    assert!(fs::read_dir(dir.join(".metaclaw/staging")).unwrap().next().is_none(), "nothing is left behind");
}

#[cfg(unix)]
#[test]
fn an_import_with_a_link_inside_is_refused() {
    let (temp, dir) = home();
    let source = temp.path().join("pack");
    write(&source, "", "pack", "b");
    std::os::unix::fs::symlink("/etc/passwd", source.join("data.txt")).unwrap();
    let error = Library::open(&dir).import(&source, false, 1).unwrap_err();
    assert!(error.to_string().contains("is a link"), "{error}");
    assert!(!dir.join("pack").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn an_import_with_two_manifests_is_refused_and_not_guessed_at() {
    let (temp, dir) = home();
    let source = temp.path().join("pack");
    write(&source, "", "pack", "b");
    fs::copy(source.join("SKILL.md"), source.join("skill.md")).unwrap();
    let error = Library::open(&dir).import(&source, false, 1).unwrap_err();
    assert!(error.to_string().contains("keep one of the two"), "{error}");
    assert!(!dir.join("pack").exists());
}

#[test]
fn built_in_skills_are_installed_once_and_the_users_edits_and_removals_stay() {
    let (_temp, dir) = home();
    let first = install_builtin(&dir).unwrap();
    assert_eq!(first.installed.len(), builtin().len());
    assert_eq!(install_builtin(&dir).unwrap().unchanged.len(), builtin().len());
    let library = Library::open(&dir);
    assert!(library.problems().is_empty(), "{:?}", library.problems());
    assert_eq!(library.snapshot().get("code-review").unwrap().origin, Origin::Builtin);

    let edited = dir.join("code-review/SKILL.md");
    let text = fs::read_to_string(&edited).unwrap().replace("# Review code", "# My way");
    fs::write(&edited, &text).unwrap();
    library.reload();
    assert_eq!(library.snapshot().get("code-review").unwrap().origin, Origin::BuiltinEdited);
    library.remove("write-tests", 1).unwrap();
    let next = install_builtin(&dir).unwrap();
    assert_eq!((next.kept, next.removed), (vec!["code-review".to_owned()], vec!["write-tests".to_owned()]));
    assert_eq!(fs::read_to_string(&edited).unwrap(), text);
    assert!(!dir.join("write-tests").exists());
}

#[test]
fn a_users_skill_with_a_built_in_name_is_never_touched() {
    let (_temp, dir) = home();
    let path = write(&dir, "code-review", "code-review", "mine");
    let before = fs::read(&path).unwrap();
    assert_eq!(install_builtin(&dir).unwrap().kept, ["code-review"]);
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(Library::open(&dir).snapshot().get("code-review").unwrap().origin, Origin::User);
}

#[tokio::test]
async fn an_edit_on_disk_is_seen_by_the_watcher_also_after_the_folder_was_replaced() {
    let (_temp, dir) = home();
    let library = Arc::new(Library::open(&dir));
    let (tracker, cancel) = (tokio_util::task::TaskTracker::new(), tokio_util::sync::CancellationToken::new());
    let (send, mut changes) = tokio::sync::mpsc::unbounded_channel();
    library.watch(&tracker, cancel.clone(), move |change| {
        let _ = send.send(change);
    });
    let mut until = async |wanted: &str| {
        let seen = tokio::time::timeout(std::time::Duration::from_secs(20), async {
            while !names(&library).contains(&wanted.to_owned()) {
                changes.recv().await.unwrap();
            }
        });
        seen.await.unwrap_or_else(|_| panic!("`{wanted}` was not seen"));
    };
    write(&dir, "one", "one", "b");
    until("one").await;
    write(&dir, "group/two", "two", "b");
    until("two").await;
    fs::remove_dir_all(&dir).unwrap();
    write(&dir, "three", "three", "b");
    until("three").await;
    tracker.close();
    cancel.cancel();
    tracker.wait().await;
}

#[test]
fn a_skill_of_the_users_goes_before_the_built_in_one_of_its_name() {
    let (_temp, dir) = home();
    let name = builtin()[0].name;
    write(&dir, &format!("mine/{name}"), name, "mine");
    let report = install_builtin(&dir).unwrap();
    assert!(report.kept.contains(&name.to_owned()) && !dir.join(name).exists());
    let library = Library::open(&dir);
    assert_eq!(library.snapshot().get(name).unwrap().body, "mine");
    assert!(library.problems().is_empty(), "{:?}", library.problems());
    // Where the built-in one was there first, the user's counts all the same.
    let other = builtin()[1].name;
    write(&dir, &format!("zz/{other}"), other, "mine too");
    library.reload();
    assert_eq!(library.snapshot().get(other).unwrap().body, "mine too");
    assert!(library.problems().iter().all(|problem| !problem.is_error()), "{:?}", library.problems());
}
