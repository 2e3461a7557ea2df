//! Answers to the setup as a text: YAML or JSON with settings in it. Scalars keep the text that was written, so that a key
//! of digits stays the key it is; what it means is decided where it is written into the settings.

use std::path::Path;

use serde_json::{Map, Value};

use crate::ConfigError;
use crate::yaml::{Body, Document, Node};

/// Reads answers: `key: value`, nested or dotted. Every scalar comes back as a string, nothing as null. Messages hold no
/// line of the text, because keys stand in it.
///
/// # Errors
/// [`ConfigError::Syntax`] with line and column.
pub fn answers(text: &str, file: &Path) -> Result<Map<String, Value>, ConfigError> {
    let syntax = |line, column, message| ConfigError::Syntax { file: file.to_path_buf(), line, column, message };
    let document = Document::parse(text).map_err(|error| syntax(error.line, error.column, error.message))?;
    let root = &document.root;
    match value(root) {
        Ok(Value::Object(answers)) => Ok(answers),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err(syntax(root.line, root.column, "answers are lines of the form key: value".to_owned())),
        Err(node) => Err(syntax(node.line, node.column, format!("{} is no name", node.describe()))),
    }
}

/// A node as JSON, or the node that stands where a name must.
fn value(node: &Node) -> Result<Value, &Node> {
    Ok(match &node.body {
        Body::Null => Value::Null,
        Body::Scalar { text, .. } => Value::String(text.clone()),
        Body::Sequence { items, .. } => Value::Array(items.iter().map(value).collect::<Result<_, _>>()?),
        Body::Mapping { entries, .. } => Value::Object(
            entries
                .iter()
                .map(|entry| Ok((entry.key.text().ok_or(&entry.key)?.to_owned(), value(&entry.value)?)))
                .collect::<Result<_, _>>()?,
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_and_models_that_look_like_numbers_stay_as_they_were_written() {
        let text = "api_key: 0123456\nmodel: 1e5\nllm:\n  headers: {X-A: 0123, X-B: 1_0}\n  api_base: ~\nport: 31000\n\
                    long: 123456789012345678901234567890\nskills: off\nlist: [007, \"1.0\"]\n";
        let read = answers(text, Path::new("a.yaml")).unwrap();
        let expected = json!({
            "api_key": "0123456", "model": "1e5", "llm": {"headers": {"X-A": "0123", "X-B": "1_0"}, "api_base": null},
            "port": "31000", "long": "123456789012345678901234567890", "skills": "off", "list": ["007", "1.0"],
        });
        assert_eq!(Value::Object(read), expected);
        let json = answers(r#"{"model": "m", "port": 1, "skills": true}"#, Path::new("-")).unwrap();
        assert_eq!(Value::Object(json), json!({"model": "m", "port": "1", "skills": "true"}));
    }

    #[test]
    fn a_mistake_is_told_without_the_lines_around_it() {
        for text in [
            "provider: custom\napi_key: sk-supersecret\n  model: m1\n",
            "api_key: \"sk-supersecret\n",
            "- sk-supersecret\n",
        ] {
            let error = answers(text, Path::new("a.yaml")).unwrap_err().to_string();
            assert!(!error.contains("supersecret"), "{error}");
        }
    }
}
