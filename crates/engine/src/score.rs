//! The judge's score of a turn, in a running service: how good an answer was, asked for while a learned skill is measured by it
//! and where the user's own reaction does not tell. The judge sees neither which skills the turn had nor which were left out. Until
//! it has spoken the turn is not settled; a judge that cannot be asked is waited for for an hour, and one whose tokens of the
//! day are used up not at all. Both sides of the measuring wait alike.

use std::sync::Arc;
use std::time::Duration;

use skills::score::{Answered, Votes, vote};
use skills::workshop::Workshop;
use store::Spent;
use tokio::time::Instant;

use crate::core::sentence;
use crate::evolve::{Failed, Tools, blocking};
use crate::judge::{DAY_MS, Duty, Habits, PATIENCE, here};
use crate::provider::Wanted;

/// Turns that are looked at in one round.
const TURNS: u32 = 64;
/// Questions in a row that are refused before it counts as one that cannot be asked.
const REFUSED: u32 = 3;
/// How long turns wait for a judge that cannot be asked.
const WAIT: Duration = Duration::from_secs(60 * 60);

/// Has turns scored that wait for it, until the service ends.
pub(crate) async fn work(tools: Tools) {
    let (ending, evolution) = (tools.ending.clone(), Arc::clone(&tools.evolution));
    let mut scorer =
        Scorer { tools, failing: false, habits: Habits::default(), rest_until: None, down_since: None, refused: 0 };
    loop {
        tokio::select! {
            biased;
            () = ending.cancelled() => return,
            () = evolution.judge.score.notified() => {}
        }
        tokio::select! {
            biased;
            () = ending.cancelled() => return,
            () = scorer.round() => {}
        }
    }
}

struct Scorer {
    tools: Tools,
    /// The last round failed; told once.
    failing: bool,
    /// The settings of the last round.
    habits: Habits,
    rest_until: Option<Instant>,
    /// Since when it cannot be asked.
    down_since: Option<Instant>,
    /// Questions in a row that it refused.
    refused: u32,
}

/// What a judge has to say of a turn.
#[derive(Clone)]
enum Said {
    /// Its score; `None` = nothing.
    Score(Option<f64>),
    /// Nothing, since the tokens of the day are used up.
    Spent(String),
    /// It cannot be asked, for this reason.
    Later(String),
}

impl Scorer {
    async fn round(&mut self) {
        match self.sit().await {
            Ok(()) => self.failing = false,
            Err(error) => {
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(%error, "answers cannot be scored at the moment");
                }
            }
        }
    }

    async fn sit(&mut self) -> Result<(), Failed> {
        let evolution = Arc::clone(&self.tools.evolution);
        let habits = Habits::clone(&evolution.judge.habits());
        if habits != self.habits {
            (self.rest_until, self.down_since, self.refused) = (None, None, 0);
            self.habits = habits.clone();
        }
        if habits.score_tokens == 0 || self.rest_until.is_some_and(|until| Instant::now() < until) {
            return Ok(());
        }
        let workshop = evolution.workshop();
        loop {
            let room = workshop.clone();
            let turns = blocking(async move { room.unscored(TURNS).await }).await?;
            // Once it cannot be asked, nobody asks again in this round.
            let mut halted = habits.missing.clone().map(Said::Later);
            let (mut asked, mut settled, mut waiting) = (false, false, false);
            for turn in turns {
                let said = match &halted {
                    Some(halted) => halted.clone(),
                    None => self.ask(&workshop, &turn.question, &habits).await?,
                };
                let score = match &said {
                    Said::Score(score) => {
                        asked = true;
                        self.down_since = None;
                        *score
                    }
                    Said::Spent(_) => {
                        halted = Some(said);
                        None
                    }
                    Said::Later(_) => {
                        halted = Some(said);
                        if self.down_since.get_or_insert_with(Instant::now).elapsed() < WAIT {
                            waiting = true;
                            continue;
                        }
                        None
                    }
                };
                if *evolution.judge.habits() != habits {
                    // It is asked otherwise now.
                    evolution.judge.score.notify_one();
                    return Ok(());
                }
                workshop.scored(turn.turn, score).await.map_err(|error| Failed::Here(error.to_string()))?;
                settled = true;
            }
            if waiting {
                self.rest_until = Some(Instant::now() + PATIENCE);
            }
            let trouble = match halted {
                Some(Said::Spent(why) | Said::Later(why)) => Some(why),
                Some(Said::Score(_)) | None => None,
            };
            // What was told stands until somebody could be asked again.
            if trouble.is_some() || asked {
                evolution.judge.stand(Duty::Score, &habits, trouble.as_deref());
            }
            if settled {
                evolution.changed();
            }
            if waiting || !settled {
                return Ok(());
            }
        }
    }

    async fn ask(&mut self, workshop: &Workshop, turn: &Answered, habits: &Habits) -> Result<Said, Failed> {
        let question = turn.prompt();
        let tokens = u64::from(dialect::estimate_tokens(&question));
        let mut votes = Votes::default();
        for asked in 0..habits.votes {
            if votes.stands(habits.votes - asked) {
                break;
            }
            let now_ms = self.tools.clock.now_ms();
            let used =
                workshop.store().spent_since(Spent::Score, now_ms - DAY_MS).await.map_err(|error| here(&error))?;
            if used + tokens > habits.score_tokens {
                if votes.score().is_some() {
                    break;
                }
                return Ok(Said::Spent(format!(
                    "The day's tokens for scoring answers are used up ({used} of {} in skills.score_daily_tokens); what came of \
                     turns is judged by what the user does, until there are some again.",
                    habits.score_tokens
                )));
            }
            let spend = async |tokens: u64| {
                workshop.store().spend(Spent::Score, tokens, now_ms).await.map_err(|error| here(&error))
            };
            // What was asked is spent, whatever comes of it.
            spend(tokens).await?;
            let answer = match (self.tools.judge)(question.clone(), Wanted::Vote).await {
                Ok(answer) => answer,
                Err(no) => {
                    // One question may be too much for it; several in a row are not the questions' fault.
                    self.refused += 1;
                    let again = !no.for_good || self.refused >= REFUSED;
                    return Ok(if again { Said::Later(sentence(&no.said)) } else { Said::Score(votes.score()) });
                }
            };
            self.refused = 0;
            spend(u64::from(dialect::estimate_tokens(&answer))).await?;
            if let Some(vote) = vote(&answer) {
                votes.count(vote);
            }
        }
        Ok(Said::Score(votes.score()))
    }
}
