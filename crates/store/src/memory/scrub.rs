//! Words out of the journal: out of the texts of turns and sessions, and out of every request body that carries them. A body
//! repeats the conversation before it, so forgotten words stand in many: in the next requests of their session, in a
//! session that goes on from it under another name, in a call for a title. Bodies are searched as a reader may, beside
//! the writer; what came meanwhile is searched in the transaction that takes the words out.

use std::collections::{BTreeSet, HashMap, HashSet};

use sqlx::{Row as _, SqliteConnection};

use crate::body::{self, RebuildError};
use crate::read::{self, link};

/// What stands in the journal where something was forgotten.
const GONE: &str = "[forgotten]";
/// What stands there instead of a request body that held it.
const GONE_BODY: &[u8] = b"{\"forgotten\":true}";
/// What a row without its body is: the columns that are set, with the places of `GONE_BODY`, its length and its hash.
const WITHOUT_BODY: &str =
    "body = ?1, body_base = NULL, body_depth = 0, body_prefix = 0, body_suffix = 0, body_len = ?2,
    body_hash = ?3, body_codec = 0, prompt_ids = NULL, sampled_ids = NULL, sampled_logprobs = NULL";
/// Bodies read at once.
const PAGE: u32 = 32;
/// A letter within JSON within JSON takes so many bytes at most.
const ESCAPED: usize = 7;
/// How deep in each other JSON texts are looked through.
const LEVELS: usize = 3;

/// Words on their way out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Needle {
    /// Number of the scope they were said in.
    pub(super) scope: i64,
    pub(super) text: String,
    /// The journal row they come from.
    pub(super) turn: Option<i64>,
}

impl Needle {
    /// Long enough to mean the same wherever they stand; shorter words go only where they were said.
    pub(super) fn telling(&self) -> bool {
        self.text.len() >= 12
    }
}

/// A body that holds words.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Held {
    /// The words.
    text: String,
    /// Number of the session.
    session: i64,
    /// The row; of a main conversation the first one.
    pub(super) turn: i64,
    main: bool,
}

/// A scope, by what turns of it say.
#[derive(Debug)]
pub(super) struct Whose {
    /// Its number.
    pub(super) key: i64,
    /// Users, workspaces and explicit scopes that mean it, as JSON.
    pub(super) named: String,
}

/// Of a turn `t`: true if it is of the scope whose number is parameter `key` and whose names are the parameter after it.
/// What was made of it tells first: what those who name no scope mean may have changed.
fn theirs(key: u8) -> String {
    let named = key + 1;
    format!(
        "ifnull((SELECT max(w.scope = ?{key}) FROM memory_windows w WHERE w.turn = t.id AND w.fact IS NULL),
                EXISTS (SELECT 1 FROM json_each(?{named}) s WHERE s.value ->> 0 IS t.user_id
                        AND s.value ->> 1 IS t.workspace_id AND s.value ->> 2 IS t.memory_scope))"
    )
}

/// Which bodies written after row `after` hold which of these words, whatever form of JSON they are written in.
pub(super) async fn holding(conn: &mut SqliteConnection, words: &[String], after: i64) -> sqlx::Result<Vec<Held>> {
    let words: Vec<&String> = words.iter().filter(|words| !words.trim().is_empty()).collect();
    let mut all = Vec::new();
    if words.is_empty() {
        return Ok(all);
    }
    let sessions: Vec<i64> =
        sqlx::query_scalar("SELECT DISTINCT session FROM turns WHERE id > ?").bind(after).fetch_all(&mut *conn).await?;
    for session in sessions {
        let mut reader = Bodies::default();
        let mut found: HashSet<&String> = HashSet::new();
        let mut last = after;
        loop {
            let page = sqlx::query(
                "SELECT id, kind = 'main' AS main, body_base, body_depth, body_prefix, body_suffix, body_len, body_hash,
                        body_codec, body
                 FROM turns WHERE session = ? AND id > ? ORDER BY id LIMIT ?",
            );
            let page = page.bind(session).bind(last).bind(PAGE).fetch_all(&mut *conn).await?;
            for row in &page {
                let (main, (turn, encoded)) = (row.try_get::<bool, _>("main")?, link(row)?);
                last = turn;
                let Some((body, new)) = reader.next(conn, main, turn, &encoded).await? else { continue };
                // A conversation repeats what it held; a call beside it is looked through whole.
                let searched = if main { grown(&new, body.len(), &words) } else { 0..body.len() };
                for level in levels(body.get(searched).unwrap_or_default()) {
                    for words in &words {
                        let known = main && found.contains(*words);
                        if !known && memchr::memmem::find(&level, words.as_bytes()).is_some() {
                            let held = Held { text: (*words).clone(), session, turn, main };
                            if main {
                                found.insert(words);
                            }
                            if !all.contains(&held) {
                                all.push(held);
                            }
                        }
                    }
                }
            }
            if page.len() < PAGE as usize {
                break;
            }
        }
    }
    Ok(all)
}

