//! Learned skills for the control API, with or without a service: the workshop over the right database, the model that is
//! asked, and errors in the API's shape.

use std::sync::Arc;

use skills::workshop::{Error, Trigger, Workshop};
use store::Store;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::{ByMeaning, Code, LearningState, Problem, store_problem};
use crate::core::{Core, sentence};
use crate::evolve::{AskEvolver, Failed, LookForEvolver, NoAnswer, look_through, rules, tell, tell_considered};
use crate::judge::{AskJudge, Judge};
use crate::memory_meaning;

impl Core {
    /// The workshop for reading; `None` while there is no journal.
    pub(crate) async fn workshop(&self) -> Result<Option<Workshop>, Problem> {
        if let Some(run) = &self.0.run {
            return Ok(Some(run.evolution.workshop()));
        }
        if let Some(store) = self.0.writable.get() {
            return Ok(Some(self.workshop_over(store)));
        }
        Ok(self.journal().await?.map(|store| self.workshop_over(store)))
    }

    /// The workshop for changing things. Without a service the database is opened, and made if need be.
    pub(crate) async fn workshop_to_change(&self) -> Result<Workshop, Problem> {
        if let Some(run) = &self.0.run {
            return Ok(run.evolution.workshop());
        }
        let open = || async {
            self.home().ensure().map_err(|error| {
                crate::api::problem::io(&format!("{} cannot be used", self.home().dir().display()), &error)
            })?;
            let path = self.home().db_path();
            Store::open(&path, store::Options::default(), &TaskTracker::new(), CancellationToken::new())
                .await
                .map_err(store_problem)
        };
        let workshop = self.workshop_over(self.0.writable.get_or_try_init(open).await?);
        // What was written by hand since the last run counts before anything is decided.
        workshop.sync(self.clock().now_ms(), false).await.map_err(|error| workshop_problem(&error))?;
        Ok(workshop)
    }

    fn workshop_over(&self, store: &Store) -> Workshop {
        Workshop::new(self.library(), store.clone(), rules(&self.config()))
    }

    /// Skills were decided on: the running service looks, and everybody is told.
    pub(crate) fn skills_moved(&self, moved: &[skills::workshop::Moved]) {
        if let Some(run) = &self.0.run {
            tell(&run.bus, moved);
            run.evolution.changed();
        }
    }

    /// Proposals were decided on, changed or brought by hand: everybody is told.
    pub(crate) fn proposals_changed(&self, what: &str, proposals: &[i64], names: &[String]) {
        if let Some(run) = &self.0.run {
            run.bus
                .keep("skill_proposals", serde_json::json!({ "what": what, "proposals": proposals, "names": names }));
        }
    }

    /// Asks the model that writes skills under the settings in force.
    pub(crate) fn evolver(&self) -> AskEvolver {
        let core = self.clone();
        Arc::new(move |text| {
            let core = core.clone();
            Box::pin(async move {
                let config = core.config();
                let http = core.http(&config).map_err(|said| NoAnswer { said, for_good: false })?;
                crate::provider::ask_evolver(&config, &http, &text).await
            })
        })
    }

    /// Looks whether that model is there.
    pub(crate) fn look_for_evolver(&self) -> LookForEvolver {
        let core = self.clone();
        Arc::new(move || {
            let core = core.clone();
            Box::pin(async move {
                let config = core.config();
                let http = core.http(&config)?;
                crate::provider::look_for_evolver(&config, &http).await
            })
        })
    }

    /// Asks the judge under the settings in force.
    pub(crate) fn judge(&self) -> AskJudge {
        let core = self.clone();
        Arc::new(move |text, wanted| {
            let core = core.clone();
            Box::pin(async move {
                let config = core.config();
                let http = core.http(&config).map_err(|said| NoAnswer { said, for_good: false })?;
                crate::provider::ask_judge(&config, &http, &text, wanted).await
            })
        })
    }

    fn http(&self, config: &config::Config) -> Result<reqwest::Client, String> {
        match &self.0.run {
            Some(run) => Ok(run.http.clone()),
            None => crate::http_client(config).map_err(|problem| problem.message),
        }
    }

