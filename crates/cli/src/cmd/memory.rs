//! `metaclaw memory`

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use engine::api::{
    Memory, MemoryAdd, MemoryBackup, MemoryChange, MemoryEdit, MemoryHit, MemoryImport, MemoryImported,
    MemoryMaintained, MemoryPage, MemoryPolicy, MemoryPreview, MemorySearch, MemoryStats,
};
use engine::client::segment;
use http::Method;
use http_body_util::BodyExt;
use serde::Serialize;

use super::{count, figure, query};
use crate::args::{MemoryAdding, MemoryEditing, MemoryFind, MemoryVerb};
use crate::ctx::Ctx;
use crate::exit::{Exit, Fail};
use crate::out::{Tone, bytes, moment, printable};

pub(crate) async fn run(ctx: &Ctx, verb: MemoryVerb) -> Result<ExitCode, Fail> {
    match verb {
        MemoryVerb::Status => status(ctx).await,
        MemoryVerb::Stats { scope } => stats(ctx, scope).await,
        MemoryVerb::List(find) => list(ctx, find).await,
        MemoryVerb::Search { words, scope, limit, as_turn } => {
            let search = MemorySearch {
                text: words.join(" "),
                scope: scope.unwrap_or_default(),
                limit,
                as_of_ms: None,
                as_turn,
            };
            found(ctx, search).await
        }
        MemoryVerb::Show { id } => show(ctx, &id).await,
        MemoryVerb::Add(adding) => add(ctx, adding).await,
        MemoryVerb::Edit(editing) => edit(ctx, editing).await,
        MemoryVerb::Pin { id, off } => {
            let edit = MemoryEdit { pinned: Some(!off), ..MemoryEdit::default() };
            change(ctx, Method::PATCH, &one(&id), Some(&edit)).await
        }
        MemoryVerb::Undo { id } => change::<()>(ctx, Method::POST, &format!("{}/undo", one(&id)), None).await,
        MemoryVerb::Accept { id } => change::<()>(ctx, Method::POST, &format!("{}/accept", one(&id)), None).await,
        MemoryVerb::Forget { id, scope, yes } => forget(ctx, id, scope, yes).await,
        MemoryVerb::Export { out, scope, all } => export(ctx, out.as_deref(), scope, all).await,
        MemoryVerb::Import { file, scope } => import(ctx, file.as_deref(), scope).await,
        MemoryVerb::Backup { file } => {
            let to = MemoryBackup { path: absolute(&file)? };
            change(ctx, Method::POST, "/api/v1/memory/backup", Some(&to)).await
        }
        MemoryVerb::Scopes => scopes(ctx).await,
        MemoryVerb::History { id } => history(ctx, &id).await,
        MemoryVerb::Report { scope } => report(ctx, scope).await,
        MemoryVerb::Maintain { dry_run } => maintain(ctx, dry_run).await,
        MemoryVerb::Policy => policy(ctx).await,
        MemoryVerb::Sidecar { port } => sidecar(ctx, port).await,
    }
}

fn one(id: &str) -> String {
    format!("/api/v1/memory/{}", segment(id))
}

async fn figures(ctx: &Ctx, scope: Option<String>) -> Result<MemoryStats, Fail> {
    Ok(ctx.api().await?.get(&format!("/api/v1/memory/stats{}", query(&[("scope", scope)]))).await?)
}

async fn status(ctx: &Ctx) -> Result<ExitCode, Fail> {
    let stats = figures(ctx, None).await?;
    if ctx.out.json {
        ctx.out.value(&stats);
        return Ok(ExitCode::SUCCESS);
    }
    let active = stats.by_status.get("active").copied().unwrap_or_default();
    ctx.out.pairs(&[
        ("memory", if stats.enabled { "on" } else { "off" }.to_owned()),
        ("facts", figure(active)),
        ("passages", figure(stats.passages)),
        ("for you to decide", figure(stats.quarantined)),
        ("not read yet", format!("{} turns", figure(stats.unread))),
    ]);
    if !stats.enabled {
        ctx.out.note("Switch it on with: metaclaw config set memory.enabled true");
    }
    if stats.quarantined > 0 {
        ctx.out.note("See what waits for you: metaclaw memory list --quarantined");
    }
    Ok(ExitCode::SUCCESS)
}

