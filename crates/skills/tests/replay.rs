//! A judge before promotion: which skills wait for it, which turns it is shown, and what its word changes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use metaclaw_skills::replay::Judged;
use metaclaw_skills::workshop::{Moved, Rules, Workshop};
use metaclaw_skills::{Library, hex};
use store::{Addition, EndReason, NewTurn, Options, Outcome, SkillState, Store};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const NOW: i64 = 1_800_000_000_000;
const NAME: &str = "iso-dates";
const TEXT: &str =
    "---\nname: iso-dates\ndescription: Use when a list has dates.\n---\n\n1. Write year, month and day.\n";

struct Room {
    _dir: tempfile::TempDir,
    store: Store,
    library: Arc<Library>,
    workshop: Workshop,
}

/// Turns with a skill or without it, of which so many are good.
struct Turns {
    held_out: bool,
    count: u32,
    good: u32,
}

impl Room {
    /// A skill on trial that was in 120 turns and held out of 30, and that helps.
    async fn proven(replay_turns: u32) -> Self {
        let room = Self::new(replay_turns).await;
        room.expose("first", &Turns { held_out: false, count: 120, good: 110 }).await;
        room.expose("first", &Turns { held_out: true, count: 30, good: 14 }).await;
        room
    }

    async fn new(replay_turns: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j.db");
        let store =
            Store::open(&path, Options::default(), &TaskTracker::new(), CancellationToken::new()).await.unwrap();
        let skills = dir.path().join("skills");
        std::fs::create_dir_all(skills.join(NAME)).unwrap();
        std::fs::write(skills.join(NAME).join("SKILL.md"), TEXT).unwrap();
        let library = Arc::new(Library::open(skills));
        let rules = Rules { replay_turns, ..Rules::default() };
        let workshop = Workshop::new(Arc::clone(&library), store.clone(), rules);
        workshop.begin_count(Default::default()).await.unwrap();
        workshop.sync(NOW, true).await.unwrap();
        let version = store.skill_versions(NAME).await.unwrap().remove(0);
        let trial = SkillState {
            name: NAME.into(),
            state: "trial".into(),
            version: version.id,
            hash: version.hash,
            since_ms: NOW,
            reason: "on trial".into(),
            ..SkillState::default()
        };
        store.skill_put_states(vec![trial]).await.unwrap();
        Self { _dir: dir, store, library, workshop }
    }

    async fn turn(&self, turn: NewTurn) {
        let turn = NewTurn { dialect: "openai-chat".into(), started_ms: NOW, finished_ms: NOW, ..turn };
        self.store.append(turn, Bytes::from_static(b"{}")).await.unwrap();
    }

    fn held_out(&self) -> Vec<Addition> {
        let version = hex(self.library.snapshot().get(NAME).unwrap().content_hash);
        vec![Addition {
            kind: "skill".into(),
            id: NAME.into(),
            score: 1.0,
            why: String::new(),
            tokens: 100,
            version: Some(version),
            share: Some(0.2),
        }]
    }

    async fn expose(&self, round: &str, of: &Turns) {
        for n in 0..of.count {
            let session = format!("{round}-{}-{n}", of.held_out);
            let exposed = self.held_out();
            let (additions, held_out) = if of.held_out { (Vec::new(), exposed) } else { (exposed, Vec::new()) };
            self.turn(NewTurn {
                session: session.clone(),
                turn_no: 1,
                user_text: Some(format!("list the dates of {session}")),
                answer_text: Some("03/04/2026".into()),
                outcome: if n < of.good { Outcome::Ok } else { Outcome::Cut },
                additions,
                held_out,
                ..NewTurn::default()
            })
            .await;
            self.store.end_session(&session, EndReason::Explicit, NOW).await.unwrap();
        }
        self.read().await;
    }

    async fn read(&self) {
        while self.workshop.absorb().await.unwrap() {}
        while self.workshop.settle().await.unwrap().is_some() {}
    }

