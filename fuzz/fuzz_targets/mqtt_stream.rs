//! Bytes that come one by one: a header that was once told stays told, a packet over the limit is refused by its
//! header, and a packet is the same whether it is waited for or there at once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mqtt::{Packet, ReasonCode, Version, fixed_header};

fuzz_target!(|input: (u8, u16, &[u8])| {
    let (choice, limit, bytes) = input;
    let version = [Version::V31, Version::V311, Version::V5][usize::from(choice % 3)];
    let limit = usize::from(limit);
    header_stays_told(bytes, limit);
    let at_once = Packet::read(bytes, version, limit);
    let waited_for = (0..=bytes.len())
        .map(|len| Packet::read(&bytes[..len], version, limit))
        .find(|read| *read != Ok(None));
    assert_eq!(waited_for.unwrap_or(Ok(None)), at_once);
    if let Ok(Some((_, len))) = at_once {
        assert!(len <= limit && len <= bytes.len());
    }
});

fn header_stays_told(bytes: &[u8], limit: usize) {
    let whole = fixed_header(bytes, limit);
    for len in 0..bytes.len().min(6) {
        let early = fixed_header(&bytes[..len], limit);
        assert!(early == Ok(None) || early == whole);
        assert!(len < 5 || early != Ok(None), "five bytes always tell");
    }
    if let Err(error) = whole {
        assert!(matches!(
            error.reason,
            ReasonCode::MalformedPacket | ReasonCode::PacketTooLarge
        ));
    }
}
