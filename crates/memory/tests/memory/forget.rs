//! Forgetting for good: nothing of it is left in the database file or its log, and it is not learned again.

use serde_json::json;
use store::{Forget, Kind, NewTurn, Scope, TurnId};

use crate::common::{DAY, Home, NOW};

fn bytes_of(home: &Home) -> Vec<u8> {
    let mut all = Vec::new();
    for name in ["metaclaw.db", "metaclaw.db-wal"] {
        all.extend(std::fs::read(home.dir.path().join(name)).unwrap_or_default());
    }
    all
}

fn contains(all: &[u8], text: &str) -> bool {
    all.windows(text.len()).any(|w| w == text.as_bytes())
}

#[tokio::test]
async fn a_forgotten_fact_is_nowhere_and_not_learned_again() {
    let home = Home::new().await;
    home.turn("s1", 1, NOW - DAY, "Hello there.", "Hi.").await;
    let kept = home.turn("s0", 1, NOW - DAY, "I like sailing.", "Nice.").await;
    home.turn("s1", 2, NOW - DAY, "My locker code word is Xylophonist.", "Noted.").await;
    home.turn("s1", 3, NOW - DAY, "What is the weather?", "Sunny.").await;
    home.work().await;
    while home.store.memory_index(100).await.expect("indexes") > 0 {}
    let facts = home.memory.facts(&store::FactFilter::default()).await.expect("lists");
    let fact = facts.iter().find(|f| f.content.contains("Xylophonist")).expect("was learned");
    let gone = home.memory.forget_id(&fact.id, NOW).await.expect("forgets");
    assert!(gone.facts == 1 && gone.windows >= 1 && gone.turns >= 1, "{gone:?}");
    assert!(home.ask("what is the locker code word?").await.iter().all(|m| !m.content.contains("Xylo")));
    home.store.flush().await.expect("flushes");
    assert!(!contains(&bytes_of(&home), "Xylophonist"));
    assert!(contains(&home.store.request_of(kept).await.expect("reads"), "sailing"), "other sessions are untouched");
    assert!(contains(&home.store.request_of(TurnId(1)).await.expect("reads"), "Hello"), "and what was said before");
    home.turn("s2", 1, NOW, "My locker code word is Xylophonist.", "Noted.").await;
    home.work().await;
    let again = home.memory.facts(&store::FactFilter::default()).await.expect("lists");
    assert!(again.iter().all(|f| !f.content.contains("Xylophonist")), "{again:?}");
}

#[tokio::test]
async fn a_forgotten_passage_and_session_leave_the_index() {
    let home = Home::new().await;
    home.turn("s1", 1, NOW - DAY, "Quetzalcoatl visited the observatory.", "Indeed.").await;
    home.turn("s2", 1, NOW - DAY, "Quinoa grows beside the observatory.", "Indeed.").await;
    home.work().await;
    while home.store.memory_index(100).await.expect("indexes") > 0 {}
    let found = home.ask("observatory Quetzalcoatl").await;
    home.memory.forget_id(&found[0].id, NOW).await.expect("forgets");
    assert!(home.ask("Quetzalcoatl").await.is_empty());
    assert!(!contains(&bytes_of(&home), "Quetzalcoatl"));
    home.memory.forget(Forget::Session("s2".to_owned()), NOW).await.expect("forgets");
    assert!(home.ask("quinoa observatory").await.is_empty());
    assert!(!contains(&bytes_of(&home), "Quinoa"));
    assert!(home.memory.forget_id("w99999", NOW).await.is_err(), "there is no such memory");
}

#[tokio::test]
async fn a_whole_scope_can_be_erased() {
    let home = Home::new().await;
    home.turn("s1", 1, NOW - DAY, "My favourite bird is the kingfisher.", "Indeed.").await;
    home.work().await;
    home.memory.forget(Forget::Scope("default".to_owned()), NOW).await.expect("forgets");
    assert!(home.ask("favourite bird").await.is_empty());
    assert_eq!(home.memory.export(None, true).await.expect("exports"), "");
    assert!(!contains(&bytes_of(&home), "kingfisher"));
}

