//! What is accepted as a SKILL.md, what is refused, and how the author is told.

use std::path::Path;

use metaclaw_skills::{MAX_FILE_BYTES, Parsed, Severity, builtin, modernise, parse};
use rstest::rstest;

fn read(text: impl AsRef<[u8]>) -> Parsed {
    parse(Path::new("/skills/code-review/SKILL.md"), text.as_ref())
}

fn told(parsed: &Parsed) -> Vec<String> {
    parsed.problems.iter().map(|p| format!("{:?} {}", p.severity, p)).collect()
}

#[test]
fn a_clean_file_has_no_problems_and_all_its_parts() {
    let parsed = read(
        "---\nname: code-review\ndescription: >-\n  Review code.\n  Use before a merge.\nlicense: MIT\nmetadata:\n  \
         metaclaw-category: Data Analysis\n  metaclaw-keywords: review, 审查、レビュー\n  metaclaw-agents: openclaw hermes\n\
         ---\n\n# Title\n\nBody: with `---` inside\n---\nend\n",
    );
    assert_eq!(told(&parsed), Vec::<String>::new());
    let skill = parsed.skill.unwrap();
    assert_eq!(skill.description, "Review code. Use before a merge.");
    assert_eq!(skill.category, "data_analysis");
    assert_eq!(skill.keywords, ["review", "审查", "レビュー"]);
    assert_eq!(skill.agents, ["openclaw", "hermes"]);
    assert_eq!(skill.line_of_body, 13);
    assert!(skill.body.starts_with("# Title") && skill.body.ends_with("---\nend"));
    assert!(skill.is_for(Some("OpenClaw")) && !skill.is_for(Some("codex")) && !skill.is_for(None));
}

#[test]
fn every_built_in_skill_is_spec_clean() {
    for skill in builtin() {
        let parsed = parse(&Path::new("bank").join(skill.name).join("SKILL.md"), skill.text.as_bytes());
        assert_eq!(told(&parsed), Vec::<String>::new());
        let read = parsed.skill.unwrap();
        assert!(metaclaw_skills::CATEGORIES.contains(&read.category.as_str()), "{}", read.category);
        assert!(read.description.contains("Use "), "{}: the description says when to use it", read.name);
        let lines = read.body.lines().filter(|l| !l.is_empty()).count();
        assert!((8..=20).contains(&lines), "{}: {lines} lines", read.name);
        assert!(read.body.contains("Anti-pattern:"), "{} names an anti-pattern", read.name);
    }
}

#[test]
fn the_embedded_bank_is_the_folder() {
    let mut folders: Vec<String> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/bank"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    folders.sort();
    let names: Vec<&str> = builtin().iter().map(|b| b.name).collect();
    assert_eq!(names, folders);
    assert!(names.len() >= 44);
    for category in metaclaw_skills::CATEGORIES {
        let key = format!("metaclaw-category: {category}\n");
        assert!(builtin().iter().filter(|b| b.text.contains(&key)).count() >= 3, "{category}");
    }
}

#[rstest]
#[case::old_category("name: code-review\ndescription: Reviews.\ncategory: coding", "coding", Severity::Note)]
#[case::colon_in_description(
    "name: code-review\ndescription: Use when: the user asks\ncategory: coding",
    "coding",
    Severity::Warning
)]
#[case::leading_sign("name: code-review\ndescription: @user asks `x`", "general", Severity::Warning)]
#[case::open_quote("name: code-review\ndescription: \"Fast\" reviews: now", "general", Severity::Warning)]
fn old_metaclaw_files_are_read_and_explained(#[case] front: &str, #[case] category: &str, #[case] severity: Severity) {
    let parsed = read(format!("---\n{front}\n---\nBody"));
    let skill = parsed.skill.clone().unwrap_or_else(|| panic!("{:?}", told(&parsed)));
    assert_eq!(skill.category, category);
    assert!(parsed.problems.iter().any(|p| p.severity == severity && p.line.is_some() && !p.fix.is_empty()));
    assert!(parsed.problems.iter().all(|p| p.severity <= severity), "{:?}", told(&parsed));
}

