//! From what a client presents to who it is.

use std::io;
use std::sync::Arc;

use crate::certificate::CertificateIdentity;
use crate::enrol::Identity;
use crate::name::{ClientKind, ClientName, DEFAULT_TENANT, NameError};
use crate::password::{self, MAX_PASSWORD_BYTES};
use crate::registry::{HeldCredential, Proofs, RegistryError, SerialState};
use crate::token::{self, ApplicationClaims, Claims, TokenError};

/// What a client presents when it connects.
#[derive(Clone, Copy, Default)]
pub struct Presented<'a> {
    /// `{id}` in the default tenant, else `{tenant}/{id}`; may be left out with a token or certificate.
    pub user_name: Option<&'a str>,
    /// A password or a token.
    pub password: Option<&'a [u8]>,
    /// From the TLS handshake, which has verified it.
    pub certificate: Option<&'a CertificateIdentity>,
}

/// A client that may come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// Who it is.
    pub principal: Principal,
    /// What it has proved that by, as it can be revoked: one or more, but for an anonymous client.
    pub proofs: Box<[HeldCredential]>,
}

/// Who a connection belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal {
    /// Its tenant.
    pub tenant: Arc<str>,
    /// What it is.
    pub kind: PrincipalKind,
    /// Its id within the tenant; empty for an anonymous client.
    pub id: Arc<str>,
}

/// What a connected client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PrincipalKind {
    /// A registered device.
    Device,
    /// A registered app.
    App,
    /// A registered edge.
    Edge,
    /// A client without credentials, where that is allowed.
    Anonymous,
}