/// The part of a body that is new, and as much beside it as words may reach over its edges.
fn grown(new: &std::ops::Range<usize>, len: usize, words: &[&String]) -> std::ops::Range<usize> {
    let longest = words.iter().map(|words| words.len()).max().unwrap_or_default();
    let reach = longest.saturating_mul(ESCAPED).saturating_add(64);
    new.start.saturating_sub(reach)..new.end.saturating_add(reach).min(len)
}

/// Rebuilds a session's bodies one after the other.
#[derive(Default)]
struct Bodies {
    /// The last of the main conversation, and of the calls beside it.
    last: [Option<(i64, Vec<u8>)>; 2],
}

impl Bodies {
    /// The body of a row, and which part of it is not as in the one before. `None`: it cannot be read.
    async fn next(
        &mut self,
        conn: &mut SqliteConnection,
        main: bool,
        turn: i64,
        encoded: &body::Encoded,
    ) -> sqlx::Result<Option<(&[u8], std::ops::Range<usize>)>> {
        let last = &mut self.last[usize::from(main)];
        let mut whole = true;
        if let Some(base) = encoded.base {
            match last {
                Some((id, _)) if *id == base => whole = false,
                _ => *last = read::body_of(conn, base).await?.map(|body| (base, body)),
            }
            if last.is_none() {
                tracing::warn!(turn, "a request body cannot be rebuilt, and so not be searched");
                return Ok(None);
            }
        }
        let mut bytes = last.take().map(|(_, bytes)| bytes).unwrap_or_default();
        match grow(&mut bytes, encoded) {
            Ok(()) => {}
            Err(error) => {
                tracing::warn!(turn, %error, "a request body cannot be rebuilt, and so not be searched");
                return Ok(None);
            }
        }
        let len = bytes.len();
        let (_, bytes) = last.insert((turn, bytes));
        let new = if whole { 0..len } else { encoded.prefix.min(len)..len.saturating_sub(encoded.suffix) };
        Ok(Some((bytes, new)))
    }
}

/// Makes a body out of the one it stands on, moving only its end.
fn grow(bytes: &mut Vec<u8>, encoded: &body::Encoded) -> Result<(), RebuildError> {
    if encoded.base.is_none() {
        *bytes = body::rebuild(encoded, &[])?;
        return Ok(());
    }
    let shared = encoded.prefix.checked_add(encoded.suffix).ok_or(RebuildError::Shape)?;
    let wanted = encoded.len.checked_sub(shared).ok_or(RebuildError::Shape)?;
    let end = bytes.len().checked_sub(encoded.suffix).filter(|_| shared <= bytes.len()).ok_or(RebuildError::Shape)?;
    let tail = bytes.split_off(end);
    bytes.truncate(encoded.prefix);
    body::middle(encoded, wanted, bytes)?;
    bytes.extend_from_slice(&tail);
    Ok(())
}

/// A piece of JSON as it is, and with its escapes read, as often as there are any.
fn levels(json: &[u8]) -> Vec<Vec<u8>> {
    let mut levels = vec![json.to_vec()];
    while levels.len() < LEVELS
        && let Some(read) = levels.last().filter(|last| last.contains(&b'\\')).map(|last| unescaped(last))
    {
        levels.push(read);
    }
    levels
}

