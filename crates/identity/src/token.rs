//! Signed tokens in place of passwords: JWT (RFC 7519) with EdDSA over Ed25519 (RFC 8037), by keys of this edge.
//!
//! Written here rather than taken from a library because so little of the standard is wanted: one algorithm, one
//! signer. What a token's header says never chooses how it is checked (RFC 8725, section 3.1).

use std::sync::{Mutex, MutexGuard, PoisonError};

use base64ct::{Base64UrlUnpadded, Encoding};
use ring::signature::{self, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::cloud_trust::PublicTokenKey;
use crate::name::{ClientKind, ClientName};
use crate::registry::{KeyRow, Registry, RegistryError};
use crate::secret::{Secret, hex, random_bytes};

const ALGORITHM: &str = "EdDSA";

/// Why a token is worth nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Not three parts of base64url, or not the JSON that belongs there.
    #[error("not a token: {0}")]
    Malformed(&'static str),
    /// An algorithm other than EdDSA, `none` among them.
    #[error("signed with {0:?}; only EdDSA is accepted")]
    Algorithm(String),
    /// Meant for another door: a device's is none of a user, nor the other way round.
    #[error("of type {0:?}, which is not for this door")]
    Type(String),
    /// Signed by a key that is not this edge's, or no longer.
    #[error("signed by key {0:?}, which this edge does not have (any more)")]
    UnknownKey(String),
    /// The signature is not of this key over this text.
    #[error("its signature is wrong")]
    Signature,
    /// Over.
    #[error("expired at {0} seconds of Unix time")]
    Expired(i64),
}

/// What a token says of its bearer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claims {
    pub(crate) sub: String,
    pub(crate) tenant: String,
    pub(crate) kind: ClientKind,
    /// Ties it to one life of the client: another of the same name, or this one after a revocation, has another.
    pub(crate) epoch: String,
    pub(crate) iat: i64,
    pub(crate) exp: i64,
}

/// What a token says that the edge gives an application which it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApplicationClaims {
    pub(crate) sub: String,
    pub(crate) tenant: String,
    /// Ties it to one life of the application.
    pub(crate) epoch: String,
    pub(crate) iat: i64,
    pub(crate) exp: i64,
}

impl Signed for ApplicationClaims {
    const TYPE: &'static str = "application+jwt";

    fn expires_unix_s(&self) -> i64 {
        self.exp
    }
}

/// What is signed as a token.
pub(crate) trait Signed: Serialize + for<'a> Deserialize<'a> {
    /// Tells its tokens from all others (RFC 8725, section 3.11).
    const TYPE: &'static str;

    /// When it is over, in seconds of Unix time.
    fn expires_unix_s(&self) -> i64;
}

impl Signed for Claims {
    const TYPE: &'static str = "JWT";

    fn expires_unix_s(&self) -> i64 {
        self.exp
    }
}

#[derive(Serialize, Deserialize)]
struct Header {
    alg: String,
    kid: String,
    typ: String,
}

/// What a token's key has signed.
pub(crate) struct SignedText<'a> {
    pub(crate) key_id: &'a str,
    pub(crate) text: &'a [u8],
    pub(crate) signature: &'a [u8],
}

/// A key that tokens are signed with, as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenKey {
    /// What tokens call it (`kid`).
    pub id: String,
    /// Since when, in seconds of Unix time.
    pub created_unix_s: i64,
    /// Until when it verifies what it has signed; `None`: it signs.
    pub until_unix_s: Option<i64>,
}

/// The keys of this edge: one signs, those before it verify until their time is over.
pub(crate) struct TokenKeys {
    keys: Mutex<Vec<Key>>,
}

struct Key {
    id: String,
    pair: Ed25519KeyPair,
    created_unix_s: i64,
    signed_until_unix_s: i64,
    verify_until_unix_s: Option<i64>,
}

