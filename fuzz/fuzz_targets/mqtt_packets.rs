//! A stream of packets of any version: nothing panics, and what was understood means the same when it is written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mqtt::{Packet, Version, fixed_header};

const MAXIMUM_PACKET_SIZE: usize = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, mut rest)) = bytes.split_first() else { return };
    let version = [Version::V31, Version::V311, Version::V5][usize::from(choice % 3)];
    while let Ok(Some(header)) = fixed_header(rest, MAXIMUM_PACKET_SIZE) {
        let Some(packet) = rest.get(header.header_len..header.header_len + header.body_len) else { return };
        if let Ok(understood) = Packet::decode(header.first, packet, version) {
            written_again(&understood, version);
        }
        rest = &rest[header.header_len + header.body_len..];
    }
});

fn written_again(packet: &Packet<'_>, version: Version) {
    let version = match packet {
        Packet::Connect(connect) => connect.version,
        _ => version,
    };
    let mut bytes = Vec::new();
    packet.encode(version, &mut bytes);
    assert_eq!(bytes.len(), packet.encoded_len(version), "{packet:?}");
    let header = fixed_header(&bytes, usize::MAX).expect("own header").expect("a whole header");
    let again = Packet::decode(header.first, &bytes[header.header_len..], version);
    assert_eq!(again.as_ref(), Ok(packet));
}
