//! Takes one file out of a Python package (a wheel is a zip archive).

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};

/// Longest list of contents that is read.
const LONGEST_LIST: u64 = 16 << 20;

fn odd(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the package is damaged: {}", what.into()))
}

fn u16_at(bytes: &[u8], at: usize) -> io::Result<u16> {
    let two = bytes.get(at..at + 2).ok_or_else(|| odd("it ends too early"))?;
    Ok(u16::from_le_bytes([two[0], two[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> io::Result<u32> {
    Ok(u32::from(u16_at(bytes, at)?) | u32::from(u16_at(bytes, at + 2)?) << 16)
}

/// Where a file lies in the archive.
struct Entry {
    method: u16,
    packed: u64,
    size: u64,
    header: u64,
}

fn entry(archive: &mut File, name: &str) -> io::Result<Entry> {
    let length = archive.metadata()?.len();
    let tail = length.min(66_000);
    archive.seek(SeekFrom::Start(length - tail))?;
    let mut end = Vec::new();
    archive.read_to_end(&mut end)?;
    let at = end.windows(4).rposition(|four| four == b"PK\x05\x06").ok_or_else(|| odd("it has no list of contents"))?;
    let (size, start) = (u64::from(u32_at(&end, at + 12)?), u64::from(u32_at(&end, at + 16)?));
    if size > LONGEST_LIST || start + size > length {
        return Err(odd("its list of contents does not fit"));
    }
    let mut list = vec![0; size as usize];
    archive.seek(SeekFrom::Start(start))?;
    archive.read_exact(&mut list)?;
    let mut at = 0;
    while at + 46 <= list.len() && list[at..at + 4] == *b"PK\x01\x02" {
        let name_length = usize::from(u16_at(&list, at + 28)?);
        let rest = usize::from(u16_at(&list, at + 30)?) + usize::from(u16_at(&list, at + 32)?);
        if list.get(at + 46..at + 46 + name_length) == Some(name.as_bytes()) {
            return Ok(Entry {
                method: u16_at(&list, at + 10)?,
                packed: u32_at(&list, at + 20)?.into(),
                size: u32_at(&list, at + 24)?.into(),
                header: u32_at(&list, at + 42)?.into(),
            });
        }
        at += 46 + name_length + rest;
    }
    Err(odd(format!("{name} is not in it")))
}

/// Unpacks the file `name` of `archive` to `to`. `progress` hears of the bytes written. What is wrong with the package
/// itself is `InvalidData`.
pub(crate) fn unpack(
    archive: &Path,
    name: &str,
    to: &Path,
    progress: &dyn Fn(u64) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = File::open(archive)?;
    let entry = entry(&mut file, name)?;
    let mut header = [0; 30];
    file.seek(SeekFrom::Start(entry.header))?;
    file.read_exact(&mut header)?;
    let skip = i64::from(u16_at(&header, 26)?) + i64::from(u16_at(&header, 28)?);
    file.seek(SeekFrom::Current(skip))?;
    let to = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(to)?;
    let mut out = Out { file: to, written: 0 };
    let mut packed = file.take(entry.packed);
    match entry.method {
        0 => {
            let mut piece = vec![0; 1 << 18];
            loop {
                let count = packed.read(&mut piece)?;
                if count == 0 {
                    break;
                }
                out.put(&piece[..count], entry.size, progress)?;
            }
        }
        8 => inflated(&mut packed, entry.size, &mut out, progress)?,
        other => return Err(odd(format!("{name} is packed in the unknown way {other}"))),
    }
    if out.written != entry.size {
        return Err(odd(format!("{name} ends too early")));
    }
    out.file.sync_all()
}

struct Out {
    file: File,
    written: u64,
}

impl Out {
    fn put(&mut self, bytes: &[u8], most: u64, progress: &dyn Fn(u64) -> io::Result<()>) -> io::Result<()> {
        self.written += bytes.len() as u64;
        if self.written > most {
            return Err(odd("a file in it is longer than it says"));
        }
        self.file.write_all(bytes)?;
        progress(self.written)
    }
}

fn inflated(
    packed: &mut impl Read,
    size: u64,
    out: &mut Out,
    progress: &dyn Fn(u64) -> io::Result<()>,
) -> io::Result<()> {
    let mut state = InflateState::new_boxed(DataFormat::Raw);
    let (mut input, mut output) = (vec![0; 1 << 16], vec![0; 1 << 18]);
    let (mut from, mut until) = (0, 0);
    loop {
        if from == until {
            until = packed.read(&mut input)?;
            from = 0;
        }
        let result = inflate(&mut state, &input[from..until], &mut output, MZFlush::None);
        from += result.bytes_consumed;
        out.put(&output[..result.bytes_written], size, progress)?;
        match result.status {
            Ok(MZStatus::StreamEnd) => return Ok(()),
            Ok(_) | Err(MZError::Buf) if until > 0 => {}
            _ => return Err(odd("it cannot be unpacked")),
        }
    }
}

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
