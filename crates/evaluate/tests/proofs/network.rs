//! The emulated network: what is set is what is got, and nothing is left of it.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use evaluate::network::{
    Bandwidth, LinePlan, Means, Measured, Network, NetworkError, Place, Plan, Settings, Span, measure,
};
use evaluate::raw::Raw;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use super::bench::{helper, pause};

const PROGRAM: &str = env!("CARGO_BIN_EXE_selvedge-evaluate");
const LIMIT: Duration = Duration::from_secs(20);

/// Whether hosts can be made here, found by other means than those under test; says why not.
fn cannot_make_hosts() -> bool {
    let made = Command::new("unshare")
        .args(["--net", "ip", "link", "set", "lo", "up"])
        .output();
    let failure = match made {
        Ok(output) if output.status.success() => return false,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => format!("unshare: {error}"),
    };
    assert!(
        std::env::var_os("CI").is_none(),
        "network namespaces cannot be made: {failure}"
    );
    eprintln!("not proved here: network namespaces cannot be made ({failure}); run as root");
    true
}

/// Whether the kernel has no netem, found by other means than those under test; says so. Many kernels are built
/// without.
fn no_netem() -> bool {
    let command = ["--net", "tc", "qdisc", "add", "dev", "lo", "root", "netem"];
    let missing = !Command::new("unshare").args(command).output().unwrap().status.success();
    if missing {
        eprintln!("not proved here: this kernel has no netem");
    }
    missing
}

/// Every means that can be proved here.
fn all_means() -> Vec<Means> {
    let netem = (!no_netem()).then_some(Means::Netem);
    std::iter::once(Means::Relay).chain(netem).collect()
}

fn network(means: Means, settings: Settings) -> Network {
    let plan = Plan {
        means: Some(means),
        ..Plan::wan(settings, 1)
    };
    let network = Network::build(&plan).unwrap();
    assert_eq!(network.not_varied(), None);
    assert_eq!(network.line(Span::EdgeCloud).means(), Some(means));
    network
}

fn measured(means: Means, settings: Settings) -> Measured {
    measure(&network(means, settings), (Place::Device, Place::Cloud), &settings).unwrap()
}

fn round_trips_ms(measured: &Measured) -> Vec<f64> {
    let mut ms: Vec<f64> = measured
        .round_trips_ns
        .iter()
        .flatten()
        .map(|ns| *ns as f64 / 1e6)
        .collect();
    ms.sort_by(f64::total_cmp);
    ms
}

#[test]
fn no_packet_is_faster_than_the_delay_that_is_set_and_the_median_is_near_it() {
    if cannot_make_hosts() {
        return;
    }
    for means in all_means() {
        let settings = Settings {
            round_trip_us: 40_000,
            ..Settings::default()
        };
        let ms = round_trips_ms(&measured(means, settings));
        assert!(ms.len() > 300 && ms[0] >= 40.0, "{means:?}: {} ms is too fast", ms[0]);
        // Busy machines may be late by a time slice; that the delay is doubled or halved would show.
        let median_ms = ms[ms.len() / 2];
        assert!(median_ms < 60.0, "{means:?}: {median_ms} ms");
    }
}

#[test]
fn a_shaped_line_carries_its_bandwidth_in_each_direction_and_no_more() {
    if cannot_make_hosts() {
        return;
    }
    let settings = Settings {
        bandwidth_bit_per_s: Bandwidth::of(512_000),
        ..Settings::default()
    };
    let measured = measured(Means::Relay, settings);
    for way in [measured.up, measured.down] {
        let share = way.throughput_bit_per_s / 512e3;
        assert!((0.7..=1.02).contains(&share), "{share} of the bandwidth");
    }
}

#[test]
fn a_line_with_a_bandwidth_takes_the_relay_though_the_kernel_has_netem() {
    if cannot_make_hosts() {
        return;
    }
    let shaped = Settings {
        bandwidth_bit_per_s: Bandwidth::of(512_000),
        ..Settings::default()
    };
    let network = Network::build(&Plan::wan(shaped, 1)).unwrap();
    assert_eq!(network.line(Span::EdgeCloud).means(), Some(Means::Relay));
    if no_netem() {
        return;
    }
    let network = Network::build(&Plan::wan(Settings::default(), 1)).unwrap();
    let line = network.line(Span::EdgeCloud);
    assert_eq!(line.means(), Some(Means::Netem));
    assert!(matches!(line.set(shaped), Err(NetworkError::Fixed { .. })));
}

