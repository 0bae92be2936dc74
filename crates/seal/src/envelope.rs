//! An envelope that nobody reads or changes without the passphrase: its key by Argon2id (RFC 9106), its pieces by
//! ChaCha20-Poly1305 (RFC 8439), each with its number and whether it is the last (STREAM; Hoang, Reyhanitabar, Rogaway
//! and Vizár, CRYPTO 2015), so that none is missing, moved, or of another one.

use std::error::Error;
use std::io::{self, Read, Write};

use argon2::{Algorithm, Argon2, Params, Version};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

use crate::Passphrase;

const MAGIC: [u8; 8] = *b"SELVBAK1";
const SALT_BYTES: usize = 16;
/// Of a nonce, the same in all of an envelope.
const PREFIX_BYTES: usize = 7;
const HEADER_BYTES: usize = MAGIC.len() + SALT_BYTES + 8 + PREFIX_BYTES;
/// Of a piece, unsealed.
const PIECE_BYTES: usize = 64 << 10;
const TAG_BYTES: usize = 16;
/// Of Argon2id: memory in KiB, and passes over it. What asks for more is not opened: anybody may write it, and would
/// take a machine's memory or day.
const MEMORY_KIB: u32 = 64 << 10;
const PASSES: u32 = 3;

/// What is wrong with something that was sealed. Readers say it within an [`io::Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// It is something else.
    #[error("it was not sealed by selvedge, or by a later version of it")]
    NotSealed,
    /// It cannot be opened with this.
    #[error("it cannot be opened: the passphrase is another one, or it is damaged")]
    Shut,
    /// It is not what it was, after so many bytes.
    #[error("it is damaged, or cut off, after {0} bytes")]
    Damaged(u64),
}

impl Broken {
    /// What of it an error says, whatever readers put around it.
    #[must_use]
    pub fn within(error: &io::Error) -> Option<Self> {
        let mut inner: Option<&(dyn Error + 'static)> = Some(error);
        while let Some(this) = inner {
            let broken = this.downcast_ref::<Broken>().or_else(|| {
                let within = this.downcast_ref::<io::Error>()?.get_ref()?;
                within.downcast_ref::<Broken>()
            });
            if broken.is_some() {
                return broken.copied();
            }
            inner = this.source();
        }
        None
    }
}

fn broken(what: Broken) -> io::Error {
    io::Error::other(what)
}

struct Keyed {
    key: LessSafeKey,
    header: [u8; HEADER_BYTES],
    number: u32,
}

impl Keyed {
    fn new(header: [u8; HEADER_BYTES], passphrase: &Passphrase) -> io::Result<Self> {
        let salt = &header[MAGIC.len()..][..SALT_BYTES];
        let number = |at: usize| {
            let bytes = header[MAGIC.len() + SALT_BYTES + at..][..4].try_into();
            u32::from_be_bytes(bytes.expect("four bytes"))
        };
        let (memory, passes) = (number(0), number(4));
        if header[..MAGIC.len()] != MAGIC || memory > MEMORY_KIB || passes > PASSES {
            return Err(broken(Broken::NotSealed));
        }
        let params = Params::new(memory, passes, 1, Some(32)).map_err(|_| broken(Broken::NotSealed))?;
        let mut key = Zeroizing::new([0; 32]);
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let hashed = argon2.hash_password_into(passphrase.expose(), salt, &mut *key);
        hashed.map_err(|error| io::Error::other(error.to_string()))?;
        let key = UnboundKey::new(&CHACHA20_POLY1305, &*key).expect("it has 32 bytes");
        Ok(Keyed {
            key: LessSafeKey::new(key),
            header,
            number: 0,
        })
    }

