//! A learned skill that its turns have proven is compared by a judge before it is kept: one provider plays the model that
//! answers, the one that writes skills, and the judge; the user thanks for answers with the skill and corrects those without.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use metaclaw_tests::agent::Chat;
use metaclaw_tests::answer::Api;
use metaclaw_tests::product::Product;
use metaclaw_tests::provider::{Gate, Provider, Reply, Seen, Stream};
use metaclaw_tests::{until, within};
use serde_json::{Value, json};

const NAME: &str = "zebra-dates";
const JUDGE: &str = "the-judge";
/// Turns after which the skill is proven, with room to spare.
const TURNS: u32 = 30;

fn skill() -> String {
    json!({"action": "create", "name": NAME, "category": "productivity", "keywords": ["zebra dates"], "turns": [2],
           "description": "Writes dates in zebra lists the same way. Use when a zebra list has dates.",
           "body": "1. Write all zebra dates as year, month and day.\n2. Sort them, the newest first.\n3. Leave out the time of day.",
           "reason": "corrected"})
    .to_string()
}

fn asks_for_a_skill(seen: &Seen) -> bool {
    seen.text().contains("You keep the skill library")
}

/// What the judge's model is asked, if this is asked of it.
fn question(seen: &Seen) -> Option<String> {
    let body = seen.json();
    (body["model"] == JUDGE).then(|| body["messages"][0]["content"].as_str().unwrap_or_default().to_owned())
}

