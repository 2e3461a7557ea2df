//! Tiny models with random weights, as GGUF files: they say nothing, but go through everything.

/// A file that is being written.
#[derive(Default)]
struct Writer {
    values: Vec<u8>,
    value_count: u64,
    tensors: Vec<u8>,
    tensor_count: u64,
    data: Vec<u8>,
    random: u32,
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

impl Writer {
    fn value(&mut self, key: &str, kind: u32, bytes: &[u8]) {
        self.values.extend([text(key), kind.to_le_bytes().to_vec(), bytes.to_vec()].concat());
        self.value_count += 1;
    }

    fn whole(&mut self, key: &str, number: u32) {
        self.value(key, 4, &number.to_le_bytes());
    }

    fn words(&mut self, key: &str, words: &str) {
        self.value(key, 8, &text(words));
    }

    fn list(&mut self, key: &str, kind: u32, items: &[Vec<u8>]) {
        let head = [kind.to_le_bytes().to_vec(), (items.len() as u64).to_le_bytes().to_vec()].concat();
        self.value(key, 9, &[head, items.concat()].concat());
    }

    /// From -1 to 1.
    fn number(&mut self) -> f32 {
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.random >> 8) as f32 / (1 << 23) as f32 - 1.0
    }

    fn half(x: f32) -> [u8; 2] {
        // Normal numbers only.
        let bits = x.to_bits();
        let exponent = ((bits >> 23) & 0xff) as i32 - 112;
        (((bits >> 16) & 0x8000) as u16 | (exponent as u16) << 10 | ((bits >> 13) & 0x3ff) as u16).to_le_bytes()
    }

    /// Weights: `kind` 0 = F32, 2 = Q4_0, 8 = Q8_0.
    fn tensor(&mut self, name: &str, shape: &[usize], kind: u32) {
        let mut entry = text(name);
        entry.extend((shape.len() as u32).to_le_bytes());
        shape.iter().for_each(|length| entry.extend((*length as u64).to_le_bytes()));
        entry.extend(kind.to_le_bytes());
        entry.extend((self.data.len() as u64).to_le_bytes());
        self.tensors.extend(entry);
        self.tensor_count += 1;
        let count: usize = shape.iter().product();
        match kind {
            0 => {
                for _ in 0..count {
                    let x = 1.0 + self.number() / 8.0;
                    self.data.extend(x.to_le_bytes());
                }
            }
            _ => {
                let bytes = if kind == 2 { 16 } else { 32 };
                for _ in 0..count / 32 {
                    let scale = if kind == 2 { 0.02 } else { 0.002 } * (1.5 + self.number());
                    self.data.extend(Self::half(scale));
                    for _ in 0..bytes {
                        let byte = (self.number() * 127.0) as i32 as u8;
                        self.data.push(byte);
                    }
                }
            }
        }
        self.data.resize(self.data.len().next_multiple_of(32), 0);
    }

    fn finish(self) -> Vec<u8> {
        let mut file = b"GGUF\x03\0\0\0".to_vec();
        file.extend(self.tensor_count.to_le_bytes());
        file.extend(self.value_count.to_le_bytes());
        file.extend(self.values);
        file.extend(self.tensors);
        file.resize(file.len().next_multiple_of(32), 0);
        file.extend(self.data);
        file
    }
}

const WIDTH: usize = 32;
const INNER: usize = 64;

fn model(family: &str, kind: u32, vocabulary: &dyn Fn(&mut Writer) -> usize) -> Vec<u8> {
    let mut to = Writer { random: 5, ..Writer::default() };
    to.words("general.architecture", family);
    for (key, number) in [
        ("block_count", 2),
        ("context_length", 256),
        ("embedding_length", WIDTH as u32),
        ("feed_forward_length", INNER as u32),
        ("attention.head_count", 2),
        ("attention.head_count_kv", 1),
        ("attention.key_length", 32),
        ("attention.value_length", 32),
    ] {
        to.whole(&format!("{family}.{key}"), number);
    }
    to.value(&format!("{family}.attention.layer_norm_rms_epsilon"), 6, &1e-5_f32.to_le_bytes());
    let words = vocabulary(&mut to);
    to.tensor("token_embd.weight", &[WIDTH, words], 8);
    to.tensor("output_norm.weight", &[WIDTH], 0);
    for layer in 0..2 {
        let mut weights = |part: &str, shape: &[usize], kind| to.tensor(&format!("blk.{layer}.{part}"), shape, kind);
        weights("attn_norm.weight", &[WIDTH], 0);
        weights("attn_q.weight", &[WIDTH, 64], kind);
        weights("attn_k.weight", &[WIDTH, 32], kind);
        weights("attn_v.weight", &[WIDTH, 32], kind);
        if family == "qwen3" {
            weights("attn_q_norm.weight", &[32], 0);
            weights("attn_k_norm.weight", &[32], 0);
        }
        weights("attn_output.weight", &[64, WIDTH], kind);
        weights("ffn_norm.weight", &[WIDTH], 0);
        weights("ffn_gate.weight", &[WIDTH, INNER], kind);
        weights("ffn_up.weight", &[WIDTH, INNER], kind);
        weights("ffn_down.weight", &[INNER, WIDTH], kind);
    }
    to.finish()
}