fn unescaped(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let taken = match rest.get(1) {
            Some(b'u') => match code(rest) {
                Some((c, taken)) => {
                    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                    taken
                }
                None => {
                    out.push(b'\\');
                    1
                }
            },
            Some(letter) => {
                out.push(match letter {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'b' => 8,
                    b'f' => 12,
                    other => *other,
                });
                2
            }
            None => {
                out.push(b'\\');
                1
            }
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out
}

/// The letter that `\uXXXX`, or two of them, stand for, and their length.
fn code(json: &[u8]) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = std::str::from_utf8(json.get(at..at + 6)?.strip_prefix(b"\\u")?).ok()?;
        u16::from_str_radix(digits, 16).ok()
    };
    let first = unit(0)?;
    if let Some(c) = char::from_u32(first.into()) {
        return Some((c, 6));
    }
    let c = char::decode_utf16([first, unit(6)?]).next()?.ok()?;
    Some((c, 12))
}

/// Binds what a row without its body holds.
macro_rules! without_body {
    ($query:expr) => {
        $query.bind(GONE_BODY).bind(GONE_BODY.len() as i64).bind(xxhash_rust::xxh3::xxh3_64(GONE_BODY).cast_signed())
    };
}

/// Takes the words out of the journal: out of the texts, and from the first row that held them, every request body of
/// that conversation, since each repeats what was said before it; of calls beside a conversation only those that held
/// them. `whose` is whose words they are, `held` which bodies hold them, or the `raw` ones beside
/// them. How many rows were changed.
pub(super) async fn scrub(
    conn: &mut SqliteConnection,
    needle: &Needle,
    whose: &Whose,
    held: &[Held],
    raw: &[String],
) -> sqlx::Result<u64> {
    let said = sqlx::AssertSqlSafe(format!(
        "SELECT t.session, min(t.id) AS first,
                max(t.id = ?2 AND ifnull(instr(user_text, ?1), 0) + ifnull(instr(answer_text, ?1), 0) = 0) AS differs
         FROM turns t
         WHERE t.id = ?2 OR ?3 AND t.kind = 'main' AND {} AND (instr(user_text, ?1) > 0 OR instr(answer_text, ?1) > 0
               OR instr((SELECT text FROM blocks WHERE id = t.block), ?1) > 0)
         GROUP BY t.session",
        theirs(4)
    ));
    let said = sqlx::query(said).bind(needle.text.as_str()).bind(needle.turn).bind(needle.telling());
    let said = said.bind(whose.key).bind(whose.named.as_str());
    let mut first: HashMap<i64, i64> = HashMap::new();
    for row in said.fetch_all(&mut *conn).await? {
        first.insert(row.try_get("session")?, row.try_get("first")?);
        if row.try_get::<bool, _>("differs")? {
            // The journal's words and ours differ (a secret was left out): then the whole text goes.
            let wipe = sqlx::query("UPDATE turns SET user_text = ?2, answer_text = ?2 WHERE id = ?1");
            wipe.bind(needle.turn).bind(GONE).execute(&mut *conn).await?;
        }
    }
    let mut aside: HashMap<i64, BTreeSet<i64>> = HashMap::new();
    for held in held.iter().filter(|held| held.text == needle.text || raw.contains(&held.text)) {
        // Somebody else keeps what is his, also where it is the same words.
        if !first.contains_key(&held.session) && is_anothers(conn, held, whose).await? {
            continue;
        }
        if held.main {
            let first = first.entry(held.session).or_insert(held.turn);
            *first = held.turn.min(*first);
        } else {
            aside.entry(held.session).or_default().insert(held.turn);
        }
    }
    let mut changed = 0;
    for (session, calls) in aside {
        changed += scrub_calls(conn, session, &calls).await?;
    }
    for (session, first) in first {
        // Bodies before the first that held it are not touched, and none of them stands on a later one.
        let rows = sqlx::AssertSqlSafe(format!(
            "UPDATE turns AS t SET {WITHOUT_BODY}, answer = NULL, error = NULL,
                 user_text = iif(id = ?8 OR {}, replace(user_text, ?9, ?10), user_text),
                 answer_text = replace(answer_text, ?9, ?10)
             WHERE session = ?4 AND id >= ?5",
            theirs(6)
        ));
        let rows = without_body!(sqlx::query(rows)).bind(session).bind(first);
        let rows = rows.bind(whose.key).bind(whose.named.as_str()).bind(needle.turn);
        changed += rows.bind(needle.text.as_str()).bind(GONE).execute(&mut *conn).await?.rows_affected();
        let title =
            "UPDATE sessions SET title = NULL WHERE key = ?1 AND (instr(title, ?2) > 0 OR instr(?2, title) > 0)";
        sqlx::query(title).bind(session).bind(needle.text.as_str()).execute(&mut *conn).await?;
    }
    if needle.telling() || changed > 0 {
        // Under another hash: whoever adds the same text again gets a block of its own.
        let blocks = "UPDATE blocks SET text = replace(text, ?1, ?2), hash = randomblob(16) WHERE instr(text, ?1) > 0";
        sqlx::query(blocks).bind(needle.text.as_str()).bind(GONE).execute(&mut *conn).await?;
        changed += scrub_learning(conn, std::iter::once(&needle.text).chain(raw)).await?;
    }
    Ok(changed)
}

