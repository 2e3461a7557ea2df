//! Makes one text of a conversation, by the chat template in the model's file. A template is a program of strangers: it
//! gets a bounded number of steps, and with them of bytes, and sees nothing but the conversation. One thing is not counted:
//! lists that are added to themselves more than 32 times, which the engine (minijinja 3.1) then makes whole.

use std::io;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde};
use minijinja::{Environment, Error, ErrorKind, State};
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

use crate::error::Fault;
use crate::vocab::Vocab;

/// Steps that a template may take (the engine counts 64 bytes that it makes as one): so many, and more for every message
/// and every byte of the conversation. Templates in use take a tenth of it.
const STEPS: u64 = 500_000;
const STEPS_PER_MESSAGE: u64 = 500;
const STEPS_PER_BYTE: u64 = 3;
/// The form that most small models know, for files without a template.
const PLAIN: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n\
                     {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// A model's chat template.
#[derive(Debug)]
pub(crate) struct Template {
    environment: Environment<'static>,
    begin: String,
    end: String,
    /// It can show tools to the model.
    pub(crate) takes_tools: bool,
}

/// What goes into a template.
#[derive(Debug)]
pub(crate) struct Conversation {
    /// Role and content, and calls of tools where there are some.
    pub(crate) messages: Vec<Value>,
    pub(crate) tools: Vec<Value>,
    /// Bytes of text in all of it.
    pub(crate) bytes: usize,
    /// The model may think before it answers.
    pub(crate) thinks: bool,
}

impl Template {
    /// `None`: the model has none of its own.
    pub(crate) fn new(source: Option<&str>, begin: String, end: String) -> Result<Self, Fault> {
        let source = source.unwrap_or(PLAIN);
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| Fault::Template(error.to_string()))?);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |message: String| -> Result<String, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_filter("tojson", json);
        environment
            .add_template_owned("chat", source.to_owned())
            .map_err(|error| Fault::Template(error.to_string()))?;
        Ok(Self { environment, begin, end, takes_tools: source.contains("tools") })
    }

    /// The text that the model goes on from. An error says what the template does not take.
    pub(crate) fn render(&self, conversation: &Conversation, vocab: &Vocab) -> Result<String, String> {
        let mut messages = conversation.messages.clone();
        messages.iter_mut().for_each(|message| defuse(message, vocab));
        let mut tools = conversation.tools.clone();
        tools.iter_mut().for_each(|tool| defuse(tool, vocab));
        let mut environment = self.environment.clone();
        let (messages_count, bytes) = (conversation.messages.len() as u64, conversation.bytes as u64);
        environment.set_fuel(Some(STEPS + STEPS_PER_MESSAGE * messages_count + STEPS_PER_BYTE * bytes));
        let template = environment.get_template("chat").map_err(|error| error.to_string())?;
        let mut values = serde_json::json!({
            "messages": messages,
            "add_generation_prompt": true,
            "bos_token": self.begin,
            "eos_token": self.end,
            "enable_thinking": conversation.thinks,
        });
        // Templates ask whether there are tools by asking whether the name is there.
        if let (false, Value::Object(values)) = (tools.is_empty(), &mut values) {
            values.insert("tools".to_owned(), Value::Array(tools));
        }
        template.render(Serde(values)).map_err(|error| error.detail().map_or_else(|| error.to_string(), str::to_owned))
    }
}

/// Takes the meaning of special tokens from everything that was said.
fn defuse(value: &mut Value, vocab: &Vocab) {
    match value {
        Value::String(text) => {
            if let Some(changed) = vocab.defuse(text) {
                *text = changed;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| defuse(value, vocab)),
        Value::Object(values) => {
            let strange = values.keys().any(|key| vocab.defuse(key).is_some());
            values.values_mut().for_each(|value| defuse(value, vocab));
            // Names are said too: of a tool's parameters, of the arguments of a call.
            if strange {
                let named = std::mem::take(values).into_iter();
                *values = named.map(|(key, value)| (vocab.defuse(&key).unwrap_or(key), value)).collect();
            }
        }
        _ => {}
    }
}

/// Bytes of text in a value, names included.
pub(crate) fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(weight).sum(),
        Value::Object(values) => values.iter().map(|(key, value)| key.len() + weight(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

/// JSON as Python writes it, which is what models were trained on.
#[expect(clippy::needless_pass_by_value, reason = "the signature of a filter")]
fn json(state: &State<'_, '_>, value: minijinja::Value, options: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let _: Option<bool> = options.get("ensure_ascii")?;
    options.assert_all_used()?;
    let failed = |error: serde_json::Error| Error::new(ErrorKind::BadSerialization, error.to_string());
    let mut paid = Paid { state, bytes: Vec::new(), due: 0 };
    match indent {
        Some(indent) => {
            let indent = " ".repeat(indent.min(16));
            let formatter = PrettyFormatter::with_indent(indent.as_bytes());
            value.serialize(&mut Serializer::with_formatter(&mut paid, formatter)).map_err(failed)?;
        }
        None => value.serialize(&mut Serializer::with_formatter(&mut paid, Spaced)).map_err(failed)?,
    }
    String::from_utf8(paid.bytes).map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))
}

/// Text whose making is paid for as it grows: a list that is held as a rule has no end in memory before it is written.
struct Paid<'a, 's, 'e> {
    state: &'a State<'s, 'e>,
    bytes: Vec<u8>,
    due: usize,
}

impl io::Write for Paid<'_, '_, '_> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.due += piece.len();
        if self.due >= 1024 {
            self.state.consume_fuel((self.due / 16) as u64).map_err(io::Error::other)?;
            self.due = 0;
        }
        self.bytes.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Spaced;

impl serde_json::ser::Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { to.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { to.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b": ")
    }
}