    /// The nonce of the next piece.
    fn nonce(&mut self, is_last: bool) -> io::Result<Nonce> {
        let mut nonce = [0; 12];
        nonce[..PREFIX_BYTES].copy_from_slice(&self.header[HEADER_BYTES - PREFIX_BYTES..]);
        nonce[PREFIX_BYTES..11].copy_from_slice(&self.number.to_be_bytes());
        nonce[11] = is_last.into();
        let next = self.number.checked_add(1);
        self.number = next.ok_or_else(|| io::Error::other("at most 256 TiB are sealed together"))?;
        Ok(Nonce::assume_unique_for_key(nonce))
    }
}

/// What is written here is sealed; [`Sealed::finish`] ends it.
pub struct Sealed<W: Write> {
    out: W,
    keyed: Keyed,
    piece: Vec<u8>,
}

impl<W: Write> Sealed<W> {
    /// Writes into `out`.
    ///
    /// # Errors
    /// Of `out`, or the system gives no random numbers.
    pub fn begin(mut out: W, passphrase: &Passphrase) -> io::Result<Self> {
        let mut header = [0; HEADER_BYTES];
        let no_chance = |_| io::Error::other("the system gives no random numbers");
        SystemRandom::new().fill(&mut header).map_err(no_chance)?;
        header[..MAGIC.len()].copy_from_slice(&MAGIC);
        let costs = &mut header[MAGIC.len() + SALT_BYTES..][..8];
        costs[..4].copy_from_slice(&MEMORY_KIB.to_be_bytes());
        costs[4..].copy_from_slice(&PASSES.to_be_bytes());
        out.write_all(&header)?;
        Ok(Sealed {
            out,
            keyed: Keyed::new(header, passphrase)?,
            piece: Vec::with_capacity(PIECE_BYTES + TAG_BYTES),
        })
    }

    /// Says that this is all.
    ///
    /// # Errors
    /// Of what it is written into.
    pub fn finish(mut self) -> io::Result<W> {
        self.seal(true)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn seal(&mut self, is_last: bool) -> io::Result<()> {
        let nonce = self.keyed.nonce(is_last)?;
        let about = Aad::from(self.keyed.header);
        let sealed = self.keyed.key.seal_in_place_append_tag(nonce, about, &mut self.piece);
        sealed.map_err(|_| io::Error::other("it could not be sealed"))?;
        self.out.write_all(&self.piece)?;
        self.piece.clear();
        Ok(())
    }
}

impl<W: Write> Write for Sealed<W> {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        if self.piece.len() == PIECE_BYTES {
            self.seal(false)?;
        }
        let fits = content.len().min(PIECE_BYTES - self.piece.len());
        self.piece.extend_from_slice(&content[..fits]);
        Ok(fits)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What was sealed. Its end is one that was sealed as that; else it is an error.
pub struct Opened<R: Read> {
    sealed: R,
    keyed: Keyed,
    piece: Vec<u8>,
    /// Of the piece, unsealed.
    length: usize,
    read: usize,
    bytes: u64,
    is_last: bool,
}

impl<R: Read> Opened<R> {
    /// Reads of `sealed`.
    ///
    /// # Errors
    /// [`Broken`], within an error of its reader.
    pub fn begin(mut sealed: R, passphrase: &Passphrase) -> io::Result<Self> {
        let mut header = [0; HEADER_BYTES];
        sealed.read_exact(&mut header).map_err(|_| broken(Broken::NotSealed))?;
        Ok(Opened {
            keyed: Keyed::new(header, passphrase)?,
            sealed,
            piece: Vec::with_capacity(PIECE_BYTES + TAG_BYTES),
            length: 0,
            read: 0,
            bytes: 0,
            is_last: false,
        })
    }

    fn next(&mut self) -> io::Result<()> {
        self.piece.clear();
        let most = (PIECE_BYTES + TAG_BYTES) as u64;
        (&mut self.sealed).take(most).read_to_end(&mut self.piece)?;
        // Only the last one may be shorter; one that is not may be the last, too.
        let mut again = self.piece.clone();
        let number = self.keyed.number;
        let about = Aad::from(self.keyed.header);
        let first = self.keyed.nonce(false)?;
        let length = match self.keyed.key.open_in_place(first, about, &mut self.piece) {
            Ok(plain) => plain.len(),
            Err(_) => {
                self.keyed.number = number;
                let last = self.keyed.nonce(true)?;
                let opened = self
                    .keyed
                    .key
                    .open_in_place(last, Aad::from(self.keyed.header), &mut again);
                let length = opened.map(|plain| plain.len()).map_err(|_| {
                    broken(match number {
                        0 => Broken::Shut,
                        _ => Broken::Damaged(self.bytes),
                    })
                })?;
                self.piece = again;
                self.is_last = true;
                length
            }
        };
        if self.is_last && self.sealed.read(&mut [0])? > 0 {
            return Err(broken(Broken::Damaged(self.bytes)));
        }
        self.bytes += length as u64;
        (self.length, self.read) = (length, 0);
        Ok(())
    }
}

impl<R: Read> Read for Opened<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.read == self.length {
            if self.is_last || buffer.is_empty() {
                return Ok(0);
            }
            self.next()?;
        }
        let fits = buffer.len().min(self.length - self.read);
        buffer[..fits].copy_from_slice(&self.piece[self.read..][..fits]);
        self.read += fits;
        Ok(fits)
    }
}
