//! Reads GGUF files: settings, vocabulary, and where the weights lie. Whatever the file claims is checked against its
//! length before anything is allocated for it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use crate::error::Fault;

/// Longest key or single text of a header, bytes.
const LONGEST_TEXT: u64 = 1 << 20;

/// A value of the header.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Whole(i128),
    Real(f64),
    Truth(bool),
    Text(String),
    Texts(Texts),
    Wholes(Vec<i32>),
    Reals(Vec<f32>),
    /// Arrays that nothing here reads.
    Other,
}

/// Many texts in one piece of memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Texts {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Texts {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
    }

    pub(crate) fn get(&self, index: usize) -> &[u8] {
        let Some(&end) = self.ends.get(index) else { return &[] };
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.bytes.get(start as usize..end as usize).unwrap_or_default()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.get(index))
    }
}

/// How weights are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    F32,
    F16,
    Bf16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q4K,
    Q5K,
    Q6K,
}

impl Kind {
    fn of(number: u32) -> Result<Self, String> {
        Ok(match number {
            0 => Self::F32,
            1 => Self::F16,
            2 => Self::Q4_0,
            3 => Self::Q4_1,
            6 => Self::Q5_0,
            7 => Self::Q5_1,
            8 => Self::Q8_0,
            12 => Self::Q4K,
            13 => Self::Q5K,
            14 => Self::Q6K,
            30 => Self::Bf16,
            10 => return Err("Q2_K".to_owned()),
            11 => return Err("Q3_K".to_owned()),
            15 => return Err("Q8_K".to_owned()),
            16..=23 | 29 => return Err(format!("an IQ format ({number})")),
            34 | 35 => return Err(format!("a ternary format ({number})")),
            39 => return Err("MXFP4".to_owned()),
            other => return Err(format!("format {other}")),
        })
    }

    /// Weights per block, and bytes per block.
    pub(crate) fn block(self) -> (usize, usize) {
        match self {
            Self::F32 => (1, 4),
            Self::F16 | Self::Bf16 => (1, 2),
            Self::Q4_0 => (32, 18),
            Self::Q4_1 => (32, 20),
            Self::Q5_0 => (32, 22),
            Self::Q5_1 => (32, 24),
            Self::Q8_0 => (32, 34),
            Self::Q4K => (256, 144),
            Self::Q5K => (256, 176),
            Self::Q6K => (256, 210),
        }
    }
}

/// Where weights lie in the file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tensor {
    /// Lengths, the innermost (columns) first.
    pub(crate) shape: Vec<u64>,
    pub(crate) kind: Result<Kind, String>,
    /// From the beginning of the file.
    offset: u64,
}

/// A GGUF file with its header read.
#[derive(Debug)]
pub(crate) struct Gguf {
    file: File,
    values: BTreeMap<String, Value>,
    tensors: BTreeMap<String, Tensor>,
}

struct Header {
    from: BufReader<File>,
    at: u64,
    length: u64,
}

