//! The shape of one request's conversation: the states it went through, who the user's messages are, what triggered it.
//! Made from a parsed request; `sessions` finds sessions by it, `inject` finds the messages that get text.

use std::collections::HashMap;

use dialect::request::chain;
use dialect::{Request, Role};

/// Names a user's message within its conversation: its hash, and which occurrence of that hash it is, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TurnKey {
    pub(crate) hash: u128,
    pub(crate) occurrence: u32,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Conversation {
    /// State after every message that counts.
    pub(crate) state: u128,
    /// State before the message that triggered the request.
    pub(crate) before: u128,
    /// States right after an answer of the model, oldest first.
    pub(crate) answered: Vec<u128>,
    /// State of the chain of user messages alone.
    pub(crate) said: Option<u128>,
    /// The same before the model's last answer.
    pub(crate) said_before: Option<u128>,
    /// The user's own messages: place in the request, and name.
    pub(crate) users: Vec<(usize, TurnKey)>,
    /// The message that triggered the request.
    pub(crate) trigger: Option<(usize, TurnKey)>,
    /// Tool results came after it.
    pub(crate) tool_step: bool,
    /// The model has said something after it, or a tool has.
    pub(crate) begun: bool,
    /// What came before lies at the provider, up to the answer with this id (`previous_response_id`).
    pub(crate) remote: Option<String>,
}

/// State of a conversation that lies at the provider up to the answer with this id.
pub(crate) fn response_state(id: &str) -> u128 {
    chain(0, xxhash_rust::xxh3::xxh3_128(id.as_bytes()))
}

impl Conversation {
    /// `begin` is where the chain of its messages begins, if they are not all that names it.
    pub(crate) fn of(request: &Request, previous_response: Option<&str>, begin: Option<u128>) -> Self {
        let messages = request.messages();
        let mut all = Self { tool_step: request.is_tool_step(), ..Self::default() };
        let (mut said, mut occurrences) = (0, HashMap::<u128, u32>::new());
        if let Some(begin) = begin {
            (all.state, said) = (begin, begin);
        }
        // The part of the conversation that lies at the provider belongs to the name of everything after it.
        if let Some(id) = previous_response {
            all.remote = Some(id.to_owned());
            all.state = response_state(id);
            all.answered.push(all.state);
            said = all.state;
        }
        let before = if previous_response.is_some() { all.state } else { 0 };
        let start = request.turn_start();
        for message in messages {
            let is_trigger = start == Some(message.index);
            // Instructions change with the time of day; what an agent adds in the user's name may be gone next time.
            if message.role == Role::System || (message.role == Role::User && !message.from_user) {
                continue;
            }
            if is_trigger {
                all.before = all.state;
            }
            all.state = chain(all.state, message.hash);
            match message.role {
                Role::Assistant => {
                    all.answered.push(all.state);
                    all.said_before = all.said;
                    all.begun |= all.trigger.is_some();
                }
                Role::User => {
                    let count = occurrences.entry(message.hash).or_default();
                    let hash = if before == 0 { message.hash } else { chain(before, message.hash) };
                    let key = TurnKey { hash, occurrence: *count };
                    *count += 1;
                    if message.has_words {
                        said = chain(said, message.hash);
                        all.said = Some(said);
                        all.users.push((message.index, key));
                    }
                    if is_trigger {
                        all.trigger = Some((message.index, key));
                    }
                }
                Role::Tool => all.begun |= all.trigger.is_some(),
                Role::System => {}
            }
        }
        all
    }

    /// The state this request went on from.
    pub(crate) fn prior(&self) -> Option<u128> {
        self.answered.last().copied()
    }

    /// The states right after the answers before that, the latest first.
    pub(crate) fn earlier(&self) -> impl Iterator<Item = &u128> {
        self.answered.iter().rev().skip(1)
    }
}
