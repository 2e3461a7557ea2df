//! Puts what decoders see into one strict order: one block open at a time, every open closed once.
//! Decoders name blocks by keys of their own; encoders and the fold read the events.

use std::collections::VecDeque;

use crate::ApiError;
use crate::ir::{Block, Delta, Event, Head, Stop, Usage};

/// The decoder's own name for a block.
pub(crate) type Key = u64;

#[derive(Debug, Default)]
pub(crate) struct Sequencer {
    out: Vec<Event>,
    open: Option<Open>,
    /// The open block while it is empty: shown with its first delta, dropped if none comes.
    unseen: Option<Block>,
    /// Blocks that began while a tool call was still incomplete, in order.
    waiting: VecDeque<Waiting>,
    started: bool,
    stopped: bool,
    content: bool,
}

#[derive(Debug)]
struct Open {
    key: Key,
    kind: Kind,
    arguments: Balance,
}

#[derive(Debug)]
struct Waiting {
    key: Key,
    block: Block,
    closed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Reasoning,
    Refusal,
    Tool,
    Opaque,
}

impl Kind {
    fn of(block: &Block) -> Self {
        match block {
            Block::Text { .. } => Self::Text,
            Block::Reasoning(_) => Self::Reasoning,
            Block::Refusal { .. } => Self::Refusal,
            Block::ToolCall(_) => Self::Tool,
            Block::Opaque { .. } => Self::Opaque,
        }
    }
}

impl Sequencer {
    /// The events since the last call.
    pub(crate) fn drain(&mut self) -> std::vec::Drain<'_, Event> {
        self.out.drain(..)
    }

    /// Whether any block was seen.
    pub(crate) fn has_content(&self) -> bool {
        self.content
    }

    pub(crate) fn started(&self) -> bool {
        self.started
    }

    pub(crate) fn start(&mut self, head: Head) {
        if !self.started {
            self.started = true;
            self.out.push(Event::Start(head));
        }
    }

    /// Opens a block; what is open gives way, unless it is a tool call whose arguments are not whole yet.
    pub(crate) fn open(&mut self, key: Key, block: Block) {
        self.start(Head::default());
        match &self.open {
            Some(open) if open.kind == Kind::Tool && !open.arguments.complete() => {
                self.waiting.push_back(Waiting { key, block, closed: false });
            }
            _ => self.begin(key, block),
        }
    }

    pub(crate) fn is_open(&self, key: Key) -> bool {
        self.open.as_ref().is_some_and(|open| open.key == key) || self.waiting.iter().any(|one| one.key == key)
    }

    pub(crate) fn delta(&mut self, key: Key, delta: Delta) {
        if let Some(open) = self.open.as_mut().filter(|open| open.key == key) {
            if open.kind == Kind::Tool
                && let Delta::Text(text) = &delta
            {
                open.arguments.feed(text);
            }
            let whole = open.kind == Kind::Tool && open.arguments.complete();
            if let Some(block) = self.unseen.take() {
                self.content = true;
                self.out.push(Event::Open(block));
            }
            self.out.push(Event::Delta(delta));
            if whole && !self.waiting.is_empty() {
                self.next();
            }
        } else if let Some(one) = self.waiting.iter_mut().find(|one| one.key == key) {
            one.block.apply(delta);
        }
        // A tool call that was closed takes nothing more: its arguments were whole.
    }

    pub(crate) fn close(&mut self, key: Key) {
        if self.open.as_ref().is_some_and(|open| open.key == key) {
            self.next();
        } else if let Some(one) = self.waiting.iter_mut().find(|one| one.key == key) {
            one.closed = true;
        }
    }

    pub(crate) fn close_all(&mut self) {
        while self.open.is_some() {
            self.next();
        }
    }

    pub(crate) fn usage(&mut self, usage: Usage) {
        self.out.push(Event::Usage(usage));
    }

    pub(crate) fn stop(&mut self, stop: Stop) {
        self.start(Head::default());
        self.close_all();
        if !self.stopped {
            self.stopped = true;
            self.out.push(Event::Stop(stop));
        }
    }

    pub(crate) fn error(&mut self, error: ApiError) {
        self.close_all();
        self.out.push(Event::Error(error));
    }

    fn begin(&mut self, key: Key, block: Block) {
        self.end();
        let mut arguments = Balance::default();
        if let Block::ToolCall(call) = &block {
            arguments.custom = call.custom;
            arguments.feed(&call.arguments);
        }
        self.open = Some(Open { key, kind: Kind::of(&block), arguments });
        if block.is_empty() {
            self.unseen = Some(block);
        } else {
            self.content = true;
            self.out.push(Event::Open(block));
        }
    }

    /// Closes the open block.
    fn end(&mut self) {
        if self.open.take().is_some() && self.unseen.take().is_none() {
            self.out.push(Event::Close);
        }
    }

    /// Closes the open block and lets the waiting ones in, as far as they are whole.
    fn next(&mut self) {
        self.end();
        while let Some(Waiting { key, block, closed }) = self.waiting.pop_front() {
            self.begin(key, block);
            let whole = self.open.as_ref().is_none_or(|open| open.kind != Kind::Tool || open.arguments.complete());
            if closed || (whole && !self.waiting.is_empty()) {
                self.end();
            } else {
                break;
            }
        }
    }
}

/// Follows argument text until its outermost object or array is closed.
#[derive(Debug, Default)]
struct Balance {
    depth: u32,
    begun: bool,
    in_string: bool,
    escaped: bool,
    /// Free text: nothing in it tells where it ends.
    custom: bool,
}

impl Balance {
    fn feed(&mut self, text: &str) {
        if self.custom || self.complete() {
            return;
        }
        for byte in text.bytes() {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => {
                    self.depth += 1;
                    self.begun = true;
                }
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    fn complete(&self) -> bool {
        !self.custom && self.begun && self.depth == 0 && !self.in_string
    }
}