#[tokio::test]
async fn a_session_deleted_from_the_journal_leaves_no_window_behind() {
    let home = Home::new().await;
    home.turn("s1", 1, NOW - DAY, "The kestrel nests in the belfry.", "Indeed.").await;
    home.work().await;
    while home.store.memory_index(100).await.expect("indexes") > 0 {}
    home.store.delete_session("s1").await.expect("deletes");
    assert!(home.ask("kestrel belfry").await.is_empty());
    home.work().await;
    assert_eq!(home.store.memory_unindexed().await.expect("counts"), (0, 0));
}

/// A turn with a body of its own.
async fn turn_with(home: &Home, turn: NewTurn, body: &serde_json::Value) -> TurnId {
    home.store.append(turn, body.to_string().into()).await.expect("appends")
}

fn said_by(user: &str, session: &str, turn_no: u32, words: &str) -> NewTurn {
    NewTurn {
        session: session.to_owned(),
        turn_no,
        started_ms: NOW - DAY,
        finished_ms: NOW - DAY,
        stop: Some("end_turn".to_owned()),
        user_text: Some(words.to_owned()),
        answer_text: Some(format!("Noted, {user}.")),
        scope: Scope { user_id: Some(user.to_owned()).filter(|u| !u.is_empty()), ..Scope::default() },
        ..NewTurn::default()
    }
}

fn messages(all: &[&str]) -> serde_json::Value {
    json!({ "messages": all.iter().map(|text| json!({"role": "user", "content": text})).collect::<Vec<_>>() })
}

async fn body(home: &Home, turn: TurnId) -> String {
    String::from_utf8(home.store.request_of(turn).await.expect("reads").to_vec()).expect("is text")
}

#[tokio::test]
async fn erasing_one_scope_leaves_what_others_said_in_the_same_session() {
    let home = Home::new().await;
    let erin = "My grandmother keeps ostriches near Marrakesh.";
    let dave = "My brother repairs accordions in Ljubljana.";
    let late = "Her neighbour breeds alpacas.";
    let before = turn_with(&home, said_by("erin", "group", 1, erin), &messages(&[erin])).await;
    let gone = turn_with(&home, said_by("dave", "group", 2, dave), &messages(&[erin, dave])).await;
    let after = turn_with(&home, said_by("erin", "group", 3, late), &messages(&[erin, dave, late])).await;
    // A call for a title: it is in no passage.
    let aside = NewTurn { kind: Kind::Side("title".to_owned()), ..said_by("dave", "side-agent", 1, "a title") };
    let title = turn_with(&home, aside, &json!({ "input": messages(&[dave]).to_string() })).await;
    let own =
        turn_with(&home, said_by("dave", "alone", 1, "I collect sundials."), &messages(&["I collect sundials."])).await;
    home.work().await;
    let erased = home.memory.forget(Forget::Scope("user:dave".to_owned()), NOW).await.expect("forgets");
    assert_eq!(erased.turns, 4, "three rows and one body: {erased:?}");
    let ask = |scope: &'static str| {
        let memory = home.memory.clone();
        async move {
            let ask = metaclaw_memory::Ask {
                text: "ostriches Marrakesh accordions alpacas",
                scope,
                now_ms: NOW,
                ..Default::default()
            };
            memory.recall(&ask).await.expect("recalls")
        }
    };
    assert!(ask("user:dave").await.is_empty());
    let left = ask("user:erin").await;
    assert!(left.iter().any(|m| m.content == erin) && left.iter().any(|m| m.content == late), "{left:?}");
    assert!(body(&home, before).await.contains("ostriches"));
    assert!(!body(&home, after).await.contains("accordions"), "it repeats what dave said");
    let kept = home.store.turn(after).await.expect("reads").expect("is there");
    assert_eq!((kept.summary.user_text.as_deref(), kept.answer_text.as_deref()), (Some(late), Some("Noted, erin.")));
    for turn in [gone, title, own] {
        assert!(home.store.turn(turn).await.expect("reads").is_none());
    }
    assert_eq!(home.store.session("group").await.expect("reads").map(|s| s.requests), Some(2));
    assert!(home.store.session("alone").await.expect("reads").is_none(), "nothing is left of it");
    assert!(!contains(&bytes_of(&home), "accordions"));
}