/// Why a client was refused: for logs and operators. A client learns only that it was.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// It presented nothing, and anonymous clients are not allowed.
    #[error("no credentials")]
    NoCredentials,
    /// A user name that no client can have.
    #[error("user name: {0}")]
    UserName(#[from] NameError),
    /// A user name without anything to prove it.
    #[error("a user name without password, token or certificate")]
    NoProof,
    /// A password without a user name.
    #[error("a password without a user name")]
    NoUserName,
    /// Over [`MAX_PASSWORD_BYTES`]; never hashed.
    #[error("a password of {0} bytes; at most {MAX_PASSWORD_BYTES} are read")]
    PasswordTooLong(usize),
    /// No such client.
    #[error("no such device or app")]
    UnknownClient,
    /// No such user of the HTTP API.
    #[error("no such user")]
    UnknownUser,
    /// Not its password, or it has none.
    #[error("wrong password")]
    WrongPassword,
    /// The token itself is worth nothing.
    #[error("token: {0}")]
    Token(#[from] TokenError),
    /// The token was revoked, or issued to an earlier client of that name.
    #[error("token: revoked")]
    TokenRevoked,
    /// Valid until then, in seconds of Unix time.
    #[error("certificate: expired at {0} seconds of Unix time")]
    CertificateExpired(i64),
    /// Its serial was revoked.
    #[error("certificate: serial {0} is revoked")]
    CertificateRevoked(String),
    /// Issued to an earlier client of that name, or by an authority that this client is not to be known by.
    #[error("certificate: serial {0} was not issued to this client")]
    CertificateNotIssued(String),
    /// No invitation has this token: it was withdrawn, replaced by a later one, or never made here.
    #[error("join token: it is not known here; it was withdrawn, or a later one took its place")]
    NoInvitation,
    /// Good until then, in seconds of Unix time.
    #[error("join token: expired at {0} seconds of Unix time")]
    InvitationExpired(i64),
    /// Somebody joined with it, by another key.
    #[error("join token: it was used before")]
    InvitationUsed,
    /// It is no PKCS #10 request for an ECDSA key on P-256, signed by that key.
    #[error("certificate request: {0}")]
    Request(&'static str),
    /// Its renewal was asked for too long after its end.
    #[error("certificate: expired at {0} seconds of Unix time, too long ago to be renewed")]
    RenewalTooLate(i64),
    /// Another authority's, or whoever shows it does not have its key, or it did not come of an invitation.
    #[error("certificate: {0}")]
    NotRenewable(&'static str),
    /// User name, token and certificate name different clients.
    #[error("it presents credentials of two clients, \"{0}\" and \"{1}\"")]
    TwoClients(ClientName, ClientName),
    /// An application's token, and something else that is no app has its name.
    #[error("token: of the application \"{0}\", and a {1} of that name is there")]
    NameTaken(ClientName, ClientKind),
    /// Right, but kept out.
    #[error("disabled")]
    Disabled,
    /// Right, but it logs in at an edge, which is named, and nowhere else.
    #[error("it logs in at the edge \"{0}\"")]
    AtEdge(String),
    /// The registry cannot be read; the client may try again.
    #[error("{0}")]
    Unavailable(#[from] RegistryError),
    /// The system has no memory for hashing; the client may try again.
    #[error("password not hashed: {0}")]
    Hashing(#[from] io::Error),
}

impl Refusal {
    /// Whether it was the client's failure, and counts against its address.
    pub fn is_failed_login(&self) -> bool {
        !matches!(self, Refusal::Unavailable(_) | Refusal::Hashing(_))
    }
}

/// A client that proved who it is.
struct Proven {
    name: ClientName,
    kind: ClientKind,
    disabled: bool,
    /// Name of the edge that it logs in at; empty: here.
    edge: String,
    by: Vec<HeldCredential>,
}

impl Identity {
    /// Finds out who presents this. Everything presented must be right, and of the same client.
    ///
    /// Blocks: reads the registry and may take [`HASHING_MEMORY_BYTES`](crate::HASHING_MEMORY_BYTES) for tens of
    /// milliseconds. The time does not tell whether a user name exists. To miss no removal, see
    /// [`Registry::last_change`](crate::Registry::last_change).
    ///
    /// # Errors
    /// Why not, for the log alone.
    pub fn authenticate(&self, presented: &Presented<'_>, now_unix_s: i64) -> Result<Login, Refusal> {
        let user_name = presented.user_name.filter(|name| !name.is_empty());
        let named = user_name.map(ClientName::from_user_name).transpose()?;
        let by_certificate = presented
            .certificate
            .map(|found| self.by_certificate(found, now_unix_s))
            .transpose()?;
        let by_secret = presented
            .password
            .map(|secret| self.by_secret(named.as_ref(), secret, now_unix_s))
            .transpose()?;
        let proven = match (by_certificate, by_secret) {
            (Some(one), Some(other)) => one.and(other)?,
            (Some(proven), None) | (None, Some(proven)) => proven,
            (None, None) => return self.without_proof(named.is_some()),
        };
        if let Some(named) = named {
            same(&named, &proven.name)?;
        }
        match (proven.disabled, &*proven.edge) {
            (true, _) => Err(Refusal::Disabled),
            (false, "") => Ok(proven.into()),
            (false, edge) => Err(Refusal::AtEdge(edge.to_owned())),
        }
    }

    fn without_proof(&self, named: bool) -> Result<Login, Refusal> {
        match (named, self.options.allow_anonymous) {
            (true, _) => Err(Refusal::NoProof),
            (false, false) => Err(Refusal::NoCredentials),
            (false, true) => Ok(Login {
                principal: Principal {
                    tenant: DEFAULT_TENANT.into(),
                    kind: PrincipalKind::Anonymous,
                    id: "".into(),
                },
                proofs: Box::default(),
            }),
        }
    }

    fn by_certificate(&self, certificate: &CertificateIdentity, now_unix_s: i64) -> Result<Proven, Refusal> {
        if certificate.not_after_unix_s < now_unix_s {
            return Err(Refusal::CertificateExpired(certificate.not_after_unix_s));
        }
        let proofs = self
            .registry()
            .proofs(&certificate.name)?
            .ok_or(Refusal::UnknownClient)?;
        let serial = certificate.serial.clone();
        let by = match self.registry().serial_state(&certificate.name, &serial)? {
            SerialState::Revoked => return Err(Refusal::CertificateRevoked(serial)),
            // A device of the same name may be another edge's, for all that its cloud has signed.
            SerialState::Unknown if !proofs.trusts_subject || self.cloud.is_issuer(&certificate.issuer) => {
                return Err(Refusal::CertificateNotIssued(serial));
            }
            // Either can be revoked.
            SerialState::Unknown => vec![HeldCredential::TrustedSubject, HeldCredential::Certificate(serial)],
            SerialState::Issued => vec![HeldCredential::Certificate(serial)],
        };
        Ok(Proven::new(certificate.name.clone(), &proofs, by))
    }

    fn by_secret(&self, named: Option<&ClientName>, secret: &[u8], now_unix_s: i64) -> Result<Proven, Refusal> {
        if secret.len() > MAX_PASSWORD_BYTES {
            return Err(Refusal::PasswordTooLong(secret.len()));
        }
        if token::looks_like_token(secret) {
            return match self.by_token(secret, now_unix_s) {
                Err(Refusal::Token(TokenError::Type(_))) => self.by_token_of_application(secret, now_unix_s),
                proven => proven,
            };
        }
        self.by_password(named.ok_or(Refusal::NoUserName)?, secret)
    }

    fn by_password(&self, name: &ClientName, password: &[u8]) -> Result<Proven, Refusal> {
        let proofs = self.registry().proofs(name)?;
        let stored = proofs.as_ref().and_then(|proofs| proofs.password.as_deref());
        let right = self.is_password(password, stored)?;
        match proofs {
            None => Err(Refusal::UnknownClient),
            Some(_) if !right => Err(Refusal::WrongPassword),
            Some(proofs) => Ok(Proven::new(name.clone(), &proofs, vec![HeldCredential::Password])),
        }
    }

    pub(crate) fn is_password(&self, password: &[u8], stored: Option<&str>) -> io::Result<bool> {
        let tag = self.verified.tag(stored.unwrap_or_default(), password);
        if self.verified.contains(tag) {
            return Ok(true);
        }
        let right = password::verify(password, stored)?;
        if right {
            self.verified.insert(tag);
        }
        Ok(right)
    }

    fn by_token(&self, token: &[u8], now_unix_s: i64) -> Result<Proven, Refusal> {
        let mut is_of_cloud = false;
        let claims: Claims = self.tokens.verify_or(token, now_unix_s, |signed| {
            is_of_cloud = self
                .cloud
                .has_signed(signed.key_id, signed.text, signed.signature, now_unix_s);
            is_of_cloud
        })?;
        if is_of_cloud && claims.kind != ClientKind::Device {
            // A cloud gives out what devices log in with, and nobody else here.
            return Err(Refusal::TokenRevoked);
        }
        let name = ClientName::new(&claims.tenant, &claims.sub)?;
        let proofs = self.registry().proofs(&name)?.ok_or(Refusal::UnknownClient)?;
        if proofs.kind != claims.kind || proofs.token_epoch.as_ref() != Some(&claims.epoch) {
            return Err(Refusal::TokenRevoked);
        }
        Ok(Proven::new(name, &proofs, vec![HeldCredential::Tokens]))
    }

    /// It is the app of its name, which need not be there otherwise, and can be disabled where it is.
    fn by_token_of_application(&self, token: &[u8], now_unix_s: i64) -> Result<Proven, Refusal> {
        let claims: ApplicationClaims = self.tokens.verify(token, now_unix_s)?;
        let name = ClientName::new(&claims.tenant, &claims.sub)?;
        if self.registry().application_epoch(&name)?.as_ref() != Some(&claims.epoch) {
            return Err(Refusal::TokenRevoked);
        }
        let client = self.registry().proofs(&name)?;
        if let Some(kind) = client
            .as_ref()
            .map(|client| client.kind)
            .filter(|kind| *kind != ClientKind::App)
        {
            return Err(Refusal::NameTaken(name, kind));
        }
        Ok(Proven {
            name,
            kind: ClientKind::App,
            disabled: client.is_some_and(|client| client.disabled),
            edge: String::new(),
            by: vec![HeldCredential::Application],
        })
    }
}

impl Proven {
    fn new(name: ClientName, proofs: &Proofs, by: Vec<HeldCredential>) -> Self {
        Proven {
            name,
            kind: proofs.kind,
            disabled: proofs.disabled,
            edge: proofs.edge.clone(),
            by,
        }
    }

    /// Of one client, by both.
    fn and(mut self, other: Proven) -> Result<Self, Refusal> {
        same(&self.name, &other.name)?;
        self.by.extend(other.by);
        Ok(self)
    }
}

impl From<Proven> for Login {
    fn from(proven: Proven) -> Self {
        let kind = match proven.kind {
            ClientKind::Device => PrincipalKind::Device,
            ClientKind::App => PrincipalKind::App,
            ClientKind::Edge => PrincipalKind::Edge,
        };
        Login {
            principal: Principal {
                tenant: proven.name.tenant().clone(),
                kind,
                id: proven.name.id().clone(),
            },
            proofs: proven.by.into(),
        }
    }
}

fn same(one: &ClientName, other: &ClientName) -> Result<(), Refusal> {
    if one == other {
        Ok(())
    } else {
        Err(Refusal::TwoClients(one.clone(), other.clone()))
    }
}
