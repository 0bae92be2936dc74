//! Nodes that are banned from a site, as the authority of the site has it signed: every node that hears of it knows.

use std::io;
use std::path::Path;

use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::authority::Authority;
use crate::edge_key::EdgeKeyError;
use crate::enrol::{Credential, Identity, IdentityError};
use crate::files;
use crate::name::{ClientKind, ClientName, check_name};
use crate::node::node_of;
use crate::registry::RegistryError;

/// Nodes that can be banned from a site at one time.
pub const MAX_BANNED: usize = 256;

/// Name of the file in the directory of what an edge has of its site.
const FILE: &str = "bans.json";

/// What a signature begins with, so that it is worth nothing elsewhere.
const PURPOSE: &[u8] = b"selvedge nodes that are banned from a site, version 1\n";

/// All nodes that are banned from a site. None are, until its authority has signed who.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bans {
    number: u64,
    banned: Vec<Banned>,
    signature: Vec<u8>,
}

/// A node that is banned: by the certificates that it had, not by its name, so that it may be invited again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Banned {
    node: String,
    /// Its certificates whose first second is this one or an earlier one.
    first_until_unix_s: i64,
}

/// Why a node is not banned, or no more.
#[derive(Debug, thiserror::Error)]
pub enum BanError {
    /// Nobody of this name was ever invited.
    #[error("no node {0} was invited here; see them: selvedge get nodes")]
    Unknown(String),
    /// It is not banned.
    #[error("node {0} is not banned")]
    NotBanned(String),
    /// No more can be.
    #[error("{MAX_BANNED} nodes are banned, as many as can be; lift the ban of another: selvedge site ban NAME --lift")]
    Full,
    /// It could not be signed.
    #[error("the ban cannot be signed: {0}")]
    Key(#[from] EdgeKeyError),
    /// It could not be written down.
    #[error("the ban could not be written: {0}")]
    File(io::Error),
    /// What it proves itself by could not be revoked.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

impl Bans {
    /// What the edge of a data directory has of its site's; none where there is no such file.
    ///
    /// # Errors
    /// The file cannot be read, or is none of ours.
    pub fn read(directory: &Path) -> io::Result<Self> {
        let path = directory.join(FILE);
        match std::fs::read(&path) {
            Ok(text) => {
                serde_json::from_slice(&text).map_err(|error| io::Error::other(format!("{}: {error}", path.display())))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Bans::default()),
            Err(error) => Err(io::Error::other(format!("{}: {error}", path.display()))),
        }
    }

    /// Puts it in place of what was there, at once.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        files::create_directory(directory)?;
        let text = serde_json::to_vec(self).expect("texts and numbers are JSON");
        files::replace(&directory.join(FILE), &text, 0o600)
    }

    /// Which it is of all that the authority has signed: the later one counts. 0: none was.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Who is banned.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.banned.iter().map(|banned| &*banned.node)
    }

    /// Whether the node of a certificate in DER is banned with it.
    #[must_use]
    pub fn has(&self, certificate: &[u8]) -> bool {
        if self.banned.is_empty() {
            return false;
        }
        let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
            return true;
        };
        let (node, first_unix_s) = (node_of(certificate), parsed.validity().not_before.timestamp());
        self.banned
            .iter()
            .any(|banned| node.as_deref() == Some(&*banned.node) && first_unix_s <= banned.first_until_unix_s)
    }

    /// Whether the authority of that certificate in DER has signed it, and it is within its bounds.
    pub(crate) fn is_signed_by(&self, authority: &[u8]) -> bool {
        let is_small = self.banned.len() <= MAX_BANNED
            && self.signature.len() <= 128
            && self
                .banned
                .iter()
                .all(|banned| check_name("node", &banned.node).is_ok());
        let Ok((_, authority)) = X509Certificate::from_der(authority) else {
            return false;
        };
        let key = &authority.public_key().subject_public_key.data;
        is_small
            && UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key)
                .verify(&self.signed(), &self.signature)
                .is_ok()
    }

    /// Each name after its length, so that nothing else reads the same.
    fn signed(&self) -> Vec<u8> {
        let mut bytes = [PURPOSE, &self.number.to_be_bytes()].concat();
        for banned in &self.banned {
            bytes.extend_from_slice(&banned.first_until_unix_s.to_be_bytes());
            bytes.extend_from_slice(&(banned.node.len() as u64).to_be_bytes());
            bytes.extend_from_slice(banned.node.as_bytes());
        }
        bytes
    }

    /// Those that follow these.
    fn next(&self, banned: Vec<Banned>, authority: &Authority, now_unix_s: i64) -> Result<Self, BanError> {
        let mut next = Bans {
            // Above those of an authority that has come back from a backup, too.
            number: (self.number + 1).max(u64::try_from(now_unix_s).unwrap_or(0)),
            banned,
            signature: Vec::new(),
        };
        next.signature = authority.sign(&next.signed())?;
        Ok(next)
    }
}

