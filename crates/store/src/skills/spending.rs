//! What MetaClaw asked models for on its own account, in tokens. Numbers only, no words.

use sqlx::Row as _;

use crate::{Result, Store};

/// Older rows go: nothing asks for them.
const KEPT_MS: i64 = 400 * 24 * 60 * 60 * 1000;

/// What was asked of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spent {
    /// Answers with and without a learned skill, and which is better.
    Compare,
    /// How good an answer was.
    Score,
    /// What a session teaches.
    Learn,
}

impl Spent {
    /// Its name in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Compare => "compare",
            Self::Score => "score",
            Self::Learn => "learn",
        }
    }
}

impl Store {
    /// Writes down estimated tokens that were spent at `at_ms` (ms since 1970).
    pub async fn spend(&self, what: Spent, tokens: u64, at_ms: i64) -> Result<()> {
        let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
        self.write(move |conn, _| {
            Box::pin(async move {
                let new = sqlx::query("INSERT INTO spending (at, what, tokens) VALUES (?, ?, ?)");
                new.bind(at_ms).bind(what.as_str()).bind(tokens).execute(&mut *conn).await?;
                let old = sqlx::query("DELETE FROM spending WHERE at < ?").bind(at_ms.saturating_sub(KEPT_MS));
                old.execute(conn).await?;
                Ok(())
            })
        })
        .await
    }

    /// Estimated tokens that were spent on something after `since_ms` (ms since 1970).
    pub async fn spent_since(&self, what: Spent, since_ms: i64) -> Result<u64> {
        let sum = sqlx::query("SELECT ifnull(sum(tokens), 0) AS sum FROM spending WHERE at > ? AND what = ?");
        let sum = sum.bind(since_ms).bind(what.as_str()).fetch_one(&self.shared.readers).await;
        let sum = sum.and_then(|row| row.try_get::<i64, _>("sum")).map_err(|e| self.shared.sqlx(&e))?;
        Ok(u64::try_from(sum).unwrap_or_default())
    }
}
