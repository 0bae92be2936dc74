//! Connections that the kernel leads to containers and programs: those by rules as it lists them
//! (`/proc/net/nf_conntrack`), those to programs by their sockets, too.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::time::Duration;

use super::{HostRules, Network};
use crate::sockets;

const LIST: &str = "/proc/net/nf_conntrack";
const SETTINGS: &str = "/proc/sys/net/netfilter";
/// Whoever has said nothing for so long is gone, as with TCP's own probes (`tcp(7)`: `tcp_keepalive_time`).
const SILENCE_MAX: Duration = Duration::from_secs(7_200);
/// A connection is remembered for so long at most while one end has not acknowledged what the other said (the kernel's
/// `nf_conntrack_tcp_timeout_unacknowledged` and `_max_retrans`): it is open for all that is known.
const UNACKNOWLEDGED_S: u64 = 300;
/// A call that has not been answered for so long, and was not made again, is given up: nobody says so, and the kernel
/// goes on to list it for minutes.
const UNANSWERED: Duration = Duration::from_secs(3);

/// What the agent's own questions to containers are marked with (`SO_MARK`), which nobody's use are.
pub(crate) const PROBE_MARK: u32 = 0x5e1e_d9e0;

/// To whom connections are led.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Led {
    /// Containers with networks of their own.
    pub pods: BTreeSet<Ipv4Addr>,
    /// Where programs of the host listen.
    pub programs: BTreeSet<SocketAddrV4>,
}

impl Led {
    /// Whether nobody is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.programs.is_empty()
    }

    /// Whether it is one of them who is called there.
    pub(super) fn has_one_at(&self, called: SocketAddrV4) -> bool {
        self.pods.contains(called.ip()) || self.programs.contains(&called)
    }

    /// Whether who `asked` there is answered by one of them. A container may be asked itself, as it is where a call is
    /// led as it is made; whoever asks a program of the host so is known by the program's sockets.
    fn has(&self, asked: SocketAddrV4, answers: SocketAddrV4) -> bool {
        self.pods.contains(answers.ip()) || asked != answers && self.programs.contains(&answers)
    }
}

/// What is so of connections to some of those.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// One is open.
    Open,
    /// The last that is known of ended so long ago.
    Ended(Duration),
    /// None is known of.
    None,
}

impl Use {
    /// What is so of the connections of both.
    fn or(self, other: Use) -> Use {
        match (self, other) {
            (Use::Open, _) | (_, Use::Open) => Use::Open,
            (Use::Ended(one), Use::Ended(other)) => Use::Ended(one.min(other)),
            (Use::Ended(ago), Use::None) | (Use::None, Use::Ended(ago)) => Use::Ended(ago),
            (Use::None, Use::None) => Use::None,
        }
    }
}

/// Whether this kernel lists them, to whoever runs this.
#[must_use]
pub fn are_listed() -> bool {
    fs::File::open(LIST).is_ok()
}

/// What is so of connections to these: of those that were led by rules, of those that this edge led as they were made,
/// each of which is said to have ended as it began unless it is open, and of what else is connected to a program. None
/// is known of where the kernel lists none.
///
/// # Errors
/// Of reading the kernel's lists.
pub fn to(led: &Led, network: &Network, host: &HostRules) -> io::Result<Use> {
    let ports = led.programs.iter().map(SocketAddrV4::port).collect();
    if sockets::have_connections(&ports)? {
        return Ok(Use::Open);
    }
    let calls = [network.last_call(led), host.last_call(led)];
    let calls = calls.into_iter().flatten().map(Use::Ended);
    Ok(calls.fold(led_to(led)?, Use::or))
}