/// Takes the words out of what was learned from conversations: what the model said, and every text that a skill had.
async fn scrub_learning(conn: &mut SqliteConnection, words: impl Iterator<Item = &String>) -> sqlx::Result<u64> {
    let mut changed = 0;
    for words in words.filter(|words| !words.trim().is_empty()) {
        // The model's reply is JSON.
        let quoted = serde_json::to_string(words).unwrap_or_default();
        let quoted = quoted.trim_matches('"').to_owned();
        for form in [words.as_str(), quoted.as_str()] {
            for update in [
                "UPDATE skill_evolutions SET reply = replace(reply, ?1, ?2), note = replace(note, ?1, ?2)
                 WHERE instr(reply, ?1) > 0 OR instr(note, ?1) > 0",
                "UPDATE skill_proposals SET reason = replace(reason, ?1, ?2), findings = replace(findings, ?1, ?2)
                 WHERE instr(reason, ?1) > 0 OR instr(findings, ?1) > 0",
                "UPDATE skill_versions SET text = replace(text, ?1, ?2) WHERE instr(text, ?1) > 0",
            ] {
                changed += sqlx::query(update).bind(form).bind(GONE).execute(&mut *conn).await?.rows_affected();
            }
        }
    }
    Ok(changed)
}

/// True if the turn is of somebody of another scope, or the words were said in that session in another scope.
async fn is_anothers(conn: &mut SqliteConnection, held: &Held, whose: &Whose) -> sqlx::Result<bool> {
    let theirs = theirs(3);
    let said = sqlx::AssertSqlSafe(format!(
        "SELECT EXISTS (SELECT 1 FROM turns t
                        WHERE t.id = ?1 AND coalesce(user_id, workspace_id, memory_scope) IS NOT NULL AND NOT {theirs})
             OR EXISTS (SELECT 1 FROM turns t
                        WHERE session = ?5 AND (instr(user_text, ?2) > 0 OR instr(answer_text, ?2) > 0) AND NOT {theirs})"
    ));
    let said = sqlx::query_scalar(said).bind(held.turn).bind(held.text.as_str());
    said.bind(whose.key).bind(whose.named.as_str()).bind(held.session).fetch_one(conn).await
}

