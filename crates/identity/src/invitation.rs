//! An edge joins: it is invited with a token, and gets its first certificate for it.

use rcgen::{PKCS_ECDSA_P256_SHA256, PublicKeyData, SubjectPublicKeyInfo};
use ring::digest::{SHA256, digest};
use ring::hmac;
use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

use crate::authenticate::Refusal;
use crate::enrol::{Credential, Identity, IdentityError, NewClient};
use crate::join_token::JoinToken;
use crate::name::{ClientKind, ClientName};
use crate::registry::{InvitationRow, Redeemed, RegistryError};
use crate::secret::random_bytes;

/// How long what edges get is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnrolmentOptions {
    /// Life of an edge's certificate, in seconds.
    pub certificate_valid_s: u32,
    /// For how many seconds after its end a certificate can still be renewed.
    pub renewal_grace_s: u32,
    /// Whether they become nodes of a site; else they are edges of a cloud.
    pub are_nodes: bool,
}

/// An invitation, as its operator sees it.
#[derive(Clone)]
pub struct Invitation {
    /// Shown this once.
    pub token: JoinToken,
    /// Until when, in seconds of Unix time.
    pub until_unix_s: i64,
    /// Whether the edge was added with it.
    pub is_new: bool,
}

/// What an edge gets for a token, or for a certificate that ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enrolled {
    /// Who it is.
    pub name: ClientName,
    /// The certificate, in PEM.
    pub certificate_pem: String,
    /// Its serial number in lower-case hexadecimal.
    pub serial: String,
    /// Its life in seconds, from now on.
    pub valid_s: u32,
}

impl Identity {
    /// Invites an edge, which is added if it is not there. The token takes the place of an earlier one of the edge, and
    /// is good once, until it expires.
    ///
    /// # Errors
    /// The name is that of a device or an app, the tenant is unknown or full.
    pub fn invite(&self, name: &ClientName, valid_s: u32, now_unix_s: i64) -> Result<Invitation, IdentityError> {
        let is_new = self.add_uninvited(name, now_unix_s)?;
        let token = JoinToken::new(self.authority().fingerprint());
        let row = InvitationRow {
            name: name.clone(),
            number: token.number(),
            secret_sha256: token.secret_sha256(),
            until_unix_s: now_unix_s.saturating_add(valid_s.into()),
            key_sha256: None,
        };
        self.registry().invite(&row)?;
        Ok(Invitation {
            token,
            until_unix_s: row.until_unix_s,
            is_new,
        })
    }

    /// Adds an edge that has nothing to prove itself by, unless it is there.
    fn add_uninvited(&self, name: &ClientName, now_unix_s: i64) -> Result<bool, IdentityError> {
        let kind = ClientKind::Edge;
        if let Some(client) = self.registry().client(name)? {
            let taken = || RegistryError::ClientExists {
                name: name.clone(),
                kind: client.kind,
            };
            return if client.kind == kind {
                Ok(false)
            } else {
                Err(taken().into())
            };
        }
        let new = NewClient {
            name: name.clone(),
            kind,
            labels: Default::default(),
            credential: Credential::Elsewhere,
            edge: None,
        };
        self.add(&new, now_unix_s).map(|_| true)
    }

    /// Gives whoever has a token a certificate for the key of its request (PKCS #10, in PEM). Of what that asks for,
    /// nothing but the public key counts: the names are those of the invitation.
    ///
    /// # Errors
    /// Why not.
    pub fn join(
        &self,
        token: &JoinToken,
        request_pem: &str,
        options: EnrolmentOptions,
        now_unix_s: i64,
    ) -> Result<Enrolled, Refusal> {
        let key = requested_key(request_pem)?;
        let key_sha256 = digest(&SHA256, key.der_bytes());
        let InvitationRow { name, number, .. } = self.usable(token, key_sha256.as_ref(), now_unix_s)?;
        let (certificate, certificate_pem) = self.certify(&name, &key, options, now_unix_s)?;
        let redeemed = Redeemed {
            number: &number,
            key_sha256: key_sha256.as_ref(),
            certificate: &certificate,
        };
        match self.registry().redeem(&name, &redeemed) {
            Err(RegistryError::NoInvitation(_)) => return Err(Refusal::InvitationUsed),
            done => done?,
        }
        Ok(Enrolled {
            name,
            certificate_pem,
            serial: certificate.serial,
            valid_s: options.certificate_valid_s,
        })
    }

    /// The invitation of a token, if it can be used for this key.
    fn usable(&self, token: &JoinToken, key_sha256: &[u8], now_unix_s: i64) -> Result<InvitationRow, Refusal> {
        let found = self.registry().invitation(&token.number())?;
        let found = found.filter(|row| equals(&row.secret_sha256, &token.secret_sha256()));
        let invitation = found.ok_or(Refusal::NoInvitation)?;
        if invitation.until_unix_s < now_unix_s {
            return Err(Refusal::InvitationExpired(invitation.until_unix_s));
        }
        if invitation.key_sha256.as_ref().is_some_and(|used| used != key_sha256) {
            return Err(Refusal::InvitationUsed);
        }
        self.check_edge(&invitation.name)?;
        Ok(invitation)
    }

    /// Whether this is an edge that may come in.
    pub(crate) fn check_edge(&self, name: &ClientName) -> Result<(), Refusal> {
        let proofs = self.registry().proofs(name)?.ok_or(Refusal::UnknownClient)?;
        match (proofs.kind, proofs.disabled) {
            (ClientKind::Edge, false) => Ok(()),
            (ClientKind::Edge, true) => Err(Refusal::Disabled),
            _ => Err(Refusal::NotRenewable("it is not of an edge")),
        }
    }

    pub(crate) fn certify(
        &self,
        name: &ClientName,
        key: &SubjectPublicKeyInfo,
        options: EnrolmentOptions,
        now_unix_s: i64,
    ) -> Result<(crate::ClientCertificate, String), Refusal> {
        let made = self.authority().certify(name, key, now_unix_s, options);
        made.map_err(|_| Refusal::Request("its key cannot be certified"))
    }
}

/// The public key of a request that is signed with it.
pub(crate) fn requested_key(request_pem: &str) -> Result<SubjectPublicKeyInfo, Refusal> {
    const NO_REQUEST: Refusal = Refusal::Request("it is no request in PEM (PKCS #10)");
    let der = CertificateSigningRequestDer::from_pem_slice(request_pem.as_bytes()).map_err(|_| NO_REQUEST)?;
    let (_, request) = X509CertificationRequest::from_der(&der).map_err(|_| NO_REQUEST)?;
    let unsigned = |_| Refusal::Request("it is not signed with the key that it asks for");
    request.verify_signature().map_err(unsigned)?;
    let key = SubjectPublicKeyInfo::from_der(request.certification_request_info.subject_pki.raw);
    key.ok()
        .filter(|key| key.algorithm() == &PKCS_ECDSA_P256_SHA256)
        .ok_or(Refusal::Request("its key is none of ECDSA on the curve P-256"))
}

/// Whether two digests are equal, in a time that does not tell where they differ: both are hashed under a key of the
/// moment, and [`hmac::verify`] compares in constant time.
fn equals(one: &[u8], other: &[u8]) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &random_bytes::<32>());
    hmac::verify(&key, one, hmac::sign(&key, other).as_ref()).is_ok()
}