/// What is so of connections that were led to these by rules; none is known of where the kernel lists none.
pub(super) fn led_to(led: &Led) -> io::Result<Use> {
    let list = match fs::read_to_string(LIST) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Use::None),
        list => list?,
    };
    let timeout = |state: &str| {
        let path = Path::new(SETTINGS).join(format!("nf_conntrack_tcp_timeout_{state}"));
        let text = fs::read_to_string(path)?;
        text.trim().parse().map_err(io::Error::other)
    };
    let timeouts = Timeouts {
        established_s: timeout("established")?,
        time_wait_s: timeout("time_wait")?,
        close_s: timeout("close")?,
        syn_sent_s: timeout("syn_sent")?,
        syn_recv_s: timeout("syn_recv")?,
        last_ack_s: timeout("last_ack")?,
    };
    Ok(of_list(&list, led, &timeouts))
}

/// Seconds that the kernel remembers a connection for from its last packet on.
struct Timeouts {
    established_s: u64,
    time_wait_s: u64,
    close_s: u64,
    syn_sent_s: u64,
    syn_recv_s: u64,
    last_ack_s: u64,
}

fn of_list(list: &str, led: &Led, timeouts: &Timeouts) -> Use {
    let uses = list.lines().filter_map(|line| of_line(line, led, timeouts));
    uses.fold(Use::None, Use::or)
}

