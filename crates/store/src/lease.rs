//! Leases: which background worker works on what, until when. A worker that dies loses its lease by time alone.

use crate::{Result, Store};

/// A lease that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Kind of work.
    pub name: String,
    /// What is worked on.
    pub item: String,
    /// Who holds it.
    pub holder: String,
    /// Until when, ms since 1970.
    pub until_ms: i64,
    /// Grows each time the lease is taken; compare it where results are written.
    pub fence: i64,
}

impl Store {
    /// Takes the lease on `item` for `holder` until `until_ms`, if nobody's lease on it is still running at `now_ms`.
    pub async fn take_lease(
        &self,
        name: &str,
        item: &str,
        holder: &str,
        now_ms: i64,
        until_ms: i64,
    ) -> Result<Option<Lease>> {
        let lease = Lease { name: name.into(), item: item.into(), holder: holder.into(), until_ms, fence: 0 };
        self.write(move |conn, _| {
            Box::pin(async move {
                let fence: Option<i64> = sqlx::query_scalar(
                    "INSERT INTO leases (name, item, holder, until, fence) VALUES (?1, ?2, ?3, ?4, 1)
                     ON CONFLICT (name, item) DO UPDATE
                     SET holder = excluded.holder, until = excluded.until, fence = fence + 1
                     WHERE leases.until <= ?5
                     RETURNING fence",
                )
                .bind(lease.name.as_str())
                .bind(lease.item.as_str())
                .bind(lease.holder.as_str())
                .bind(until_ms)
                .bind(now_ms)
                .fetch_optional(conn)
                .await?;
                Ok(fence.map(|fence| Lease { fence, ..lease }))
            })
        })
        .await
    }

    /// Prolongs a lease that is still held; `None` if it ran out and somebody else has taken it.
    pub async fn renew_lease(&self, lease: &Lease, until_ms: i64) -> Result<Option<Lease>> {
        let lease = Lease { until_ms, ..lease.clone() };
        self.write(move |conn, _| {
            Box::pin(async move {
                let done = sqlx::query("UPDATE leases SET until = ? WHERE name = ? AND item = ? AND fence = ?")
                    .bind(until_ms)
                    .bind(lease.name.as_str())
                    .bind(lease.item.as_str())
                    .bind(lease.fence)
                    .execute(conn)
                    .await?;
                Ok((done.rows_affected() == 1).then_some(lease))
            })
        })
        .await
    }

    /// Frees all leases of this name: those of a process that is gone, where nobody else can have any.
    pub async fn free_leases(&self, name: &'static str) -> Result<()> {
        self.write(move |conn, _| {
            Box::pin(async move {
                sqlx::query("UPDATE leases SET until = 0 WHERE name = ? AND until > 0")
                    .bind(name)
                    .execute(conn)
                    .await?;
                Ok(())
            })
        })
        .await
    }

    /// Gives a lease back; false if it was no longer held. The fence is kept, so that it never repeats.
    pub async fn release_lease(&self, lease: &Lease) -> Result<bool> {
        let lease = lease.clone();
        self.write(move |conn, _| {
            Box::pin(async move {
                let done =
                    sqlx::query("UPDATE leases SET until = 0 WHERE name = ? AND item = ? AND fence = ? AND until > 0")
                        .bind(lease.name)
                        .bind(lease.item)
                        .bind(lease.fence)
                        .execute(conn)
                        .await?;
                Ok(done.rows_affected() == 1)
            })
        })
        .await
    }
}