#[test]
fn as_many_packets_are_lost_in_each_direction_as_the_share_says() {
    if cannot_make_hosts() {
        return;
    }
    for means in all_means() {
        let settings = Settings {
            loss: 0.1,
            ..Settings::default()
        };
        let measured = measured(means, settings);
        for way in [measured.up, measured.down] {
            let lost = (way.probes_sent - way.probes_arrived) as f64 / way.probes_sent as f64;
            // Seven standard deviations of the share lost among 1,800 packets.
            assert!(
                (0.05..=0.15).contains(&lost),
                "{means:?}: {lost} lost of {}",
                way.probes_sent
            );
        }
    }
}

#[test]
fn device_and_cloud_reach_each_other_only_through_the_edge() {
    if cannot_make_hosts() {
        return;
    }
    let network = network(Means::Relay, Settings::default());
    let forwarded = || {
        let read = || std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
        let text = network.host(Place::Edge).enter(read).unwrap();
        let rows: Vec<Vec<&str>> = text
            .lines()
            .filter(|line| line.starts_with("Ip:"))
            .map(|line| line.split(' ').collect())
            .collect();
        let column = rows[0].iter().position(|name| *name == "ForwDatagrams").unwrap();
        rows[1][column].parse::<u64>().unwrap()
    };
    let before = forwarded();
    let (sender, receiver) = (socket(&network, Place::Device), socket(&network, Place::Cloud));
    sender.send_to(b"hello", receiver.local_addr().unwrap()).unwrap();
    let (_, from) = receiver.recv_from(&mut [0; 8]).unwrap();
    assert_eq!(
        from.ip(),
        network.host(Place::Device).address(),
        "the edge does not hide the device"
    );
    assert_eq!(forwarded() - before, 1);
}

fn socket(network: &Network, place: Place) -> UdpSocket {
    let bind = || UdpSocket::bind((network.host(place).address(), 0)).unwrap();
    let socket = network.host(place).enter(bind).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket
}

#[test]
fn a_connection_survives_a_cut_of_three_seconds_and_nothing_passes_meanwhile() {
    if cannot_make_hosts() {
        return;
    }
    for means in all_means() {
        let network = network(means, Settings::default());
        let (mut near, mut far) = connection(&network, Place::Device, Place::Cloud);
        exchange(&near, &far);
        network.line(Span::EdgeCloud).cut().unwrap();
        near.write_all(b"through").unwrap();
        far.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
        let silence = far.read(&mut [0; 7]).unwrap_err();
        assert_eq!(silence.kind(), std::io::ErrorKind::WouldBlock, "{means:?}: {silence}");
        network.line(Span::EdgeCloud).mend().unwrap();
        far.set_read_timeout(Some(LIMIT)).unwrap();
        let mut late = [0; 7];
        far.read_exact(&mut late).unwrap();
        assert_eq!(&late, b"through");
        exchange(&near, &far);
    }
}

fn connection(network: &Network, from: Place, to: Place) -> (TcpStream, TcpStream) {
    let listen = || TcpListener::bind((network.host(to).address(), 0)).unwrap();
    let listener = network.host(to).enter(listen).unwrap();
    let address = listener.local_addr().unwrap();
    let connect = || TcpStream::connect_timeout(&address, LIMIT).unwrap();
    let near = network.host(from).enter(connect).unwrap();
    let (far, _) = listener.accept().unwrap();
    (near, far)
}

fn exchange(near: &TcpStream, far: &TcpStream) {
    for (mut from, mut to) in [(near, far), (far, near)] {
        to.set_read_timeout(Some(LIMIT)).unwrap();
        from.write_all(b"hello").unwrap();
        let mut got = [0; 5];
        to.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"hello");
    }
}

#[test]
fn a_line_in_use_takes_other_settings_and_keeps_its_connections() {
    if cannot_make_hosts() {
        return;
    }
    for means in all_means() {
        let network = network(means, Settings::default());
        let (near, far) = connection(&network, Place::Edge, Place::Cloud);
        exchange(&near, &far);
        let slow = Settings {
            round_trip_us: 200_000,
            ..Settings::default()
        };
        network.line(Span::EdgeCloud).set(slow).unwrap();
        let started = Instant::now();
        exchange(&near, &far);
        assert!(
            started.elapsed() >= Duration::from_millis(200),
            "{means:?}: {:?}",
            started.elapsed()
        );
    }
}