/// Such as `ipv4 2 tcp 6 117 TIME_WAIT src=A dst=B sport=1 dport=2 src=C dst=A sport=3 dport=1 [ASSURED] …`, where who
/// asks `B` at 2 is led to `C` at 3.
fn of_line(line: &str, led: &Led, timeouts: &Timeouts) -> Option<Use> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["ipv4", _, "tcp", _, left_s, state, ..] = words[..] else {
        return None;
    };
    let address = |[ip, port]: [&str; 2], which: usize| {
        let value = |key: &str| words.iter().filter_map(|word| word.strip_prefix(key)).nth(which);
        Some(SocketAddrV4::new(value(ip)?.parse().ok()?, value(port)?.parse().ok()?))
    };
    let is_probe = words
        .iter()
        .filter_map(|word| word.strip_prefix("mark="))
        .any(|mark| mark.parse() == Ok(PROBE_MARK));
    if is_probe || !led.has(address(["dst=", "dport="], 0)?, address(["src=", "sport="], 1)?) {
        return None;
    }
    let left_s: u64 = left_s.parse().ok()?;
    let ago = |of_s: u64| Duration::from_secs(of_s.saturating_sub(left_s));
    let until_given_up = |of_s: u64| match ago(of_s) > UNANSWERED {
        true => Use::Ended(ago(of_s)),
        false => Use::Open,
    };
    Some(match state {
        "TIME_WAIT" => Use::Ended(ago(timeouts.time_wait_s)),
        "CLOSE" => Use::Ended(ago(timeouts.close_s)),
        "SYN_SENT" => until_given_up(timeouts.syn_sent_s),
        "SYN_RECV" => until_given_up(timeouts.syn_recv_s),
        // Both have said that they end it.
        "LAST_ACK" => until_given_up(timeouts.last_ack_s),
        "ESTABLISHED" if left_s > UNACKNOWLEDGED_S && ago(timeouts.established_s) > SILENCE_MAX => {
            Use::Ended(ago(timeouts.established_s))
        }
        _ => Use::Open,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "10.112.0.2";
    const TIMEOUTS: Timeouts = Timeouts {
        established_s: 432_000,
        time_wait_s: 120,
        close_s: 10,
        syn_sent_s: 120,
        syn_recv_s: 60,
        last_ack_s: 30,
    };

    fn line(left_s: u64, state: &str, asked: &str, answers: &str) -> String {
        with_ports(left_s, state, (asked, 80), (answers, 8_080))
    }

    fn with_ports(left_s: u64, state: &str, (asked, at): (&str, u16), (answers, from): (&str, u16)) -> String {
        format!(
            "ipv4     2 tcp      6 {left_s} {state} src=10.0.0.9 dst={asked} sport=4000 dport={at} src={answers} \
             dst=10.0.0.9 sport={from} dport=4000 [ASSURED] mark=0 zone=0 use=2\n"
        )
    }

    fn use_of(lines: &[String]) -> Use {
        let led = Led {
            pods: BTreeSet::from([POD.parse().unwrap()]),
            programs: BTreeSet::from(["127.0.0.1:8080".parse().unwrap()]),
        };
        of_list(&lines.concat(), &led, &TIMEOUTS)
    }

    #[test]
    fn an_open_connection_counts_and_of_ended_ones_the_last() {
        let ended = |left_s| line(left_s, "TIME_WAIT", "10.112.8.1", POD);
        assert_eq!(use_of(&[]), Use::None);
        assert_eq!(
            use_of(&[ended(20), ended(110), ended(60)]),
            Use::Ended(Duration::from_secs(10))
        );
        assert_eq!(
            use_of(&[ended(20), line(431_990, "ESTABLISHED", "10.112.8.1", POD)]),
            Use::Open
        );
        assert_eq!(
            use_of(&[line(5, "CLOSE", "10.112.8.1", POD)]),
            Use::Ended(Duration::from_secs(5))
        );
    }

    #[test]
    fn a_call_that_nobody_answers_counts_until_it_is_given_up() {
        for (state, of_s) in [("SYN_SENT", 120), ("SYN_RECV", 60), ("LAST_ACK", 30)] {
            let of = |left_s| use_of(&[line(left_s, state, "10.112.8.1", POD)]);
            assert_eq!(of(of_s), Use::Open, "{state}");
            assert_eq!(of(of_s - 3), Use::Open, "{state}");
            assert_eq!(of(of_s - 4), Use::Ended(Duration::from_secs(4)), "{state}");
        }
        for state in ["FIN_WAIT", "CLOSE_WAIT"] {
            let answering = line(20, state, "10.112.8.1", POD);
            assert_eq!(use_of(&[answering]), Use::Open, "{state}");
        }
    }

    #[test]
    fn who_asks_the_container_itself_counts_and_not_the_agent_nor_who_is_led_elsewhere() {
        let itself = line(431_990, "ESTABLISHED", POD, POD);
        assert_eq!(use_of(std::slice::from_ref(&itself)), Use::Open);
        let by_agent = itself.replace("mark=0", &format!("mark={PROBE_MARK}"));
        assert_eq!(use_of(&[by_agent]), Use::None);
        assert_eq!(
            use_of(&[line(431_990, "ESTABLISHED", "10.112.8.1", "10.112.0.3")]),
            Use::None
        );
    }

    #[test]
    fn a_program_of_the_host_is_known_by_its_port_and_who_asks_that_itself_does_not_count() {
        let of = |asked, answers| use_of(&[with_ports(431_990, "ESTABLISHED", asked, answers)]);
        let host = "127.0.0.1";
        assert_eq!(of((host, 80), (host, 8_080)), Use::Open);
        assert_eq!(of(("192.0.2.1", 8_080), (host, 8_080)), Use::Open);
        assert_eq!(of((host, 8_080), (host, 8_080)), Use::None);
        assert_eq!(of((host, 80), (host, 8_081)), Use::None);
    }

    #[test]
    fn who_has_said_nothing_for_hours_is_gone() {
        let silent = line(432_000 - 7_300, "ESTABLISHED", "10.112.8.1", POD);
        assert_eq!(use_of(&[silent]), Use::Ended(Duration::from_secs(7_300)));
        // Its receiver takes nothing at present.
        assert_eq!(use_of(&[line(299, "ESTABLISHED", "10.112.8.1", POD)]), Use::Open);
    }

    #[test]
    fn lines_of_other_kinds_are_passed_over() {
        let others = [
            "",
            "ipv6 10 tcp 6 1 X src=::1",
            "ipv4 2 udp 17 29 src=1.2.3.4 dst=10.112.0.2 sport=1 dport=2",
        ];
        assert_eq!(use_of(&others.map(|line| format!("{line}\n"))), Use::None);
    }
}
