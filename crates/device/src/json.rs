//! The state of a document as JSON text, written from its leaves without another copy of them.

use std::borrow::Cow;
use std::io::{self, Write};

use serde_json::Value;

use crate::document::{Document, VERSION};

impl Document {
    /// The state with its `$version`, as it is published and answered.
    #[must_use]
    pub fn to_versioned_json(&self) -> Vec<u8> {
        let mut json = Vec::new();
        let written = self.write_json(Some(self.version()), &mut json);
        written.expect("memory takes all that is written");
        json
    }

    /// Bytes of the state as JSON, without its version.
    pub(crate) fn json_bytes(&self) -> usize {
        let mut counted = Counted(0);
        let written = self.write_json(None, &mut counted);
        written.expect("counting takes all that is written");
        counted.0
    }

    fn write_json(&self, version: Option<u64>, out: &mut impl Write) -> io::Result<()> {
        let mut object = Members {
            out,
            above: "",
            is_first: true,
        };
        object.open()?;
        if let Some(version) = version {
            object.name(VERSION)?;
            write!(object.out, "{version}")?;
        }
        for (pointer, value) in self.live() {
            object.leaf(pointer, value)?;
        }
        object.close_all()
    }
}

/// An object in the making, of leaves in the order of their pointers: all members of one object follow each other.
struct Members<'a, W> {
    out: W,
    /// Pointer of the innermost object that is open.
    above: &'a str,
    /// It has no member yet.
    is_first: bool,
}

impl<'a, W: Write> Members<'a, W> {
    fn leaf(&mut self, pointer: &'a str, value: &Value) -> io::Result<()> {
        let mut names = self.close_to(pointer)?;
        while let Some((object, below)) = names.split_once('/') {
            self.name(object)?;
            self.open()?;
            names = below;
        }
        self.name(names)?;
        self.above = parent(pointer);
        Ok(serde_json::to_writer(&mut self.out, value)?)
    }

    /// Closes the objects that the leaf is not in; the names of its pointer below the one that stays open.
    fn close_to(&mut self, pointer: &'a str) -> io::Result<&'a str> {
        loop {
            let below = pointer
                .strip_prefix(self.above)
                .and_then(|below| below.strip_prefix('/'));
            match below {
                Some(below) => return Ok(below),
                None => self.close()?,
            }
        }
    }

    fn close_all(&mut self) -> io::Result<()> {
        while !self.above.is_empty() {
            self.close()?;
        }
        self.out.write_all(b"}")
    }

    fn open(&mut self) -> io::Result<()> {
        self.is_first = true;
        self.out.write_all(b"{")
    }

    fn close(&mut self) -> io::Result<()> {
        self.above = parent(self.above);
        self.is_first = false;
        self.out.write_all(b"}")
    }

    /// The next member's name, as a pointer has it.
    fn name(&mut self, escaped: &str) -> io::Result<()> {
        if !std::mem::take(&mut self.is_first) {
            self.out.write_all(b",")?;
        }
        serde_json::to_writer(&mut self.out, &*unescaped(escaped))?;
        self.out.write_all(b":")
    }
}

/// The pointer of the object that a leaf or an object is in.
fn parent(pointer: &str) -> &str {
    let (above, _) = pointer.rsplit_once('/').expect("all pointers begin with a slash");
    above
}

/// A name as it is outside of a JSON pointer (RFC 6901, section 4).
fn unescaped(name: &str) -> Cow<'_, str> {
    match name.contains('~') {
        true => Cow::Owned(name.replace("~1", "/").replace("~0", "~")),
        false => Cow::Borrowed(name),
    }
}

/// Bytes that were written, and are kept nowhere.
struct Counted(usize);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
