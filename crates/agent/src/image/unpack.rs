//! Unpacks a layer: an archive that somebody else made, into a directory that nothing in it leads out of.
//!
//! What a layer takes away from those below it is written as overlayfs has it (OCI image-spec, "Image Layer Filesystem
//! Changeset"): `.wh.NAME` becomes a device 0/0 at NAME, `.wh..wh..opq` an attribute of its directory.

mod headers;
pub(crate) mod place;

use std::io::{self, Read};
use std::path::Path;

use tar::{Archive, EntryType};

use self::headers::{Entry, Headers};
use self::place::Place;

/// What a layer may come to.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Of the archive, uncompressed: what is unpacked has no more.
    pub bytes: u64,
    /// Files, directories and links.
    pub entries: u64,
}

/// Why a layer is not unpacked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not as a layer has to be.
    #[error("{path}: {message}")]
    Wrong {
        /// Of the entry, as the archive has it.
        path: String,
        /// What is wrong with it.
        message: String,
    },
    /// It is too much.
    #[error("the layer has more than {bound}")]
    TooMuch {
        /// What it may have.
        bound: String,
    },
    /// An entry could not be made.
    #[error("{path}: {source}")]
    Entry {
        /// Of the entry.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// The archive could not be read, or its directory opened.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Names of entries that take something away begin so.
const WHITEOUT: &str = ".wh.";
/// Names of entries that the layers of other file systems have for themselves begin so.
const RESERVED: &str = ".wh..wh.";
/// The entry by which a directory shows nothing of the layers below.
const OPAQUE: &str = ".wh..wh..opq";

/// Unpacks `layer`, which is not compressed, into the directory `into`, which is there and empty.
///
/// # Errors
/// Of the archive, or of the disk. What was unpacked until then stays.
pub fn unpack(layer: impl Read, into: &Path, bounds: Bounds) -> Result<(), Error> {
    unpack_as(layer, into, bounds, make)
}

/// Unpacks an archive of files that no layer is below of: each name is a name.
///
/// # Errors
/// As [`unpack`].
pub(crate) fn unpack_files(archive: impl Read, into: &Path, bounds: Bounds) -> Result<(), Error> {
    unpack_as(archive, into, bounds, make_file)
}

type Make = fn(&Place, &Entry, &mut dyn Read) -> Result<(), Error>;

fn unpack_as(layer: impl Read, into: &Path, bounds: Bounds, make: Make) -> Result<(), Error> {
    let place = Place::open(into)?;
    let mut archive = Archive::new(Bounded {
        layer,
        left: bounds.bytes,
    });
    let mut headers = Headers::default();
    let mut entries = 0;
    for entry in archive.entries().map_err(too_much(bounds))?.raw(true) {
        let mut entry = entry.map_err(too_much(bounds))?;
        let Some(described) = headers.read(&mut entry).map_err(|error| match error {
            Error::Io(error) => too_much(bounds)(error),
            other => other,
        })?
        else {
            continue;
        };
        entries += 1;
        if entries > bounds.entries {
            let bound = format!("{} entries", bounds.entries);
            return Err(Error::TooMuch { bound });
        }
        make(&place, &described, &mut entry).map_err(|error| match error {
            Error::Entry { source, .. } if is_too_much(&source) => too_much(bounds)(source),
            other => other,
        })?;
    }
    Ok(())
}

/// Makes what an entry describes, in place of what is there of its name, or takes away what it says.
fn make(place: &Place, entry: &Entry, content: &mut dyn Read) -> Result<(), Error> {
    let failed = |source: io::Error| Error::Entry {
        path: entry.path.clone(),
        source,
    };
    let parts = parts(entry)?;
    // The root itself, or one that the container never sees: it has devices of its own.
    let is_device = matches!(entry.kind, EntryType::Char | EntryType::Block);
    let Some((name, parents)) = parts.split_last() else {
        return Ok(());
    };
    if is_device && parents == ["dev"] {
        return Ok(());
    }
    if *name == OPAQUE {
        let parent = place.parent(parents).map_err(failed)?;
        return parent.hide_below().map_err(failed);
    }
    if name.starts_with(RESERVED) {
        return Ok(());
    }
    if let Some(gone) = name.strip_prefix(WHITEOUT) {
        if gone.is_empty() || gone == "." || gone == ".." {
            return Err(wrong(entry, "takes away what has no name"));
        }
        let parent = place.parent(parents).map_err(failed)?;
        return parent.white_out(gone).map_err(failed);
    }
    make_file(place, entry, content)
}

/// Makes what an entry describes, in place of what is there of its name.
fn make_file(place: &Place, entry: &Entry, mut content: &mut dyn Read) -> Result<(), Error> {
    let failed = |source: io::Error| Error::Entry {
        path: entry.path.clone(),
        source,
    };
    let parts = parts(entry)?;
    let Some((name, parents)) = parts.split_last() else {
        return Ok(());
    };
    let parent = place.parent(parents).map_err(failed)?;
    match entry.kind {
        EntryType::Directory => parent.directory(name, entry),
        EntryType::Regular | EntryType::Continuous => parent.file(name, entry, &mut content),
        EntryType::Symlink => parent.symbolic_link(name, entry),
        EntryType::Link => {
            let target: Vec<&str> = entry
                .link
                .split('/')
                .filter(|part| !part.is_empty() && *part != ".")
                .collect();
            match target.split_last() {
                Some((target, parents)) if !entry.link.split('/').any(|part| part == "..") => place
                    .parent(parents)
                    .and_then(|from| parent.hard_link(name, &from, target)),
                _ => return Err(wrong(entry, "links to what is not in the layer")),
            }
        }
        EntryType::Fifo => parent.fifo(name, entry),
        EntryType::Char | EntryType::Block => return Err(wrong(entry, "is a device, which no layer may have")),
        _ => return Err(wrong(entry, "is of a kind that no layer has")),
    }
    .map_err(failed)
}

/// Of its path.
fn parts(entry: &Entry) -> Result<Vec<&str>, Error> {
    let parts = entry.path.split('/').filter(|part| !part.is_empty() && *part != ".");
    let parts: Vec<&str> = parts.collect();
    match parts.contains(&"..") {
        true => Err(wrong(entry, "leads out of the layer")),
        false => Ok(parts),
    }
}

fn wrong(entry: &Entry, message: &str) -> Error {
    Error::Wrong {
        path: entry.path.clone(),
        message: message.to_owned(),
    }
}

/// A layer that ends with an error once it has come to too much.
struct Bounded<R> {
    layer: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if most == 0 && !buffer.is_empty() {
            // It may end just here.
            return match self.layer.read(&mut [0])? {
                0 => Ok(0),
                _ => Err(io::ErrorKind::FileTooLarge.into()),
            };
        }
        let read = self.layer.read(&mut buffer[..most])?;
        self.left -= read as u64;
        Ok(read)
    }
}

/// Wherever it was met: the archive's reader puts words around it.
fn is_too_much(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::FileTooLarge
}

fn too_much(bounds: Bounds) -> impl Fn(io::Error) -> Error {
    move |error| match is_too_much(&error) {
        true => Error::TooMuch {
            bound: format!("{} bytes", bounds.bytes),
        },
        false => Error::Io(error),
    }
}

#[cfg(test)]
mod tests;
