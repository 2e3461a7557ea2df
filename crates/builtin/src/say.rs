//! From tokens to what the agent sees: whole characters only, nothing of a stop sequence, thoughts and calls of tools
//! apart from the answer.

use serde_json::Value;

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

const THINK: (&str, &str) = ("<think>", "</think>");
const CALL: (&str, &str) = ("<tool_call>", "</tool_call>");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Answer,
    Thoughts,
    Call,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Speech {
    /// Bytes of a character that is not whole yet.
    bytes: Vec<u8>,
    /// Text that may be the beginning of a stop sequence or a mark.
    held: String,
    stops: Vec<String>,
    part: Part,
    thinks: bool,
    calls: bool,
    begun: bool,
    /// A stop sequence came.
    pub(crate) stopped: bool,
}

impl Speech {
    /// `thinking`: the text begins within thoughts. `calls`: calls of tools are looked for.
    pub(crate) fn new(stops: Vec<String>, thinking: bool, calls: bool) -> Self {
        let part = if thinking { Part::Thoughts } else { Part::Answer };
        Self { bytes: Vec::new(), held: String::new(), stops, part, thinks: true, calls, begun: false, stopped: false }
    }

    /// Takes what a token says.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<Said> {
        self.bytes.extend_from_slice(bytes);
        let whole = whole_characters(&self.bytes);
        let rest = self.bytes.split_off(whole);
        let text = std::mem::replace(&mut self.bytes, rest);
        self.held.push_str(&String::from_utf8_lossy(&text));
        self.flow(false)
    }

    /// The text is over.
    pub(crate) fn end(&mut self) -> Vec<Said> {
        let rest = std::mem::take(&mut self.bytes);
        self.held.push_str(&String::from_utf8_lossy(&rest));
        self.flow(true)
    }

    fn flow(&mut self, over: bool) -> Vec<Said> {
        let mut said = Vec::new();
        while !self.stopped {
            let marks = self.marks();
            let found = marks
                .iter()
                .filter_map(|(mark, next)| Some((self.held.find(mark.as_str())?, mark.len(), *next)))
                .min_by_key(|(at, length, _)| (*at, std::cmp::Reverse(*length)));
            let Some((at, length, next)) = found else {
                let keep = if over { 0 } else { self.beginning_of(&marks) };
                let rest = self.held.split_off(self.held.len() - keep);
                let text = std::mem::replace(&mut self.held, rest);
                if self.part == Part::Call && !over {
                    // A call is told as a whole.
                    self.held.insert_str(0, &text);
                } else {
                    self.tell(text, &mut said);
                }
                break;
            };
            let rest = self.held.split_off(at + length);
            let mut text = std::mem::replace(&mut self.held, rest);
            text.truncate(at);
            match (self.part, next) {
                (Part::Call, _) => match call(&text) {
                    Some((name, arguments)) => said.push(Said::Call(name, arguments)),
                    None => said.push(Said::Text(format!("{}{text}{}", CALL.0, CALL.1))),
                },
                _ => self.tell(text, &mut said),
            }
            match next {
                Some(part) => self.part = part,
                None => {
                    self.stopped = true;
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

    /// What ends the present part, and what comes then; `None` = nothing.
    fn marks(&self) -> Vec<(String, Option<Part>)> {
        let mut marks: Vec<(String, Option<Part>)> = Vec::new();
        match self.part {
            Part::Answer => {
                marks.extend(self.stops.iter().map(|stop| (stop.clone(), None)));
                if self.thinks {
                    marks.push((THINK.0.to_owned(), Some(Part::Thoughts)));
                }
                if self.calls {
                    marks.push((CALL.0.to_owned(), Some(Part::Call)));
                }
            }
            Part::Thoughts => marks.push((THINK.1.to_owned(), Some(Part::Answer))),
            Part::Call => marks.push((CALL.1.to_owned(), Some(Part::Answer))),
        }
        marks
    }

    /// Bytes at the end that may be the beginning of a mark.
    fn beginning_of(&self, marks: &[(String, Option<Part>)]) -> usize {
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

    fn tell(&mut self, text: String, said: &mut Vec<Said>) {
        let mut text = text;
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
        let mut said: Vec<Said> = pieces.iter().flat_map(|piece| speech.push(piece)).collect();
        said.extend(speech.end());
        said
    }

    fn text(said: &[Said]) -> String {
        said.iter().map(|said| if let Said::Text(text) = said { text.as_str() } else { "" }).collect()
    }

    #[test]
    fn a_character_is_told_when_it_is_whole() {
        let mut speech = Speech::new(Vec::new(), false, false);
        assert_eq!(speech.push(b"a\xe6\x97"), [Said::Text("a".into())]);
        assert_eq!(speech.push(b"\xa5"), [Said::Text("日".into())]);
        assert_eq!(speech.push(b"\xff!"), [Said::Text("\u{fffd}!".into())]);
    }

    #[test]
    fn nothing_of_a_stop_sequence_is_told_and_nothing_behind_it() {
        let mut speech = Speech::new(vec!["\nUser:".into(), "END".into()], false, false);
        assert_eq!(speech.push(b"one E"), [Said::Text("one ".into())]);
        assert_eq!(speech.push(b"N"), []);
        assert_eq!(speech.push(b"ough\nUs"), [Said::Text("ENough".into())]);
        assert_eq!(speech.push(b"er: two"), []);
        assert!(speech.stopped);
        assert_eq!(speech.end(), []);
    }

    #[test]
    fn thoughts_and_calls_are_told_apart_from_the_answer() {
        let mut speech = Speech::new(Vec::new(), false, true);
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
    fn what_is_no_call_stays_text() {
        let mut speech = Speech::new(Vec::new(), false, true);
        assert_eq!(text(&run(&mut speech, &[b"<tool_call>oops</tool_call>"])), "<tool_call>oops</tool_call>");
        let mut speech = Speech::new(Vec::new(), false, true);
        assert_eq!(text(&run(&mut speech, &[b"a <tool_call>{\"na"])), "a <tool_call>{\"na");
    }

    proptest::proptest! {
        #[test]
        fn however_tokens_are_cut_the_text_is_the_same(text_in in "[a-zé日<>/ENDUser: ]{0,60}", cut in 1_usize..7) {
            let once = { let mut speech = Speech::new(vec!["END".into()], false, false); run(&mut speech, &[text_in.as_bytes()]) };
            let mut speech = Speech::new(vec!["END".into()], false, false);
            let pieces: Vec<&[u8]> = text_in.as_bytes().chunks(cut).collect();
            proptest::prop_assert_eq!(text(&once), text(&run(&mut speech, &pieces)));
        }
    }
}