#[tokio::test]
async fn forgotten_words_are_in_no_body_that_carries_them() {
    let home = Home::new().await;
    let said = "My locker \"word\" is Xylophonist, 从来不说.";
    turn_with(&home, said_by("", "s1", 1, said), &messages(&[said])).await;
    // The same conversation under another name, and calls beside it, in the forms that clients write JSON in.
    let long = "x".repeat(3000);
    let on = turn_with(&home, said_by("", "s2", 1, "And now?"), &messages(&["Hello.", said, &long, "And now?"])).await;
    let next =
        turn_with(&home, said_by("", "s2", 2, "More?"), &messages(&["Hello.", said, &long, "And now?", "More?"])).await;
    let aside = |n| NewTurn {
        kind: Kind::Side("title".to_owned()),
        user_text: None,
        answer_text: Some("Locker of the Xylophonist".to_owned()),
        ..said_by("", "side-agent", n, "")
    };
    let other = turn_with(&home, aside(1), &messages(&[&long, "Title of a talk about sailing."])).await;
    let ascii = messages(&[&long, said]).to_string();
    let ascii: String =
        ascii.chars().map(|c| if c.is_ascii() { c.to_string() } else { format!("\\u{:04x}", c as u32) }).collect();
    let title = home.store.append(aside(2), ascii.into()).await.expect("appends");
    // It stands on the one before.
    let third = NewTurn { answer_text: Some("Rowing".to_owned()), ..aside(3) };
    let third = turn_with(&home, third, &messages(&[&long, "Title of a talk about rowing."])).await;
    let nested = turn_with(&home, aside(4), &json!({ "input": messages(&[said]).to_string() })).await;
    // Somebody else says the same by himself.
    let his = turn_with(&home, said_by("bob", "b", 1, said), &messages(&[said])).await;
    // And in his prompt it may stand without anybody having said it.
    let prompt = turn_with(&home, said_by("bob", "c", 1, "What now?"), &messages(&[said, "What now?"])).await;
    home.work().await;
    let found = home.ask("locker word").await;
    let id = &found.iter().find(|m| m.content.contains("Xylo")).expect("is found").id;
    home.memory.forget_id(id, NOW).await.expect("forgets");
    for turn in [on, next, title, nested] {
        assert!(!body(&home, turn).await.contains("Xylo"), "{turn}");
    }
    for turn in [title, nested] {
        let answer = home.store.turn(turn).await.expect("reads").expect("is there").answer_text;
        assert_eq!(answer.as_deref(), Some("[forgotten]"), "it was made of these words");
    }
    assert!(body(&home, other).await.contains("sailing"), "another call keeps its body");
    assert!(body(&home, third).await.contains("rowing"), "and so does one that stood on one that is gone");
    assert_eq!(home.store.turn(third).await.expect("reads").expect("is there").answer_text.as_deref(), Some("Rowing"));
    for turn in [his, prompt] {
        assert!(body(&home, turn).await.contains("Xylo"), "it is his own");
    }
    for session in ["b", "c"] {
        home.store.delete_session(session).await.expect("deletes");
    }
    assert!(!contains(&bytes_of(&home), "Xylophonist, "));
}

#[tokio::test]
async fn what_was_kept_from_before_updates_goes_with_what_is_forgotten() {
    let home = Home::new().await;
    home.turn("s1", 1, NOW - DAY, "The kestrel nests in the belfry.", "Indeed.").await;
    home.work().await;
    let backups = home.dir.path().join("backups");
    std::fs::create_dir(&backups).expect("a folder");
    let backup = backups.join("before-v9-0001.db");
    home.store.backup(&backup).await.expect("copies");
    let found = home.ask("kestrel belfry").await;
    let gone = home.memory.forget_id(&found[0].id, NOW).await.expect("forgets");
    assert!(gone.backups == 1 && !backup.exists(), "{gone:?}");
}

