//! Topic names and filters: what is accepted can be matched, and a name as a filter matches itself alone.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mqtt::topic;

fuzz_target!(|pair: (&str, &str)| {
    let (filter, name) = pair;
    let _ = topic::split_shared(filter);
    let _ = topic::check_subscription(filter);
    if topic::check_name(name).is_err() {
        return;
    }
    assert!(topic::matches(name, name), "{name:?}");
    if topic::check_filter(filter).is_ok() && topic::matches(filter, name) && topic::check_name(filter).is_ok() {
        assert_eq!(filter, name);
    }
});
