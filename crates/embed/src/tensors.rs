//! A `safetensors` file: eight bytes with the header's length, the header in JSON, the numbers.
//! <https://github.com/huggingface/safetensors#format>

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::Error;

/// Headers are lists of a few hundred names.
const LONGEST_HEADER: u64 = 16 << 20;

#[derive(Debug, Clone, Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [u64; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Single,
    Half,
    Brain,
}

impl Kind {
    fn bytes(self) -> usize {
        if self == Self::Single { 4 } else { 2 }
    }

    fn read(self, bytes: &[u8]) -> Vec<f32> {
        match self {
            Self::Single => bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
            Self::Half => bytes.as_chunks::<2>().0.iter().map(|bytes| of_half(u16::from_le_bytes(*bytes))).collect(),
            Self::Brain => {
                let wide = |bytes: &[u8; 2]| f32::from_bits(u32::from(u16::from_le_bytes(*bytes)) << 16);
                bytes.as_chunks::<2>().0.iter().map(wide).collect()
            }
        }
    }
}

/// The number that a half-precision one stands for.
fn of_half(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let (exponent, fraction) = (u32::from(bits >> 10 & 0x1f), u32::from(bits & 0x3ff));
    match exponent {
        0 => f32::from_bits(sign | 0x3f80_0000) * (fraction as f32 * 2.0f32.powi(-24)),
        0x1f => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

/// An open file.
pub(crate) struct Tensors {
    path: PathBuf,
    file: File,
    entries: HashMap<String, Entry>,
    /// Where the numbers begin, and how many bytes of them there are.
    base: u64,
    size: u64,
}

/// A matrix that stays on disk.
pub(crate) struct Table {
    at: u64,
    kind: Kind,
    /// Rows and columns.
    pub(crate) shape: [usize; 2],
}

impl Tensors {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let failed = |what: String| Error::Model { file: path.to_owned(), what };
        let mut file = File::open(path).map_err(|error| failed(error.to_string()))?;
        let length = file.metadata().map_err(|error| failed(error.to_string()))?.len();
        let mut eight = [0; 8];
        file.read_exact(&mut eight).map_err(|_| failed("the file is too short".to_owned()))?;
        let header = u64::from_le_bytes(eight);
        if header > LONGEST_HEADER || header > length.saturating_sub(8) {
            return Err(failed("this is no safetensors file".to_owned()));
        }
        let mut text = vec![0; usize::try_from(header).unwrap_or_default()];
        file.read_exact(&mut text).map_err(|error| failed(error.to_string()))?;
        let all: HashMap<String, serde_json::Value> =
            serde_json::from_slice(&text).map_err(|error| failed(format!("its header cannot be read: {error}")))?;
        let mut entries = HashMap::new();
        for (name, value) in all.into_iter().filter(|(name, _)| name != "__metadata__") {
            // Models are saved with and without the name of the part that makes vectors.
            let short = name.strip_prefix("bert.").or(name.strip_prefix("roberta.")).unwrap_or(&name).to_owned();
            let entry =
                serde_json::from_value(value).map_err(|error| failed(format!("{name} cannot be read: {error}")))?;
            entries.insert(short, entry);
        }
        Ok(Self { path: path.to_owned(), file, entries, base: 8 + header, size: length - 8 - header })
    }

    fn failed(&self, what: impl Into<String>) -> Error {
        Error::Model { file: self.path.clone(), what: what.into() }
    }

    /// Where a tensor is, its kind and its shape.
    fn find(&self, name: &str) -> Result<(u64, Kind, Vec<usize>), Error> {
        let entry = self.entries.get(name).ok_or_else(|| self.failed(format!("{name} is missing")))?;
        let kind = match entry.dtype.as_str() {
            "F32" => Kind::Single,
            "F16" => Kind::Half,
            "BF16" => Kind::Brain,
            other => {
                return Err(self.failed(format!("{name} holds numbers of kind {other}; F32, F16 and BF16 are known")));
            }
        };
        let [from, to] = entry.data_offsets;
        let count = entry.shape.iter().try_fold(kind.bytes(), |all, side| all.checked_mul(*side));
        if from > to || to > self.size || count.and_then(|count| u64::try_from(count).ok()) != Some(to - from) {
            return Err(self.failed(format!("{name} is not as long as its header says; the file may be cut short")));
        }
        Ok((self.base + from, kind, entry.shape.clone()))
    }

    fn read(&mut self, at: u64, bytes: usize) -> Result<Vec<u8>, Error> {
        let mut buffer = vec![0; bytes];
        self.file
            .seek(SeekFrom::Start(at))
            .and_then(|_| self.file.read_exact(&mut buffer))
            .map_err(|error| self.failed(error.to_string()))?;
        Ok(buffer)
    }

    /// All numbers of a tensor of this shape.
    pub(crate) fn numbers(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        let (at, kind, found) = self.find(name)?;
        if found != shape {
            return Err(self.failed(format!("{name} has the shape {found:?} instead of {shape:?}")));
        }
        let count: usize = shape.iter().product();
        let bytes = self.read(at, count * kind.bytes())?;
        Ok(kind.read(&bytes))
    }

    /// A matrix of which single rows are read.
    pub(crate) fn table(&self, name: &str) -> Result<Table, Error> {
        let (at, kind, shape) = self.find(name)?;
        let shape = <[usize; 2]>::try_from(shape).map_err(|_| self.failed(format!("{name} is no matrix")))?;
        Ok(Table { at, kind, shape })
    }

    /// A row of a table, added to `out`.
    pub(crate) fn add_row(&mut self, table: &Table, row: usize, out: &mut [f32]) -> Result<(), Error> {
        let [rows, columns] = table.shape;
        if row >= rows {
            return Err(self.failed(format!("the vocabulary has {rows} rows, and none for token {row}")));
        }
        let width = columns * table.kind.bytes();
        let bytes = self.read(table.at + (row * width) as u64, width)?;
        for (out, x) in out.iter_mut().zip(table.kind.read(&bytes)) {
            *out += x;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_the_numbers_they_stand_for() {
        for (bits, wanted) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x3555, 0.333_251_95),
            (0x0001, 5.960_464_5e-8),
            (0x8000, -0.0),
            (0x7bff, 65504.0),
            (0x7c00, f32::INFINITY),
        ] {
            assert_eq!(of_half(bits).to_bits(), f32::to_bits(wanted), "{bits:#x}");
        }
    }

    fn file(header: &str, numbers: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.extend(numbers);
        std::fs::write(&path, bytes).unwrap();
        (folder, path)
    }

    #[test]
    fn numbers_and_rows_are_read() {
        let header = r#"{"__metadata__":{"a":"b"},"bert.w":{"dtype":"F16","shape":[2,2],"data_offsets":[0,8]}}"#;
        let (_folder, path) = file(header, &[0, 0x3c, 0, 0xc0, 0, 0x40, 0, 0]);
        let mut tensors = Tensors::open(&path).unwrap();
        assert_eq!(tensors.numbers("w", &[2, 2]).unwrap(), [1.0, -2.0, 2.0, 0.0]);
        let table = tensors.table("w").unwrap();
        let mut out = [10.0; 2];
        tensors.add_row(&table, 1, &mut out).unwrap();
        assert_eq!(out, [12.0, 10.0]);
        assert!(tensors.add_row(&table, 2, &mut out).unwrap_err().to_string().contains("none for token 2"));
    }

    #[test]
    fn files_that_lie_are_refused() {
        let cases = [
            (r#"{"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}"#, "cut short"),
            (r#"{"w":{"dtype":"F32","shape":[4],"data_offsets":[16,0]}}"#, "cut short"),
            (r#"{"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}}"#, "cut short"),
            (r#"{"w":{"dtype":"I8","shape":[8],"data_offsets":[0,8]}}"#, "I8"),
            (r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#, "instead of"),
            (r#"{"v":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#, "missing"),
        ];
        for (header, what) in cases {
            let (_folder, path) = file(header, &[0; 8]);
            let error = Tensors::open(&path).unwrap().numbers("w", &[4]).unwrap_err().to_string();
            assert!(error.contains(what), "{header}: {error}");
        }
        for bytes in [&b""[..], b"short", &[255; 16], &[4, 0, 0, 0, 0, 0, 0, 0, b'n', b'o', b'p', b'e']] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("x");
            std::fs::write(&path, bytes).unwrap();
            assert!(Tensors::open(&path).is_err(), "{bytes:?}");
        }
    }
}