#[test]
fn a_program_is_started_on_a_host_and_sees_its_network_alone() {
    if cannot_make_hosts() {
        return;
    }
    let network = network(Means::Relay, Settings::default());
    let helper = network.host(Place::Cloud).helper(&helper());
    let arguments = ["-o", "-4", "addr"].map(str::to_owned);
    let output = helper.launching(None, Path::new("ip"), &arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let address = format!("inet {}/24", network.host(Place::Cloud).address());
    assert!(text.contains(&address) && text.lines().count() == 2, "{text}");
}

#[test]
fn networks_do_not_meet() {
    if cannot_make_hosts() {
        return;
    }
    let (first, second) = (
        network(Means::Relay, Settings::default()),
        network(Means::Relay, Settings::default()),
    );
    let (near, far) = connection(&first, Place::Device, Place::Cloud);
    second.line(Span::EdgeCloud).cut().unwrap();
    exchange(&near, &far);
}

/// Nothing of a run is in this machine's own network, nor has a name there.
fn own_network_is_untouched(forwarding_before: &str) {
    let show = |what: &[&str]| String::from_utf8(Command::new("ip").args(what).output().unwrap().stdout).unwrap();
    let links = show(&["-o", "link"]);
    for device in ["edge", "device", "cloud", "probe"] {
        assert!(!links.contains(&format!(": {device}")), "{links}");
    }
    let routes = show(&["route"]);
    assert!(!routes.contains("198.18."), "{routes}");
    assert_eq!(forwarding(), forwarding_before);
}

fn forwarding() -> String {
    std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward").unwrap()
}

/// Network namespaces that any process or thread is in or holds by a descriptor.
fn namespaces_in_use() -> BTreeSet<String> {
    let entries = |directory: String| {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path())
    };
    let processes = entries("/proc".to_owned()).filter(|path| path.join("fd").exists());
    let links = processes.flat_map(|process| {
        let threads = entries(format!("{}/task", process.display())).map(|thread| thread.join("ns/net"));
        threads
            .chain(entries(format!("{}/fd", process.display())))
            .collect::<Vec<_>>()
    });
    let names = links.filter_map(|link| Some(std::fs::read_link(link).ok()?.display().to_string()));
    names.filter(|name| name.starts_with("net:[")).collect()
}

/// Those that a process holds.
fn namespaces_of(child: &Child) -> BTreeSet<String> {
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", child.id()))
        .into_iter()
        .flatten()
        .flatten();
    let names = descriptors.filter_map(|entry| Some(std::fs::read_link(entry.path()).ok()?.display().to_string()));
    names.filter(|name| name.starts_with("net:[")).collect()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < LIMIT, "{what}: not within {LIMIT:?}");
        pause(Duration::from_millis(20));
    }
}

