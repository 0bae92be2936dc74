//! What holds for every packet and for every string of bytes.

mod packets;

use mqtt::{FixedHeader, Packet, Version, fixed_header};
use packets::{VERSIONS, packet};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

fn encoded(packet: &Packet<'_>, version: Version) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.encode(version, &mut bytes);
    bytes
}

/// A string that [`packet`] makes a packet of.
fn random() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..400)
}

/// Reads bytes that may be anything: no panic, and what is a packet is the same packet when written and read again.
fn read_safely(bytes: &[u8], version: Version) {
    let Ok(Some((packet, len))) = Packet::read(bytes, version, bytes.len()) else {
        return;
    };
    assert!(len <= bytes.len());
    let again = encoded(&packet, version);
    assert_eq!(again.len(), packet.encoded_len(version));
    assert_eq!(
        Packet::read(&again, version, usize::MAX),
        Ok(Some((packet, again.len())))
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_packet_is_read_as_it_was_written(random in random()) {
        for version in VERSIONS {
            let packet = packet(&random, version);
            let bytes = encoded(&packet, version);
            prop_assert_eq!(bytes.len(), packet.encoded_len(version));
            prop_assert_eq!(Packet::read(&bytes, version, bytes.len()), Ok(Some((packet, bytes.len()))));
        }
    }

    #[test]
    fn an_encoder_only_appends(random in random(), before in vec(any::<u8>(), 0..20)) {
        let packet = packet(&random, Version::V5);
        let mut bytes = before.clone();
        packet.encode(Version::V5, &mut bytes);
        prop_assert_eq!(&bytes[..before.len()], &before);
        prop_assert_eq!(&bytes[before.len()..], encoded(&packet, Version::V5));
    }

    #[test]
    fn the_beginning_of_a_packet_is_waited_for(random in random()) {
        for version in VERSIONS {
            let bytes = encoded(&packet(&random, version), version);
            for len in 0..bytes.len() {
                prop_assert_eq!(Packet::read(&bytes[..len], version, bytes.len()), Ok(None));
            }
        }
    }

    #[test]
    fn no_shorter_body_decodes_to_the_packet(random in random()) {
        for version in VERSIONS {
            let packet = packet(&random, version);
            let bytes = encoded(&packet, version);
            let FixedHeader { first, header_len, .. } = fixed_header(&bytes, usize::MAX).unwrap().unwrap();
            for end in header_len..bytes.len() {
                let shorter = Packet::decode(first, &bytes[header_len..end], version);
                prop_assert!(shorter.is_err() || shorter.is_ok_and(|shorter| shorter != packet));
            }
        }
    }

    #[test]
    fn packets_come_out_of_a_stream_one_by_one(randoms in vec(random(), 1..5)) {
        for version in VERSIONS {
            let sent: Vec<_> = randoms.iter().map(|random| packet(random, version)).collect();
            let mut stream = Vec::new();
            sent.iter().for_each(|packet| packet.encode(version, &mut stream));
            let mut rest = stream.as_slice();
            for packet in sent {
                let (read, len) = Packet::read(rest, version, usize::MAX).unwrap().expect("is there");
                prop_assert_eq!(read, packet);
                rest = &rest[len..];
            }
            prop_assert!(rest.is_empty());
        }
    }

    #[test]
    fn any_bytes_are_a_packet_or_an_error(first: u8, body in vec(any::<u8>(), 0..100)) {
        for version in VERSIONS {
            read_safely(&body, version);
            read_safely(&[&[first, body.len() as u8], body.as_slice()].concat(), version);
        }
    }

    #[test]
    fn a_damaged_packet_is_a_packet_or_an_error(random in random(), damage in vec((any::<Index>(), any::<u8>()), 1..6)) {
        for version in VERSIONS {
            let mut bytes = encoded(&packet(&random, version), version);
            for (index, byte) in &damage {
                let index = index.index(bytes.len());
                bytes[index] = *byte;
            }
            read_safely(&bytes, version);
        }
    }
}