/// Takes the bodies of calls beside a conversation, and the answers made of them; bodies that stand on them get their own.
async fn scrub_calls(conn: &mut SqliteConnection, session: i64, calls: &BTreeSet<i64>) -> sqlx::Result<u64> {
    if calls.is_empty() {
        return Ok(0);
    }
    let list = super::json_list(calls.iter().copied());
    let standing = sqlx::query_scalar(
        "WITH RECURSIVE over (id) AS (
             SELECT value FROM json_each(?2)
             UNION
             SELECT t.id FROM over JOIN turns t ON t.body_base = over.id AND t.session = ?1
         )
         SELECT id FROM over WHERE id NOT IN (SELECT value FROM json_each(?2)) ORDER BY id",
    );
    let standing: Vec<i64> = standing.bind(session).bind(list.as_str()).fetch_all(&mut *conn).await?;
    let own = rebuilt(conn, standing).await?;
    stand_alone(conn, own).await?;
    let rows = sqlx::AssertSqlSafe(format!(
        "UPDATE turns SET {WITHOUT_BODY}, answer = NULL, error = NULL,
             user_text = iif(user_text IS NULL, NULL, ?5), answer_text = iif(answer_text IS NULL, NULL, ?5)
         WHERE id IN (SELECT value FROM json_each(?4))"
    ));
    let rows = without_body!(sqlx::query(rows)).bind(list).bind(GONE);
    Ok(rows.execute(conn).await?.rows_affected())
}

/// The hash of what stands in the place of a body that is gone.
pub(super) fn gone_hash() -> i64 {
    xxhash_rust::xxh3::xxh3_64(GONE_BODY).cast_signed()
}

/// Takes all words out of the rows of a session up to row `last`, as far as they are from before `before_ms`. Later bodies
/// that stand on theirs get their own. How many rows were changed.
pub(super) async fn blank(conn: &mut SqliteConnection, session: i64, last: i64, before_ms: i64) -> sqlx::Result<u64> {
    let rows = "SELECT id FROM turns WHERE session = ? AND id <= ? AND finished < ? AND body_hash <> ?";
    let rows = sqlx::query_scalar(rows).bind(session).bind(last).bind(before_ms).bind(gone_hash());
    let rows: Vec<i64> = rows.fetch_all(&mut *conn).await?;
    if rows.is_empty() {
        return Ok(0);
    }
    let list = super::json_list(rows.into_iter());
    let standing = "SELECT id FROM turns WHERE session = ?1 AND body_base IN (SELECT value FROM json_each(?2))
                    AND id NOT IN (SELECT value FROM json_each(?2)) ORDER BY id";
    let standing = sqlx::query_scalar(standing).bind(session).bind(list.as_str()).fetch_all(&mut *conn).await?;
    let own = rebuilt(conn, standing).await?;
    stand_alone(conn, own).await?;
    let rows = sqlx::AssertSqlSafe(format!(
        "UPDATE turns SET {WITHOUT_BODY}, answer = NULL, error = NULL, block = NULL, block_hash = NULL, block_nth = NULL,
             user_text = iif(user_text IS NULL, NULL, ?5), answer_text = iif(answer_text IS NULL, NULL, ?5)
         WHERE id IN (SELECT value FROM json_each(?4))"
    ));
    let rows = without_body!(sqlx::query(rows)).bind(list).bind(GONE);
    let changed = rows.execute(&mut *conn).await?.rows_affected();
    // The title is what was said first.
    sqlx::query("UPDATE sessions SET title = NULL WHERE key = ? AND started < ?")
        .bind(session)
        .bind(before_ms)
        .execute(&mut *conn)
        .await?;
    let learned = "UPDATE skill_evolutions SET reply = ?3, note = ?3
                   WHERE at < ?2 AND session = (SELECT id FROM sessions WHERE key = ?1)";
    sqlx::query(learned).bind(session).bind(before_ms).bind(GONE).execute(conn).await?;
    Ok(changed)
}

/// These rows' bodies, each to stand by itself. To be asked before what they stand on is changed.
async fn rebuilt(conn: &mut SqliteConnection, rows: Vec<i64>) -> sqlx::Result<Vec<(i64, body::Encoded)>> {
    let mut own = Vec::new();
    for row in rows {
        if let Some(bytes) = read::body_of(conn, row).await? {
            own.push((row, body::encode(&bytes, None, 1)));
        }
    }
    Ok(own)
}