/// The two answers in the order in which the judge gets them; none in other questions.
fn answers(question: &str) -> Vec<String> {
    let lines = question.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines
        .filter(|line| line["answer"].is_number())
        .map(|line| line["text"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Plays all three. The judge likes the answer that begins so.
fn plays(provider: &Provider, liked: &'static str) {
    provider.script(move |seen| {
        seen.api()?;
        if asks_for_a_skill(seen) {
            return Some(Reply::text(&skill()));
        }
        let question = question(seen)?;
        let shown = answers(&question);
        let better = shown.iter().position(|answer| answer.starts_with(liked));
        Some(match (better, question.contains(NAME)) {
            (Some(at), _) => Reply::text(&format!("```json\n{{\"better\": {}, \"reason\": \"clear\"}}\n```", at + 1)),
            (None, true) => Reply::text("With it: 2026-04-03"),
            (None, false) => Reply::text("Without it: 03/04/2026"),
        })
    });
}

/// What the judge was asked: for answers, and for verdicts.
fn asked(provider: &Provider) -> (Vec<String>, Vec<String>) {
    let questions = provider.seen().iter().filter_map(|seen| question(seen)).collect::<Vec<_>>();
    questions.into_iter().partition(|question| answers(question).is_empty())
}

async fn with_a_judge(provider: &Provider, changes: &Value) -> Product {
    let mut settings = json!({"skills": {"auto_evolve": true, "control_share": 0.5},
                              "rl": {"prm_url": provider.base(), "prm_model": JUDGE}});
    metaclaw_tests::product::merge(&mut settings, changes);
    Product::started(provider, &settings).await
}

async fn state(product: &Product) -> Option<Value> {
    let learning = product.json(&["skills", "learning"]).await;
    learning["skills"].as_array()?.iter().find(|skill| skill["name"] == NAME).cloned()
}

async fn until_state(product: &Product, name: &str, expected: &str) -> String {
    until(name, || async {
        let skill = state(product).await?;
        (skill["state"] == expected).then(|| skill["reason"].as_str().unwrap_or_default().to_owned())
    })
    .await
}

/// A skill that is learned from a correction, and is on trial; nothing more is to be made of what follows.
async fn learned(product: &Product) {
    let agent = product.agent().with_header("x-session-id", "s").with_header("x-turn-type", "main");
    let chat = Chat::new(Api::Chat).user("List the zebras with their dates.").send(&agent).await;
    let agent = agent.with_header("x-session-done", "true");
    chat.user("No, that's wrong. Write all zebra dates as year, month and day.").send(&agent).await;
    until_state(product, "the skill is on trial", "trial").await;
    assert_eq!(product.cli(&["config", "set", "skills.auto_evolve", "false"]).await.code, 0);
}

/// A skill that is learned, and then helps wherever it is shown.
async fn proven(provider: &Provider, product: &Product) {
    learned(product).await;
    for n in 0..TURNS {
        let agent = product.agent().with_header("x-session-id", &format!("t{n}")).with_header("x-turn-type", "main");
        let chat = Chat::new(Api::Chat).user("Make a zebra list that has zebra dates.").send(&agent).await;
        let sent = provider.seen().into_iter().rfind(|seen| question(seen).is_none() && !asks_for_a_skill(seen));
        let shown = sent.expect("the turn was sent").text().contains(NAME);
        let agent = agent.with_header("x-session-done", "true");
        chat.user(if shown { "Thanks, perfect." } else { "No, that's wrong." }).send(&agent).await;
    }
}

async fn replay(product: &Product) -> Value {
    until("the judge has compared", || async {
        let effect = product.json(&["skills", "effect", NAME]).await;
        effect["replays"].get(0).cloned()
    })
    .await
}

#[tokio::test]
async fn what_the_judge_likes_both_ways_round_is_kept() {
    let provider = Provider::start().await;
    plays(&provider, "With it");
    let product = with_a_judge(&provider, &json!({})).await;
    assert_eq!(product.json(&["status"]).await["learning"]["judge"], JUDGE);
    proven(&provider, &product).await;
    let reason = until_state(&product, "the skill is kept", "active").await;
    let replay = replay(&product).await;
    let turns = replay["turns"].as_array().expect("turns").len();
    assert!((1..=4).contains(&turns), "{replay}");
    assert_eq!((&replay["better"], &replay["worse"], &replay["same"]), (&json!(turns), &json!(0), &json!(0)));
    assert!(replay["turns"].as_array().is_some_and(|turns| turns.iter().all(|turn| turn["verdict"] == "better")));
    assert!(replay["tokens"].as_u64() > Some(100 * turns as u64), "{replay}");
    assert!(reason.ends_with(&format!("better in {turns} of {turns} past turns, worse in 0")), "{reason}");
    // Each turn was answered twice, and judged twice with the answers the other way round.
    let (for_answers, for_verdicts) = asked(&provider);
    assert_eq!((for_answers.len(), for_verdicts.len()), (2 * turns, 2 * turns));
    assert_eq!(for_answers.iter().filter(|question| question.contains(NAME)).count(), turns);
    let first = for_verdicts.iter().filter(|question| answers(question)[0].starts_with("With it")).count();
    assert_eq!(first, turns);
    assert!(
        for_verdicts.iter().all(|q| q.contains("user_said_next") && q.contains("that's wrong") && !q.contains(NAME))
    );
    let shown = product.cli(&["skills", "effect", NAME]).await;
    assert!(shown.out.contains(&format!("{JUDGE} liked its answers better in {turns} of ")), "{shown:?}");
    let status = product.cli(&["status"]).await;
    assert!(status.out.contains(&format!("{JUDGE} compares answers")), "{status:?}");
}

#[tokio::test]
async fn what_the_judge_likes_less_stays_on_trial_and_says_why() {
    let provider = Provider::start().await;
    plays(&provider, "Without it");
    let product = with_a_judge(&provider, &json!({})).await;
    proven(&provider, &product).await;
    let replay = replay(&product).await;
    assert_eq!((&replay["better"], &replay["same"]), (&json!(0), &json!(0)), "{replay}");
    let reason = until("the reason is told", || async {
        let skill = state(&product).await?;
        let reason = skill["reason"].as_str()?.to_owned();
        assert_eq!(skill["state"], "trial");
        reason.starts_with("held back").then_some(reason)
    })
    .await;
    assert!(reason.contains("better in 0 of") && reason.contains("compared again at"), "{reason}");
    let shown = product.cli(&["skills", "effect", NAME]).await;
    assert!(shown.out.contains("liked its answers better in 0 of "), "{shown:?}");
    let effect = product.json(&["skills", "effect", NAME]).await;
    assert_eq!(effect["verdict"], "helps", "its turns say so");
}

#[tokio::test]
async fn a_day_without_tokens_left_asks_nobody_and_is_told() {
    let provider = Provider::start().await;
    plays(&provider, "With it");
    let product = with_a_judge(&provider, &json!({"skills": {"replay_daily_tokens": 1}})).await;
    proven(&provider, &product).await;
    let reason = until("it is told why nothing is compared", || async {
        product.json(&["status"]).await["learning"]["judge_reason"].as_str().map(str::to_owned)
    })
    .await;
    assert!(reason.contains("skills.replay_daily_tokens"), "{reason}");
    assert!(product.cli(&["status"]).await.out.contains("not asked: "));
    assert!(until_state(&product, "the skill waits", "trial").await.contains("waits for the judge"));
    assert_eq!(asked(&provider), (Vec::new(), Vec::new()));
    // More of them are used at once.
    assert_eq!(product.cli(&["config", "set", "skills.replay_daily_tokens", "200000"]).await.code, 0);
    until_state(&product, "the skill is kept", "active").await;
    assert_eq!(product.json(&["status"]).await["learning"]["judge_reason"], Value::Null);
}

#[tokio::test]
async fn a_judge_that_fails_is_told_of_and_once_there_is_none_evidence_alone_counts() {
    let provider = Provider::start().await;
    provider.script(|seen| {
        seen.api()?;
        if asks_for_a_skill(seen) {
            return Some(Reply::text(&skill()));
        }
        question(seen).map(|_| Reply::error(Api::Chat, 404, "not_found", "no such model"))
    });
    let product = with_a_judge(&provider, &json!({})).await;
    proven(&provider, &product).await;
    let reason = until("it is told why nothing is compared", || async {
        product.json(&["status"]).await["learning"]["judge_reason"].as_str().map(str::to_owned)
    })
    .await;
    assert!(reason.contains(JUDGE) && reason.contains("404"), "{reason}");
    assert!(until_state(&product, "the skill waits", "trial").await.contains("waits for the judge"));
    assert_eq!(product.cli(&["config", "set", "rl.prm_url", ""]).await.code, 0);
    let reason = until_state(&product, "the skill is kept", "active").await;
    assert!(reason.starts_with("it helps") && !reason.contains("judge"), "{reason}");
    let learning = &product.json(&["status"]).await["learning"];
    assert_eq!((&learning["judge"], &learning["judge_reason"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn without_a_judge_nobody_is_asked() {
    let provider = Provider::start().await;
    plays(&provider, "With it");
    let product = with_a_judge(&provider, &json!({"rl": {"prm_url": null}})).await;
    proven(&provider, &product).await;
    until_state(&product, "the skill is kept", "active").await;
    assert_eq!(asked(&provider), (Vec::new(), Vec::new()));
    let effect = product.json(&["skills", "effect", NAME]).await;
    assert_eq!(effect["replays"], json!([]));
}

#[tokio::test]
async fn neither_agents_nor_learning_nor_the_end_of_the_service_wait_for_a_judge_that_thinks() {
    let provider = Provider::start().await;
    let gate = Gate::default();
    let held = gate.clone();
    provider.script(move |seen| {
        seen.api()?;
        if asks_for_a_skill(seen) {
            return Some(Reply::text(&skill()));
        }
        question(seen).map(|_| Stream::after(&held).hang())
    });
    let mut product = with_a_judge(&provider, &json!({})).await;
    proven(&provider, &product).await;
    gate.reached().await;
    let before = product.json(&["skills", "effect", NAME]).await["uses"].as_u64();
    let mut n = 0;
    until("what comes of turns is still read", || {
        n += 1;
        let agent = product.agent().with_header("x-session-id", &format!("u{n}")).with_header("x-turn-type", "main");
        let product = &product;
        async move {
            let chat = Chat::new(Api::Chat).user("Make a zebra list that has zebra dates.");
            let chat = within("a turn beside it", chat.send(&agent)).await;
            within("another", chat.user("Thanks, perfect.").send(&agent.with_header("x-session-done", "true"))).await;
            let now = product.json(&["skills", "effect", NAME]).await["uses"].as_u64();
            (now > before).then_some(())
        }
    })
    .await;
    let said = product.stop().await;
    assert_eq!(said.code, 0, "{said:?}");
}

/// What the judge is asked about one answer, if this is that.
fn vote_of(seen: &Seen) -> Option<String> {
    question(seen).filter(|question| question.contains("{\"score\": 1"))
}

/// A judge that likes answers of turns that say so, and answers that are as good or as bad as the user's words are.
fn scores(provider: &Provider, votes: &'static [&'static str]) {
    let given = AtomicUsize::new(0);
    provider.script(move |seen| {
        seen.api()?;
        if asks_for_a_skill(seen) {
            return Some(Reply::text(&skill()));
        }
        vote_of(seen)?;
        let at = given.fetch_add(1, Ordering::Relaxed);
        Some(Reply::text(votes[at % votes.len()]))
    });
}

/// A skill on trial, and turns that fit it after which the user says nothing that tells.
async fn on_trial(product: &Product, turns: u32) {
    learned(product).await;
    for n in 0..turns {
        let agent = product.agent().with_header("x-session-id", &format!("t{n}")).with_header("x-turn-type", "main");
        let chat = Chat::new(Api::Chat).user("Make a zebra list that has zebra dates.").send(&agent).await;
        chat.user("Now tell me about the weather.").send(&agent.with_header("x-session-done", "true")).await;
    }
}

/// The first turn of a session as it is known, once it is settled.
async fn taken(product: &Product, session: &str) -> Value {
    until("what came of the turn is known", || async {
        let turns = product.json(&["turns", "--session", session]).await;
        let first = turns.as_array()?.iter().map(|turn| turn["id"].as_i64()).min()??;
        let shown = product.json(&["turns", "show", &first.to_string()]).await;
        shown["turn"]["taken"].as_object().map(|taken| Value::Object(taken.clone()))
    })
    .await
}

#[tokio::test]
async fn a_judge_scores_answers_that_a_skill_is_measured_by_and_is_not_told_which_had_it() {
    let provider = Provider::start().await;
    scores(&provider, &["{\"score\": -1, \"reason\": \"no dates\"}"]);
    let product = with_a_judge(&provider, &json!({})).await;
    on_trial(&product, 12).await;
    for session in ["t0", "t11"] {
        let taken = taken(&product, session).await;
        assert_eq!((&taken["judge"], &taken["good"], &taken["reaction"]), (&json!(0.0), &json!(false), &json!("none")));
    }
    let asked: Vec<_> = provider.seen().iter().filter_map(|seen| vote_of(seen)).collect();
    // Of three votes the third could change nothing, and each turn that the skill fitted was judged, with it and without it.
    assert_eq!(asked.len(), 2 * 12);
    assert!(asked.iter().all(|question| !question.contains(NAME)), "the judge is blind");
    assert!(asked.iter().all(|question| question.contains("zebra list") && question.contains("user_said_next")));
    let bodies: Vec<_> =
        provider.seen().iter().filter(|seen| vote_of(seen).is_some()).map(|seen| seen.json()).collect();
    assert!(bodies.iter().all(|body| body["temperature"] == 0.6 && body["max_tokens"] == 1024), "{:?}", bodies[0]);
    let effect = product.json(&["skills", "effect", NAME]).await;
    assert_eq!((&effect["drawn_wins"], &effect["control_wins"]), (&json!(0), &json!(0)), "{effect}");
    let shown = product.cli(&["turns", "show", "last"]).await;
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(product.cli(&["status"]).await.out.contains("scores answers while one is measured"));
}

#[tokio::test]
async fn votes_that_differ_are_counted_and_what_is_no_vote_is_not() {
    let provider = Provider::start().await;
    scores(&provider, &["{\"score\": 1}", "I cannot say.", "```json\n{\"score\": 1, \"reason\": \"fine\"}\n```"]);
    let product = with_a_judge(&provider, &json!({})).await;
    on_trial(&product, 1).await;
    let taken = taken(&product, "t0").await;
    assert_eq!((&taken["judge"], &taken["good"]), (&json!(1.0), &json!(true)));
    assert_eq!(provider.seen().iter().filter_map(|seen| vote_of(seen)).count(), 3);
}

#[tokio::test]
async fn the_day_without_tokens_for_scores_settles_turns_without_and_says_so() {
    let provider = Provider::start().await;
    scores(&provider, &["{\"score\": -1}"]);
    let product = with_a_judge(&provider, &json!({"skills": {"score_daily_tokens": 1}})).await;
    on_trial(&product, 1).await;
    let taken = taken(&product, "t0").await;
    assert_eq!((&taken["judge"], &taken["good"]), (&Value::Null, &json!(true)));
    assert_eq!(provider.seen().iter().filter_map(|seen| vote_of(seen)).count(), 0);
    let reason = product.json(&["status"]).await["learning"]["judge_reason"].as_str().map(str::to_owned);
    assert!(reason.as_deref().is_some_and(|reason| reason.contains("skills.score_daily_tokens")), "{reason:?}");
}

#[tokio::test]
async fn a_turn_waits_for_a_judge_that_is_down_until_it_is_back_or_switched_off() {
    let provider = Provider::start().await;
    let down = Arc::new(AtomicBool::new(true));
    let is_down = Arc::clone(&down);
    provider.script(move |seen| {
        seen.api()?;
        if asks_for_a_skill(seen) {
            return Some(Reply::text(&skill()));
        }
        vote_of(seen)?;
        Some(match is_down.load(Ordering::Relaxed) {
            true => Reply::error(Api::Chat, 404, "not_found", "no such model"),
            false => Reply::text("{\"score\": -1}"),
        })
    });
    let product = with_a_judge(&provider, &json!({})).await;
    on_trial(&product, 2).await;
    until("it is told", || async {
        let status = product.json(&["status"]).await;
        status["learning"]["judge_reason"].as_str().filter(|reason| reason.contains("404")).map(str::to_owned)
    })
    .await;
    let turn = async |session: &str| {
        let turns = product.json(&["turns", "--session", session]).await;
        let first = turns.as_array().and_then(|turns| turns.iter().filter_map(|turn| turn["id"].as_i64()).min());
        product.json(&["turns", "show", &first.expect("a turn").to_string()]).await["turn"]["taken"].clone()
    };
    assert_eq!(turn("t0").await, Value::Null, "it waits");
    // Another address of the same judge is asked at once.
    down.store(false, Ordering::Relaxed);
    assert_eq!(product.cli(&["config", "set", "rl.prm_m", "1"]).await.code, 0);
    assert_eq!(taken(&product, "t0").await["judge"], json!(0.0));
    assert_eq!(taken(&product, "t1").await["judge"], json!(0.0));
}
