//! Argon2id (RFC 9106) in memory that goes back to the system at once.

use std::io;
use std::ptr;

use argon2::password_hash::phc::{Output, ParamsString, PasswordHash, Salt};
use argon2::{ARGON2ID_IDENT, Algorithm, Argon2, Block, Params, Version};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

const OUTPUT_BYTES: usize = 32;

/// The hash of a password, all of it.
pub(crate) fn hash(password: &[u8], salt: &[u8; 16], params: &Params) -> io::Result<PasswordHash> {
    let output = compute(password, salt, params)?;
    Ok(PasswordHash {
        algorithm: ARGON2ID_IDENT,
        version: Some(Version::V0x13.into()),
        params: ParamsString::try_from(params).expect("parameters that Argon2 allows"),
        salt: Some(Salt::new(salt).expect("16 bytes are a salt")),
        hash: Some(output),
    })
}

/// Whether `hash`, which is of these parameters, is that of `password`; compared in constant time.
pub(crate) fn matches(password: &[u8], hash: &PasswordHash, params: &Params) -> io::Result<bool> {
    let (Some(salt), Some(expected)) = (&hash.salt, &hash.hash) else {
        return Ok(false);
    };
    Ok(compute(password, salt, params)? == *expected)
}

fn compute(password: &[u8], salt: &[u8], params: &Params) -> io::Result<Output> {
    let mut memory = Memory::map(params.block_count())?;
    let mut output = [0; OUTPUT_BYTES];
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params.clone())
        .hash_password_into_with_memory(password, salt, &mut output, &mut memory)
        .map_err(io::Error::other)?;
    Output::new(&output).map_err(io::Error::other)
}

/// Blocks mapped for one hash. What an allocator is given back it may keep: glibc's does, from the second hash on.
struct Memory {
    start: *mut Block,
    blocks: usize,
}

impl Memory {
    fn map(blocks: usize) -> io::Result<Self> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping at a place that the kernel chooses touches no other memory.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), blocks * Block::SIZE, access, flags) }?;
        Ok(Memory {
            start: start.cast(),
            blocks,
        })
    }
}

impl AsMut<[Block]> for Memory {
    fn as_mut(&mut self) -> &mut [Block] {
        // SAFETY: the mapping has this many blocks, starts at a page (a block is aligned to 64 bytes), is zeroed (a
        // block is an array of integers) and belongs to `self` alone.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.blocks) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and no reference to it outlives `self`. If it fails, it stays mapped.
        let _ = unsafe { munmap(self.start.cast(), self.blocks * Block::SIZE) };
    }
}

#[cfg(test)]
mod tests {
    use argon2::{CustomizedPasswordHasher, PasswordVerifier};

    use super::*;

    #[test]
    fn hashes_are_those_of_the_library_in_both_directions() {
        let params = Params::new(64, 3, 1, None).unwrap();
        let salt = [7; 16];
        let ours = hash(b"password", &salt, &params).unwrap();
        let theirs = Argon2::default()
            .hash_password_with_params(b"password", &salt, params.clone())
            .unwrap();
        assert_eq!(ours.to_string(), theirs.to_string());
        assert!(Argon2::default().verify_password(b"password", &ours).is_ok());
        assert!(matches(b"password", &theirs, &params).unwrap());
        assert!(!matches(b"passwore", &theirs, &params).unwrap());
    }
}
