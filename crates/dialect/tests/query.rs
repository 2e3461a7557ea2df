//! The user's own words come out of everything agents wrap around them.

use metaclaw_dialect::user_words;
use rstest::rstest;

#[rstest]
#[case::plain("  hello \n", "hello")]
#[case::time("[Mon 2026-11-30 08:54 UTC] ping", "ping")]
#[case::channel("[Telegram Ann id:12 +5m 2026-01-05 12:00 UTC] hi there", "hi there")]
#[case::runtime("[Mon 2026-11-30 08:54 UTC] ping\n\nRuntime: agent=main | session=agent:main:main | model=m", "ping")]
#[case::message_id("hello\n[message_id: 42]", "hello")]
#[case::system_lines("System: [2026-01-05 12:00] Node connected\n\nhello", "hello")]
#[case::current_time("do it\nCurrent time: Monday, November 30th, 2026", "do it")]
#[case::internal(
    "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\na\n<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nb\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>\nc\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>\nhello",
    "hello"
)]
#[case::internal_unclosed("hello <<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>> secret", "hello")]
#[case::untrusted(
    "Conversation info (untrusted metadata):\n```json\n{\"a\": 1}\n```\n\nSender (untrusted metadata):\n```json\n{}\n```\n\nwhat's up?",
    "what's up?"
)]
#[case::marked("Sender: ⟦openclaw:ctx⟧\n```json\n{\"n\": \"x\"}\n```\n\n你好", "你好")]
#[case::marked_lines("Context: ⟦openclaw:ctx⟧\n#general topic\nmore\n\nhello", "hello")]
#[case::reminder("<system-reminder>\nTodo list is empty.\n</system-reminder>\nfix it", "fix it")]
#[case::reminder_unclosed("what is a <system-reminder> tag?", "what is a <system-reminder> tag?")]
#[case::slash(
    "<command-message>review</command-message>\n<command-name>/review</command-name>\n<command-args>the parser</command-args>",
    "the parser"
)]
#[case::codex("<environment_context>\n<cwd>/w</cwd>\n</environment_context>", "")]
#[case::agents("# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\nBe kind.\n</INSTRUCTIONS>", "")]
#[case::ours("hello\n\n<metaclaw-context>\nnotes\n</metaclaw-context>", "hello")]
#[case::new_session(
    "[Mon 2026-11-30 08:54 UTC] A new session was started via /new or /reset. Execute your Session Startup",
    ""
)]
#[case::interrupted("[Request interrupted by user]", "")]
#[case::interrupted_words("[Request interrupted by user]\nno, the other file", "no, the other file")]
#[case::bracket("[draft] see a[0]", "[draft] see a[0]")]
#[case::tags("why does `a < b` fail in <div>?", "why does `a < b` fail in <div>?")]
#[case::runtime_word("Runtime: what is it?", "Runtime: what is it?")]
fn words(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(user_words(text), expected);
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { failure_persistence: None, ..Default::default() })]

    /// Whatever comes in, something no longer comes out, and doing it twice changes nothing.
    #[test]
    fn words_are_part_of_the_text(parts in proptest::collection::vec(proptest::sample::select(vec![
        "<system-reminder>", "</system-reminder>", "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>", "<<<END_OPENCLAW_INTERNAL_CONTEXT>>>",
        "Sender: ⟦openclaw:ctx⟧\n", "```json\n", "```\n", "\n", "[Mon 2026-11-30 08:54 UTC] ", "Runtime: agent=a", "[message_id: 1]",
        "hello", "日本", " ", "# AGENTS.md instructions for ", "</INSTRUCTIONS>", "<command-args>", "</command-args>",
    ]), 0..12)) {
        let text = parts.concat();
        let words = user_words(&text);
        proptest::prop_assert!(words.len() <= text.len());
        proptest::prop_assert_eq!(words.trim(), &*words);
    }
}

/// Blocks beside blocks are passed over once each: this text would take minutes if every block moved the rest of it.
#[test]
fn a_text_full_of_blocks_is_read_in_one_go() {
    let text = format!(
        "{}what I said{}",
        "<system-reminder></system-reminder>".repeat(200_000),
        "<system-reminder>".repeat(200_000)
    );
    let words = user_words(&text);
    assert!(words.starts_with("what I said<system-reminder>") && words.len() > 3_000_000);
}
