//! Manifests from anybody: errors have a place, and what is right is written back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(documents) = manifest::parse("fuzz.yaml", text) else { return };
    for document in documents {
        let written = document.resource.to_yaml();
        let again = manifest::parse("again.yaml", &written).expect("own YAML");
        assert!(again.len() == 1 && again[0].resource.same_as(&document.resource), "{written}");
    }
});
