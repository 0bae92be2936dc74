//! Adding clients with what they prove themselves by.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::authority::{Authority, AuthorityError};
use crate::cloud_trust::BelievedCloud;
use crate::login::ACCESS_TOKEN_VALID_S;
use crate::name::{ClientKind, ClientName};
use crate::password::{self, PasswordError};
use crate::registry::{ClientCertificate, Labels, NewProof, NewRow, OpenError, Registry, RegistryError};
use crate::secret::{Secret, hex, random_bytes};
use crate::token::{ApplicationClaims, Claims, TokenKey, TokenKeys};
use crate::verified::Verified;

/// Who may connect to an edge: its registry, keys and certificate authority. Shared between threads.
pub struct Identity {
    registry: Arc<Registry>,
    authority: Authority,
    pub(crate) tokens: TokenKeys,
    /// Of an edge.
    pub(crate) cloud: BelievedCloud,
    pub(crate) verified: Verified,
    pub(crate) options: IdentityOptions,
}

/// What an operator decides about identities.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdentityOptions {
    /// Whether a client that presents nothing has the whole tree of the default tenant.
    pub allow_anonymous: bool,
}

/// A client to add.
#[derive(Clone, Debug)]
pub struct NewClient {
    /// Who.
    pub name: ClientName,
    /// Device or app.
    pub kind: ClientKind,
    /// Its first labels.
    pub labels: Labels,
    /// What it proves itself by.
    pub credential: Credential,
    /// Name of the edge that it logs in at, and nowhere else; `None`: here.
    pub edge: Option<String>,
}

/// What a client shall prove itself by.
#[derive(Clone, Debug)]
pub enum Credential {
    /// A password that somebody chose.
    Password(Secret),
    /// A password that is made here.
    GeneratedPassword,
    /// A signed token.
    Token {
        /// How long it is valid, in seconds.
        valid_s: u32,
    },
    /// A certificate and key that are made here.
    Certificate {
        /// How long it is valid, in seconds.
        valid_s: u32,
    },
    /// Any certificate with the client's name as its subject, of an authority that the operator trusts.
    TrustedSubject,
    /// None yet.
    Elsewhere,
}

/// What the client is to be given; shown once and kept nowhere here.
#[derive(Clone, Debug)]
pub enum Issued {
    /// Nothing: it has its credential already.
    Nothing,
    /// The generated password.
    Password(Secret),
    /// The token, for the password field.
    Token(Secret),
    /// Certificate and private key, both in PEM.
    Certificate {
        /// Its serial number in lower-case hexadecimal.
        serial: String,
        /// The certificate.
        certificate_pem: String,
        /// Its key, PKCS #8.
        key_pem: Secret,
    },
}

/// Why a client was not added or changed.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The registry refused or failed.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The registry cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The authority cannot be opened or cannot sign.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// A password that cannot be set.
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// A file cannot be written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// What is stored of a credential, and what is handed out.
#[derive(Default)]
struct Prepared {
    password: Option<String>,
    token_epoch: Option<String>,
    certificate: Option<ClientCertificate>,
    trusts_subject: bool,
    issued: Option<Issued>,
}

impl Identity {
    /// Opens what `directory`, which must exist, holds of identities, and makes on first use what is missing.
    ///
    /// # Errors
    /// A file cannot be read, written or understood.
    pub fn open(directory: &Path, options: IdentityOptions, now_unix_s: i64) -> Result<Self, IdentityError> {
        let registry = Arc::new(Registry::open(directory)?);
        let authority = Authority::open(directory, now_unix_s)?;
        let tokens = TokenKeys::open(&registry, now_unix_s)?;
        Ok(Identity {
            cloud: BelievedCloud::open(&registry)?,
            registry,
            authority,
            tokens,
            verified: Verified::new(),
            options,
        })
    }

    /// Tenants and clients.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The edge's own certificate authority.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Adds a client and makes its credential, both or neither.
    ///
    /// # Errors
    /// The name is taken, the tenant unknown or full, a label or password not allowed.
    pub fn add(&self, new: &NewClient, now_unix_s: i64) -> Result<Issued, IdentityError> {
        let mut issued = self.add_all(std::slice::from_ref(new), now_unix_s)?;
        Ok(issued.remove(0))
    }

    /// Adds clients and makes their credentials, all or none, in one write to disk; what each is to be given, in order.
    ///
    /// # Errors
    /// As [`Identity::add`], for the first that cannot be added.
    pub fn add_all(&self, new: &[NewClient], now_unix_s: i64) -> Result<Vec<Issued>, IdentityError> {
        let prepare = |new: &NewClient| self.prepare(&new.name, new.kind, &new.credential, now_unix_s, None);
        let prepared: Vec<Prepared> = new.iter().map(prepare).collect::<Result<_, _>>()?;
        let rows: Vec<NewRow<'_>> = new
            .iter()
            .zip(&prepared)
            .map(|(new, prepared)| prepared.row(new, now_unix_s))
            .collect();
        self.registry.add(&rows)?;
        Ok(prepared.into_iter().map(Prepared::handed_out).collect())
    }

