//! Comparisons of answers with and without a skill, and the turns that they can be made of.

use metaclaw_store::{
    EndReason, Exposed, NewSkillTurn, NewTurn, Pending, ReplayedTurn, SkillOutcome, SkillReplay, Spent, Store, TurnId,
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
}

#[tokio::test]
async fn what_was_spent_is_told_by_what_it_was_for_and_since_when() {
    let home = Home::new();
    let store = home.open().await;
    for (at, what, tokens) in [(1_000, Spent::Score, 10), (2_000, Spent::Compare, 5), (3_000, Spent::Score, 40)] {
        store.spend(what, tokens, at).await.expect("writes");
    }
    for (since, tokens) in [(0, 50), (1_000, 40), (3_000, 0)] {
        assert_eq!(store.spent_since(Spent::Score, since).await.expect("reads"), tokens);
    }
    assert_eq!(store.spent_since(Spent::Compare, 0).await.expect("reads"), 5);
    let much_later = 2_000 + 401 * 24 * 60 * 60 * 1000;
    store.spend(Spent::Learn, u64::MAX, much_later).await.expect("writes");
    assert_eq!(store.spent_since(Spent::Compare, 0).await.expect("reads"), 0, "nobody asks for what is that old");
    assert_eq!(store.spent_since(Spent::Learn, 0).await.expect("reads"), i64::MAX as u64);
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

/// A user turn of a session that has ended, with a skill that was measured by a lot of this share.
async fn ended(home: &Home, store: &Store, session: &str, share: f64) -> TurnId {
    let id = home.append(store, NewTurn { user_text: Some("do it".into()), ..turn(session, 1, 1) }, b"{}").await;
    let (_, from, to) = store.skill_rows(10).await.expect("reads");
    let exposed = Exposed { name: "dates".into(), version: "one".into(), share, ..Exposed::default() };
    let (session, exposed) = (session.to_owned(), vec![exposed]);
    let entered = NewSkillTurn { turn: id, session: session.clone(), turn_no: 1, exposed, ..NewSkillTurn::default() };
    store.skill_absorb(from, to, vec![entered]).await.expect("writes");
    store.end_session(&session, EndReason::User, 9_000).await.expect("writes");
    id
}

#[tokio::test]
async fn turns_that_a_skill_is_measured_by_wait_for_a_judges_word_and_keep_it() {
    let home = Home::new();
    let store = home.open().await;
    let drawn = ended(&home, &store, "drawn", 0.2).await;
    let other = ended(&home, &store, "other", 0.0).await;
    let of = async |which| {
        let pending = store.skill_pending(which, 10).await.expect("reads");
        pending.into_iter().map(|turn| (turn.turn, turn.judge)).collect::<Vec<_>>()
    };
    assert_eq!(of(Pending::All).await, [(drawn, None), (other, None)]);
    assert_eq!(of(Pending::Ready).await, [(other, None)]);
    assert_eq!(of(Pending::Unscored).await, [(drawn, None)]);

    assert!(store.skill_score(drawn, Some(0.75)).await.expect("writes"));
    assert!(!store.skill_score(drawn, Some(0.0)).await.expect("writes"), "said once");
    assert_eq!(of(Pending::Ready).await, [(drawn, Some(0.75)), (other, None)]);
    assert_eq!(of(Pending::Unscored).await, []);

    assert_eq!(store.skill_outcome("drawn", 1).await.expect("reads"), None, "not yet");
    let good = SkillOutcome { reaction: "none", tool_errors: 2, good: true, ..SkillOutcome::default() };
    store.skill_settle(vec![(drawn, good)]).await.expect("writes");
    let known = store.skill_outcome("drawn", 1).await.expect("reads").expect("settled");
    assert_eq!((known.judge, known.tool_errors, known.good), (Some(0.75), 2, true));
    assert_eq!(store.skill_scores("drawn", 1, 9).await.expect("reads"), [(1, 0.75)]);
    assert!(!store.skill_score(drawn, None).await.expect("writes"), "too late");
}

#[tokio::test]
async fn nothing_of_a_private_session_waits_for_a_judge() {
    let home = Home::new();
    let store = home.open().await;
    let drawn = ended(&home, &store, "drawn", 0.2).await;
    store.set_private("drawn", true, 9_500).await.expect("writes");
    assert_eq!(store.skill_pending(Pending::Unscored, 10).await.expect("reads"), []);
    let ready = store.skill_pending(Pending::Ready, 10).await.expect("reads");
    assert_eq!(ready.iter().map(|turn| turn.turn).collect::<Vec<_>>(), [drawn], "it is settled without one");
}
