//! What a node says of itself.

use identity::{Bans, MAX_NAME_BYTES};
use serde::{Deserialize, Serialize};

/// Most bytes that a node can say.
pub const MAX_CONTENT_BYTES: usize = 64 * 1024;
/// Most bytes of its certificate in DER; of a signature.
const MAX_CERTIFICATE_BYTES: usize = 2_048;
const MAX_SIGNATURE_BYTES: usize = 128;

/// What a signature begins with, so that it is worth nothing elsewhere.
const PURPOSE: &[u8] = b"selvedge record of a node, version 1\n";

/// Which of two records is the later one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Number {
    /// Of the node's start: higher with each.
    pub incarnation: u64,
    /// Of what it has said since.
    pub version: u64,
}

/// What a node says of itself, signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Who says it.
    pub node: String,
    /// Which it is of all that it has said.
    pub number: Number,
    /// What it says.
    pub content: Vec<u8>,
    /// Its certificate, in DER.
    pub certificate: Vec<u8>,
    /// Over all of that but the certificate.
    pub signature: Vec<u8>,
}

/// What a node signs with, and by what it knows the signatures of others.
pub trait Keys {
    /// This node's certificate, in DER.
    fn certificate(&self) -> Vec<u8>;
    /// By its key.
    fn sign(&self, bytes: &[u8]) -> Vec<u8>;
    /// Whether the certificate is the site's, names the node, and its key has signed the bytes.
    fn has_signed(&self, node: &str, certificate: &[u8], bytes: &[u8], signature: &[u8]) -> bool;
    /// Whether the site's authority has banned these nodes.
    fn has_banned(&self, bans: &Bans) -> bool;
    /// Whether the node of a certificate is banned with it.
    fn is_banned(&self, certificate: &[u8], bans: &Bans) -> bool;
}

/// A record that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Whose it says that it is; its beginning, where that is no name.
    pub node: String,
    /// Why.
    pub why: Unwanted,
}

/// Why a record is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unwanted {
    /// A part of it is larger than any may be.
    #[error("it is larger than a record may be ({MAX_CONTENT_BYTES} bytes)")]
    TooLarge,
    /// Somebody else made it, or its certificate is not this site's, or has ended.
    #[error("it is not signed by that node, with a certificate of this site")]
    Signature,
    /// Who says who is banned is not the site's authority.
    #[error("the site's authority has not signed who is banned")]
    Bans,
    /// There are as many nodes as can be, and all of them are alive.
    #[error("the site is full ({} nodes)", crate::MAX_NODES)]
    Full,
}

impl Record {
    /// Signs what a node says.
    ///
    /// # Panics
    /// If it is more than [`MAX_CONTENT_BYTES`].
    #[must_use]
    pub fn new(node: &str, number: Number, content: Vec<u8>, keys: &impl Keys) -> Self {
        assert!(content.len() <= MAX_CONTENT_BYTES, "{} bytes to be said", content.len());
        let signature = keys.sign(&signed(node, number, &content));
        Record {
            node: node.to_owned(),
            number,
            content,
            certificate: keys.certificate(),
            signature,
        }
    }

    /// Whether its node said it.
    ///
    /// # Errors
    /// Why it is not to be believed.
    pub fn check(&self, keys: &impl Keys) -> Result<(), Unwanted> {
        let is_small = (1..=MAX_NAME_BYTES).contains(&self.node.len())
            && self.content.len() <= MAX_CONTENT_BYTES
            && self.certificate.len() <= MAX_CERTIFICATE_BYTES
            && self.signature.len() <= MAX_SIGNATURE_BYTES;
        if !is_small {
            return Err(Unwanted::TooLarge);
        }
        let bytes = signed(&self.node, self.number, &self.content);
        match keys.has_signed(&self.node, &self.certificate, &bytes, &self.signature) {
            true => Ok(()),
            false => Err(Unwanted::Signature),
        }
    }

    /// Bytes that it takes in a message, at most.
    pub(crate) fn bytes_max(&self) -> usize {
        // Lengths and numbers are of variable size: ten bytes at most each, and there are six.
        self.node.len() + self.content.len() + self.certificate.len() + self.signature.len() + 60
    }
}

/// What is signed: names have no newline, so nothing else reads the same.
fn signed(node: &str, number: Number, content: &[u8]) -> Vec<u8> {
    let mut bytes = PURPOSE.to_vec();
    bytes.extend_from_slice(node.as_bytes());
    bytes.push(b'\n');
    bytes.extend_from_slice(&number.incarnation.to_be_bytes());
    bytes.extend_from_slice(&number.version.to_be_bytes());
    bytes.extend_from_slice(content);
    bytes
}
