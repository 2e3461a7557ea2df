//! Comparisons of answers with and without a skill, and the turns that they can be made of.

use metaclaw_store::{
    EndReason, Exposed, NewSkillTurn, NewTurn, ReplayedTurn, SkillOutcome, SkillReplay, Store, TurnId,
};

use crate::common::{Home, turn};

fn replay(version: &str, at_ms: i64, tokens: u64) -> SkillReplay {
    SkillReplay {
        at_ms,
        name: "dates".into(),
        version: version.into(),
        model: "judge".into(),
        better: 2,
        worse: 1,
        exposures: 40,
        tokens,
        turns: vec![ReplayedTurn { turn: TurnId(7), verdict: "better".into() }],
        ..SkillReplay::default()
    }
}

#[tokio::test]
async fn comparisons_are_kept_by_text_with_what_they_took() {
    let home = Home::new();
    let store = home.open().await;
    for (version, at, tokens) in [("one", 1_000, 10), ("two", 2_000, 20), ("one", 3_000, 40)] {
        store.skill_replay_add(replay(version, at, tokens)).await.expect("writes");
    }
    let of = store.skill_replays("dates", Some("one")).await.expect("reads");
    assert_eq!(of.iter().map(|one| one.at_ms).collect::<Vec<_>>(), [3_000, 1_000], "newest first");
    assert_eq!(of[0], SkillReplay { id: 3, ..replay("one", 3_000, 40) });
    assert_eq!(store.skill_replays("dates", None).await.expect("reads").len(), 3);
    assert_eq!(store.skill_replays("other", None).await.expect("reads"), []);
    for (since, tokens) in [(0, 70), (1_000, 60), (3_000, 0)] {
        assert_eq!(store.skill_replay_tokens(since).await.expect("reads"), tokens);
    }
}

async fn exposed(home: &Home, store: &Store, session: &str, version: &str, held_out: bool) -> TurnId {
    let id = home.append(store, NewTurn { user_text: Some("do it".into()), ..turn(session, 1, 1) }, b"{}").await;
    let (_, from, to) = store.skill_rows(10).await.expect("reads");
    let exposed = Exposed { name: "dates".into(), version: version.into(), held_out, ..Exposed::default() };
    let entered = NewSkillTurn {
        turn: id,
        session: session.into(),
        turn_no: 1,
        exposed: vec![exposed],
        ..NewSkillTurn::default()
    };
    store.skill_absorb(from, to, vec![entered]).await.expect("writes");
    id
}

#[tokio::test]
async fn only_settled_turns_without_that_text_can_be_answered_again() {
    let home = Home::new();
    let store = home.open().await;
    let mut ids = Vec::new();
    for (session, version, held_out) in
        [("a", "v", true), ("b", "v", false), ("c", "old", true), ("d", "v", true), ("e", "v", true), ("f", "v", true)]
    {
        ids.push(exposed(&home, &store, session, version, held_out).await);
        store.end_session(session, EndReason::Explicit, 2).await.expect("ends");
    }
    let settled = ids[..5].iter().map(|id| (*id, SkillOutcome { good: true, ..SkillOutcome::default() })).collect();
    store.skill_settle(settled).await.expect("settles");
    store.set_private("d", true, 3).await.expect("writes");
    let found = store.skill_held_out("dates", "v", 9).await.expect("reads");
    let sessions: Vec<_> = found.iter().map(|one| (one.session.as_str(), one.turn, one.turn_no)).collect();
    assert_eq!(sessions, [("e", ids[4], 1), ("a", ids[0], 1)], "f is not settled, d is private");
    assert_eq!(store.skill_held_out("dates", "v", 1).await.expect("reads").len(), 1);
}