async fn stats(ctx: &Ctx, scope: Option<String>) -> Result<ExitCode, Fail> {
    let stats = figures(ctx, scope).await?;
    if ctx.out.json {
        ctx.out.value(&stats);
        return Ok(ExitCode::SUCCESS);
    }
    let now = Ctx::now();
    let list = |counts: &std::collections::BTreeMap<String, u64>| {
        let all: Vec<String> = counts.iter().map(|(name, n)| format!("{name} {}", figure(*n))).collect();
        if all.is_empty() { "none".to_owned() } else { all.join(", ") }
    };
    let at = |ms: Option<i64>| ms.map_or("never".to_owned(), |ms| moment(ms, &now));
    ctx.out.pairs(&[
        ("scope", stats.scope.clone().unwrap_or_else(|| "all".to_owned())),
        ("facts", list(&stats.by_status)),
        ("active by type", list(&stats.active_by_kind)),
        ("pinned", figure(stats.pinned)),
        (
            "passages",
            format!("{} from {}", figure(stats.passages), count(stats.sessions as usize, "session", "sessions")),
        ),
        ("first said", at(stats.first_ms)),
        ("last said", at(stats.last_ms)),
        ("for you to decide", figure(stats.quarantined)),
        ("forgotten for good", figure(stats.forgotten)),
        ("database", bytes(stats.db_bytes)),
    ]);
    Ok(ExitCode::SUCCESS)
}

