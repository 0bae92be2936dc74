//! What an edge believes of its cloud: that devices which the two share have their certificates and tokens from it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use base64ct::{Base64UrlUnpadded, Encoding};
use ring::signature::{ED25519, UnparsedPublicKey};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::{Deserialize, Serialize};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::enrol::Identity;
use crate::registry::{Registry, RegistryError};

/// Token keys of a cloud that are believed, at most.
const KEYS_MAX: usize = 16;
/// Bytes of its authority in PEM, at most.
const AUTHORITY_BYTES_MAX: usize = 8 << 10;

/// What a cloud shows its edges, so that they can check what it gave out. Nothing of it is secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloudTrust {
    /// Its certificate authority, in PEM.
    pub authority_pem: String,
    /// The keys by which its tokens are verified.
    pub token_keys: Vec<PublicTokenKey>,
}

/// A key by which tokens are verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicTokenKey {
    /// What tokens call it.
    pub id: String,
    /// Ed25519, in base64url without padding.
    pub key: String,
    /// Until when, in seconds of Unix time; `None`: it signs.
    pub until_unix_s: Option<i64>,
}

impl PublicTokenKey {
    fn is_good(&self, now_unix_s: i64) -> bool {
        self.until_unix_s.is_none_or(|until| now_unix_s < until)
    }
}

/// What a cloud shows cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CloudTrustError {
    /// No certificate authority, or more of it than one has.
    #[error("what the cloud shows is no certificate authority, or has more than {KEYS_MAX} token keys")]
    Unusable,
    /// The registry failed.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

/// The cloud that is believed; `None`: none yet.
#[derive(Default)]
pub(crate) struct BelievedCloud(Mutex<Option<Believed>>);

struct Believed {
    trust: CloudTrust,
    authority: CertificateDer<'static>,
    /// Its name as certificates that it signed have it, in DER.
    subject: Vec<u8>,
}

impl BelievedCloud {
    pub(crate) fn open(registry: &Registry) -> Result<Self, RegistryError> {
        let believed = registry.cloud_trust()?;
        let believed = believed
            .and_then(|text| serde_json::from_str(&text).ok())
            .and_then(Believed::new);
        Ok(Self(Mutex::new(believed)))
    }

    /// Whether one of its keys signed this, and may still.
    pub(crate) fn has_signed(&self, key_id: &str, signed: &[u8], signature: &[u8], now_unix_s: i64) -> bool {
        let believed = self.lock();
        let keys = believed.iter().flat_map(|believed| &believed.trust.token_keys);
        let is_it = |key: &&PublicTokenKey| key.id == key_id && key.is_good(now_unix_s);
        keys.filter(is_it).any(|key| {
            let key = Base64UrlUnpadded::decode_vec(&key.key).unwrap_or_default();
            UnparsedPublicKey::new(&ED25519, key).verify(signed, signature).is_ok()
        })
    }

    /// Whether certificates whose issuer has this name in DER are its own.
    pub(crate) fn is_issuer(&self, issuer: &[u8]) -> bool {
        self.lock().as_ref().is_some_and(|believed| believed.subject == issuer)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Believed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Believed {
    fn new(trust: CloudTrust) -> Option<Self> {
        if trust.authority_pem.len() > AUTHORITY_BYTES_MAX || trust.token_keys.len() > KEYS_MAX {
            return None;
        }
        let authority = CertificateDer::from_pem_slice(trust.authority_pem.as_bytes()).ok()?;
        let (_, parsed) = X509Certificate::from_der(&authority).ok()?;
        let subject = parsed.subject().as_raw().to_vec();
        parsed.is_ca().then_some(())?;
        Some(Self {
            trust,
            authority: authority.clone(),
            subject,
        })
    }

    /// Whether it has a key that is good still, and `other` does not have it.
    fn has_key_not_of(&self, other: &Self, now_unix_s: i64) -> bool {
        let others = &other.trust.token_keys;
        let mut good = self.trust.token_keys.iter().filter(|key| key.is_good(now_unix_s));
        good.any(|key| others.iter().all(|other| other.id != key.id))
    }
}

impl Identity {
    /// What a cloud shows its edges.
    pub fn shown_trust(&self) -> CloudTrust {
        CloudTrust {
            authority_pem: self.authority().certificate_pem().to_owned(),
            token_keys: self.tokens.public_keys(),
        }
    }

    /// Believes a cloud from now on, in place of the one before; whether its authority is another one. A certificate of
    /// it is worth something only if the registry has it as issued to its device, a token only if it has its epoch.
    /// Where a key is given up before its time, connections made with a token end.
    ///
    /// # Errors
    /// It shows nothing that can be used, or the registry failed.
    pub fn trust_cloud(&self, trust: CloudTrust, now_unix_s: i64) -> Result<bool, CloudTrustError> {
        let mut before = self.cloud.lock();
        if before.as_ref().is_some_and(|believed| believed.trust == trust) {
            return Ok(false);
        }
        let text = serde_json::to_string(&trust).expect("texts and numbers are JSON");
        let believed = Believed::new(trust).ok_or(CloudTrustError::Unusable)?;
        let gives_up_key = before
            .as_ref()
            .is_some_and(|before| before.has_key_not_of(&believed, now_unix_s));
        self.registry().set_cloud_trust(&text, gives_up_key)?;
        let is_other = before
            .as_ref()
            .is_none_or(|before| before.authority != believed.authority);
        *before = Some(believed);
        Ok(is_other)
    }

    pub(crate) fn cloud_authority(&self) -> Option<CertificateDer<'static>> {
        self.cloud.lock().as_ref().map(|believed| believed.authority.clone())
    }
}