    async fn weigh(&self) -> Vec<Moved> {
        self.workshop.weigh(&BTreeSet::from([NAME.to_owned()]), NOW).await.unwrap()
    }

    async fn state(&self) -> SkillState {
        self.store.skill_states().await.unwrap().remove(0)
    }

    async fn judge(&self, verdicts: &[Judged]) -> Vec<Moved> {
        let verdicts: Vec<_> = (1..).zip(verdicts.iter().copied()).collect();
        let state = self.workshop.awaiting_replay().await.unwrap().remove(0);
        self.workshop.replayed(&state, &verdicts, "judge", 500, NOW).await.unwrap().1
    }
}

#[tokio::test]
async fn without_a_judge_evidence_alone_promotes() {
    let room = Room::proven(0).await;
    let moved = room.weigh().await;
    assert_eq!(moved[0].state, "active");
    assert!(moved[0].reason.starts_with("it helps: ") && !moved[0].reason.contains("judge"), "{moved:?}");
    assert!(room.workshop.awaiting_replay().await.unwrap().is_empty());
}

#[tokio::test]
async fn with_a_judge_a_proven_skill_waits_for_it_and_is_then_promoted() {
    let room = Room::new(4).await;
    room.weigh().await;
    assert!(room.workshop.awaiting_replay().await.unwrap().is_empty(), "nothing is proven yet");
    let room = Room::proven(4).await;
    assert_eq!(room.weigh().await, []);
    let waiting = room.state().await;
    assert_eq!(waiting.state, "trial");
    assert!(waiting.reason.starts_with("it helps: ") && waiting.reason.contains("waits for the judge"), "{waiting:?}");
    room.expose("more", &Turns { held_out: false, count: 1, good: 1 }).await;
    assert_eq!(room.weigh().await, []);
    assert_eq!(room.state().await, waiting, "it waits, and nothing is written for that");
    let moved = room.judge(&[Judged::Better, Judged::Same, Judged::Worse, Judged::Better]).await;
    assert_eq!((moved.len(), room.state().await.state.as_str()), (1, "active"));
    assert!(
        moved[0].reason.ends_with("the judge liked its answers better in 2 of 4 past turns, worse in 1"),
        "{moved:?}"
    );
    let kept = room.store.skill_replays(NAME, None).await.unwrap().remove(0);
    assert_eq!((kept.better, kept.worse, kept.same, kept.tokens, kept.exposures), (2, 1, 1, 500, 151));
    assert_eq!((kept.turns[0].turn.0, kept.turns[0].verdict.as_str()), (1, "better"));
    assert!(room.workshop.awaiting_replay().await.unwrap().is_empty());
}

#[tokio::test]
async fn what_the_judge_likes_less_stays_on_trial_until_its_turns_have_doubled() {
    let room = Room::proven(4).await;
    room.weigh().await;
    assert_eq!(room.judge(&[Judged::Worse, Judged::Worse, Judged::Better]).await, []);
    let held = room.state().await;
    assert_eq!(
        (held.state.as_str(), held.reason.as_str()),
        (
            "trial",
            "held back: the judge liked its answers better in 1 of 3 past turns, worse in 2; compared again at 300 turns"
        )
    );
    room.expose("more", &Turns { held_out: false, count: 149, good: 140 }).await;
    room.weigh().await;
    assert!(room.workshop.awaiting_replay().await.unwrap().is_empty(), "one turn is missing");
    room.expose("last", &Turns { held_out: true, count: 1, good: 0 }).await;
    room.weigh().await;
    assert_eq!(room.state().await, held);
    assert_eq!(room.workshop.awaiting_replay().await.unwrap(), [held]);
    room.judge(&[Judged::Better]).await;
    assert_eq!(room.state().await.state, "active", "the last word counts");
}