async fn list(ctx: &Ctx, find: MemoryFind) -> Result<ExitCode, Fail> {
    let status = if find.quarantined { Some("quarantined".to_owned()) } else { find.status };
    let passages = find.session.or_else(|| find.passages.then(String::new));
    let asked = query(&[
        ("scope", find.scope),
        ("status", status),
        ("kind", find.kind),
        ("pinned", find.pinned.then(|| "true".to_owned())),
        ("passages", passages),
        ("before", find.before.map(|n| n.to_string())),
        ("limit", Some(find.limit.to_string())),
    ]);
    let page: MemoryPage = ctx.api().await?.get(&format!("/api/v1/memory{asked}")).await?;
    if ctx.out.json {
        ctx.out.value(&page);
        return Ok(ExitCode::SUCCESS);
    }
    if page.memories.is_empty() {
        ctx.out.note("Nothing is remembered that fits.");
    } else {
        table(ctx, &page.memories);
    }
    if let Some(next) = page.next {
        ctx.out.note(&format!("There is more: --before {next}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn table(ctx: &Ctx, memories: &[Memory]) {
    let now = Ctx::now();
    let rows: Vec<Vec<String>> = memories
        .iter()
        .map(|memory| {
            let state = if memory.pinned { "pinned".to_owned() } else { memory.status.clone() };
            vec![
                memory.id.clone(),
                memory.kind.clone(),
                state,
                moment(memory.valid_from_ms, &now),
                memory.content.clone(),
            ]
        })
        .collect();
    ctx.out.table(&["ID", "TYPE", "STATE", "SAID", "WORDS"], &rows);
}

async fn found(ctx: &Ctx, search: MemorySearch) -> Result<ExitCode, Fail> {
    let as_turn = search.as_turn;
    let preview: MemoryPreview = ctx.api().await?.call(Method::POST, "/api/v1/memory/search", Some(&search)).await?;
    if ctx.out.json {
        ctx.out.value(&preview);
        return Ok(ExitCode::SUCCESS);
    }
    if preview.hits.is_empty() {
        ctx.out.line(if as_turn { "Nothing would be added to these words." } else { "Nothing fits these words." });
        return Ok(ExitCode::SUCCESS);
    }
    let now = Ctx::now();
    let row = |hit: &MemoryHit| {
        vec![
            hit.id.clone(),
            format!("{:.2}", hit.score),
            moment(hit.at_ms, &now),
            hit.speaker.clone(),
            if hit.quarantined { "kept back".to_owned() } else { hit.why.clone() },
            hit.content.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = preview.hits.iter().map(row).collect();
    ctx.out.table(&["ID", "SCORE", "SAID", "BY", "BECAUSE OF", "WORDS"], &rows);
    if as_turn {
        ctx.out.line("");
        let note = format!("About {} of at most {} tokens:", preview.tokens, preview.budget);
        ctx.out.line(&ctx.out.paint(Tone::Faint, &note));
        for line in printable(&preview.block).lines() {
            ctx.out.line(&format!("{} {line}", ctx.out.paint(Tone::Added, "+")));
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn show(ctx: &Ctx, id: &str) -> Result<ExitCode, Fail> {
    let memory: Memory = ctx.api().await?.get(&one(id)).await?;
    if ctx.out.json {
        ctx.out.value(&memory);
        return Ok(ExitCode::SUCCESS);
    }
    let now = Ctx::now();
    let mut rows = vec![
        ("id", memory.id.clone()),
        ("type", memory.kind.clone()),
        ("state", if memory.pinned { format!("{}, pinned", memory.status) } else { memory.status.clone() }),
        ("scope", memory.scope.clone()),
        ("said", format!("{} by {}", moment(memory.valid_from_ms, &now), memory.speaker)),
    ];
    if !memory.session.is_empty() {
        let turn = memory.turn_id.map(|id| format!(" (metaclaw turns show {id})")).unwrap_or_default();
        rows.push(("from", format!("session {}, turn {}{turn}", memory.session, memory.turn)));
    }
    if let Some(until) = memory.valid_to_ms {
        rows.push(("held until", moment(until, &now)));
    }
    if let Some(by) = &memory.superseded_by {
        rows.push(("replaced by", by.clone()));
    }
    if let Some(why) = &memory.gave_way {
        rows.push(("because", gave_way(why).to_owned()));
    }
    if !memory.tags.is_empty() {
        rows.push(("labels", memory.tags.join(", ")));
    }
    ctx.out.pairs(&rows);
    ctx.out.line("");
    ctx.out.line(&printable(memory.content.trim_end()));
    if !memory.quote.is_empty() && memory.quote != memory.content {
        ctx.out.line(&ctx.out.paint(Tone::Faint, &format!("as said: {}", printable(&memory.quote))));
    }
    Ok(ExitCode::SUCCESS)
}

/// Why a memory gave way by itself, in words.
fn gave_way(why: &str) -> &'static str {
    match why {
        "same" => "the other says the same",
        "opposite" => "the opposite was said later",
        _ => "another answer was given later",
    }
}

async fn add(ctx: &Ctx, adding: MemoryAdding) -> Result<ExitCode, Fail> {
    let mut content = adding.words.join(" ");
    if content == "-" {
        content.clear();
        std::io::stdin()
            .read_to_string(&mut content)
            .map_err(|error| Fail::failed(format!("Standard input cannot be read: {error}.")))?;
    }
    let add = MemoryAdd {
        content,
        kind: adding.kind.unwrap_or_default(),
        scope: adding.scope.unwrap_or_default(),
        tags: adding.tag,
        importance: None,
        pinned: adding.pin,
    };
    change(ctx, Method::POST, "/api/v1/memory", Some(&add)).await
}

async fn edit(ctx: &Ctx, editing: MemoryEditing) -> Result<ExitCode, Fail> {
    let content = editing.words.join(" ");
    let edit = MemoryEdit {
        content: Some(content).filter(|content| !content.is_empty()),
        kind: editing.kind,
        status: match (editing.archive, editing.restore) {
            (true, _) => Some("archived".to_owned()),
            (_, true) => Some("active".to_owned()),
            _ => None,
        },
        tags: (!editing.tag.is_empty()).then_some(editing.tag),
        importance: editing.importance,
        ..MemoryEdit::default()
    };
    if edit == MemoryEdit::default() {
        return Err(Fail::usage("Nothing was given to change.").hint("New words, or --kind, --tag, --archive …"));
    }
    change(ctx, Method::PATCH, &one(&editing.id), Some(&edit)).await
}

async fn forget(ctx: &Ctx, id: Option<String>, scope: Option<String>, yes: bool) -> Result<ExitCode, Fail> {
    let path = match (id, scope) {
        (Some(id), None) => one(&id),
        (None, Some(scope)) if yes => format!("/api/v1/memory/scopes/{}", segment(&scope)),
        (None, Some(scope)) => {
            return Err(Fail::new(
                Exit::NotPermitted,
                format!("This erases everything of {scope}, its conversations in the journal included."),
            )
            .hint("If that is what you want, say so with --yes."));
        }
        _ => return Err(Fail::usage("Name one memory, or a scope with --scope.")),
    };
    change::<()>(ctx, Method::DELETE, &path, None).await
}

async fn export(ctx: &Ctx, out: Option<&Path>, scope: Option<String>, all: bool) -> Result<ExitCode, Fail> {
    let asked = query(&[("scope", scope), ("all", all.then(|| "true".to_owned()))]);
    let answer = ctx.api().await?.send(Method::GET, &format!("/api/v1/memory/export{asked}"), None).await?;
    let body = answer.into_body().collect().await;
    let lines = body.map_err(|error| Fail::failed(format!("The export broke off: {error}.")))?.to_bytes();
    match out {
        None => ctx.out.raw(&lines),
        Some(path) => {
            write_private(path, &lines)
                .map_err(|error| crate::exit::io(&format!("{} cannot be written", path.display()), &error))?;
            let number = lines.iter().filter(|byte| **byte == b'\n').count();
            ctx.out.note(&format!("{} in {}.", count(number, "memory", "memories"), path.display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A new file that only its owner can read.
fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(bytes)
}

async fn import(ctx: &Ctx, file: Option<&Path>, scope: Option<String>) -> Result<ExitCode, Fail> {
    let import = match file {
        Some(path) if path.as_os_str() == "-" => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| Fail::failed(format!("Standard input cannot be read: {error}.")))?;
            MemoryImport { text: Some(text), scope, ..MemoryImport::default() }
        }
        Some(path) => MemoryImport { path: absolute(path)?, scope, ..MemoryImport::default() },
        None => MemoryImport { scope, ..MemoryImport::default() },
    };
    let done: MemoryImported = ctx.api().await?.call(Method::POST, "/api/v1/memory/import", Some(&import)).await?;
    if ctx.out.json {
        ctx.out.value(&done);
        return Ok(ExitCode::SUCCESS);
    }
    ctx.out.line(&format!("From {}: {}", done.from, done.message));
    Ok(ExitCode::SUCCESS)
}

async fn scopes(ctx: &Ctx) -> Result<ExitCode, Fail> {
    let scopes: Vec<MemoryStats> = ctx.api().await?.get("/api/v1/memory/scopes").await?;
    if ctx.out.json {
        ctx.out.value(&scopes);
        return Ok(ExitCode::SUCCESS);
    }
    if scopes.is_empty() {
        ctx.out.note("Nothing is remembered yet.");
        return Ok(ExitCode::SUCCESS);
    }
    let now = Ctx::now();
    let row = |stats: &MemoryStats| {
        vec![
            figure(stats.by_status.get("active").copied().unwrap_or_default()),
            figure(stats.passages),
            figure(stats.quarantined),
            stats.last_ms.map(|ms| moment(ms, &now)).unwrap_or_default(),
            stats.scope.clone().unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = scopes.iter().map(row).collect();
    ctx.out.table(&["FACTS", "PASSAGES", "KEPT BACK", "LAST SAID", "SCOPE"], &rows);
    Ok(ExitCode::SUCCESS)
}

async fn history(ctx: &Ctx, id: &str) -> Result<ExitCode, Fail> {
    let versions: Vec<Memory> = ctx.api().await?.get(&format!("{}/history", one(id))).await?;
    if ctx.out.json {
        ctx.out.value(&versions);
        return Ok(ExitCode::SUCCESS);
    }
    let now = Ctx::now();
    let row = |memory: &Memory| {
        let until = memory.valid_to_ms.map_or("now".to_owned(), |until| moment(until, &now));
        vec![
            moment(memory.valid_from_ms, &now),
            until,
            memory.gave_way.as_deref().map_or_else(|| memory.status.clone(), |why| gave_way(why).to_owned()),
            memory.id.clone(),
            memory.content.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = versions.iter().map(row).collect();
    ctx.out.table(&["FROM", "UNTIL", "STATE", "ID", "WORDS"], &rows);
    Ok(ExitCode::SUCCESS)
}

/// Everything about memory in one document.
#[derive(Serialize)]
struct Report {
    stats: MemoryStats,
    policy: MemoryPolicy,
    scopes: Vec<MemoryStats>,
    kept_back: Vec<Memory>,
    unverified: Vec<Memory>,
}

async fn report(ctx: &Ctx, scope: Option<String>) -> Result<ExitCode, Fail> {
    let api = ctx.api().await?;
    let of_scope = |pairs: &[(&str, Option<String>)]| query(&[&[("scope", scope.clone())], pairs].concat());
    let kept_back: MemoryPage =
        api.get(&format!("/api/v1/memory{}", of_scope(&[("status", Some("quarantined".to_owned()))]))).await?;
    let active: MemoryPage = api
        .get(&format!(
            "/api/v1/memory{}",
            of_scope(&[("status", Some("active".to_owned())), ("limit", Some("1000".to_owned()))])
        ))
        .await?;
    let report = Report {
        stats: figures(ctx, scope.clone()).await?,
        policy: api.get("/api/v1/memory/policy").await?,
        scopes: api.get("/api/v1/memory/scopes").await?,
        kept_back: kept_back.memories,
        unverified: active.memories.into_iter().filter(|m| m.tags.iter().any(|tag| tag == "unverified")).collect(),
    };
    if ctx.out.json {
        ctx.out.value(&report);
        return Ok(ExitCode::SUCCESS);
    }
    stats(ctx, scope).await?;
    for (title, memories) in [("Kept back until you decide", &report.kept_back), ("Unverified", &report.unverified)] {
        if !memories.is_empty() {
            ctx.out.line("");
            ctx.out.line(&ctx.out.paint(Tone::Strong, title));
            table(ctx, memories);
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn maintain(ctx: &Ctx, dry_run: bool) -> Result<ExitCode, Fail> {
    let path = format!("/api/v1/memory/maintain{}", query(&[("dry_run", dry_run.then(|| "true".to_owned()))]));
    let done: MemoryMaintained = ctx.api().await?.call(Method::POST, &path, None::<&()>).await?;
    if ctx.out.json {
        ctx.out.value(&done);
        return Ok(ExitCode::SUCCESS);
    }
    ctx.out.line(&done.message);
    if done.retired.pinned > 0 {
        ctx.out.note(&format!("Pinned and therefore kept: {}.", figure(done.retired.pinned)));
    }
    if !done.going.is_empty() {
        ctx.out.line("");
        table(ctx, &done.going);
        if done.retired.facts > done.going.len() as u64 {
            ctx.out.note(&format!("And {} more.", figure(done.retired.facts - done.going.len() as u64)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn policy(ctx: &Ctx) -> Result<ExitCode, Fail> {
    let policy: MemoryPolicy = ctx.api().await?.get("/api/v1/memory/policy").await?;
    if ctx.out.json {
        ctx.out.value(&policy);
        return Ok(ExitCode::SUCCESS);
    }
    ctx.out.pairs(&[
        ("found by", policy.retrieval_mode.clone()),
        ("per turn", format!("{} memories, {} tokens at most", policy.max_injected_units, policy.max_injected_tokens)),
        ("facts", format!("taken every {} turns and at the end of a session", policy.flush_every)),
    ]);
    ctx.out.line("");
    let rows: Vec<Vec<String>> =
        policy.weights.iter().map(|w| vec![w.name.clone(), format!("{:.2}", w.value), w.note.clone()]).collect();
    ctx.out.table(&["WEIGHT", "VALUE", "WHAT IT DOES"], &rows);
    Ok(ExitCode::SUCCESS)
}

async fn sidecar(ctx: &Ctx, port: u16) -> Result<ExitCode, Fail> {
    let sidecar = engine::Sidecar::start(ctx.home.clone(), ctx.config.clone(), port).await?;
    ctx.out.line(&format!("The memory sidecar listens on http://{}", sidecar.addr));
    let ended = tokio::signal::ctrl_c().await;
    sidecar.stop().await;
    ended.map_err(|error| Fail::failed(format!("The signal could not be waited for: {error}.")))?;
    Ok(ExitCode::SUCCESS)
}

async fn change<B: Serialize>(ctx: &Ctx, method: Method, path: &str, body: Option<&B>) -> Result<ExitCode, Fail> {
    let done: MemoryChange = ctx.api().await?.call(method, path, body).await?;
    if ctx.out.json {
        ctx.out.value(&done);
        return Ok(ExitCode::SUCCESS);
    }
    match &done.id {
        Some(id) => ctx.out.line(&format!("{} ({id})", done.message)),
        None => ctx.out.line(&done.message),
    }
    Ok(ExitCode::SUCCESS)
}

fn absolute(path: &Path) -> Result<String, Fail> {
    let path = std::path::absolute(path)
        .map_err(|error| Fail::usage(format!("{} is no usable path: {error}.", path.display())))?;
    Ok(path.display().to_string())
}
