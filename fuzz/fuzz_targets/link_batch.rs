//! Batches of an edge, several in a connection: read or refused, plain or deflated, and never more than their bounds.
#![no_main]

use hub::Parcel;
use libfuzzer_sys::fuzz_target;
use link::batch::Decoder;

const EDGE: &str = "hall-1";
/// Bytes that the messages of a batch may take.
const PARCELS_BYTES_MAX: usize = 16 << 20;

fuzz_target!(|input: &[u8]| {
    let mut decoder = Decoder::default();
    let mut rest = input;
    while let Some((batch, behind)) = next(rest) {
        let Ok(sections) = decoder.read(EDGE, batch) else { return };
        let parcels = || sections.iter().flat_map(|section| &section.parcels);
        assert!(parcels().map(Vec::len).sum::<usize>() <= PARCELS_BYTES_MAX);
        for parcel in parcels() {
            let parcel = Parcel::decode(parcel).expect("a parcel that the decoder made");
            assert_eq!(parcel.origin.map(|origin| origin.edge), Some(EDGE));
        }
        rest = behind;
    }
});

/// A batch behind its length in two bytes.
fn next(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    Some(rest.split_at(usize::from(u16::from_le_bytes(*len)).min(rest.len())))
}
