//! Rebuilds what a turn sent to the provider: the agent's stored bytes with the session's remembered blocks put back,
//! the model name and the other documented edits, and the translation where the dialects differ.

use std::collections::HashMap;

use bytes::Bytes;
use config::Placement;
use dialect::{Dialect, Quirks, Request, Role, translate_request};
use store::{Block, Store, Turn};

use crate::api::Problem;
use crate::core::Core;

/// The forms of a turn's request.
#[derive(Clone, Debug)]
pub(crate) struct Forms {
    /// The agent's bytes.
    pub sent: Bytes,
    /// With MetaClaw's edits, in the agent's dialect.
    pub edited: Bytes,
    /// What went to the provider.
    pub forwarded: Bytes,
}

/// All forms of a turn's request.
pub(crate) async fn forms(core: &Core, store: &Store, turn: &Turn) -> Result<Forms, Problem> {
    let row = &turn.summary;
    let sent = store.request_of(row.id).await.map_err(crate::api::store_problem)?;
    let mut blocks = store.injections(&row.session).await.map_err(crate::api::store_problem)?;
    // Without text: that nothing was added.
    blocks.retain(|block| !block.text.is_empty());
    let client: Dialect = row.dialect.parse().map_err(Problem::internal)?;
    let upstream: Dialect = row.upstream_dialect.parse().unwrap_or(client);
    let quirks = quirks(core, row.upstream.as_deref());
    let asked = Asked { model: row.model_sent.as_deref(), main: row.kind.is_main() };
    build(client, upstream, sent, &asked, &blocks, &quirks)
}

/// What is known of the turn beside its bytes.
struct Asked<'a> {
    model: Option<&'a str>,
    main: bool,
}

fn build(
    client: Dialect,
    upstream: Dialect,
    sent: Bytes,
    asked: &Asked<'_>,
    blocks: &[Block],
    quirks: &Quirks,
) -> Result<Forms, Problem> {
    let unreadable = |error: &dyn std::fmt::Display| Problem::invalid(format!("The request cannot be read: {error}."));
    let request = Request::parse(client, sent.clone()).map_err(|error| unreadable(&error))?;
    let mut edit = request.edit();
    if let Some(model) = asked.model {
        edit.set_model(model);
    }
    edit.strip_aliases();
    if asked.main {
        let found = places(&request, blocks);
        let trigger = request.turn_start();
        let own = found.iter().find(|(index, _)| Some(*index) == trigger).map(|(_, text)| *text);
        // The settings of that time count, not those of today: the turn's own text says which they were. Where it had
        // none, only text that was made for messages is in messages.
        match own.map(|text| (text, proxy::placement_of(text))) {
            Some((text, Placement::System)) => edit.inject_system(text),
            own => {
                for (index, text) in found {
                    if own.is_some() || proxy::placement_of(text) == Placement::Turn {
                        edit.inject_turn(index, text);
                    }
                }
            }
        }
    }
    if client == upstream {
        if quirks.stream_usage {
            edit.request_usage();
        }
        edit.apply_quirks(quirks);
        let edited = edit.finish();
        return Ok(Forms { sent, forwarded: edited.clone(), edited });
    }
    let edited = edit.finish();
    let again = Request::parse(client, edited.clone()).map_err(|error| unreadable(&error))?;
    let forwarded = translate_request(&again, upstream, quirks).map_err(|error| unreadable(&error))?;
    Ok(Forms { sent, edited, forwarded })
}

/// The messages of the request that have text of ours, by hash and occurrence.
fn places<'b>(request: &Request, blocks: &'b [Block]) -> Vec<(usize, &'b str)> {
    let by_name: HashMap<(u128, u32), &str> =
        blocks.iter().map(|block| ((block.message_hash, block.occurrence), block.text.as_str())).collect();
    let mut seen: HashMap<u128, u32> = HashMap::new();
    let mut found = Vec::new();
    for message in request.messages().iter().filter(|message| message.role == Role::User) {
        let occurrence = seen.entry(message.hash).or_default();
        if let Some(text) = by_name.get(&(message.hash, *occurrence)) {
            found.push((message.index, *text));
        }
        *occurrence += 1;
    }
    found
}

/// What the provider of that time refuses, as far as it is known by name.
fn quirks(core: &Core, provider: Option<&str>) -> Quirks {
    let known = provider.and_then(config::preset).map(|preset| preset.quirks.clone());
    let current = core.config().upstream().ok().filter(|upstream| Some(upstream.provider.as_str()) == provider);
    current
        .map(|upstream| upstream.quirks)
        .or(known)
        .and_then(|quirks| serde_json::from_value(quirks).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_goes_back_into_the_message_it_was_made_for() {
        let body = Bytes::from_static(
            br#"{"model":"a","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yes"},{"role":"user","content":"hi"}]}"#,
        );
        let request = Request::parse(Dialect::Chat, body.clone()).unwrap();
        let hash = request.messages()[0].hash;
        let blocks = [Block { message_hash: hash, occurrence: 1, text: "<note>".into() }];
        let asked = Asked { model: Some("b"), main: true };
        let forms = build(Dialect::Chat, Dialect::Chat, body.clone(), &asked, &blocks, &Quirks::default()).unwrap();
        let text = String::from_utf8(forms.forwarded.to_vec()).unwrap();
        assert_eq!(
            text,
            r#"{"model":"b","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yes"},{"role":"user","content":"hi\n\n<note>"}]}"#
        );
        assert_eq!(forms.sent, body);
    }

    #[test]
    fn a_block_of_the_system_prompt_goes_back_there_whatever_the_settings_are_today() {
        let body = Bytes::from_static(br#"{"model":"a","messages":[{"role":"user","content":"hi"}]}"#);
        let request = Request::parse(Dialect::Chat, body.clone()).unwrap();
        let made = "<metaclaw-context>\nReference notes added by MetaClaw, not written by the user. Use what helps with the \
                    user's current request; ignore the rest.\n\nx\n</metaclaw-context>";
        let blocks = [Block { message_hash: request.messages()[0].hash, occurrence: 0, text: made.into() }];
        let asked = Asked { model: Some("a"), main: true };
        let forms = build(Dialect::Chat, Dialect::Chat, body, &asked, &blocks, &Quirks::default()).unwrap();
        let sent: serde_json::Value = serde_json::from_slice(&forms.forwarded).unwrap();
        assert_eq!(sent["messages"][0]["role"], "system");
        assert_eq!(sent["messages"][1]["content"], "hi");
    }

    #[test]
    fn nothing_added_is_forwarded_byte_for_byte() {
        let body = Bytes::from_static(br#"{ "model":"a", "messages":[{"role":"user","content":"hi"}] }"#);
        let asked = Asked { model: Some("a"), main: true };
        let forms = build(Dialect::Chat, Dialect::Chat, body.clone(), &asked, &[], &Quirks::default()).unwrap();
        assert_eq!(forms.forwarded, body);
    }
}
