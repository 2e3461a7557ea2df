//! From tokens to what the agent sees: whole characters only, nothing of a stop sequence, thoughts and calls of tools
//! apart from the answer. How likely a token was is told with the text that it is in, and not if that is not told.

use std::collections::VecDeque;
use std::ops::Range;

use serde_json::Value;

use crate::reply::Likelihood;

/// Something that the model has said.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Said {
    /// Part of the answer.
    Text(String),
    /// Part of the thoughts before it.
    Thought(String),
    /// A whole call of a tool: name, and arguments as JSON.
    Call(String, String),
}

pub(crate) const THINK: (&str, &str) = ("<think>", "</think>");
const CALL: (&str, &str) = ("<tool_call>", "</tool_call>");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Answer,
    Thoughts,
    Call,
}

/// A text that ends a part, and what comes then; `None` = nothing.
type Mark = (String, Option<Part>);

/// See the module.
#[derive(Debug)]
pub(crate) struct Speech {
    /// Bytes of a character that is not whole yet.
    bytes: Vec<u8>,
    /// Text that may be the beginning of a stop sequence or a mark.
    held: String,
    /// Bytes of text so far, the held ones included.
    length: usize,
    marks: [Vec<Mark>; 3],
    part: Part,
    begun: bool,
    /// The stop sequence that came.
    pub(crate) stopped: Option<String>,
    /// Likelihoods, with where in the text their tokens begin.
    likelihoods: VecDeque<(usize, Likelihood)>,
    /// Where in the text the answer was told.
    told: Vec<Range<usize>>,
}

impl Speech {
    /// `thinking`: whether the text begins within thoughts; `None` = the model has no mark for them. `calls`: calls of tools
    /// are looked for.
    pub(crate) fn new(stops: Vec<String>, thinking: Option<bool>, calls: bool) -> Self {
        let part = if thinking == Some(true) { Part::Thoughts } else { Part::Answer };
        let mut answer: Vec<Mark> = stops.into_iter().map(|stop| (stop, None)).collect();
        if thinking.is_some() {
            answer.push((THINK.0.to_owned(), Some(Part::Thoughts)));
        }
        if calls {
            answer.push((CALL.0.to_owned(), Some(Part::Call)));
        }
        let back = |mark: &str| vec![(mark.to_owned(), Some(Part::Answer))];
        Self {
            bytes: Vec::new(),
            held: String::new(),
            length: 0,
            marks: [answer, back(THINK.1), back(CALL.1)],
            part,
            begun: false,
            stopped: None,
            likelihoods: VecDeque::new(),
            told: Vec::new(),
        }
    }

    /// Takes what a token says, and how likely it was where that is to be told.
    pub(crate) fn push(&mut self, bytes: &[u8], likelihood: Option<Likelihood>) -> Vec<Said> {
        self.likelihoods.extend(likelihood.map(|likelihood| (self.length, likelihood)));
        self.bytes.extend_from_slice(bytes);
        let whole = whole_characters(&self.bytes);
        let rest = self.bytes.split_off(whole);
        let text = std::mem::replace(&mut self.bytes, rest);
        self.take(&text);
        self.flow(false)
    }

    /// The text is over.
    pub(crate) fn end(&mut self) -> Vec<Said> {
        let rest = std::mem::take(&mut self.bytes);
        self.take(&rest);
        self.flow(true)
    }

    fn take(&mut self, bytes: &[u8]) {
        let before = self.held.len();
        self.held.push_str(&String::from_utf8_lossy(bytes));
        self.length += self.held.len() - before;
    }

    /// The likelihoods of the tokens of the answer that was told since the last call.
    pub(crate) fn likelihoods(&mut self) -> Vec<Likelihood> {
        let decided = self.length - self.held.len();
        let mut told = Vec::new();
        while let Some((at, likelihood)) = self.likelihoods.pop_front_if(|(at, _)| *at < decided) {
            if self.told.iter().any(|range| range.contains(&at)) {
                told.push(likelihood);
            }
        }
        // Tokens that are still waited for lie behind all of this.
        self.told.clear();
        told
    }