impl Identity {
    /// Bans a node from the site of this authority, with all certificates that it has: none of them is renewed, and its
    /// invitation is worthless. One that it gets by another invitation is good.
    ///
    /// # Errors
    /// It was never invited, or as many are banned as can be.
    pub fn ban(&self, before: &Bans, name: &ClientName, now_unix_s: i64) -> Result<Bans, BanError> {
        let node = (*name.id()).to_string();
        let client = self.registry().client(name).map_err(IdentityError::from)?;
        if client.is_none_or(|client| client.kind != ClientKind::Edge) {
            return Err(BanError::Unknown(node));
        }
        let mut banned = before.banned.clone();
        banned.retain(|one| one.node != node);
        if banned.len() >= MAX_BANNED {
            return Err(BanError::Full);
        }
        self.replace(name, &Credential::Elsewhere, now_unix_s)?;
        match self.registry().withdraw_invitation(name) {
            Ok(()) | Err(RegistryError::NoInvitation(_)) => {}
            Err(error) => return Err(IdentityError::from(error).into()),
        }
        banned.push(Banned {
            node,
            first_until_unix_s: Authority::first_second(now_unix_s),
        });
        before.next(banned, self.authority(), now_unix_s)
    }

    /// Lifts the ban of a node. Its certificates are not renewed all the same.
    ///
    /// # Errors
    /// It is not banned.
    pub fn lift_ban(&self, before: &Bans, name: &ClientName, now_unix_s: i64) -> Result<Bans, BanError> {
        let mut banned = before.banned.clone();
        banned.retain(|one| one.node != **name.id());
        if banned.len() == before.banned.len() {
            return Err(BanError::NotBanned((*name.id()).to_string()));
        }
        before.next(banned, self.authority(), now_unix_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge_key::EdgeKey;
    use crate::enrol::IdentityOptions;
    use crate::invitation::EnrolmentOptions;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    const NOW: i64 = 1_800_000_000;
    const OPTIONS: EnrolmentOptions = EnrolmentOptions {
        certificate_valid_s: 3_600,
        renewal_grace_s: 0,
        are_nodes: true,
    };

    struct Site {
        identity: Identity,
        _directory: tempfile::TempDir,
    }

    impl Site {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            Site {
                identity: Identity::open(directory.path(), IdentityOptions::default(), NOW).unwrap(),
                _directory: directory,
            }
        }

        /// The certificate of a node that is invited and joins, in PEM.
        fn joins(&self, id: &str, now_unix_s: i64) -> String {
            let token = self.identity.invite(&name(id), 60, now_unix_s).unwrap().token;
            let request_pem = EdgeKey::generate().unwrap().request_pem().unwrap();
            let joined = self.identity.join(&token, &request_pem, OPTIONS, now_unix_s);
            joined.unwrap().certificate_pem
        }
    }

    fn name(id: &str) -> ClientName {
        ClientName::new("default", id).unwrap()
    }

    fn der(pem: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
    }

    #[test]
    fn a_node_is_banned_with_all_certificates_that_it_had_and_not_with_one_of_a_later_invitation() {
        let site = Site::new();
        let (first, second) = (site.joins("hall-2", NOW), site.joins("hall-2", NOW + 10));
        let other = site.joins("hall-3", NOW);
        let bans = site.identity.ban(&Bans::default(), &name("hall-2"), NOW + 20).unwrap();
        assert!(bans.has(&der(&first)) && bans.has(&der(&second)) && !bans.has(&der(&other)));
        let again = site.joins("hall-2", NOW + 21);
        assert!(!bans.has(&der(&again)));
        let later = site.identity.ban(&bans, &name("hall-2"), NOW + 30).unwrap();
        assert!(later.has(&der(&again)) && later.number() > bans.number());
        assert_eq!(later.nodes().collect::<Vec<_>>(), ["hall-2"]);
        let lifted = site.identity.lift_ban(&later, &name("hall-2"), NOW).unwrap();
        assert!(!lifted.has(&der(&again)) && lifted.number() > later.number());
        assert!(lifted.is_signed_by(site.identity.authority().certificate()));
    }

    #[test]
    fn a_banned_node_has_neither_a_renewal_nor_an_invitation() {
        let site = Site::new();
        let certificate = site.joins("hall-2", NOW);
        let token = site.identity.invite(&name("hall-2"), 600, NOW).unwrap().token;
        site.identity.ban(&Bans::default(), &name("hall-2"), NOW + 1).unwrap();
        let key = EdgeKey::generate().unwrap();
        let request_pem = key.request_pem().unwrap();
        assert!(site.identity.join(&token, &request_pem, OPTIONS, NOW + 2).is_err());
        let serial = crate::CertificateIdentity::from_der(&der(&certificate)).unwrap().serial;
        let state = site.identity.registry().serial_state(&name("hall-2"), &serial).unwrap();
        assert_eq!(state, crate::registry::SerialState::Revoked);
    }

    #[test]
    fn bans_that_the_authority_has_not_signed_or_that_were_changed_are_not_believed() {
        let (site, other) = (Site::new(), Site::new());
        site.joins("hall-2", NOW);
        other.joins("hall-2", NOW);
        let bans = site.identity.ban(&Bans::default(), &name("hall-2"), NOW).unwrap();
        let authority = site.identity.authority().certificate();
        assert!(bans.is_signed_by(authority));
        assert!(!Bans::default().is_signed_by(authority));
        let forged = other.identity.ban(&Bans::default(), &name("hall-2"), NOW).unwrap();
        assert!(!forged.is_signed_by(authority));
        let changes: [fn(&mut Bans); 4] = [
            |bans| bans.number += 1,
            |bans| bans.banned[0].node = "hall-1".to_owned(),
            |bans| bans.banned[0].first_until_unix_s += 1,
            |bans| bans.banned.clear(),
        ];
        for change in changes {
            let mut changed = bans.clone();
            change(&mut changed);
            assert!(!changed.is_signed_by(authority), "{changed:?}");
        }
    }

    #[test]
    fn two_bans_are_not_believed_as_one_of_whatever_lies_between_their_names() {
        let site = Site::new();
        site.joins("hall-2", NOW);
        site.joins("hall-3", NOW);
        let first = site.identity.ban(&Bans::default(), &name("hall-2"), NOW).unwrap();
        let bans = site.identity.ban(&first, &name("hall-3"), NOW).unwrap();
        let authority = site.identity.authority().certificate();
        assert!(bans.is_signed_by(authority));
        for between in ["", "\n", "\0\0\0\0", "\u{8}"] {
            let mut joined = bans.clone();
            let second = joined.banned.remove(1);
            joined.banned[0].node += &format!("{between}{}", second.node);
            assert!(!joined.is_signed_by(authority), "{joined:?}");
        }
    }

    #[test]
    fn who_was_never_invited_is_not_banned_and_neither_are_more_than_can_be() {
        let site = Site::new();
        let unknown = site.identity.ban(&Bans::default(), &name("hall-9"), NOW).unwrap_err();
        assert!(
            unknown.to_string().contains("no node hall-9 was invited here"),
            "{unknown}"
        );
        assert!(matches!(
            site.identity.lift_ban(&Bans::default(), &name("hall-9"), NOW),
            Err(BanError::NotBanned(_))
        ));
        site.joins("hall-2", NOW);
        let banned = |number| Banned {
            node: format!("node-{number}"),
            first_until_unix_s: 0,
        };
        let full = Bans {
            banned: (0..MAX_BANNED).map(banned).collect(),
            ..Bans::default()
        };
        let refused = site.identity.ban(&full, &name("hall-2"), NOW);
        assert!(matches!(refused, Err(BanError::Full)), "{refused:?}");
    }

    #[test]
    fn bans_are_what_they_were_after_a_restart_and_a_file_that_is_none_of_them_is_said() {
        let (site, directory) = (Site::new(), tempfile::tempdir().unwrap());
        assert_eq!(Bans::read(directory.path()).unwrap(), Bans::default());
        site.joins("hall-2", NOW);
        let bans = site.identity.ban(&Bans::default(), &name("hall-2"), NOW).unwrap();
        bans.write(directory.path()).unwrap();
        assert_eq!(Bans::read(directory.path()).unwrap(), bans);
        std::fs::write(directory.path().join(FILE), "{").unwrap();
        let wrong = Bans::read(directory.path()).unwrap_err();
        assert!(wrong.to_string().contains(FILE), "{wrong}");
    }
}
