//! Sections 4.7 and 4.8.2: which filter matches which name, and how filters are taken apart.

use mqtt::topic::{check_filter, check_name, check_subscription, matches, split_level, split_shared};
use proptest::prelude::*;

/// Filter, name, and whether they match.
const TABLE: &[(&str, &str, bool)] = &[
    ("sport/tennis/player1/#", "sport/tennis/player1", true),
    ("sport/tennis/player1/#", "sport/tennis/player1/ranking", true),
    ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", true),
    ("sport/tennis/player1/#", "sport/tennis/player10", false),
    ("sport/#", "sport", true),
    ("sport/#", "sports", false),
    ("#", "a", true),
    ("#", "/", true),
    ("#", "a/b", true),
    ("sport/tennis/+", "sport/tennis/player1", true),
    ("sport/tennis/+", "sport/tennis/player1/ranking", false),
    ("sport/+", "sport", false),
    ("sport/+", "sport/", true),
    ("+/+", "/finance", true),
    ("/+", "/finance", true),
    ("+", "/finance", false),
    ("+/tennis/#", "sport/tennis", true),
    ("#", "$SYS/monitor/Clients", false),
    ("+/monitor/Clients", "$SYS/monitor/Clients", false),
    ("$SYS/#", "$SYS/monitor/Clients", true),
    ("$SYS/monitor/+", "$SYS/monitor/Clients", true),
    ("a/#", "a/$b", true),
    ("a/+", "a/$b", true),
    ("ACCOUNTS", "Accounts", false),
    ("a", "a/", false),
    ("a/", "a", false),
    ("/a", "a", false),
    ("a//b", "a//b", true),
    ("a/+/b", "a//b", true),
    ("\u{e9}", "e\u{301}", false),
];

#[test]
fn a_filter_matches_the_names_of_the_table() {
    for (filter, name, expected) in TABLE {
        check_filter(filter).expect("is well-formed");
        check_name(name).expect("is well-formed");
        assert_eq!(matches(filter, name), *expected, "{filter:?} and {name:?}");
    }
}

#[test]
fn a_shared_filter_is_taken_apart() {
    assert_eq!(
        split_shared("$share/consumer1/sport/tennis/+"),
        Ok(Some(("consumer1", "sport/tennis/+")))
    );
    assert_eq!(split_shared("$share/g//finance"), Ok(Some(("g", "/finance"))));
    assert_eq!(split_shared("$shared/g/a"), Ok(None));
    assert_eq!(split_shared("$share"), Ok(None));
    assert_eq!(split_shared("a/$share/g/a"), Ok(None));
}

#[test]
fn a_name_or_filter_of_65536_bytes_is_refused() {
    let long = "a".repeat(65_536);
    assert_eq!(check_name(&long).unwrap_err().clause, "MQTT-4.7.3-3");
    assert_eq!(check_filter(&long).unwrap_err().clause, "MQTT-4.7.3-3");
    let shared = format!("$share/g/{}", "a".repeat(65_530));
    assert_eq!(check_subscription(&shared).unwrap_err().clause, "MQTT-4.7.3-3");
    assert!(check_name(&long[1..]).is_ok());
}

#[test]
fn a_forbidden_character_is_found_at_every_place() {
    for len in 1..40 {
        for place in 0..len {
            let with = |character: char| {
                let mut name = "é/".repeat(len);
                name.insert(name.floor_char_boundary(2 * place), character);
                name
            };
            for forbidden in ['\0', '#', '+'] {
                assert!(
                    check_name(&with(forbidden)).is_err(),
                    "{forbidden:?} at {place} of {len}"
                );
            }
            for allowed in ['\u{1}', '"', '$', '*', ',', '\u{80}', '\u{A3}', '\u{AB}', '\u{FF}'] {
                assert!(check_name(&with(allowed)).is_ok(), "{allowed:?} at {place} of {len}");
            }
        }
    }
}

#[test]
fn an_error_says_what_is_wrong_with_the_topic() {
    let message = |result: Result<(), mqtt::DecodeError>| result.unwrap_err().message.into_owned();
    assert_eq!(message(check_name("a/+")), "topic name \"a/+\" has a wildcard");
    assert_eq!(
        message(check_filter("a/b#")),
        "topic filter \"a/b#\" has '#' that is not alone in the last level"
    );
    assert_eq!(
        message(check_subscription("$share//a")),
        "topic filter \"$share//a\" has an empty share name"
    );
}

/// Section 4.7 read word for word, slowly: what remains of a filter against what remains of a name.
fn matches_slowly(filter: &[&str], name: &[&str]) -> bool {
    match (filter, name) {
        (["#"], _) => true,
        ([], []) => true,
        ([first, filter @ ..], [level, name @ ..]) => (*first == "+" || first == level) && matches_slowly(filter, name),
        _ => false,
    }
}

fn levels(choice: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(choice), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn matching_agrees_with_the_standard_read_slowly(
        mut filter in levels(&["a", "b", "", "+", "$x"]),
        ends_in_hash: bool,
        name in levels(&["a", "b", "", "$x"]),
    ) {
        if ends_in_hash {
            filter.push("#");
        }
        let hidden = name[0].starts_with('$') && matches!(filter[0], "+" | "#");
        let expected = !hidden && matches_slowly(&filter, &name);
        prop_assert_eq!(matches(&filter.join("/"), &name.join("/")), expected);
    }

    #[test]
    fn a_well_formed_name_is_a_filter_that_matches_itself(name in "[^\u{0}+#]{1,20}") {
        prop_assert!(check_name(&name).is_ok() && check_filter(&name).is_ok());
        prop_assert!(matches(&name, &name));
    }

    #[test]
    fn the_first_level_ends_at_the_first_slash(topic in "[./0a\u{af}é]{0,40}") {
        let expected = topic.split_once('/').map_or((&*topic, None), |(level, below)| (level, Some(below)));
        prop_assert_eq!(split_level(&topic), expected);
    }

    #[test]
    fn any_text_is_a_topic_or_an_error(text in "[a/+#$share\u{0}é]{0,12}") {
        let name = check_name(&text).is_ok();
        let filter = check_filter(&text).is_ok();
        prop_assert!(!name || filter, "a name is a filter too");
        prop_assert_eq!(name, !text.is_empty() && !text.contains(['\0', '+', '#']));
        let _ = check_subscription(&text);
    }
}