/// Pieces with scores, weights in eight bits, no template.
pub(crate) fn llama() -> Vec<u8> {
    model("llama", 8, &|to| {
        let mut pieces: Vec<(String, f32, i32)> =
            vec![("<unk>".into(), 0.0, 2), ("<s>".into(), 0.0, 3), ("</s>".into(), 0.0, 3)];
        pieces.extend((0..=255_u8).map(|byte| (format!("<0x{byte:02X}>"), 0.0, 6)));
        let words = ["\u{2581}", "H", "i", "Hi", "\u{2581}Hi", "B", "e", "Be", "k", "n", "d", "1", "2", "12"];
        pieces.extend(words.iter().enumerate().map(|(at, word)| ((*word).to_owned(), -(at as f32), 1)));
        to.words("tokenizer.ggml.model", "llama");
        to.list("tokenizer.ggml.tokens", 8, &pieces.iter().map(|piece| text(&piece.0)).collect::<Vec<_>>());
        to.list("tokenizer.ggml.scores", 6, &pieces.iter().map(|p| p.1.to_le_bytes().to_vec()).collect::<Vec<_>>());
        to.list("tokenizer.ggml.token_type", 5, &pieces.iter().map(|p| p.2.to_le_bytes().to_vec()).collect::<Vec<_>>());
        to.whole("tokenizer.ggml.bos_token_id", 1);
        to.whole("tokenizer.ggml.eos_token_id", 2);
        pieces.len()
    })
}

/// Byte pairs, weights in four bits, a template.
pub(crate) fn qwen3() -> Vec<u8> {
    qwen3_with(
        "{%- for message in messages -%}<|im_start|>{{ message.role }}\n{{ message.content | trim }}<|im_end|>\n\
         {%- endfor -%}{%- if add_generation_prompt -%}<|im_start|>assistant\n{%- endif -%}",
    )
}

/// The same with another template.
pub(crate) fn qwen3_with(template: &str) -> Vec<u8> {
    qwen3_of(template, None)
}

/// The same with one special token more.
pub(crate) fn qwen3_saying(special: &str) -> Vec<u8> {
    qwen3_of("{% for message in messages %}{{ message.content }}{% endfor %}", Some(special))
}

fn qwen3_of(template: &str, special: Option<&str>) -> Vec<u8> {
    model("qwen3", 2, &|to| {
        // Printable bytes are written as themselves, the others from U+0100 on.
        let mut others = 0x100..;
        let mut tokens: Vec<(String, i32)> = (0..=255_u32)
            .map(|byte| match byte {
                0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => byte,
                _ => others.next().unwrap_or_default(),
            })
            .map(|code| (char::from_u32(code).map(String::from).unwrap_or_default(), 1))
            .collect();
        tokens.extend([("Hi".to_owned(), 1), ("<|im_start|>".to_owned(), 3), ("<|im_end|>".to_owned(), 3)]);
        tokens.extend(special.map(|special| (special.to_owned(), 3)));
        to.words("tokenizer.ggml.model", "gpt2");
        to.words("tokenizer.ggml.pre", "qwen2");
        to.list("tokenizer.ggml.tokens", 8, &tokens.iter().map(|token| text(&token.0)).collect::<Vec<_>>());
        to.list("tokenizer.ggml.token_type", 5, &tokens.iter().map(|t| t.1.to_le_bytes().to_vec()).collect::<Vec<_>>());
        to.list("tokenizer.ggml.merges", 8, &[text("H i")]);
        to.whole("tokenizer.ggml.eos_token_id", 258);
        to.words("tokenizer.chat_template", template);
        tokens.len()
    })
}