    /// Gives a client that exists one more credential; those it has stay valid, but for a password, of which there is
    /// one.
    ///
    /// # Errors
    /// No such client, a password that is not allowed, or too many certificates.
    pub fn issue(&self, name: &ClientName, credential: &Credential, now_unix_s: i64) -> Result<Issued, IdentityError> {
        let client = self
            .registry
            .client(name)?
            .ok_or_else(|| RegistryError::NoClient(name.clone()))?;
        let epoch = match credential {
            Credential::Token { .. } => Some(self.registry.token_epoch(name, &new_epoch())?),
            _ => None,
        };
        let prepared = self.prepare(name, client.kind, credential, now_unix_s, epoch)?;
        if let Some(phc) = &prepared.password {
            self.registry.set_password(name, phc)?;
        }
        if let Some(certificate) = &prepared.certificate {
            self.registry.add_certificate(name, certificate, now_unix_s)?;
        }
        if prepared.trusts_subject {
            self.registry.trust_subject(name)?;
        }
        Ok(prepared.handed_out())
    }

    /// Gives a client that exists a credential in place of all that it had, at once and whole.
    ///
    /// # Errors
    /// No such client, or a password that is not allowed; its credentials are as they were then.
    pub fn replace(
        &self,
        name: &ClientName,
        credential: &Credential,
        now_unix_s: i64,
    ) -> Result<Issued, IdentityError> {
        let client = self
            .registry
            .client(name)?
            .ok_or_else(|| RegistryError::NoClient(name.clone()))?;
        let prepared = self.prepare(name, client.kind, credential, now_unix_s, None)?;
        self.registry.replace_credentials(name, &prepared.proof())?;
        Ok(prepared.handed_out())
    }

    /// A token by which an application that the edge runs logs in as the app of its name, until it is over; `None`: the
    /// edge runs none of that name ([`Registry::set_applications`]).
    ///
    /// # Errors
    /// The registry failed.
    pub fn application_token(
        &self,
        name: &ClientName,
        now_unix_s: i64,
        valid_s: u32,
    ) -> Result<Option<Secret>, IdentityError> {
        let Some(epoch) = self.registry.application_epoch(name)? else {
            return Ok(None);
        };
        let claims = ApplicationClaims {
            sub: name.id().to_string(),
            tenant: name.tenant().to_string(),
            epoch,
            iat: now_unix_s,
            exp: now_unix_s.saturating_add(valid_s.into()),
        };
        Ok(Some(self.tokens.sign_noted(&self.registry, &claims)?))
    }

    /// Signs tokens with a new key from now on. The keys before verify until the last token that each has signed ends;
    /// with `ends_others`, for where one got out, they go at once, and with them all tokens and the connections that
    /// were made with these.
    ///
    /// # Errors
    /// As many earlier keys as may be are still needed, or the registry failed.
    pub fn rotate_token_keys(&self, ends_others: bool, now_unix_s: i64) -> Result<(), IdentityError> {
        let of_users_s = ACCESS_TOKEN_VALID_S;
        Ok(self
            .tokens
            .rotate(&self.registry, ends_others, of_users_s, now_unix_s)?)
    }

    /// The keys of tokens that are good for something, the one that signs first; the others verify.
    pub fn token_keys(&self, now_unix_s: i64) -> Vec<TokenKey> {
        self.tokens.shown(now_unix_s)
    }

    fn prepare(
        &self,
        name: &ClientName,
        kind: ClientKind,
        credential: &Credential,
        now_unix_s: i64,
        epoch: Option<String>,
    ) -> Result<Prepared, IdentityError> {
        match credential {
            Credential::Password(chosen) => Ok(Prepared {
                password: Some(password::hash_chosen(chosen)?),
                ..Prepared::default()
            }),
            Credential::GeneratedPassword => Ok(generated_password()?),
            Credential::Token { valid_s } => {
                let epoch = epoch.unwrap_or_else(new_epoch);
                let claims = Claims::new(name, kind, epoch.clone(), now_unix_s, *valid_s);
                let token = self.tokens.sign_noted(&self.registry, &claims)?;
                Ok(Prepared {
                    token_epoch: Some(epoch),
                    issued: Some(Issued::Token(token)),
                    ..Prepared::default()
                })
            }
            Credential::Certificate { valid_s } => {
                let (certificate, issued) = self.authority.issue_client(name, now_unix_s, *valid_s)?;
                Ok(Prepared {
                    certificate: Some(certificate),
                    issued: Some(issued),
                    ..Prepared::default()
                })
            }
            Credential::TrustedSubject => Ok(Prepared {
                trusts_subject: true,
                ..Prepared::default()
            }),
            Credential::Elsewhere => Ok(Prepared::default()),
        }
    }
}

impl Prepared {
    fn row<'a>(&'a self, new: &'a NewClient, now_unix_s: i64) -> NewRow<'a> {
        NewRow {
            name: &new.name,
            kind: new.kind,
            created_unix_s: now_unix_s,
            labels: &new.labels,
            edge: new.edge.as_deref().unwrap_or_default(),
            life: None,
            proof: self.proof(),
        }
    }

    fn proof(&self) -> NewProof<'_> {
        let certificate = self.certificate.as_ref();
        NewProof {
            password: self.password.as_deref(),
            token_epoch: self.token_epoch.as_deref(),
            trusts_subject: self.trusts_subject,
            certificate: certificate.map(|issued| (&*issued.serial, issued.not_after_unix_s)),
        }
    }

    fn handed_out(self) -> Issued {
        self.issued.unwrap_or(Issued::Nothing)
    }
}

fn generated_password() -> Result<Prepared, PasswordError> {
    let password = password::generate();
    Ok(Prepared {
        password: Some(password::hash_generated(&password)?),
        issued: Some(Issued::Password(password)),
        ..Prepared::default()
    })
}

fn new_epoch() -> String {
    hex(&random_bytes::<16>())
}