    fn flow(&mut self, over: bool) -> Vec<Said> {
        let mut said = Vec::new();
        while self.stopped.is_none() {
            let marks = &self.marks[self.part as usize];
            let found = marks
                .iter()
                .filter_map(|(mark, next)| Some((self.held.find(mark.as_str())?, mark.len(), *next)))
                .min_by_key(|(at, length, _)| (*at, std::cmp::Reverse(*length)));
            let from = self.length - self.held.len();
            let Some((at, length, next)) = found else {
                let keep = if over { 0 } else { self.beginning_of(marks) };
                let rest = self.held.split_off(self.held.len() - keep);
                let text = std::mem::replace(&mut self.held, rest);
                if self.part == Part::Call && !over {
                    // A call is told as a whole.
                    self.held.insert_str(0, &text);
                } else {
                    self.tell(text, from, &mut said);
                }
                break;
            };
            let rest = self.held.split_off(at + length);
            let mut text = std::mem::replace(&mut self.held, rest);
            let mark = text.split_off(at);
            match (self.part, next) {
                (Part::Call, _) => match call(&text) {
                    Some((name, arguments)) => said.push(Said::Call(name, arguments)),
                    None => said.push(Said::Text(format!("{}{text}{}", CALL.0, CALL.1))),
                },
                _ => self.tell(text, from, &mut said),
            }
            match next {
                Some(part) => self.part = part,
                None => {
                    self.stopped = Some(mark);
                    self.held.clear();
                }
            }
            if self.part == Part::Answer {
                // The line ends around thoughts and calls belong to them.
                self.begun = false;
            }
        }
        said
    }

    /// Bytes at the end that may be the beginning of a mark.
    fn beginning_of(&self, marks: &[Mark]) -> usize {
        let longest = marks.iter().map(|(mark, _)| mark.len()).max().unwrap_or(0).saturating_sub(1);
        (1..=longest.min(self.held.len()))
            .rev()
            .filter(|length| self.held.is_char_boundary(self.held.len() - length))
            .find(|length| {
                let end = &self.held[self.held.len() - length..];
                marks.iter().any(|(mark, _)| mark.len() > *length && mark.starts_with(end))
            })
            .unwrap_or(0)
    }

    /// Tells text that begins at `from`.
    fn tell(&mut self, text: String, from: usize, said: &mut Vec<Said>) {
        let mut text = text;
        if self.part == Part::Answer {
            self.told.push(from..from + text.len());
        }
        if !self.begun {
            text = text.trim_start_matches('\n').to_owned();
            self.begun = !text.is_empty();
        }
        if text.is_empty() {
            return;
        }
        said.push(match self.part {
            Part::Thoughts => Said::Thought(text),
            Part::Call => Said::Text(format!("{}{text}", CALL.0)),
            Part::Answer => Said::Text(text),
        });
    }
}

/// Bytes up to a character that may still become whole. What never can stays in, and is shown as such.
fn whole_characters(bytes: &[u8]) -> usize {
    let mut from = 0;
    while let Err(error) = std::str::from_utf8(&bytes[from..]) {
        from += error.valid_up_to();
        match error.error_len() {
            Some(broken) => from += broken,
            None => return from,
        }
    }
    bytes.len()
}

