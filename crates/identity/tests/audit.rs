//! The audit log.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use common::NOW;
use identity::{Action, Audit, AuditOptions, Event};

fn lines(directory: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(directory.join("audit.log")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn refused<'a>(address: u32, user_name: &'a str, reason: &'a str) -> Event<'a> {
    Event::LoginRefused {
        address: Some(std::net::Ipv4Addr::from_bits(address).into()),
        user_name,
        reason,
    }
}

fn call<'a>(device: &'a str) -> Event<'a> {
    Event::CallMade {
        tenant: "default",
        caller: "app",
        device,
        method: "reset",
    }
}

#[test]
fn an_event_is_one_line_of_json_that_only_the_owner_can_read() {
    let directory = tempfile::tempdir().unwrap();
    let audit = Audit::open(directory.path(), AuditOptions::default()).unwrap();
    let added = Event::Credential {
        action: Action::Added,
        tenant: "default",
        id: "pump",
        what: "token",
        by: "uid 0",
    };
    audit.record(&added, NOW);
    audit.record(&refused(0x7f00_0001, "a\"b\n{}", "wrong password"), NOW);
    audit.flush(NOW).unwrap();
    let lines = lines(directory.path());
    assert_eq!(lines[0]["time"], "2027-01-15T08:00:00Z");
    assert_eq!(
        (&lines[0]["event"], &lines[0]["action"]),
        (&"credential".into(), &"added".into())
    );
    assert_eq!(
        (&lines[1]["address"], &lines[1]["user_name"]),
        (&"127.0.0.1".into(), &r#"a"b\n{}"#.into())
    );
    let mode = std::fs::metadata(directory.path().join("audit.log"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn what_a_client_chose_is_cut_and_moves_no_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let audit = Audit::open(directory.path(), AuditOptions::default()).unwrap();
    let text = |lines: &[serde_json::Value]| lines.last().unwrap()["user_name"].as_str().unwrap().to_owned();
    for (user_name, shown) in [
        ("Pümpe 7".to_owned(), "Pümpe 7".to_owned()),
        ("ü".repeat(200), "ü".repeat(200)),
        ("ü".repeat(12_000), "ü".repeat(200) + "…"),
        (
            "\u{1b}[2J\u{9b}31m\u{7f}".to_owned(),
            r"\u{1b}[2J\u{9b}31m\u{7f}".to_owned(),
        ),
        (
            "abc\u{202e}cba\u{2028}".to_owned(),
            r"abc\u{202e}cba\u{2028}".to_owned(),
        ),
        (r"\u{1b}".to_owned(), r"\\u{1b}".to_owned()),
    ] {
        // Each of its own address, so that none is taken for a repetition.
        audit.record(&refused(shown.len() as u32, &user_name, "wrong password"), NOW);
        audit.flush(NOW).unwrap();
        assert_eq!(text(&lines(directory.path())), shown);
    }
}

#[test]
fn a_flood_of_refusals_is_two_lines_a_minute() {
    let directory = tempfile::tempdir().unwrap();
    let audit = Audit::open(directory.path(), AuditOptions::default()).unwrap();
    for i in 0..10_000 {
        audit.record(&refused(1, &format!("user{i}"), "wrong password"), NOW + i / 1_000);
    }
    audit.flush(NOW + 60).unwrap();
    let lines = lines(directory.path());
    assert_eq!(lines.len(), 2);
    assert_eq!(
        (&lines[1]["event"], &lines[1]["times"]),
        (&"repeated".into(), &9_999.into())
    );
    assert_eq!(lines[1]["of"]["address"], "0.0.0.1");
}

#[test]
fn refusals_from_ever_new_addresses_are_counted_and_calls_still_find_their_place() {
    let directory = tempfile::tempdir().unwrap();
    let audit = Audit::open(directory.path(), AuditOptions::default()).unwrap();
    for address in 0..10_000 {
        audit.record(&refused(address, "root", "no such device or app"), NOW);
    }
    audit.record(&call("pump"), NOW);
    audit.record(&call("valve"), NOW);
    audit.finish(NOW).unwrap();
    let lines = lines(directory.path());
    assert_eq!(lines.len(), 64 + 1 + 2);
    let counts: Vec<_> = lines.iter().filter(|line| line["event"] == "repeated").collect();
    assert_eq!(
        (&counts[0]["times"], counts[0].get("of")),
        (&(10_000 - 64).into(), None)
    );
    assert_eq!(
        (&counts[1]["times"], &counts[1]["of"]["method"]),
        (&1.into(), &"reset".into())
    );
}

#[test]
fn what_finds_no_room_before_a_flush_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let audit = Audit::open(directory.path(), AuditOptions::default()).unwrap();
    let long = "x".repeat(100_000);
    let event = Event::Credential {
        action: Action::Added,
        tenant: &long,
        id: &long,
        what: &long,
        by: &long,
    };
    for _ in 0..1_000 {
        audit.record(&event, NOW);
    }
    audit.flush(NOW).unwrap();
    let lines = lines(directory.path());
    let last = lines.last().unwrap();
    assert_eq!(
        (&last["event"], &last["lines"]),
        (&"lines_lost".into(), &(1_001 - lines.len()).into())
    );
}

#[test]
fn the_files_stay_bounded_and_a_restart_goes_on_at_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let options = AuditOptions {
        max_file_bytes: 1_000,
        old_files: 2,
    };
    for i in 0..100 {
        let audit = Audit::open(directory.path(), options).unwrap();
        let id = i.to_string();
        let event = Event::Credential {
            action: Action::Removed,
            tenant: "t",
            id: &id,
            what: "device",
            by: "cli",
        };
        audit.record(&event, NOW);
        audit.flush(NOW).unwrap();
    }
    let mut names: Vec<_> = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["audit.log", "audit.log.1", "audit.log.2"]);
    for name in names {
        assert!(std::fs::metadata(directory.path().join(name)).unwrap().len() <= 1_000);
    }
    assert_eq!(lines(directory.path()).last().unwrap()["id"], "99");
}

#[test]
fn a_clock_set_back_ends_the_minute_and_loses_no_count() {
    let directory = tempfile::tempdir().unwrap();
    let audit = Audit::open(directory.path(), AuditOptions::default()).unwrap();
    for now in [NOW, NOW, NOW - 3_600, NOW - 3_600] {
        audit.record(&call("pump"), now);
    }
    audit.finish(NOW - 3_600).unwrap();
    let events: Vec<_> = lines(directory.path())
        .iter()
        .map(|line| line["event"].clone())
        .collect();
    assert_eq!(events, ["call_made", "repeated", "call_made", "repeated"]);
}

#[test]
fn other_bounds_hold_from_the_next_line_on() {
    let directory = tempfile::tempdir().unwrap();
    let audit = Audit::open(directory.path(), AuditOptions::default()).unwrap();
    let note = |name: &str| {
        audit.record(&refused(1, name, name), NOW);
        audit.flush(NOW).unwrap();
    };
    note("before");
    note("before too");
    assert!(!directory.path().join("audit.log.1").exists());
    audit.set_options(AuditOptions {
        max_file_bytes: 1,
        old_files: 1,
    });
    note("after");
    assert_eq!(lines(directory.path()).len(), 1);
    assert!(directory.path().join("audit.log.1").exists());
}
