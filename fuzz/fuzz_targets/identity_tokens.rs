//! Tokens from anybody: nothing panics, and none but the one that was issued says who its bearer is. The first byte
//! says what the rest is: a password as it is; header, claims and signature, a line each, which are then put into
//! base64url; or places of the issued token and what stands there instead.
#![no_main]

use std::sync::OnceLock;

use base64ct::{Base64UrlUnpadded, Encoding};
use identity::{
    ClientKind, ClientName, Credential, Identity, IdentityOptions, Issued, Labels, NewClient, Presented, Principal,
    PrincipalKind,
};
use libfuzzer_sys::fuzz_target;

const NOW_UNIX_S: i64 = 1_800_000_000;
const VALID_S: u32 = 60;

/// An edge with one device, and the device's token.
struct Edge {
    identity: Identity,
    token: Vec<u8>,
    _directory: tempfile::TempDir,
}

fuzz_target!(|input: &[u8]| {
    static EDGE: OnceLock<Edge> = OnceLock::new();
    let edge = EDGE.get_or_init(Edge::new);
    let Some((kind, rest)) = input.split_first() else {
        return;
    };
    let token = match kind % 3 {
        0 => rest.to_vec(),
        1 => in_base64(rest),
        _ => edge.changed(rest),
    };
    let accepted = edge.accepts(&token, NOW_UNIX_S);
    assert_eq!(accepted, token == edge.token, "{}", String::from_utf8_lossy(&token));
    assert!(!edge.accepts(&token, NOW_UNIX_S + i64::from(VALID_S)), "expired");
});

impl Edge {
    fn new() -> Edge {
        let directory = tempfile::tempdir().expect("a directory");
        let identity =
            Identity::open(directory.path(), IdentityOptions::default(), NOW_UNIX_S).expect("an empty directory");
        let device = NewClient {
            name: ClientName::from_user_name("pump-7").expect("a name"),
            kind: ClientKind::Device,
            labels: Labels::default(),
            credential: Credential::Token { valid_s: VALID_S },
        };
        let Ok(Issued::Token(token)) = identity.add(&device, NOW_UNIX_S) else {
            panic!("a token was asked for");
        };
        let token = token.expose().as_bytes().to_vec();
        Edge {
            identity,
            token,
            _directory: directory,
        }
    }

    /// The issued token with other bytes at some places.
    fn changed(&self, changes: &[u8]) -> Vec<u8> {
        let mut token = self.token.clone();
        for change in changes.as_chunks::<3>().0 {
            let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % token.len();
            token[place] = change[2];
        }
        token
    }

    fn accepts(&self, token: &[u8], now_unix_s: i64) -> bool {
        let presented = Presented {
            password: Some(token),
            ..Presented::default()
        };
        let Ok(Principal { tenant, kind, id }) = self.identity.authenticate(&presented, now_unix_s) else {
            return false;
        };
        assert_eq!((&*tenant, kind, &*id), ("default", PrincipalKind::Device, "pump-7"));
        true
    }
}

fn in_base64(lines: &[u8]) -> Vec<u8> {
    let parts: Vec<String> = lines
        .splitn(3, |byte| *byte == b'\n')
        .map(Base64UrlUnpadded::encode_string)
        .collect();
    parts.join(".").into_bytes()
}
