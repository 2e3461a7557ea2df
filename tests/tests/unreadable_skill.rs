//! A skill file that cannot be used is reported with file, line and what to do; all others go on working.

use metaclaw_tests::agent::{blocks, hello};
use metaclaw_tests::answer::Api;
use metaclaw_tests::product::{Product, QUESTION, SKILL};
use metaclaw_tests::provider::Provider;
use rstest::rstest;
use serde_json::json;

#[rstest]
#[case::no_front_matter("# Just text\n", None)]
#[case::open_front_matter("---\nname: bad-skill\n", None)]
#[case::bad_yaml("---\nname: bad-skill\n- description: x\n---\nText\n", Some(3))]
#[case::no_description("---\nname: bad-skill\n---\nText\n", Some(1))]
#[case::wrong_name("---\nname: ../../etc\ndescription: d\n---\nText\n", Some(2))]
#[case::empty("", None)]
#[tokio::test]
async fn is_reported_and_the_others_work(#[case] text: &str, #[case] line: Option<u32>) {
    let provider = Provider::start().await;
    let mut product = Product::at(&provider, &json!({}));
    product.teach();
    product.write_skill_file("bad-skill", text);
    product.start().await;
    let said = product.cli(&["skills", "validate"]).await;
    assert!(said.code != 0, "{said:#?}");
    let report = said.all();
    assert!(report.contains("bad-skill"), "{report}");
    if let Some(line) = line {
        assert!(report.contains(&format!("bad-skill/SKILL.md:{line}: ")), "line {line} is not named: {report}");
    }
    product.agent().ask(Api::Chat, &hello(Api::Chat, QUESTION, false)).await;
    assert_eq!(blocks(provider.last().text()), 1);
    let list = product.cli(&["skills", "list"]).await;
    assert!(list.out.contains(SKILL), "{list:#?}");
    let on_disk = std::fs::read_to_string(product.home().join("skills/bad-skill/SKILL.md")).expect("the file");
    assert_eq!(on_disk, text, "the user's file was changed");
}

#[tokio::test]
async fn bytes_that_are_no_text_and_a_folder_in_the_files_place_do_no_harm() {
    let provider = Provider::start().await;
    let mut product = Product::at(&provider, &json!({}));
    product.teach();
    let skills = product.home().join("skills");
    std::fs::create_dir_all(skills.join("binary")).expect("a folder");
    std::fs::write(skills.join("binary/SKILL.md"), [0xff, 0xfe, 0x00, 0x80]).expect("a file");
    std::fs::create_dir_all(skills.join("folder/SKILL.md")).expect("a folder");
    std::os::unix::fs::symlink("/nowhere/SKILL.md", skills.join("dangling")).expect("a link");
    product.start().await;
    product.agent().ask(Api::Chat, &hello(Api::Chat, QUESTION, false)).await;
    assert_eq!(blocks(provider.last().text()), 1);
    let report = product.cli(&["skills", "validate"]).await;
    assert!(report.all().contains("binary"), "{report:#?}");
}

#[tokio::test]
async fn the_built_in_skills_are_all_valid_and_a_users_edit_survives_the_next_start() {
    let provider = Provider::start().await;
    let mut product = Product::started(&provider, &json!({})).await;
    let said = product.cli(&["skills", "validate"]).await;
    assert_eq!(said.code, 0, "{said:#?}");
    let listed = product.json(&["skills", "list"]).await;
    let skills = listed["skills"].as_array().expect("a list").clone();
    assert!(skills.len() >= 40, "{} built-in skills", skills.len());
    let path = std::path::PathBuf::from(skills[0]["path"].as_str().expect("a path"));
    let path = if path.is_dir() { path.join("SKILL.md") } else { path };
    let mine = std::fs::read_to_string(&path).expect("the file") + "\nMy own line.\n";
    std::fs::write(&path, &mine).expect("the file");
    product.stop().await;
    product.start().await;
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), mine);
}
