//! An echo is no memory: what the user says now, said before, tells the model nothing. Nor does a greeting, or the answer
//! to one. Used by `recall` on what was found.

use std::collections::HashSet;

use store::{Fact, Window};

use crate::recall::Ask;
use crate::terms::{self, Asked};

/// Words of a message that only greets, thanks or agrees.
const GREETINGS: &[&str] = &[
    "hello",
    "hi",
    "hey",
    "hiya",
    "howdy",
    "greetings",
    "good",
    "morning",
    "afternoon",
    "evening",
    "night",
    "thanks",
    "thank",
    "thx",
    "cheers",
    "ok",
    "okay",
    "bye",
    "goodbye",
    "welcome",
    "there",
    "again",
    "hallo",
    "guten",
    "tag",
    "morgen",
    "danke",
    "bonjour",
    "salut",
    "merci",
    "hola",
    "buenos",
    "gracias",
    "ciao",
    "grazie",
    "ola",
    "obrigado",
    "test",
    "testing",
    "ping",
    "yes",
    "no",
    "sure",
    "great",
    "please",
    "well",
];
/// The same in Chinese and Japanese, whole.
const GREETINGS_CJK: &[&str] = &[
    "你好",
    "您好",
    "嗨",
    "哈喽",
    "早",
    "早安",
    "早上好",
    "下午好",
    "晚上好",
    "晚安",
    "谢谢",
    "謝謝",
    "多谢",
    "好的",
    "再见",
    "在吗",
    "你好吗",
    "こんにちは",
    "こんばんは",
    "おはよう",
    "おはようございます",
    "ありがとう",
    "ありがとうございます",
    "はい",
];
/// What asks when something was: then the same words with their date are the answer.
const WHEN: &[&str] = &[
    "when",
    "date",
    "day",
    "ago",
    "wann",
    "quand",
    "cuándo",
    "什么时候",
    "什麼時候",
    "何时",
    "哪天",
    "几号",
    "幾號",
    "いつ",
    "何日",
    "何時",
];

/// What is said now, to be compared with what was said before.
pub(crate) struct Echo {
    /// Its letters.
    hash: i64,
    terms: HashSet<u32>,
    /// It asks for something.
    asks: bool,
    greets: bool,
}

impl Echo {
    pub(crate) fn new(ask: &Ask<'_>, asked: &[Asked]) -> Self {
        let folded = text::fold(ask.text);
        let said: String = folded.chars().filter(|c| c.is_alphanumeric()).collect();
        let mut words = folded.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let asks_when = WHEN
            .iter()
            .any(|word| if word.is_ascii() { words.clone().any(|said| said == *word) } else { folded.contains(word) });
        let greets = !said.is_empty()
            && said.len() <= 60
            && (GREETINGS_CJK.contains(&said.as_str()) || words.all(|word| GREETINGS.contains(&word)));
        Self {
            hash: terms::hash(ask.text),
            terms: asked.iter().map(|asked| asked.number).collect(),
            asks: is_question(ask.text) || asks_when,
            greets,
        }
    }

    /// Nothing of it is worth a search.
    pub(crate) fn is_greeting(&self) -> bool {
        self.greets
    }

    /// Whether these words say what is said now, or only asked for it. A statement stays: it says that it is so, and when.
    fn is(&self, words: &str) -> bool {
        if terms::hash(words) == self.hash {
            return true;
        }
        if !is_question(words) {
            return false;
        }
        let own = terms::asked(words);
        !own.is_empty() && own.iter().all(|term| self.terms.contains(&term.number))
    }

    /// Takes the echoes out of what was found, and what was answered to them where nothing is asked.
    pub(crate) fn leave_out<C>(&self, found: &mut Vec<C>, parts: impl Fn(&C) -> (&Window, Option<&Fact>)) {
        let mut turns: HashSet<(String, u32)> = HashSet::new();
        found.retain(|candidate| {
            let (window, fact) = parts(candidate);
            let echo = fact.is_none() && window.speaker != "assistant" && self.is(&window.text);
            if echo {
                turns.insert((window.session.clone(), window.turn_no));
            }
            !echo
        });
        if self.asks || turns.is_empty() {
            return;
        }
        found.retain(|candidate| {
            let (window, fact) = parts(candidate);
            fact.is_some()
                || window.speaker != "assistant"
                || !turns.contains(&(window.session.clone(), window.turn_no))
        });
    }
}

fn is_question(text: &str) -> bool {
    text.trim_end().ends_with(['?', '？', '吗', '呢', 'か'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn echo(text: &str) -> Echo {
        Echo::new(&Ask { text, ..Ask::default() }, &terms::asked(text))
    }

    #[test]
    fn greetings_are_told_from_questions() {
        for text in ["hello", "Hi!", "Good morning :)", "thanks, ok", "你好", "こんにちは。", "ping"] {
            assert!(echo(text).is_greeting(), "{text}");
        }
        for text in ["", "hello, where is my bike?", "good restaurants", "你好，我的车在哪里？", "the morning train"]
        {
            assert!(!echo(text).is_greeting(), "{text}");
        }
    }

    #[test]
    fn what_says_nothing_new_is_an_echo_and_a_statement_that_answers_is_none() {
        let yes = [
            ("What is my locker number?", "what is my locker number"),
            ("And what was the number of my locker again?", "What is my locker number?"),
            ("Continue with the sails!", "continue with the sails"),
        ];
        for (now, before) in yes {
            assert!(echo(now).is(before), "{now} / {before}");
        }
        let no = [
            ("What is my locker number?", "My locker number is 31."),
            ("When did I visit the temple in Kyoto?", "I visited the temple in Kyoto."),
            ("tell me when I visited the temple in Kyoto", "I visited the temple in Kyoto."),
            ("Is Bob my dentist?", "Bob is my dentist."),
            ("remind me what I said about the rent and Friday", "The rent is due Friday."),
            ("What is my locker number?", "What is the colour of my locker?"),
        ];
        for (now, before) in no {
            assert!(!echo(now).is(before), "{now} / {before}");
        }
    }
}
