//! A model that was fetched, or lies in a directory.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use rustix::fs::{MemfdFlags, SealFlags};
use sha2::{Digest, Sha256};

use crate::description::Description;

/// Of a description.
pub(crate) const DESCRIPTION_BYTES_MAX: u64 = 1 << 20;

/// A description, and the graph that it is of.
#[derive(Debug)]
pub(crate) struct Model {
    /// What it was asked for by.
    pub reference: String,
    /// That of its manifest in the registry.
    pub digest: Option<String>,
    /// What it says of itself.
    pub description: Description,
    /// The ONNX, in memory that nobody changes any more.
    pub onnx: File,
}

impl Model {
    /// Puts both together.
    ///
    /// # Errors
    /// The description is wrong, or of another graph.
    pub(crate) fn new(reference: String, digest: Option<String>, json: &[u8], onnx: Kept) -> Result<Self, String> {
        let description = Description::parse(json)?;
        if description.onnx_sha256 != onnx.sha256 {
            return Err(format!(
                "the description is of an ONNX with the SHA-256 {}; this one has {}",
                description.onnx_sha256, onnx.sha256
            ));
        }
        Ok(Model {
            reference,
            digest,
            description,
            onnx: onnx.file,
        })
    }

    /// `model.json` and `model.onnx` of a directory.
    ///
    /// # Errors
    /// They are not there, or wrong.
    pub(crate) fn of_directory(directory: &Path, bytes_max: u64) -> Result<Self, String> {
        let open = |name: &str| {
            let path = directory.join(name);
            File::open(&path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
        };
        let mut json = Vec::new();
        let read = open("model.json")?.take(DESCRIPTION_BYTES_MAX).read_to_end(&mut json);
        read.map_err(|error| format!("model.json cannot be read: {error}"))?;
        let onnx = keep(open("model.onnx")?, bytes_max).map_err(|error| format!("model.onnx: {error}"))?;
        Self::new(directory.display().to_string(), None, &json, onnx)
    }
}

/// Bytes of a stream that are kept, and what they are.
#[derive(Debug)]
pub(crate) struct Kept {
    /// In memory.
    pub file: File,
    /// How many there are.
    pub bytes: u64,
    /// Hexadecimal.
    pub sha256: String,
}

/// Reads to the end, and keeps what comes in memory of its own.
///
/// # Errors
/// There are more bytes than this, or they do not come.
pub(crate) fn keep(mut from: impl Read, bytes_max: u64) -> io::Result<Kept> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(rustix::fs::memfd_create("model", flags)?);
    let mut hash = Sha256::new();
    let mut bytes = 0;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => &buffer[..read],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        bytes += read.len() as u64;
        if bytes > bytes_max {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("it has more than the {bytes_max} bytes that it may have"),
            ));
        }
        hash.update(read);
        file.write_all(read)?;
    }
    rustix::fs::fcntl_add_seals(
        &file,
        SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL,
    )?;
    Ok(Kept {
        file,
        bytes,
        sha256: hex(&hash.finalize()),
    })
}

/// Hexadecimal.
#[must_use]
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
