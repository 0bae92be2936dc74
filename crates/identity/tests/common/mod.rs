//! What the tests share.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "every test file has its own copy and uses a part"
)]

use identity::{
    ClientKind, ClientName, Credential, Identity, IdentityOptions, Issued, NewClient, Presented, Principal, Refusal,
    Secret,
};
use tempfile::TempDir;

pub const NOW: i64 = 1_800_000_000;

/// An edge's identities in a directory of their own.
pub struct Edge {
    pub directory: TempDir,
    pub identity: Identity,
}

impl Edge {
    pub fn new() -> Self {
        Self::with_options(IdentityOptions::default())
    }

    pub fn with_options(options: IdentityOptions) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let identity = Identity::open(directory.path(), options, NOW).unwrap();
        Edge { directory, identity }
    }

    /// The same directory after a restart.
    pub fn reopened(self) -> Self {
        let Edge { directory, identity } = self;
        drop(identity);
        let identity = Identity::open(directory.path(), IdentityOptions::default(), NOW).unwrap();
        Edge { directory, identity }
    }

    pub fn add(&self, user_name: &str, kind: ClientKind, credential: Credential) -> Issued {
        let new = NewClient {
            name: name(user_name),
            kind,
            labels: Default::default(),
            credential,
            edge: None,
        };
        self.identity.add(&new, NOW).unwrap()
    }

    /// Adds a device; its generated password.
    pub fn device(&self, user_name: &str) -> String {
        password(self.add(user_name, ClientKind::Device, Credential::GeneratedPassword))
    }

    /// Adds a device; a token of an hour.
    pub fn device_with_token(&self, user_name: &str) -> String {
        token(self.add(user_name, ClientKind::Device, Credential::Token { valid_s: 3_600 }))
    }

    pub fn login(&self, user_name: &str, password: &str) -> Result<Principal, Refusal> {
        self.login_at(user_name, password, NOW)
    }

    pub fn login_at(&self, user_name: &str, password: &str, now_unix_s: i64) -> Result<Principal, Refusal> {
        let presented = Presented {
            user_name: Some(user_name),
            password: Some(password.as_bytes()),
            ..Presented::default()
        };
        let login = self.identity.authenticate(&presented, now_unix_s);
        login.map(|login| login.principal)
    }
}

pub fn name(user_name: &str) -> ClientName {
    ClientName::from_user_name(user_name).unwrap()
}

pub fn chosen(password: &str) -> Credential {
    Credential::Password(Secret::new(password.into()))
}

pub fn password(issued: Issued) -> String {
    match issued {
        Issued::Password(password) => password.expose().into(),
        other => panic!("a password expected, not {other:?}"),
    }
}

pub fn token(issued: Issued) -> String {
    match issued {
        Issued::Token(token) => token.expose().into(),
        other => panic!("a token expected, not {other:?}"),
    }
}

/// Certificate and key in PEM.
pub fn certificate(issued: Issued) -> (String, String) {
    match issued {
        Issued::Certificate {
            certificate_pem,
            key_pem,
            ..
        } => (certificate_pem, key_pem.expose().into()),
        other => panic!("a certificate expected, not {other:?}"),
    }
}