/// Name and arguments of a call as models write it.
fn call(text: &str) -> Option<(String, String)> {
    let call: Value = serde_json::from_str(text.trim()).ok()?;
    let name = call.get("name")?.as_str()?.to_owned();
    let arguments = call
        .get("arguments")
        .or_else(|| call.get("parameters"))
        .cloned()
        .unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    let arguments = match arguments {
        Value::String(text) => text,
        other => other.to_string(),
    };
    Some((name, arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(speech: &mut Speech, pieces: &[&[u8]]) -> Vec<Said> {
        let mut said: Vec<Said> = pieces.iter().flat_map(|piece| speech.push(piece, None)).collect();
        said.extend(speech.end());
        said
    }

    fn text(said: &[Said]) -> String {
        said.iter().map(|said| if let Said::Text(text) = said { text.as_str() } else { "" }).collect()
    }

    #[test]
    fn a_character_is_told_when_it_is_whole() {
        let mut speech = Speech::new(Vec::new(), Some(false), false);
        assert_eq!(speech.push(b"a\xe6\x97", None), [Said::Text("a".into())]);
        assert_eq!(speech.push(b"\xa5", None), [Said::Text("日".into())]);
        assert_eq!(speech.push(b"\xff!", None), [Said::Text("\u{fffd}!".into())]);
    }

    #[test]
    fn nothing_of_a_stop_sequence_is_told_and_nothing_behind_it() {
        let mut speech = Speech::new(vec!["\nUser:".into(), "END".into()], Some(false), false);
        assert_eq!(speech.push(b"one E", None), [Said::Text("one ".into())]);
        assert_eq!(speech.push(b"N", None), []);
        assert_eq!(speech.push(b"ough\nUs", None), [Said::Text("ENough".into())]);
        assert_eq!(speech.push(b"er: two", None), []);
        assert_eq!(speech.stopped.as_deref(), Some("\nUser:"));
        assert_eq!(speech.end(), []);
    }

    #[test]
    fn thoughts_and_calls_are_told_apart_from_the_answer() {
        let mut speech = Speech::new(Vec::new(), Some(false), true);
        let all =
            b"<think>\nhm</think>\n\nSo:\n<tool_call>\n{\"name\": \"look\", \"arguments\": {\"at\": 1}}\n</tool_call>";
        let pieces: Vec<&[u8]> = all.chunks(3).collect();
        let said = run(&mut speech, &pieces);
        let thoughts: String =
            said.iter().map(|said| if let Said::Thought(text) = said { text.as_str() } else { "" }).collect();
        assert_eq!(thoughts, "hm");
        assert_eq!(text(&said), "So:\n");
        assert_eq!(said.last(), Some(&Said::Call("look".into(), "{\"at\":1}".into())));
    }

    #[test]
    fn a_model_without_thoughts_may_write_their_mark() {
        let mut speech = Speech::new(Vec::new(), None, false);
        assert_eq!(text(&run(&mut speech, &[b"<think>a</think>"])), "<think>a</think>");
    }

    #[test]
    fn likelihoods_are_those_of_the_tokens_that_are_told() {
        let tokens: [&[u8]; 12] =
            [b"<think>", b"hm", b"</think>", b"I", b"'m", b" ", b"a\xc3", b"\xa4", b" s", b"or", b"ry", b" no"];
        let mut speech = Speech::new(vec!["sorry".into()], Some(false), false);
        let mut told = Vec::new();
        for token in tokens {
            let likelihood = Likelihood { text: token.to_vec(), logprob: 0.0, others: Vec::new() };
            let _ = speech.push(token, Some(likelihood));
            told.extend(speech.likelihoods().into_iter().map(|likelihood| likelihood.text));
            if speech.stopped.is_some() {
                break;
            }
        }
        let _ = speech.end();
        told.extend(speech.likelihoods().into_iter().map(|likelihood| likelihood.text));
        // The token " s" begins before the stop sequence, with a space that is told.
        assert_eq!(told, [&b"I"[..], b"'m", b" ", b"a\xc3", b"\xa4", b" s"]);
    }

    #[test]
    fn what_is_no_call_stays_text() {
        let mut speech = Speech::new(Vec::new(), Some(false), true);
        assert_eq!(text(&run(&mut speech, &[b"<tool_call>oops</tool_call>"])), "<tool_call>oops</tool_call>");
        let mut speech = Speech::new(Vec::new(), Some(false), true);
        assert_eq!(text(&run(&mut speech, &[b"a <tool_call>{\"na"])), "a <tool_call>{\"na");
    }

    proptest::proptest! {
        #[test]
        fn however_tokens_are_cut_the_text_is_the_same(text_in in "[a-zé日<>/ENDUser: ]{0,60}", cut in 1_usize..7) {
            let once = { let mut speech = Speech::new(vec!["END".into()], Some(false), false); run(&mut speech, &[text_in.as_bytes()]) };
            let mut speech = Speech::new(vec!["END".into()], Some(false), false);
            let pieces: Vec<&[u8]> = text_in.as_bytes().chunks(cut).collect();
            proptest::prop_assert_eq!(text(&once), text(&run(&mut speech, &pieces)));
        }
    }
}
