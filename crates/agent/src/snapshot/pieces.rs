//! What a volume is made of, in pieces that are kept once: put together, without their compression, they are its
//! archive.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use oci_spec::image::Digest;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use super::Error;
use crate::image::store::{Images, at, digest_of};

/// Of a piece, without its compression.
pub(super) const PIECE_BYTES: usize = 2 << 20;
/// Of a piece as it is kept: what cannot be made smaller is a little larger.
pub(super) const KEPT_BYTES_MAX: u64 = PIECE_BYTES as u64 + (64 << 10);
/// Of a snapshot: its manifest names each of them, and registries take manifests of 4 MiB.
pub(super) const PIECES_MAX: usize = 20_000;
/// Of Zstandard: time under pause is worth more than a tenth of the bytes.
const LEVEL: i32 = 1;

/// A piece that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Piece {
    /// As it is kept.
    pub(super) digest: String,
    /// As it is kept.
    pub(super) bytes: u64,
}

/// Pieces by the SHA-256 of what they are without their compression.
pub(super) type Known = HashMap<String, Piece>;

/// Where new pieces are until all of a snapshot is there.
pub(super) struct Stage<'a> {
    pub(super) layout: &'a Images,
    pub(super) place: &'a Path,
    pub(super) known: Known,
    /// Of what was put here.
    pub(super) new_bytes: u64,
}

impl Stage<'_> {
    /// Where a piece or a blob is put.
    pub(super) fn path(&self, digest: &Digest) -> PathBuf {
        self.place.join(digest.digest())
    }

    pub(super) fn has(&self, digest: &Digest) -> bool {
        self.layout.has(digest) || self.path(digest).exists()
    }

    /// Keeps a document.
    pub(super) fn put(&mut self, content: &[u8]) -> Result<Piece, Error> {
        let digest = digest_of(content);
        if !self.has(&digest) {
            let path = self.path(&digest);
            let written = File::create(&path).and_then(|mut file| file.write_all(content));
            written.map_err(at(&path))?;
            self.new_bytes += content.len() as u64;
        }
        Ok(Piece {
            digest: digest.to_string(),
            bytes: content.len() as u64,
        })
    }

    /// Keeps a piece of an archive, compressed.
    pub(super) fn put_piece(&mut self, plain: &[u8]) -> Result<Piece, Error> {
        let name = hex(plain);
        if let Some(known) = self.known.get(&name) {
            return Ok(known.clone());
        }
        let compressed = zstd::bulk::compress(plain, LEVEL).map_err(at(self.place))?;
        let piece = self.put(&compressed)?;
        self.known.insert(name, piece.clone());
        Ok(piece)
    }
}

fn hex(content: &[u8]) -> String {
    let hashed = digest(&SHA256, content);
    hashed.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An archive that is being written.
pub(super) struct Pieces<'a, 'b> {
    pub(super) stage: &'a mut Stage<'b>,
    pub(super) done: Vec<Piece>,
    buffer: Vec<u8>,
    /// Of the archive so far.
    pub(super) bytes: u64,
}

impl<'a, 'b> Pieces<'a, 'b> {
    pub(super) fn new(stage: &'a mut Stage<'b>) -> Self {
        Pieces {
            stage,
            done: Vec::new(),
            buffer: Vec::with_capacity(PIECE_BYTES),
            bytes: 0,
        }
    }

    pub(super) fn write(&mut self, mut content: &[u8]) -> Result<(), Error> {
        self.bytes += content.len() as u64;
        while !content.is_empty() {
            let fits = content.len().min(PIECE_BYTES - self.buffer.len());
            self.buffer.extend_from_slice(&content[..fits]);
            content = &content[fits..];
            if self.buffer.len() == PIECE_BYTES {
                self.cut()?;
            }
        }
        Ok(())
    }

    /// The next piece begins here.
    pub(super) fn cut(&mut self) -> Result<(), Error> {
        if !self.buffer.is_empty() {
            let piece = self.stage.put_piece(&self.buffer)?;
            self.buffer.clear();
            self.push(piece)?;
        }
        Ok(())
    }

    /// Goes on with pieces that are kept already, which are so many bytes; all before them is cut.
    pub(super) fn refer(&mut self, pieces: &[Piece], bytes: u64) -> Result<(), Error> {
        self.bytes += bytes;
        pieces.iter().try_for_each(|piece| self.push(piece.clone()))
    }

    fn push(&mut self, piece: Piece) -> Result<(), Error> {
        if self.done.len() == PIECES_MAX {
            return Err(Error::TooMuch(format!(
                "the volume comes to more than {PIECES_MAX} pieces of at most {PIECE_BYTES} bytes"
            )));
        }
        self.done.push(piece);
        Ok(())
    }
}

/// The archive that pieces are; each is verified.
pub(super) struct Joined<'a, I> {
    pub(super) layout: &'a Images,
    pub(super) pieces: I,
    piece: io::Cursor<Vec<u8>>,
}

impl<'a, I: Iterator<Item = Piece>> Joined<'a, I> {
    pub(super) fn new(layout: &'a Images, pieces: I) -> Self {
        Joined {
            layout,
            pieces,
            piece: io::Cursor::default(),
        }
    }
}

impl<I: Iterator<Item = Piece>> Read for Joined<'_, I> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.piece.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let Some(next) = self.pieces.next() else { return Ok(0) };
            self.piece = io::Cursor::new(plain(self.layout, &next)?);
        }
    }
}

fn plain(layout: &Images, piece: &Piece) -> io::Result<Vec<u8>> {
    let wrong = |message: &str| io::Error::other(format!("piece {}: {message}", piece.digest));
    let digest = Digest::from_str(&piece.digest).map_err(|_| wrong("is no digest"))?;
    let path = layout.blob_path(&digest).map_err(io::Error::other)?;
    let mut kept = Vec::new();
    File::open(&path)
        .map_err(|error| wrong(&error.to_string()))?
        .take(KEPT_BYTES_MAX + 1)
        .read_to_end(&mut kept)?;
    if kept.len() as u64 > KEPT_BYTES_MAX || digest_of(&kept) != digest {
        return Err(wrong("is not what it was"));
    }
    zstd::bulk::decompress(&kept, PIECE_BYTES)
        .map_err(|error| wrong(&format!("does not come to at most {PIECE_BYTES} bytes: {error}")))
}