#[test]
fn an_unquoted_colon_keeps_the_whole_description() {
    let parsed = read("---\r\nname: code-review\r\ndescription: Use when: a \"big\" diff \\ comes\r\n---\r\nBody\r\n");
    assert_eq!(parsed.skill.unwrap().description, "Use when: a \"big\" diff \\ comes");
    assert_eq!(parsed.problems[0].line, Some(3));
}

#[test]
fn byte_order_mark_and_crlf_are_read() {
    let parsed = read("\u{feff}---\r\nname: code-review\r\ndescription: Reviews.\r\n---\r\n\r\nOne\r\nTwo\r\n");
    assert_eq!(parsed.skill.unwrap().body, "One\nTwo");
    assert_eq!(parsed.problems.len(), 1);
    assert_eq!(parsed.problems[0].severity, Severity::Note);
}

#[rstest]
#[case::empty("", 1, "does not begin with front matter")]
#[case::no_front_matter("# Hello", 1, "does not begin with front matter")]
#[case::not_closed("---\nname: code-review\ndescription: d", 1, "not closed")]
#[case::no_name("---\ndescription: d\n---\nb", 1, "`name` is missing")]
#[case::no_description("---\nname: code-review\ndescription:\n---\nb", 3, "`description` is missing")]
#[case::no_body("---\nname: code-review\ndescription: d\n---\n \n", 5, "no body")]
#[case::path_in_name("---\nname: ../../x\ndescription: d\n---\nb", 2, "not a-z, 0-9 or -")]
#[case::capitals("---\nname: Code\ndescription: d\n---\nb", 2, "capital letters")]
#[case::hyphens("---\nname: a--b\ndescription: d\n---\nb", 2, "two hyphens")]
#[case::newline("---\nname: \"a\\nb\"\ndescription: d\n---\nb", 2, "not a-z, 0-9 or -")]
#[case::number("---\nname: code-review\ndescription: 12\n---\nb", 3, "must be text, but it is a number")]
#[case::list("---\nname: code-review\ndescription: [a, b]\n---\nb", 3, "must be text, but it is a list")]
#[case::twice("---\nname: code-review\nname: b\ndescription: d\n---\nb", 3, "not valid YAML")]
#[case::tab("---\nname: code-review\ndescription: d\nmetadata:\n\t- : [\n---\nb", 5, "not valid YAML")]
fn a_broken_file_is_refused_with_line_and_reason(#[case] text: &str, #[case] line: u32, #[case] reason: &str) {
    let parsed = read(text);
    assert!(parsed.skill.is_none());
    let errors: Vec<_> = parsed.problems.iter().filter(|p| p.is_error()).collect();
    assert_eq!(errors.len(), 1, "{:?}", told(&parsed));
    assert!(errors[0].message.contains(reason), "{}", errors[0]);
    assert_eq!(errors[0].line, Some(line), "{}", errors[0]);
    assert!(!errors[0].fix.is_empty());
}

#[test]
fn limits_are_those_of_agent_skills() {
    let with = |name: &str, description: &str| {
        parse(
            &Path::new("/s").join(name).join("SKILL.md"),
            format!("---\nname: {name}\ndescription: {description}\n---\nb").as_bytes(),
        )
    };
    assert!(with(&"a".repeat(64), &"語".repeat(1024)).problems.is_empty());
    assert!(with(&"a".repeat(65), "d").skill.is_none());
    assert!(with("a", &"d".repeat(1025)).skill.is_none());
    let big = read(vec![b'a'; MAX_FILE_BYTES + 1]);
    assert!(big.skill.is_none() && big.problems[0].message.contains("bytes"));
    let not_text = read(b"---\nname: code-review\n\xff\xfe\n---\n");
    assert_eq!(not_text.problems[0].line, Some(3));
}

#[test]
fn a_yaml_bomb_is_refused_quickly() {
    let mut yaml = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        let refs = vec![format!("*a{}", i - 1); 9].join(", ");
        yaml.push_str(&format!("a{i}: &a{i} [{refs}]\n"));
    }
    assert!(read(format!("---\nname: code-review\ndescription: d\n{yaml}---\nb")).skill.is_none());
}