#[test]
fn nothing_is_left_of_a_run_that_ended_was_interrupted_or_was_killed() {
    if cannot_make_hosts() {
        return;
    }
    let before = forwarding();
    for signal in [Some("INT"), Some("KILL"), None] {
        let out = tempfile::tempdir().unwrap();
        let mut run = Command::new("env")
            // Whoever runs the tests behind a shell may ignore it (`sh -c '… &'`), and so would who they start.
            .args([
                "--default-signal=INT",
                PROGRAM,
                "network",
                "--bandwidth",
                "1mbit",
                "--means",
                "relay",
                "--out",
            ])
            .arg(out.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until("three hosts", || namespaces_of(&run).len() == 3);
        let made = namespaces_of(&run);
        own_network_is_untouched(&before);
        if let Some(signal) = signal {
            let told = Command::new("kill")
                .args(["-s", signal, &run.id().to_string()])
                .status();
            assert!(told.unwrap().success());
        }
        assert_eq!(run.wait().unwrap().success(), signal.is_none());
        until("nobody holds them any more", || namespaces_in_use().is_disjoint(&made));
    }
    own_network_is_untouched(&before);
}

#[test]
fn a_network_that_is_dropped_ends_its_namespaces_and_its_threads() {
    if cannot_make_hosts() {
        return;
    }
    let network = network(Means::Relay, Settings::default());
    let here = |place| {
        let link = || std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        network.host(place).enter(link).unwrap().display().to_string()
    };
    let made = BTreeSet::from([Place::Device, Place::Edge, Place::Cloud].map(here));
    assert_eq!(made.len(), 3);
    assert!(made.is_subset(&namespaces_in_use()));
    drop(network);
    assert!(namespaces_in_use().is_disjoint(&made));
}

#[test]
fn a_line_whose_device_was_taken_away_says_so() {
    if cannot_make_hosts() {
        return;
    }
    let network = network(Means::Relay, Settings::default());
    let helper = network.host(Place::Edge).helper(&helper());
    let arguments = ["link", "del", "cloud"].map(str::to_owned);
    assert!(
        helper
            .launching(None, Path::new("ip"), &arguments)
            .status()
            .unwrap()
            .success()
    );
    until("the relay's end", || network.record().is_err());
    let error = network.line(Span::EdgeCloud).cut().unwrap_err();
    assert!(matches!(error, NetworkError::RelayEnded(_)), "{error}");
}

#[test]
fn the_emulators_error_is_in_its_raw_file_and_in_the_report_of_it() {
    if cannot_make_hosts() {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        let output = command.args(arguments).arg("--out").arg(out.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        String::from_utf8(output.stdout).unwrap()
    };
    let raw = out.path().join("network.json").display().to_string();
    let table = run(&["network", "--bandwidth", "1mbit", "--jitter", "2ms", "--seed", "1"]);
    let Raw::Network(file) = Raw::read(Path::new(&raw)).unwrap() else {
        panic!("{raw} is of another experiment")
    };
    assert_eq!((file.seed, file.cells.len()), (1, 1));
    assert!(file.cells[0].quantile_us(0.5).unwrap() >= 28_000.0);
    assert!(file.cells[0].network.edge_cloud.counters.is_some());
    assert!(
        table.contains("1mbit, 30 ms, relay") && table.contains("nothing between"),
        "{table}"
    );
    assert!(
        table
            .lines()
            .all(|line| line.chars().count() <= 100 || line.contains(&*raw)),
        "{table}"
    );
    assert_eq!(
        run(&["report", &raw]),
        table,
        "the report is a pure function of the raw file"
    );
    let page = std::fs::read_to_string(out.path().join("report.html")).unwrap();
    assert!(page.contains("Emulated network") && page.contains("1mbit, 30 ms, relay"));
    assert!(run(&["replay", &raw]).contains("1mbit, 30 ms, relay"));
    assert!(out.path().join("network-again.json").is_file());
}

/// Without the capability that namespaces take, as any user but root.
fn unprivileged<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let none = CapabilitySet::empty();
            let sets = CapabilitySets {
                effective: none,
                permitted: none,
                inheritable: none,
            };
            set_capabilities(None, sets).unwrap();
            work()
        });
        thread.join().unwrap()
    })
}

#[test]
fn without_root_all_hosts_are_this_machine_and_what_is_not_varied_is_said() {
    let settings = Settings {
        bandwidth_bit_per_s: Bandwidth::of(128_000),
        round_trip_us: 30_000,
        ..Settings::default()
    };
    let network = unprivileged(|| Network::build(&Plan::wan(settings, 1)).unwrap());
    let words = network.not_varied().unwrap();
    for part in ["128kbit", "round trip 30 ms", "127.0.0.1", "not permitted", "root"] {
        assert!(words.contains(part), "no `{part}` in: {words}");
    }
    for place in [Place::Device, Place::Edge, Place::Cloud] {
        assert_eq!(network.host(place).address(), Ipv4Addr::LOCALHOST);
    }
    let (near, far) = connection(&network, Place::Device, Place::Cloud);
    exchange(&near, &far);
    let line = network.line(Span::EdgeCloud);
    for refused in [line.set(settings), line.cut(), line.mend()] {
        assert!(matches!(refused, Err(NetworkError::Fixed { .. })), "{refused:?}");
    }
}

#[test]
fn a_plain_line_is_neither_changed_nor_cut() {
    if cannot_make_hosts() {
        return;
    }
    let plan = Plan {
        edge_cloud: LinePlan::Plain,
        ..Plan::wan(Settings::default(), 1)
    };
    let network = Network::build(&plan).unwrap();
    let (near, far) = connection(&network, Place::Device, Place::Cloud);
    exchange(&near, &far);
    assert!(network.line(Span::EdgeCloud).cut().is_err());
    exchange(&near, &far);
}
