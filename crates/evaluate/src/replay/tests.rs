use std::io::Write as _;

use serde_json::{Value, json};

use super::*;

const PACE: Pace = Pace { devices: 1, speed: 1.0 };

fn replay(text: &str, pace: Pace) -> Result<(Vec<Reading>, Rejected), String> {
    readings(text.as_bytes(), pace)
}

fn members(reading: &Reading) -> Value {
    serde_json::from_str(&reading.json).unwrap()
}

#[test]
fn rows_with_one_field_more_than_names_begin_with_a_row_number() {
    let text = "\"date\",\"Temperature\"\n\"140\",\"2015-02-02 14:19:00\",23.7\n\"141\",\"2015-02-02 14:20:00\",23\n";
    let (readings, rejected) = replay(text, PACE).unwrap();
    assert_eq!(
        members(&readings[0]),
        json!({"ts": "2015-02-02T14:19:00Z", "row": 140, "Temperature": 23.7})
    );
    assert_eq!(members(&readings[1])["Temperature"], json!(23));
    assert_eq!((readings[1].at_ns, rejected.count), (60_000_000_000, 0));
}

#[test]
fn the_delimiter_is_the_one_the_header_has_most_of() {
    for text in [
        "timestamp,a,b\n2020-01-01 00:00:00,1,2\n",
        "timestamp;a;b\n2020-01-01 00:00:00;1;2\n",
        "timestamp\ta\tb\n2020-01-01 00:00:00\t1\t2\n",
        "timestamp;\"a,b,c,d\";b\n2020-01-01 00:00:00;1;2\n",
    ] {
        let (readings, _) = replay(text, PACE).unwrap();
        assert_eq!(members(&readings[0])["b"], json!(2), "{text}");
    }
}

#[test]
fn a_quoted_field_may_hold_the_delimiter_a_quote_and_a_line_break() {
    let text = "timestamp,note\n2020-01-01 00:00:00,\"a, \"\"b\"\"\nc\"\n2020-01-01 00:00:01,d\n";
    let (readings, rejected) = replay(text, PACE).unwrap();
    assert_eq!(members(&readings[0])["note"], json!("a, \"b\"\nc"));
    assert_eq!((readings.len(), rejected.count), (2, 0));
}

#[test]
fn bad_rows_are_counted_and_named_by_their_line() {
    let text =
        "ts,a\n2020-01-01 00:00:00,1\n2020-01-01 00:00:01\nsoon,2\n2020-01-01 00:00:02,\n2020-01-01 00:00:03,4\n";
    let (readings, rejected) = replay(text, PACE).unwrap();
    let named: Vec<(u64, &str)> = rejected
        .named
        .iter()
        .map(|(line, reason)| (*line, reason.as_str()))
        .collect();
    assert_eq!(
        named,
        [
            (3, "1 fields where 2 are named"),
            (4, "`soon` is no time"),
            (5, "a time and no value")
        ]
    );
    assert_eq!((readings.len(), rejected.count), (2, 3));
}

#[test]
fn more_bad_rows_than_are_named_are_still_counted() {
    let text = format!("ts,a\n2020-01-01 00:00:00,1\n{}", "never,1\n".repeat(25));
    let (_, rejected) = replay(&text, PACE).unwrap();
    assert_eq!((rejected.count, rejected.named.len()), (25, MAX_NAMED));
    assert!(rejected.to_string().ends_with("and 15 more"));
}

#[test]
fn bytes_that_are_no_text_cost_their_row_alone() {
    let mut bytes = b"ts,a\n2020-01-01 00:00:00,1\n2020-01-01 00:00:01,".to_vec();
    bytes.extend(b"\xff\xfe\n2020-01-01 00:00:02,3\n");
    let (readings, rejected) = readings(bytes.as_slice(), PACE).unwrap();
    assert_eq!((readings.len(), rejected.count), (2, 1));
    assert!(rejected.named[0].1.contains("UTF-8"), "{rejected}");
}

#[test]
fn speed_divides_the_times_and_devices_take_turns() {
    let text = "ts,a\n2020-01-01 00:00:00,1\n2020-01-01 00:01:00,2\n2020-01-01 00:02:00,3\n";
    let (readings, _) = replay(
        text,
        Pace {
            devices: 2,
            speed: 60.0,
        },
    )
    .unwrap();
    let taken: Vec<(u64, u32)> = readings.iter().map(|reading| (reading.at_ns, reading.device)).collect();
    assert_eq!(taken, [(0, 0), (1_000_000_000, 1), (2_000_000_000, 0)]);
}

#[test]
fn a_row_earlier_than_the_one_before_is_sent_right_after_it() {
    let text = "ts,a\n2020-01-01 00:00:00,1\n2020-01-01 00:00:09,2\n2020-01-01 00:00:05,3\n2019-12-31 00:00:00,4\n";
    let (readings, _) = replay(text, PACE).unwrap();
    let times: Vec<u64> = readings.iter().map(|reading| reading.at_ns / 1_000_000_000).collect();
    assert_eq!(times, [0, 9, 9, 9]);
}

#[test]
fn what_is_no_table_of_readings_says_what_is_missing() {
    for (text, reason) in [
        ("", "empty"),
        ("ts,a\n", "no row"),
        ("a,b\n1,2\n", "no column of times among a, b"),
        (
            "ts,a\nsoon,1\n",
            "not one row is a reading; 1 rows left out\n  line 2: `soon` is no time",
        ),
    ] {
        let error = replay(text, PACE).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = read(Path::new("no/such.csv"), PACE).unwrap_err().to_string();
    assert!(error.starts_with("no/such.csv: "), "{error}");
}

#[test]
fn the_hash_is_that_of_the_whole_file() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"ts,a\n2020-01-01 00:00:00,1\n").unwrap();
    let replay = read(file.path(), PACE).unwrap();
    // printf 'ts,a\n2020-01-01 00:00:00,1\n' | sha256sum
    assert_eq!(
        replay.trace.sha256,
        "03cdf1fdad98b9c1aeec7037cc8adce1013810419f719681bdd3327a21c9fc01"
    );
}

/// Files of the shared data sets; none, with the reason printed, where this checkout has no such folder beside it.
fn shared_data(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data")
        .join(folder);
    match std::fs::read_dir(&folder) {
        Ok(files) => files
            .map(|file| file.unwrap().path())
            .filter(|path| path.extension().is_some_and(|e| e != "json"))
            .collect(),
        Err(error) => {
            eprintln!("not tested: {}: {error}", folder.display());
            Vec::new()
        }
    }
}

#[test]
fn the_office_readings_are_all_replayed() {
    for path in shared_data("occupancy") {
        let replay = read(
            &path,
            Pace {
                devices: 20,
                speed: 60.0,
            },
        )
        .unwrap();
        let rows = if path.ends_with("datatest.txt") { 2665 } else { 8143 };
        assert_eq!(
            (replay.trace.readings.len(), replay.rejected.count),
            (rows, 0),
            "{}",
            path.display()
        );
        let keys: Vec<String> = members(&replay.trace.readings[0])
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        assert_eq!(keys.len(), 8, "{keys:?}");
    }
}

#[test]
fn the_water_loop_and_the_machine_room_are_all_replayed() {
    for path in shared_data("skab").into_iter().chain(shared_data("nab")) {
        let replay = read(&path, PACE).unwrap();
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert_eq!(
            (replay.trace.readings.len(), replay.rejected.count),
            (lines - 1, 0),
            "{}",
            path.display()
        );
    }
}
