//! Makes one text of a conversation, by the chat template in the model's file. A template is a program of strangers: it
//! gets a bounded number of steps, and with them of bytes, and sees nothing but the conversation. That bounds neither how
//! deep its values and its own text are, nor lists that are added to themselves, so one that is not known is rendered in a
//! process of its own.

use std::io;
use std::path::PathBuf;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde};
use minijinja::{Environment, Error, ErrorKind, State};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};
use xxhash_rust::xxh3::xxh3_128;

use crate::apart::{self, Unrendered};
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

/// Longest template, bytes: several times those in use.
const LONGEST: usize = 64 << 10;
/// Templates that are known, by their xxh3-128: they are rendered in this process. SmolLM2's.
const KNOWN: [u128; 1] = [0x98f6_3cc3_d421_d28f_99ab_995e_9629_dacd];

/// A model's chat template.
#[derive(Debug)]
pub(crate) struct Template {
    source: String,
    begin: String,
    end: String,
    place: Place,
    /// It can show tools to the model.
    pub(crate) takes_tools: bool,
}

/// Where a template is rendered.
#[derive(Debug)]
enum Place {
    Here(Box<Rendering>),
    /// By this program, in a process of its own.
    Apart(PathBuf),
}

/// What goes into a template.
#[derive(Debug, Serialize, Deserialize)]
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
    /// `None`: the model has none of its own. What is not known is given to the program `apart`, if there is one.
    pub(crate) fn new(source: Option<&str>, begin: String, end: String, apart: Option<PathBuf>) -> Result<Self, Fault> {
        let source = source.unwrap_or(PLAIN);
        if source.len() > LONGEST {
            return Err(Fault::Template(format!("it is {} bytes long", source.len())));
        }
        let apart = apart.filter(|_| source != PLAIN && !KNOWN.contains(&xxh3_128(source.as_bytes())));
        let place = match apart {
            None => {
                let rendering = Rendering::new(source, begin.clone(), end.clone()).map_err(Fault::Template)?;
                Place::Here(Box::new(rendering))
            }
            Some(program) => {
                match apart::render(&program, (source, &begin, &end), None, &|| false) {
                    Ok(_) => {}
                    Err(Unrendered::Refused(reason)) => return Err(Fault::Template(reason)),
                    Err(Unrendered::Broken(how)) => return Err(Fault::Template(format!("it broke off: {how}"))),
                    Err(Unrendered::Ended) => return Err(Fault::Template("nobody waits for it".to_owned())),
                }
                Place::Apart(program)
            }
        };
        Ok(Self { takes_tools: source.contains("tools"), source: source.to_owned(), begin, end, place })
    }

    /// The template speaks of this mark.
    pub(crate) fn knows(&self, mark: &str) -> bool {
        self.source.contains(mark)
    }

    /// The text that the model goes on from.
    pub(crate) fn render(
        &self,
        conversation: &Conversation,
        vocab: &Vocab,
        ended: &dyn Fn() -> bool,
    ) -> Result<String, Unrendered> {
        let defused = |values: &[Value]| {
            let mut values = values.to_vec();
            for value in &mut values {
                if ended() {
                    return Err(Unrendered::Ended);
                }
                defuse(value, vocab);
            }
            Ok(values)
        };
        let (messages, tools) = (defused(&conversation.messages)?, defused(&conversation.tools)?);
        let conversation = Conversation { messages, tools, ..*conversation };
        match &self.place {
            Place::Here(rendering) => rendering.render(conversation).map_err(Unrendered::Refused),
            Place::Apart(program) => {
                apart::render(program, (&self.source, &self.begin, &self.end), Some(&conversation), ended)
            }
        }
    }
}

/// A template that is ready to be rendered in this process.
#[derive(Debug)]
pub(crate) struct Rendering {
    environment: Environment<'static>,
    begin: String,
    end: String,
}

impl Rendering {
    /// An error says what is wrong with the template.
    pub(crate) fn new(source: &str, begin: String, end: String) -> Result<Self, String> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| error.to_string())?);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |message: String| -> Result<String, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_filter("tojson", json);
        environment.add_template_owned("chat", source.to_owned()).map_err(|error| error.to_string())?;
        Ok(Self { environment, begin, end })
    }

    /// An error says what the template does not take.
    pub(crate) fn render(&self, conversation: Conversation) -> Result<String, String> {
        let Conversation { messages, tools, bytes, thinks } = conversation;
        let mut environment = self.environment.clone();
        let (count, bytes) = (messages.len() as u64, bytes as u64);
        environment.set_fuel(Some(STEPS + STEPS_PER_MESSAGE * count + STEPS_PER_BYTE * bytes));
        let template = environment.get_template("chat").map_err(|error| error.to_string())?;
        let mut values = serde_json::json!({
            "messages": messages,
            "add_generation_prompt": true,
            "bos_token": self.begin,
            "eos_token": self.end,
            "enable_thinking": thinks,
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