    /// Looks through a session by hand; without a name, the last one.
    pub(crate) async fn evolve_by_hand(
        &self,
        session: Option<&str>,
    ) -> Result<(String, Option<skills::workshop::Considered>), Problem> {
        let workshop = self.workshop_to_change().await?;
        let failed = |error: Error| workshop_problem(&error);
        while workshop.absorb().await.map_err(failed)? {}
        while workshop.settle().await.map_err(failed)?.is_some() {}
        let session = match session {
            Some(session) => session.to_owned(),
            None => workshop.store().skill_latest_session().await.map_err(store_problem)?.ok_or_else(|| {
                Problem::not_found("There is no session to learn from yet.")
                    .hint("Turns from before this version, and those of private sessions, are left out.")
            })?,
        };
        let due = workshop.store().skill_session(&session).await.map_err(store_problem)?;
        let due = due.ok_or_else(|| workshop_problem(&Error::NoTurns(session.clone())))?;
        let model = self
            .config()
            .evolver()
            .map_err(|error| Problem::new(Code::NotConfigured, sentence(&error.what)).hint(sentence(&error.todo)))?;
        let now_ms = self.clock().now_ms();
        let done = look_through(&workshop, &self.evolver(), &model.model_id, &due, Trigger::Hand, now_ms).await;
        let done = done.map_err(|failed| match failed {
            Failed::There(no) => Problem::new(Code::Unavailable, sentence(&no.said)),
            Failed::Here(said) => Problem::new(Code::Internal, sentence(&said)),
        })?;
        if let (Some(run), Some(done)) = (&self.0.run, &done) {
            tell_considered(&run.bus, &session, done);
            run.evolution.changed();
        }
        Ok((session, done))
    }

    /// Whether skills are found by meaning.
    pub(crate) fn by_meaning(&self) -> ByMeaning {
        match &self.0.run {
            Some(run) => run.meanings.state(),
            None => ByMeaning {
                wanted: self.config().skills.retrieval_mode != config::RetrievalMode::Template,
                ..ByMeaning::default()
            },
        }
    }

    /// Whether memories are found by meaning.
    pub(crate) fn memory_by_meaning(&self) -> ByMeaning {
        let config = self.config();
        match &self.0.run {
            Some(run) => run.memories.meaning.state(&config, self.home(), &run.meanings),
            None => memory_meaning::unasked(&config, self.home()),
        }
    }

    /// A model for finding by meaning may have come.
    pub(crate) fn look_for_meaning(&self) {
        if let Some(run) = &self.0.run {
            run.meanings.config_read(&self.config());
        }
    }

    /// What a search by hand means, where memories are found by meaning.
    pub(crate) async fn meant(&self, words: &str) -> Option<memory::Meant> {
        let meaning = self.0.run.as_ref()?.meanings.meaning.load_full().filter(|meaning| meaning.memories)?;
        meaning.by_hand(words).await.ok()
    }

    /// Whether skills are learned.
    pub(crate) fn learning_state(&self) -> LearningState {
        let Some(run) = &self.0.run else {
            let config = self.config();
            let judge = Judge::standing_of(&config);
            return LearningState {
                wanted: config.skills.enabled && config.skills.auto_evolve,
                judge_reason: judge.trouble().map(str::to_owned),
                judge_compares: judge.compares,
                judge_scores: judge.scores,
                judge: judge.model,
                ..LearningState::default()
            };
        };
        let standing = run.evolution.standing();
        let judge = run.evolution.judge.standing();
        LearningState {
            wanted: standing.wanted,
            on: standing.wanted && standing.model.is_some() && standing.trouble.is_none(),
            model: standing.model.clone(),
            reason: standing.trouble.clone(),
            judge: judge.model.clone(),
            judge_reason: judge.trouble().map(str::to_owned),
            judge_compares: judge.compares,
            judge_scores: judge.scores,
        }
    }
}

/// Errors of the workshop in the API's shape.
pub(crate) fn workshop_problem(error: &Error) -> Problem {
    let text = sentence(error);
    match error {
        Error::Store(inner) => store_problem(inner.clone()),
        Error::Library(inner) => crate::skills_edit::problem(inner),
        Error::NoProposal(_) => Problem::not_found(text).hint("List them with: metaclaw skills proposals --all"),
        Error::Decided { .. } => Problem::new(Code::Conflict, text),
        Error::NoVersion { name, .. } => {
            Problem::not_found(text).hint(format!("List them with: metaclaw skills history {name}"))
        }
        Error::Outdated { .. } => Problem::new(Code::Conflict, text).hint("Reject it, or edit it to fit."),
        Error::NoTurns(_) => Problem::not_found(text).hint("List sessions with: metaclaw sessions"),
        Error::File { path, source } => {
            crate::api::problem::io(&format!("{} cannot be written", path.display()), source)
        }
        Error::CutOff => Problem::new(Code::Internal, text),
    }
}
