//! Patches of a twin from anybody: nothing panics, limits hold, and what is stored can be read back.
#![no_main]

use device::{Limits, Side, Twin};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|patches: Vec<&[u8]>| {
    let limits = Limits { bytes: 4096, depth: 5, leaves: 64, name_bytes: 64 };
    let mut twin = Twin::default();
    for (number, patch) in patches.into_iter().enumerate() {
        let side = if number % 3 == 0 { Side::Cloud } else { Side::Edge };
        let before = (number % 5 == 0).then(|| twin.clone());
        let undo = if number % 2 == 0 {
            let (outcome, undo) = twin.set_desired(patch, side, &limits);
            serde_json_like(&twin.set_payload(&outcome));
            undo
        } else {
            twin.report(patch, side, &limits).unwrap_or_default()
        };
        if let Some(before) = before {
            let document = if number % 2 == 0 { &mut twin.desired } else { &mut twin.reported };
            undo.into_iter().for_each(|undo| document.undo(undo));
            assert_eq!(twin, before);
        }
    }
    serde_json_like(&twin.get_payload());
    assert_eq!(Twin::decode(&twin.encode()).expect("own bytes"), twin);
});

fn serde_json_like(payload: &[u8]) {
    let text = std::str::from_utf8(payload).expect("JSON is UTF-8");
    assert!(text.starts_with('{') && text.ends_with('}'), "{text}");
}
