use super::*;

/// A `/proc` and `/sys` of a directory.
fn machine_of(files: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let machine = Machine::new(root.path());
    (root, machine)
}

#[test]
fn rates_are_over_the_time_between_two_readings() {
    let (root, mut machine) = machine_of(&[
        ("proc/stat", "cpu 100 0 100 700 100 0 0 0 0 0\n"),
        (
            "proc/diskstats",
            "8 0 sda 1 0 100 0 1 0 200 0\n8 1 sda1 1 0 100 0 1 0 200 0\n",
        ),
        (
            "proc/net/dev",
            "Inter-|\n face |\n    lo: 999 0 0 0 0 0 0 0 999\n  eth0: 1000 0 0 0 0 0 0 0 2000 0\n",
        ),
        (
            "proc/meminfo",
            "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 750 kB\n",
        ),
        ("proc/loadavg", "0.42 0.3 0.2 1/100 1\n"),
        ("sys/class/thermal/thermal_zone0/type", "cpu\n"),
        ("sys/class/thermal/thermal_zone0/temp", "48500\n"),
    ]);
    let first = machine.read(Duration::from_secs(10));
    assert!(!first.contains_key("cpu_percent"), "a first reading has no rates");
    std::fs::write(root.path().join("proc/stat"), "cpu 130 0 120 740 110 0 0 0 0 0\n").unwrap();
    std::fs::write(root.path().join("proc/diskstats"), "8 0 sda 1 0 104 0 1 0 300 0\n").unwrap();
    std::fs::write(root.path().join("proc/net/dev"), "  eth0: 5000 0 0 0 0 0 0 0 2000 0\n").unwrap();
    let second = machine.read(Duration::from_secs(12));
    let expected = json!({
        "cpu_percent": 50.0, "disk_read_bytes_per_s": 1024.0, "disk_written_bytes_per_s": 25600.0,
        "network_received_bytes_per_s": 2000.0, "network_sent_bytes_per_s": 0.0,
        "load_1m": 0.42, "memory_used_percent": 25.0, "temperature_cpu_c": 48.5,
    });
    assert_eq!(Value::Object(second), expected);
}

#[test]
fn what_the_kernel_does_not_say_is_left_out() {
    let (_root, mut machine) = machine_of(&[("proc/loadavg", "0.1 0 0\n")]);
    machine.read(Duration::ZERO);
    let reading = machine.read(Duration::ZERO);
    assert_eq!(Value::Object(reading), json!({"load_1m": 0.1}));
}

#[test]
fn partitions_are_counted_with_their_disk() {
    let whole = ["sda", "vdb", "nvme0n1", "mmcblk0"];
    let parts = ["sda1", "nvme0n1p2", "mmcblk0p1", "loop0", "ram1", "dm-0"];
    assert!(whole.into_iter().all(is_whole_disk));
    assert!(!parts.into_iter().any(is_whole_disk));
}

#[test]
fn this_machine_gives_a_trace_that_devices_take_in_turn() {
    let mut machine = Machine::new(Path::new("/"));
    let pace = Pace {
        devices: 2,
        speed: 10.0,
    };
    let trace = record(&mut machine, 3, Duration::from_millis(20), pace);
    let taken: Vec<(u64, u32)> = trace
        .readings
        .iter()
        .map(|reading| (reading.at_ns, reading.device))
        .collect();
    assert_eq!(taken, [(0, 0), (2_000_000, 1), (4_000_000, 0)]);
    assert_eq!((trace.source.as_str(), trace.sha256.len()), ("machine", 64));
    for reading in &trace.readings {
        let json: Value = serde_json::from_str(&reading.json).unwrap();
        assert!(
            json["memory_used_percent"]
                .as_f64()
                .is_some_and(|used| (0.0..=100.0).contains(&used)),
            "{json}"
        );
    }
}
