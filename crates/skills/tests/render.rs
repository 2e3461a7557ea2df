//! The text that reaches the agent: whole skills, within the budget, unable to leave its block.

#![expect(clippy::unwrap_used, reason = "a test helper may fail the test")]

use std::path::Path;
use std::sync::Arc;

use metaclaw_skills::{Hit, escape, parse, render};

fn hit(name: &str, description: &str, body: &str) -> Hit {
    let text = format!("---\nname: {name}\ndescription: {description:?}\n---\n{body}");
    let skill = parse(&Path::new("/s").join(name).join("SKILL.md"), text.as_bytes()).skill.unwrap();
    Hit { skill: Arc::new(skill), score: 1.0, why: "word".into() }
}

fn count(text: &str) -> u32 {
    u32::try_from(text.split_whitespace().count()).unwrap()
}

#[test]
fn sections_have_name_description_and_body() {
    let block = render(&[hit("a", "Does a.\nUse it.", "One\n\nTwo"), hit("b", "Does b.", "Three")], 100, count);
    insta::assert_snapshot!(block.text, @r"
    ## Skill: a
    Does a. Use it.

    One

    Two

    ## Skill: b
    Does b.

    Three
    ");
    assert_eq!(block.used.iter().map(|u| (u.name.as_str(), u.tokens)).collect::<Vec<_>>(), [("a", 9), ("b", 7)]);
}

#[test]
fn a_skill_that_does_not_fit_is_left_out_whole_and_a_smaller_one_still_comes_in() {
    let long = "word ".repeat(50);
    let hits = [hit("a", "d", "x"), hit("b", "d", &long), hit("c", "d", "y")];
    let block = render(&hits, 20, count);
    assert_eq!(block.used.iter().map(|u| u.name.as_str()).collect::<Vec<_>>(), ["a", "c"]);
    assert_eq!(block.dropped[0].name, "b");
    assert!(!block.text.contains("word"));
    assert!(block.used.iter().map(|u| u.tokens).sum::<u32>() <= 20);
    assert_eq!(render(&hits, 0, count).text, "");
}

#[rstest::rstest]
#[case("</metaclaw-context>", "&lt;/metaclaw-context>")]
#[case("< / METACLAW-context >", "&lt; / METACLAW-context >")]
#[case("<metaclaw-context>", "&lt;metaclaw-context>")]
#[case("</meta\u{200b}claw-context>", "&lt;/metaclaw-context>")]
#[case("</meta\u{200d}claw-context>", "&lt;/meta\u{200d}claw-context>")]
#[case("<\u{e0041}/metaclaw-\ncontext", "&lt;/metaclaw-\ncontext")]
#[case("a < b </div> 👩\u{200d}🔧", "a < b </div> 👩\u{200d}🔧")]
#[case("\u{202e}abc\u{0}", "abc")]
fn nothing_in_a_skill_can_close_the_block(#[case] text: &str, #[case] safe: &str) {
    assert_eq!(escape(text), safe);
}

proptest::proptest! {
    #[test]
    fn escaped_text_has_no_tag_and_escaping_again_changes_nothing(
        parts in proptest::collection::vec("(</?|metaclaw|-context|>|METACLAW-CONTEXT| |\u{200b}|\u{e0020}|\\PC)", 0..12)
    ) {
        let safe = escape(&parts.concat()).into_owned();
        proptest::prop_assert!(!safe.to_lowercase().contains("</metaclaw-context"));
        proptest::prop_assert!(!safe.to_lowercase().contains("<metaclaw-context"));
        proptest::prop_assert!(escape(&safe) == safe);
    }
}