impl Header {
    fn bytes(&mut self, count: u64, what: &str) -> Result<Vec<u8>, Fault> {
        self.fits(count, what)?;
        let mut bytes = vec![0; usize::try_from(count).unwrap_or(0)];
        self.from.read_exact(&mut bytes)?;
        self.at += count;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Fault> {
        self.fits(N as u64, what)?;
        let mut bytes = [0; N];
        self.from.read_exact(&mut bytes)?;
        self.at += N as u64;
        Ok(bytes)
    }

    fn fits(&self, count: u64, what: &str) -> Result<(), Fault> {
        let need = self.at.saturating_add(count);
        if need > self.length {
            return Err(Fault::Truncated { what: what.to_owned(), need, have: self.length });
        }
        Ok(())
    }

    fn u32(&mut self, what: &str) -> Result<u32, Fault> {
        self.array(what).map(u32::from_le_bytes)
    }

    fn u64(&mut self, what: &str) -> Result<u64, Fault> {
        self.array(what).map(u64::from_le_bytes)
    }

    fn text_bytes(&mut self, what: &str) -> Result<Vec<u8>, Fault> {
        let length = self.u64(what)?;
        if length > LONGEST_TEXT {
            return Err(Fault::Damaged(format!("{what} claims to be {length} bytes long")));
        }
        self.bytes(length, what)
    }

    fn text(&mut self, what: &str) -> Result<String, Fault> {
        let bytes = self.text_bytes(what)?;
        String::from_utf8(bytes).map_err(|_| Fault::Damaged(format!("{what} is no UTF-8 text")))
    }

    fn value(&mut self, kind: u32, key: &str) -> Result<Value, Fault> {
        Ok(match kind {
            0 => Value::Whole(u8::from_le_bytes(self.array(key)?).into()),
            1 => Value::Whole(i8::from_le_bytes(self.array(key)?).into()),
            2 => Value::Whole(u16::from_le_bytes(self.array(key)?).into()),
            3 => Value::Whole(i16::from_le_bytes(self.array(key)?).into()),
            4 => Value::Whole(self.u32(key)?.into()),
            5 => Value::Whole(i32::from_le_bytes(self.array(key)?).into()),
            6 => Value::Real(f32::from_le_bytes(self.array(key)?).into()),
            7 => Value::Truth(self.array::<1>(key)? != [0]),
            8 => Value::Text(self.text(key)?),
            9 => self.list(key)?,
            10 => Value::Whole(self.u64(key)?.into()),
            11 => Value::Whole(i64::from_le_bytes(self.array(key)?).into()),
            12 => Value::Real(f64::from_le_bytes(self.array(key)?)),
            other => return Err(Fault::Damaged(format!("{key} is of the unknown kind {other}"))),
        })
    }

    fn list(&mut self, key: &str) -> Result<Value, Fault> {
        let kind = self.u32(key)?;
        let count = self.u64(key)?;
        let size = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            10..=12 => 8,
            8 => {
                // Each text takes eight bytes for its length at the least.
                self.fits(count.saturating_mul(8), key)?;
                let mut texts = Texts::default();
                for _ in 0..count {
                    let text = self.text_bytes(key)?;
                    texts.push(&text);
                }
                return Ok(Value::Texts(texts));
            }
            other => return Err(Fault::Damaged(format!("{key} is a list of the unknown kind {other}"))),
        };
        let bytes = self.bytes(count.saturating_mul(size), key)?;
        let fours = bytes.chunks_exact(4).map(|four| [four[0], four[1], four[2], four[3]]);
        Ok(match kind {
            4 | 5 => Value::Wholes(fours.map(i32::from_le_bytes).collect()),
            6 => Value::Reals(fours.map(f32::from_le_bytes).collect()),
            _ => Value::Other,
        })
    }
}

