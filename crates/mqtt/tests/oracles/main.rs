//! Two codecs that were written independently of ours, on the same bytes: what we write means the same to them, and
//! where they judge damaged bytes otherwise, the difference is listed with its reason.

#[path = "../packets/mod.rs"]
mod packets;
mod protocol_core;
mod rmqtt;

use std::panic::{AssertUnwindSafe, catch_unwind};

use mqtt::{DecodeError, Packet, Version};
use packets::{VERSIONS, packet};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// Another codec, and where it is known to differ.
trait Oracle {
    /// Reads one whole packet and writes it again; an error is its words, `None` that it lacks the version.
    fn rewrite(&self, bytes: &[u8], version: Version) -> Option<Result<Vec<u8>, String>>;

    /// Why it refuses a packet that we let in.
    fn stricter(&self, packet: &Packet<'_>, version: Version) -> Option<&'static str>;

    /// Why it lets in bytes that we refuse with this error.
    fn laxer(&self, error: &DecodeError) -> Option<&'static str>;

    /// Why it writes these bytes as another packet than we read, or as none.
    fn different(&self, ours: &Packet<'_>, theirs: &Result<Packet<'_>, DecodeError>) -> Option<&'static str>;
}

/// The reason in a list of statements that a codec does not enforce, each with its reason.
fn reason_of(list: &[(&[&str], &'static str)], error: &DecodeError) -> Option<&'static str> {
    list.iter()
        .find(|(clauses, _)| clauses.contains(&error.clause))
        .map(|(_, reason)| *reason)
}

/// Compares both judgements of one whole packet.
fn compare(oracle: &impl Oracle, bytes: &[u8], version: Version) -> Result<(), TestCaseError> {
    let ours = Packet::read(bytes, version, usize::MAX);
    // Bytes that are more or less than one packet say nothing of the packet.
    let ours = match ours {
        Ok(Some((packet, len))) if len == bytes.len() => Ok(packet),
        Ok(_) => return Ok(()),
        Err(error) => Err(error),
    };
    let Some(theirs) = rewrite_safely(oracle, bytes, version) else {
        return Ok(());
    };
    match (ours, theirs) {
        (Err(_), Err(_)) => {}
        (Ok(packet), Err(error)) => {
            let reason = oracle.stricter(&packet, version);
            prop_assert!(
                reason.is_some(),
                "{version:?}: they refuse {packet:?} ({bytes:02x?}): {error}"
            );
        }
        (Err(error), Ok(_)) => {
            prop_assert!(
                oracle.laxer(&error).is_some(),
                "{version:?}: they let in {bytes:02x?}: {error}"
            );
        }
        (Ok(packet), Ok(rewritten)) => {
            let theirs = Packet::read(&rewritten, version, usize::MAX).map(|read| read.expect("is whole").0);
            let known = theirs.as_ref() == Ok(&packet) || oracle.different(&packet, &theirs).is_some();
            prop_assert!(known, "{version:?}: {packet:?} is to them {theirs:?}");
        }
    }
    Ok(())
}

/// A codec that panics has refused the bytes.
fn rewrite_safely(oracle: &impl Oracle, bytes: &[u8], version: Version) -> Option<Result<Vec<u8>, String>> {
    catch_unwind(AssertUnwindSafe(|| oracle.rewrite(bytes, version))).unwrap_or(Some(Err("panic".into())))
}

/// Every packet as random bytes make it, whole and with a few bytes damaged.
fn compare_all(oracle: &impl Oracle, random: &[u8], damage: &[(Index, u8)]) -> Result<(), TestCaseError> {
    for version in VERSIONS {
        let mut bytes = Vec::new();
        packet(random, version).encode(version, &mut bytes);
        compare(oracle, &bytes, version)?;
        for (index, byte) in damage {
            let index = index.index(bytes.len());
            bytes[index] = *byte;
            compare(oracle, &bytes, version)?;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rmqtt_codec_judges_as_we_do(random in vec(any::<u8>(), 0..300), damage in vec(any::<(Index, u8)>(), 0..6)) {
        compare_all(&rmqtt::Rmqtt, &random, &damage)?;
    }

    #[test]
    fn mqtt_protocol_core_judges_as_we_do(random in vec(any::<u8>(), 0..300), damage in vec(any::<(Index, u8)>(), 0..6)) {
        compare_all(&protocol_core::ProtocolCore, &random, &damage)?;
    }
}
