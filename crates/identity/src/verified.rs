//! Passwords that were checked before, so that 10,000 devices that reconnect at once are not hashed again.

use std::sync::{Mutex, PoisonError};

use ring::hmac;

use crate::secret::random_bytes;

const WAYS: usize = 4;

/// A power of two. With 10,000 passwords fewer than one in 1,000 finds its row full.
const ROWS: usize = 1 << 14;

/// A bounded set (1 MiB) of pairs of password hash and password that were found to match.
///
/// An entry is a keyed digest (HMAC-SHA-256, cut to 128 bits, under a key that this process made) of both together: a
/// password that changed has another hash and misses, so nothing has to be invalidated; and the caller reads the hash
/// and whether the client is enabled from the registry each time. Where a row is full, a new entry takes the place of
/// one that its own digest picks.
pub(crate) struct Verified {
    key: hmac::Key,
    rows: Mutex<Vec<[u128; WAYS]>>,
}

/// Digest of a pair.
#[derive(Clone, Copy)]
pub(crate) struct Tag(u128);

impl Verified {
    pub(crate) fn new() -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &random_bytes::<32>());
        Verified {
            key,
            rows: Mutex::new(vec![[0; WAYS]; ROWS]),
        }
    }

    pub(crate) fn tag(&self, phc: &str, password: &[u8]) -> Tag {
        let mut digest = hmac::Context::with_key(&self.key);
        digest.update(&(phc.len() as u64).to_le_bytes());
        digest.update(phc.as_bytes());
        digest.update(password);
        let digest = digest.sign();
        let half: [u8; 16] = digest.as_ref()[..16].try_into().expect("SHA-256 has 32 bytes");
        // Zero marks an empty place.
        Tag(u128::from_le_bytes(half).max(1))
    }

    pub(crate) fn contains(&self, tag: Tag) -> bool {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)[row(tag)].contains(&tag.0)
    }

    pub(crate) fn insert(&self, tag: Tag) {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let row = &mut rows[row(tag)];
        let free = row.iter().position(|entry| *entry == 0 || *entry == tag.0);
        row[free.unwrap_or((tag.0 >> 64) as usize % WAYS)] = tag.0;
    }
}

fn row(tag: Tag) -> usize {
    tag.0 as usize % ROWS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_thousand_passwords_are_remembered() {
        let verified = Verified::new();
        let tags: Vec<_> = (0..10_000)
            .map(|i| verified.tag("$phc", format!("password {i}").as_bytes()))
            .collect();
        tags.iter().for_each(|tag| verified.insert(*tag));
        let remembered = tags.iter().filter(|tag| verified.contains(**tag)).count();
        assert!(remembered > 9_950, "{remembered}");
    }

    #[test]
    fn another_password_another_hash_and_another_process_miss() {
        let verified = Verified::new();
        verified.insert(verified.tag("$phc", b"password"));
        assert!(verified.contains(verified.tag("$phc", b"password")));
        assert!(!verified.contains(verified.tag("$phc", b"passwore")));
        assert!(!verified.contains(verified.tag("$phd", b"password")));
        assert!(!verified.contains(verified.tag("$phcp", b"assword")));
        assert!(!verified.contains(Verified::new().tag("$phc", b"password")));
    }

    #[test]
    fn it_stays_bounded_however_much_is_inserted() {
        let verified = Verified::new();
        for i in 0..200_000_u32 {
            verified.insert(verified.tag("", &i.to_le_bytes()));
        }
        assert!(verified.contains(verified.tag("", &199_999_u32.to_le_bytes())));
        assert_eq!(verified.rows.lock().unwrap().len(), ROWS);
    }
}