impl Gguf {
    /// Reads the header of a file.
    pub(crate) fn open(path: &Path) -> Result<Self, Fault> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut header = Header { from: BufReader::with_capacity(1 << 16, file), at: 0, length };
        let magic: [u8; 4] = header.array("its first mark")?;
        if &magic != b"GGUF" {
            return Err(Fault::NotGguf { found: format!("\"{}\"", magic.escape_ascii()) });
        }
        let version = header.u32("its version")?;
        if !(2..=3).contains(&version) {
            return Err(Fault::Version(version));
        }
        let tensor_count = header.u64("its header")?;
        let value_count = header.u64("its header")?;
        // An entry of either table takes more than sixteen bytes.
        header.fits(tensor_count.saturating_add(value_count).saturating_mul(16), "its table of contents")?;
        let mut values = BTreeMap::new();
        for _ in 0..value_count {
            let key = header.text("a key")?;
            let kind = header.u32(&key)?;
            let value = header.value(kind, &key)?;
            values.insert(key, value);
        }
        let mut found = Vec::new();
        for _ in 0..tensor_count {
            let name = header.text("the name of weights")?;
            let dimensions = header.u32(&name)?;
            if !(1..=4).contains(&dimensions) {
                return Err(Fault::Damaged(format!("{name} has {dimensions} dimensions")));
            }
            let shape = (0..dimensions).map(|_| header.u64(&name)).collect::<Result<Vec<_>, _>>()?;
            let kind = Kind::of(header.u32(&name)?);
            let offset = header.u64(&name)?;
            found.push((name, Tensor { shape, kind, offset }));
        }
        let align = match values.get("general.alignment") {
            Some(Value::Whole(align)) => u64::try_from(*align).ok().filter(|align| align.is_power_of_two()),
            None => Some(32),
            Some(_) => None,
        };
        let align = align.ok_or_else(|| Fault::Damaged("general.alignment is no power of two".to_owned()))?;
        let base = header.at.next_multiple_of(align);
        let (mut tensors, mut all) = (BTreeMap::new(), base);
        for (name, mut tensor) in found {
            tensor.offset = base.saturating_add(tensor.offset);
            let bytes = tensor.bytes(&name)?;
            let need = tensor.offset.saturating_add(bytes);
            if need > length {
                return Err(Fault::Truncated { what: format!("the weights {name}"), need, have: length });
            }
            all = all.saturating_add(bytes);
            tensors.insert(name, tensor);
        }
        // Each fits, but they may lie upon each other: then they would take more memory than the file is long.
        if all > length {
            return Err(Fault::Damaged("its weights overlap".to_owned()));
        }
        Ok(Self { file: header.from.into_inner(), values, tensors })
    }

    pub(crate) fn value(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// Takes a value out, so that it is in memory only once.
    pub(crate) fn take(&mut self, key: &str) -> Option<Value> {
        self.values.remove(key)
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        match self.values.get(key) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn whole(&self, key: &str) -> Option<usize> {
        match self.values.get(key) {
            Some(Value::Whole(number)) => usize::try_from(*number).ok(),
            _ => None,
        }
    }

    pub(crate) fn real(&self, key: &str) -> Option<f32> {
        match self.values.get(key) {
            Some(Value::Real(number)) => Some(*number as f32),
            Some(Value::Whole(number)) => Some(*number as f32),
            _ => None,
        }
    }

    pub(crate) fn truth(&self, key: &str) -> Option<bool> {
        match self.values.get(key) {
            Some(Value::Truth(truth)) => Some(*truth),
            _ => None,
        }
    }

    pub(crate) fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    /// The bytes of weights of the shape `wanted` (columns first), and how they are stored.
    pub(crate) fn load(&mut self, name: &str, wanted: &[usize]) -> Result<(Kind, Vec<u8>), Fault> {
        let tensor = self.tensors.get(name).ok_or_else(|| Fault::Missing(name.to_owned()))?;
        let kind = tensor.kind.clone().map_err(|format| Fault::Format { tensor: name.to_owned(), format })?;
        let wanted: Vec<u64> = wanted.iter().map(|length| *length as u64).collect();
        if tensor.shape != wanted {
            return Err(Fault::Shape { tensor: name.to_owned(), found: tensor.shape.clone(), wanted });
        }
        let mut bytes = vec![0; usize::try_from(tensor.bytes(name)?).unwrap_or(0)];
        self.file.seek(SeekFrom::Start(tensor.offset))?;
        self.file.read_exact(&mut bytes)?;
        Ok((kind, bytes))
    }
}

impl Tensor {
    fn bytes(&self, name: &str) -> Result<u64, Fault> {
        let damaged = || Fault::Damaged(format!("the weights {name} have the impossible shape {:?}", self.shape));
        let count = self.shape.iter().try_fold(1_u64, |all, length| all.checked_mul(*length)).ok_or_else(damaged)?;
        let Ok(kind) = self.kind else { return Ok(0) };
        let (weights, bytes) = kind.block();
        if self.shape.first().is_none_or(|columns| *columns == 0 || columns % weights as u64 != 0) {
            return Err(damaged());
        }
        (count / weights as u64).checked_mul(bytes as u64).ok_or_else(damaged)
    }
}