#[tokio::test]
async fn what_waits_is_weighed_without_a_judge_once_there_is_none() {
    for worse in [false, true] {
        let room = Room::proven(4).await;
        room.weigh().await;
        if worse {
            room.judge(&[Judged::Worse]).await;
        }
        assert!(room.workshop.waiting_in_vain().await.unwrap().is_empty());
        let alone = room.workshop.with_rules(Rules::default());
        let names = alone.waiting_in_vain().await.unwrap();
        assert_eq!(names, BTreeSet::from([NAME.to_owned()]));
        assert_eq!(alone.weigh(&names, NOW).await.unwrap()[0].state, "active");
        assert!(alone.waiting_in_vain().await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn harm_that_shows_while_it_waits_still_retires_it() {
    let room = Room::proven(4).await;
    room.weigh().await;
    room.expose("bad", &Turns { held_out: false, count: 400, good: 40 }).await;
    room.expose("bad", &Turns { held_out: true, count: 100, good: 95 }).await;
    assert_eq!(room.weigh().await[0].state, "retired");
    assert!(room.workshop.awaiting_replay().await.unwrap().is_empty());
}

#[tokio::test]
async fn the_turns_to_be_answered_again_are_the_newest_held_out_ones_without_tools() {
    let room = Room::proven(4).await;
    let talk = |turn_no: u32, step: u32, user: &str, answer: &str, held_out: Vec<Addition>| NewTurn {
        session: "talk".into(),
        turn_no,
        step,
        user_text: Some(user.into()),
        answer_text: Some(answer.into()),
        prior_state: Some(u128::from(turn_no * 10 + step)),
        held_out,
        ..NewTurn::default()
    };
    for turn_no in 1..=6 {
        room.turn(talk(turn_no, 0, &format!("user {turn_no}"), &format!("answer {turn_no}"), Vec::new())).await;
    }
    room.turn(talk(7, 0, "Dates, with sk-abcdefghijklmnop1234 as key.", "the first try", room.held_out())).await;
    room.turn(talk(8, 0, "No, year first.", "sorry", Vec::new())).await;
    room.turn(talk(9, 0, "Look the dates up.", "", room.held_out())).await;
    room.turn(talk(9, 1, "Look the dates up.", "done", Vec::new())).await;
    room.turn(talk(10, 0, "Thanks", "Welcome", Vec::new())).await;
    room.read().await;
    let state = room.state().await;
    let cases = room.workshop.cases(&state, 3).await.unwrap();
    assert_eq!(cases.len(), 3);
    let (with, without) = (cases[0].answer_prompt(true), cases[0].answer_prompt(false));
    let lines: Vec<&str> = without.lines().filter(|line| line.starts_with("{\"")).collect();
    assert_eq!(lines.len(), 9, "four pairs and the user's words: {lines:?}");
    assert!(
        lines[0].contains("user 3") && lines[7].contains("answer 6") && lines[8].contains("Dates, with"),
        "{lines:?}"
    );
    assert!(!with.contains("sk-abc") && !with.contains("first try") && !with.contains("No, year first"), "{with}");
    assert!(with.contains("## Skill: iso-dates") && with.contains("1. Write year, month and day."), "{with}");
    assert!(cases[0].compare_prompt("a", "b").contains("\"user_said_next\":\"No, year first.\""));
    assert!(cases[1].answer_prompt(false).contains("first-true-29"), "then the next newest");
    room.store.set_private("talk", true, NOW).await.unwrap();
    assert!(room.workshop.cases(&state, 1).await.unwrap()[0].answer_prompt(false).contains("first-true-29"));
}

#[tokio::test]
async fn where_no_turn_can_be_answered_again_that_is_said_and_stops_nothing() {
    let room = Room::proven(4).await;
    for n in 0..30 {
        room.store.set_private(&format!("first-true-{n}"), true, NOW).await.unwrap();
    }
    room.weigh().await;
    let state = room.workshop.awaiting_replay().await.unwrap().remove(0);
    assert_eq!(room.workshop.cases(&state, 4).await.unwrap(), []);
    let moved = room.judge(&[]).await;
    assert_eq!(moved[0].state, "active");
    assert!(moved[0].reason.ends_with("no past turn could be answered again"), "{moved:?}");
}