async fn stand_alone(conn: &mut SqliteConnection, own: Vec<(i64, body::Encoded)>) -> sqlx::Result<()> {
    for (turn, body) in own {
        let update = sqlx::query(
            "UPDATE turns SET body = ?2, body_codec = ?3, body_base = NULL, body_depth = 0, body_prefix = 0,
                 body_suffix = 0 WHERE id = ?1",
        );
        update.bind(turn).bind(body.middle).bind(i32::from(body.compressed)).execute(&mut *conn).await?;
    }
    Ok(())
}

/// The turns of a scope.
pub(super) async fn turns_of(conn: &mut SqliteConnection, whose: &Whose) -> sqlx::Result<Vec<i64>> {
    let turns = sqlx::AssertSqlSafe(format!("SELECT t.id FROM turns t WHERE {}", theirs(1)));
    sqlx::query_scalar(turns).bind(whose.key).bind(whose.named.as_str()).fetch_all(conn).await
}

/// Deletes turns. In a session that others share, their turns stay, without the bodies that repeat what is gone; of a
/// session with nothing left nothing stays. How many rows were deleted or changed.
pub(super) async fn erase(conn: &mut SqliteConnection, turns: &[i64]) -> sqlx::Result<u64> {
    let turns = super::json_list(turns.iter().copied());
    let begun = "SELECT session, min(id) FROM turns WHERE id IN (SELECT value FROM json_each(?)) GROUP BY session";
    let begun: Vec<(i64, i64)> = sqlx::query_as(begun).bind(turns.as_str()).fetch_all(&mut *conn).await?;
    let mut changed = 0;
    for (session, first) in &begun {
        let learned = "UPDATE skill_evolutions SET reply = ?2, note = ?2 WHERE session = (SELECT id FROM sessions WHERE key = ?1)";
        sqlx::query(learned).bind(session).bind(GONE).execute(&mut *conn).await?;
        let rows = sqlx::AssertSqlSafe(format!(
            "UPDATE turns SET {WITHOUT_BODY}
             WHERE session = ?4 AND id > ?5 AND id NOT IN (SELECT value FROM json_each(?6))"
        ));
        let rows = without_body!(sqlx::query(rows)).bind(session).bind(first).bind(turns.as_str());
        changed += rows.execute(&mut *conn).await?.rows_affected();
    }
    let gone = sqlx::query("DELETE FROM turns WHERE id IN (SELECT value FROM json_each(?))").bind(turns);
    changed += gone.execute(&mut *conn).await?.rows_affected();
    for (session, _) in begun {
        let left = sqlx::query_scalar("SELECT count(*) FROM turns WHERE session = ?").bind(session);
        let left: i64 = left.fetch_one(&mut *conn).await?;
        if left == 0 {
            sqlx::query("DELETE FROM sessions WHERE key = ?").bind(session).execute(&mut *conn).await?;
            continue;
        }
        // The title is what the first of them said.
        let rest = sqlx::query(
            "UPDATE sessions SET requests = ?2, title = iif(EXISTS (SELECT 1 FROM turns
                 WHERE session = ?1 AND instr(user_text, sessions.title) > 0), title, NULL)
             WHERE key = ?1",
        );
        rest.bind(session).bind(left).execute(&mut *conn).await?;
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_every_form_of_json() {
        let words = "say \"中文\" 😀 /now\nthen";
        let plain = serde_json::json!({ "content": words }).to_string();
        let nested = serde_json::json!({ "input": plain }).to_string();
        let ascii = r#"{"content":"say \"\u4E2d\u6587\" \ud83d\ude00 \/now\nthen"}"#.to_owned();
        let deep = serde_json::json!({ "input": ascii }).to_string();
        for body in [plain, nested, ascii, deep] {
            let found = levels(body.as_bytes()).iter().any(|l| memchr::memmem::find(l, words.as_bytes()).is_some());
            assert!(found, "{body}");
        }
    }

    #[test]
    fn broken_escapes_are_left_as_they_are() {
        for json in [r"a\", r"a\u12", r"\ud83d", r"\ud83d\n", r"\uzzzz"] {
            assert!(!unescaped(json.as_bytes()).is_empty(), "{json}");
        }
    }
}
