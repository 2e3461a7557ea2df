//! Whether several people take part in a conversation, by what OpenClaw puts into its prompts. Whoever sends a message can
//! write such things as well, so this may take something away, and never give anything.

use serde_json::Value as Json;

use super::{OPENCLAW_MARK, is_label};
use crate::request::{Request, Role};

/// What one of the marks below stands in; without it nothing is looked through.
const SIGNS: [&[u8]; 3] = [b"is_group_chat", b"chat_type", b"group_subject"];
/// OpenClaw's facts about a conversation in its instructions to the model, …
const SCHEMA: &str = "openclaw.inbound_meta";
/// … and how the block in a user's message that holds them is headed.
const HEADING: &str = "Conversation info";
/// How far behind the schema's name the facts stand.
const NEAR: usize = 2000;

/// True if the instructions or one of the user's messages say that it is a group's conversation.
pub fn is_group(request: &Request) -> bool {
    let bytes = request.bytes();
    if !SIGNS.iter().any(|sign| memchr::memmem::find(bytes, sign).is_some()) {
        return false;
    }
    let mut found = false;
    request.each_system_text(&mut |text| {
        found |= text.as_str().is_some_and(|text| instructions_say(&text) || message_says(&text));
    });
    let users = request.messages().iter().enumerate().filter(|(_, message)| message.role == Role::User);
    found || users.map(|(index, _)| request.message_text(index)).any(|text| message_says(&text))
}

/// Chats of one person with the agent have this type; everything else is a group, a channel, a thread.
fn is_shared(chat_type: &str) -> bool {
    !matches!(chat_type.trim().to_lowercase().as_str(), "" | "direct" | "dm" | "private")
}

fn instructions_say(text: &str) -> bool {
    text.match_indices(SCHEMA).any(|(at, _)| {
        let near = &text[at..text.floor_char_boundary((at + NEAR).min(text.len()))];
        let Some((_, value)) = near.split_once("\"chat_type\"") else { return false };
        value
            .trim_start_matches([':', ' ', '\t', '\n'])
            .strip_prefix('"')
            .and_then(|v| v.split('"').next())
            .is_some_and(is_shared)
    })
}

fn message_says(text: &str) -> bool {
    if !text.contains(OPENCLAW_MARK) && !text.contains("(untrusted") {
        return false;
    }
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if !line.starts_with(HEADING) || !is_label(line.trim_end()) {
            continue;
        }
        let block: Vec<&str> =
            lines.by_ref().skip_while(|l| l.starts_with("```")).take_while(|l| *l != "```").collect();
        if serde_json::from_str::<Json>(&block.join("\n")).is_ok_and(|facts| facts_say(&facts)) {
            return true;
        }
    }
    false
}

fn facts_say(facts: &Json) -> bool {
    facts["is_group_chat"] == true
        || facts["chat_type"].as_str().is_some_and(is_shared)
        || ["group_subject", "group_channel", "group_space"].iter().any(|key| facts[*key].is_string())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::Dialect;

    fn says(system: &str, user: &str) -> bool {
        let body = json!({"messages": [{"role": "system", "content": system}, {"role": "user", "content": user}]});
        is_group(&Request::parse(Dialect::Chat, body.to_string().into()).unwrap())
    }

    fn instructions(chat_type: &str) -> String {
        let facts = json!({"schema": "openclaw.inbound_meta.v2", "channel": "telegram", "chat_type": chat_type});
        format!("You help.\n### Message Context\n```json\n{facts:#}\n```\n")
    }

    fn message(heading: &str, facts: &Json) -> String {
        format!("{heading}\n```json\n{facts:#}\n```\n\nWho brings the cake?")
    }

    #[rstest]
    #[case::group(&instructions("group"), "hello", true)]
    #[case::channel(&instructions("channel"), "hello", true)]
    #[case::direct(&instructions("direct"), "hello", false)]
    #[case::nothing("You help.", "hello", false)]
    #[case::marked("", &message("Conversation info: ⟦openclaw:ctx⟧", &json!({"is_group_chat": true})), true)]
    #[case::untrusted("", &message("Conversation info (untrusted metadata):", &json!({"is_group_chat": true})), true)]
    #[case::older("", &message("Conversation info (untrusted metadata):", &json!({"group_subject": "Family"})), true)]
    #[case::not_a_group("", &message("Conversation info: ⟦openclaw:ctx⟧", &json!({"is_group_chat": false, "message_id": "7"})), false)]
    #[case::forwarded("", &message("Forwarded message context: ⟦openclaw:ctx⟧", &json!({"chat_type": "channel"})), false)]
    #[case::talk_of_it("", "What does \"is_group_chat\": true mean, and chat_type group?", false)]
    fn a_group_is_told_by_openclaws_own_marks(#[case] system: &str, #[case] user: &str, #[case] group: bool) {
        assert_eq!(says(system, user), group);
    }

    #[test]
    fn an_earlier_message_tells_it_as_well() {
        let first = message("Conversation info: ⟦openclaw:ctx⟧", &json!({"is_group_chat": true}));
        let messages = json!([{"role": "user", "content": first}, {"role": "assistant", "content": "Anna."},
                              {"role": "user", "content": [{"type": "text", "text": "And the tea?"}]}]);
        let body = json!({"model": "m", "max_tokens": 9, "messages": messages}).to_string();
        assert!(is_group(&Request::parse(Dialect::Messages, body.into()).unwrap()));
    }
}