impl TokenKeys {
    /// Reads the keys; makes the first if there is none that signs.
    pub(crate) fn open(registry: &Registry, now_unix_s: i64) -> Result<Self, RegistryError> {
        let keys = TokenKeys {
            keys: Mutex::new(read(registry)?),
        };
        if !keys.lock().iter().any(Key::signs) {
            keys.rotate(registry, false, 0, now_unix_s)?;
        }
        Ok(keys)
    }

    /// Signs with a new key from now on. What the one before has signed without [`TokenKeys::sign_noted`] is good for
    /// `unnoted_valid_s` at most.
    pub(crate) fn rotate(
        &self,
        registry: &Registry,
        ends_others: bool,
        unnoted_valid_s: u32,
        now_unix_s: i64,
    ) -> Result<(), RegistryError> {
        let mut keys = self.lock();
        let new = KeyRow {
            key_id: hex(&random_bytes::<8>()),
            pkcs8: new_pkcs8(),
            created_unix_s: now_unix_s,
            signed_until_unix_s: 0,
            verify_until_unix_s: None,
        };
        registry.rotate_token_keys(&new, ends_others, now_unix_s.saturating_add(unnoted_valid_s.into()))?;
        *keys = read(registry)?;
        Ok(())
    }

    /// The keys that are good for something, the one that signs first.
    pub(crate) fn shown(&self, now_unix_s: i64) -> Vec<TokenKey> {
        let keys = self.lock();
        let good = keys.iter().filter(|key| key.verifies(now_unix_s));
        let shown = good.map(|key| TokenKey {
            id: key.id.clone(),
            created_unix_s: key.created_unix_s,
            until_unix_s: key.verify_until_unix_s,
        });
        shown.collect()
    }

    /// Signs what may live for long: before anybody gets it, it is written down for how long its key is needed.
    pub(crate) fn sign_noted<T: Signed>(&self, registry: &Registry, claims: &T) -> Result<Secret, RegistryError> {
        let mut keys = self.lock();
        let key = keys.iter_mut().find(|key| key.signs()).expect("one key always signs");
        if claims.expires_unix_s() > key.signed_until_unix_s {
            registry.note_signed_until(&key.id, claims.expires_unix_s())?;
            key.signed_until_unix_s = claims.expires_unix_s();
        }
        Ok(key.sign(claims))
    }

    pub(crate) fn sign<T: Signed>(&self, claims: &T) -> Secret {
        let keys = self.lock();
        let key = keys.iter().find(|key| key.signs()).expect("one key always signs");
        key.sign(claims)
    }

    pub(crate) fn verify<T: Signed>(&self, token: &[u8], now_unix_s: i64) -> Result<T, TokenError> {
        self.verify_or(token, now_unix_s, |_| false)
    }

    /// As [`TokenKeys::verify`]; `is_signed` says whether a key that is none of these has signed.
    pub(crate) fn verify_or<T: Signed>(
        &self,
        token: &[u8],
        now_unix_s: i64,
        is_signed: impl FnOnce(&SignedText<'_>) -> bool,
    ) -> Result<T, TokenError> {
        let token = std::str::from_utf8(token).map_err(|_| TokenError::Malformed("not text"))?;
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed("not three parts"))?;
        let (header, claims) = signed.split_once('.').ok_or(TokenError::Malformed("not three parts"))?;
        let header: Header = decode_json(header, "its header is not that of a signed token")?;
        if header.alg != ALGORITHM {
            return Err(TokenError::Algorithm(header.alg.chars().take(16).collect()));
        }
        if header.typ != T::TYPE {
            return Err(TokenError::Type(header.typ.chars().take(16).collect()));
        }
        let signed = SignedText {
            key_id: &header.kid,
            text: signed.as_bytes(),
            signature: &decode(signature, "its signature is not base64url")?,
        };
        match self.check_signature(&signed, now_unix_s) {
            Err(TokenError::UnknownKey(_)) if is_signed(&signed) => {}
            checked => checked?,
        }
        let claims: T = decode_json(claims, "its claims are not those of this edge's tokens")?;
        if claims.expires_unix_s() <= now_unix_s {
            Err(TokenError::Expired(claims.expires_unix_s()))
        } else {
            Ok(claims)
        }
    }