#[tokio::test]
async fn a_reader_only_delays_that_the_last_bytes_are_overwritten() {
    let home = Home::new().await;
    home.turn("s1", 1, NOW - DAY, "The kestrel nests in the belfry.", "Indeed.").await;
    home.work().await;
    let path = home.dir.path().join("metaclaw.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path);
    let mut reader = sqlx::ConnectOptions::connect(&options).await.expect("opens");
    sqlx::raw_sql("BEGIN; SELECT count(*) FROM turns").execute(&mut reader).await.expect("reads");
    let found = home.ask("kestrel belfry").await;
    let gone = home.memory.forget_id(&found[0].id, NOW).await.expect("forgets");
    assert!(gone.pending, "{gone:?}");
    assert!(contains(&bytes_of(&home), "kestrel nests"), "the reader still needs it");
    sqlx::raw_sql("ROLLBACK").execute(&mut reader).await.expect("ends");
    // Nothing else is written; it goes by itself.
    let out = async {
        while contains(&bytes_of(&home), "kestrel nests") {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), out).await.expect("goes in the end");
}

#[tokio::test]
async fn a_request_under_way_does_not_bring_a_forgotten_memory_back() {
    let home = Home::new().await;
    home.turn("s1", 1, NOW - DAY, "The kestrel nests in the belfry.", "Indeed.").await;
    home.work().await;
    let found = home.ask("kestrel belfry").await;
    let added = |id: &str| NewTurn {
        block: Some(store::Block { message_hash: 7, occurrence: 0, text: format!("told of {id}") }),
        additions: vec![store::Addition {
            kind: "memory".to_owned(),
            id: id.to_owned(),
            score: 1.0,
            why: String::new(),
            tokens: 1,
            version: None,
            share: None,
        }],
        ..said_by("", "s2", 1, "Where does it nest?")
    };
    home.memory.forget_id(&found[0].id, NOW).await.expect("forgets");
    turn_with(&home, added(&found[0].id), &messages(&[])).await;
    assert_eq!(home.store.injections("s2").await.expect("reads"), []);
    turn_with(&home, added("w999"), &messages(&[])).await;
    assert_eq!(home.store.injections("s2").await.expect("reads").len(), 1, "others stay");
}

#[tokio::test]
async fn what_was_learned_from_forgotten_words_loses_them_too() {
    let home = Home::new().await;
    home.turn("s1", 1, NOW - DAY, "My locker code word is Xylophonist.", "Noted.").await;
    home.work().await;
    let version = store::NewSkillVersion {
        name: "locker".to_owned(),
        hash: "0a".to_owned(),
        text: "---\nname: locker\n---\nMy locker code word is Xylophonist.".to_owned(),
        origin: "evolved".to_owned(),
        session: Some("s1".to_owned()),
        ..store::NewSkillVersion::default()
    };
    let version = home.store.skill_versions_add(vec![version]).await.expect("writes")[0];
    let asked = store::SkillEvolution {
        session: "s1".to_owned(),
        trigger: "end".to_owned(),
        reply: json!({"body": "Say \"My locker code word is Xylophonist.\"", "reason": "kept"}).to_string(),
        outcome: "proposed".to_owned(),
        note: "My locker code word is Xylophonist.".to_owned(),
        ..store::SkillEvolution::default()
    };
    let proposal = store::SkillProposal {
        kind: "create".to_owned(),
        name: "locker".to_owned(),
        version,
        state: "waiting".to_owned(),
        findings: "[]".to_owned(),
        reason: "My locker code word is Xylophonist.".to_owned(),
        ..store::SkillProposal::default()
    };
    home.store.skill_evolved(asked, vec![proposal]).await.expect("writes");
    let found = home.ask("what is the locker code word?").await;
    home.memory.forget_id(&found[0].id, NOW).await.expect("forgets");
    home.store.flush().await.expect("flushes");
    assert!(!contains(&bytes_of(&home), "Xylophonist"));
    let kept = home.store.skill_evolutions(None, 9).await.expect("reads").remove(0);
    assert!(kept.reply.contains("[forgotten]") && kept.reply.contains("kept"), "{kept:?}");
}
