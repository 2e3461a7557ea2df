//! What a relay sends on of one chunk: the very bytes of the provider where nothing has to change.

use std::ops::Range;

use bytes::Bytes;

/// Client bytes of one chunk: one slice of the chunk where nothing was changed, else a copy.
pub(super) struct Outgoing<'a> {
    parent: &'a Bytes,
    run: Range<usize>,
    built: Vec<u8>,
}

impl<'a> Outgoing<'a> {
    pub(super) fn of(parent: &'a Bytes) -> Self {
        Self { parent, run: 0..0, built: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.run.is_empty() && self.built.is_empty()
    }

    pub(super) fn forward(&mut self, range: Range<usize>) {
        if self.run.end == range.start && !self.run.is_empty() {
            self.run.end = range.end;
        } else {
            self.flush();
            self.run = range;
        }
    }

    pub(super) fn built(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.flush();
        write(&mut self.built);
    }

    fn flush(&mut self) {
        self.built.extend_from_slice(&self.parent[self.run.clone()]);
        self.run = 0..0;
    }

    pub(super) fn finish(mut self) -> Bytes {
        if self.built.is_empty() {
            return self.parent.slice(self.run);
        }
        self.flush();
        Bytes::from(self.built)
    }
}