#[test]
fn another_folder_name_is_a_warning_with_the_fix() {
    let parsed = read("---\nname: other\ndescription: d\n---\nb");
    assert_eq!(parsed.skill.unwrap().name, "other");
    assert_eq!(parsed.problems[0].severity, Severity::Warning);
    assert!(parsed.problems[0].fix.contains("rename the folder to `other`"));
}

#[test]
fn modernising_moves_the_category_and_leaves_every_other_byte() {
    let old = "---\nname: a\ncategory: coding\ndescription: d # c\nx-own:   {keep: [me]}   \nmetadata:\n    openclaw: {\"os\": [\"linux\"]}\n# note\nlast: 'x'\n---\n\nBody  \n\n";
    let new = modernise(old).unwrap();
    insta::assert_snapshot!(new, @r#"
    ---
    name: a
    description: d # c
    x-own:   {keep: [me]}   
    metadata:
        openclaw: {"os": ["linux"]}
        metaclaw-category: coding
    # note
    last: 'x'
    ---

    Body
    "#);
    assert!(new.ends_with("Body  \n\n"));
    assert_eq!(modernise(&new), None);
    assert_eq!(
        modernise("---\r\nname: a\r\ndescription: Use when: x\r\n---\r\nB\r\n").unwrap(),
        "---\r\nname: a\r\ndescription: \"Use when: x\"\r\n---\r\nB\r\n"
    );
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..400)) {
        let _ = read(&bytes);
    }

    #[test]
    fn any_front_matter_is_read_without_a_panic(yaml in "[a-z:\\-\\[\\]{}&*!|>'\"%@`# \n\t,é語]{0,120}", body in "\\PC{0,20}") {
        let text = format!("---\n{yaml}\n---\n{body}");
        let parsed = read(&text);
        proptest::prop_assert_eq!(parsed.skill.is_none(), parsed.problems.iter().any(|p| p.is_error()));
    }

    #[test]
    fn a_written_draft_reads_back_as_it_was(
        description in "[\\PC\n\t]{1,200}",
        body in "\\PC{1,80}",
        keywords in proptest::collection::vec("[\\p{L}\\p{N} #:'\"]{1,12}", 0..4),
    ) {
        proptest::prop_assume!(!description.trim().is_empty() && !body.trim().is_empty());
        let draft = metaclaw_skills::Draft {
            name: "code-review".into(), description: description.clone(), body: body.clone(), keywords, ..Default::default()
        };
        let parsed = read(draft.text());
        proptest::prop_assert!(parsed.problems.is_empty(), "{:?}", parsed.problems);
        let skill = parsed.skill.unwrap();
        proptest::prop_assert_eq!(skill.description.as_str(), description.trim());
        proptest::prop_assert_eq!(skill.body.as_str(), body.trim());
    }
}

#[test]
fn text_that_is_cut_off_as_a_comment_is_told() {
    let text = "---\nname: x\ndescription: foo #1 thing\n---\nbody\n";
    let parsed = parse(Path::new("x/SKILL.md"), text.as_bytes());
    assert_eq!(parsed.skill.unwrap().description, "foo");
    let told = &parsed.problems[0];
    assert_eq!((told.line, told.severity), (Some(3), Severity::Warning));
    assert!(told.fix.contains("\"foo #1 thing\""), "{told}");
    for fine in ["\"foo #1 thing\"", "foo#1 thing", "'foo' # a comment behind quotes"] {
        let text = format!("---\nname: x\ndescription: {fine}\n---\nbody\n");
        assert!(parse(Path::new("x/SKILL.md"), text.as_bytes()).problems.is_empty(), "{fine}");
    }
}

#[test]
fn control_characters_are_refused() {
    for front in ["description: \"a\\u0000b\"", "description: a\nmetadata:\n  metaclaw-category: \"co\\e[31mRED\""] {
        let text = format!("---\nname: x\n{front}\n---\nbody\n");
        let parsed = parse(Path::new("x/SKILL.md"), text.as_bytes());
        assert!(parsed.skill.is_none(), "{front}");
        assert!(parsed.problems.iter().any(|p| p.message.contains("control character")), "{:?}", parsed.problems);
    }
    let text = "---\nname: x\ndescription: |\n  two\n  lines\n---\nbody\n";
    assert!(parse(Path::new("x/SKILL.md"), text.as_bytes()).skill.is_some());
}