    /// The keys as others may verify by them.
    pub(crate) fn public_keys(&self) -> Vec<PublicTokenKey> {
        let keys = self.lock();
        let public = keys.iter().map(|key| PublicTokenKey {
            id: key.id.clone(),
            key: Base64UrlUnpadded::encode_string(key.pair.public_key().as_ref()),
            until_unix_s: key.verify_until_unix_s,
        });
        public.collect()
    }

    fn check_signature(&self, signed: &SignedText<'_>, now: i64) -> Result<(), TokenError> {
        let SignedText {
            key_id,
            text,
            signature,
        } = *signed;
        let keys = self.lock();
        let key = keys.iter().find(|key| key.id == key_id && key.verifies(now));
        let key = key.ok_or_else(|| TokenError::UnknownKey(key_id.chars().take(32).collect()))?;
        UnparsedPublicKey::new(&signature::ED25519, key.pair.public_key().as_ref())
            .verify(text, signature)
            .map_err(|_| TokenError::Signature)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Key>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Key {
    fn signs(&self) -> bool {
        self.verify_until_unix_s.is_none()
    }

    fn verifies(&self, now_unix_s: i64) -> bool {
        self.verify_until_unix_s.is_none_or(|until| now_unix_s < until)
    }

    fn sign<T: Signed>(&self, claims: &T) -> Secret {
        let header = Header {
            alg: ALGORITHM.into(),
            kid: self.id.clone(),
            typ: T::TYPE.into(),
        };
        let mut token = format!("{}.{}", encode_json(&header), encode_json(claims));
        let signature = Base64UrlUnpadded::encode_string(self.pair.sign(token.as_bytes()).as_ref());
        token.push('.');
        token.push_str(&signature);
        Secret::new(token)
    }
}

/// Whether a password is meant as a token: `{"…` in base64url, then two more parts.
pub(crate) fn looks_like_token(password: &[u8]) -> bool {
    let in_alphabet = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    password.starts_with(b"eyJ")
        && password.iter().filter(|byte| **byte == b'.').count() == 2
        && password.iter().all(in_alphabet)
}

fn new_pkcs8() -> Zeroizing<Vec<u8>> {
    let document = Ed25519KeyPair::generate_pkcs8(&ring::rand::SystemRandom::new());
    Zeroizing::new(
        document
            .expect("the operating system gives random bytes")
            .as_ref()
            .to_vec(),
    )
}

fn read(registry: &Registry) -> Result<Vec<Key>, RegistryError> {
    let readable = |row: KeyRow| {
        let pair = Ed25519KeyPair::from_pkcs8(&row.pkcs8).ok()?;
        Some(Key {
            id: row.key_id,
            pair,
            created_unix_s: row.created_unix_s,
            signed_until_unix_s: row.signed_until_unix_s,
            verify_until_unix_s: row.verify_until_unix_s,
        })
    };
    Ok(registry.token_keys()?.into_iter().filter_map(readable).collect())
}

fn encode_json(value: &impl Serialize) -> String {
    Base64UrlUnpadded::encode_string(&serde_json::to_vec(value).expect("text and numbers are JSON"))
}

fn decode(text: &str, otherwise: &'static str) -> Result<Vec<u8>, TokenError> {
    Base64UrlUnpadded::decode_vec(text).map_err(|_| TokenError::Malformed(otherwise))
}

fn decode_json<T: for<'a> Deserialize<'a>>(text: &str, otherwise: &'static str) -> Result<T, TokenError> {
    serde_json::from_slice(&decode(text, otherwise)?).map_err(|_| TokenError::Malformed(otherwise))
}

impl Claims {
    pub(crate) fn new(name: &ClientName, kind: ClientKind, epoch: String, now_unix_s: i64, valid_s: u32) -> Self {
        Claims {
            sub: name.id().to_string(),
            tenant: name.tenant().to_string(),
            kind,
            epoch,
            iat: now_unix_s,
            exp: now_unix_s.saturating_add(valid_s.into()),
        }
    }
}
