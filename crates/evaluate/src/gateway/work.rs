//! The gateway at work, as the paper has it: a web server, a database and an orchestrator that sleep until a sensor's
//! first packet, then one small packet after the other.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::ask::PATIENCE;
use super::cost;
use super::edge::{Edge, Taken};
use super::manifests::{self, DATABASE, DATABASE_PORT, DATABASE_VOLUME, deployment};
use super::options::Options;
use super::record::{Figure, Sample};
use super::site::Site;
use crate::interrupt::pause;

/// The image of all three.
pub(super) const IMAGE: &str = "work:1";
/// Port of the edge at which the orchestrator is.
const PORT: u16 = 8_101;
/// Of the paper's sensor.
const PACKET: &[u8; 13] = b"room-105 21.5";
const PERIOD_S: u32 = 60;
/// As long as an application is left alone before it sleeps where nothing is said, at the paper's pace.
pub(super) const IDLE_S: u32 = 300;
/// Between two looks at what containers take.
const LOOK_EVERY: Duration = Duration::from_millis(200);
pub(super) const NAMES: [&str; 3] = ["web", "database", "orchestrator"];

/// Takes a packet, puts it into the database, again where that has yet to load what it has, has the web server asked, and
/// says how many readings there are.
const HANDLER: &str = "\
#!/bin/bash
IFS= read -r -N 13 packet || exit 1
exec 3<>/dev/tcp/database/6379 || exit 1
count=-LOADING
while [[ $count == -LOADING* ]]; do
    printf 'RPUSH readings \"%s\"\\r\\n' \"$packet\" >&3
    IFS= read -r count <&3 || exit 1
done
exec 4<>/dev/tcp/web/80 || exit 1
printf 'GET /index.html HTTP/1.0\\r\\n\\r\\n' >&4
IFS= read -r status <&4
case $status in *200*) echo \"${count%$'\\r'}\" ;; esac
";

/// An API that is a program, as the web server starts one for each request.
const API: &str = "\
#!/bin/sh
echo 'Content-Type: application/json'
echo
echo \"{\\\"read_at\\\":\\\"$(cat /proc/uptime)\\\"}\"
";
/// Where it is asked.
pub(super) const API_PATH: &str = "/cgi-bin/air";

/// Files of the image: shells, a database, an API, and what the orchestrator does.
///
/// # Errors
/// A program is not installed, with the package that has it.
pub(super) fn fill(folder: &Path, busybox: &Path) -> Result<(), String> {
    manifests::fill(folder, busybox)?;
    cost::add(folder, "bash", "bash")?;
    cost::add(folder, "redis-server", "redis-server")?;
    let scripts = [
        (folder.join("handler"), HANDLER),
        (folder.join(format!("www{API_PATH}")), API),
    ];
    scripts.iter().try_for_each(|(file, text)| write_script(file, text))?;
    // Where the host has it, and where scripts look for it.
    let copied = std::fs::create_dir_all(folder.join("usr/bin"))
        .and_then(|()| std::fs::copy(&*which_bash(folder), folder.join("bin/bash")));
    copied
        .map(drop)
        .map_err(|error| format!("{}: {error}", folder.display()))
}

fn write_script(file: &Path, text: &str) -> Result<(), String> {
    let written = file
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(file, text))
        .and_then(|()| std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)));
    written.map_err(|error| format!("{}: {error}", file.display()))
}

fn which_bash(folder: &Path) -> std::path::PathBuf {
    let usual = folder.join("usr/bin/bash");
    if usual.exists() { usual } else { "/bin/bash".into() }
}

/// Applies the three, sends packets, and looks at what each takes.
pub(super) fn measure(edge: &Edge, site: &Site, options: &Options) -> Result<Vec<Sample>, String> {
    edge.apply(&all(options.speed))?;
    for name in NAMES {
        edge.wait(name, |one| one.is_asleep(false))?;
    }
    let (began, period) = (Instant::now(), Duration::from_secs(u64::from(PERIOD_S)) / options.speed);
    let is_over = AtomicBool::new(false);
    let (mut answers_ms, mut counts) = (Vec::new(), Vec::new());
    let seen = std::thread::scope(|scope| {
        // A look takes a second, for which no packet waits.
        let looking = scope.spawn(|| Seen::until(edge, began, &is_over));
        let sent = send_all(site, (began, options.work_time(), period), &mut answers_ms, &mut counts);
        is_over.store(true, Ordering::Relaxed);
        let seen = looking.join().expect("looking does not panic");
        sent.and(seen)
    })?;
    for name in NAMES {
        edge.delete(name)?;
    }
    // From a block before there may be others.
    let first = counts.first().copied().unwrap_or_default();
    let stored = counts.last().map_or(0, |last| last + 1 - first);
    let sent = answers_ms.len();
    let later = answers_ms.split_off(1.min(sent));
    let mut samples = vec![
        Sample {
            figure: Figure::FirstPacketMs,
            values: answers_ms,
        },
        Sample {
            figure: Figure::PacketMs,
            values: later,
        },
        Sample {
            figure: Figure::PacketsLost,
            values: vec![Some(sent as f64 - stored as f64)],
        },
    ];
    samples.extend(seen.samples());
    Ok(samples)
}

/// Packet after packet in an open loop: milliseconds from when each was due, and how many readings there then were.
fn send_all(
    site: &Site,
    (began, time, period): (Instant, Duration, Duration),
    answers_ms: &mut Vec<Option<f64>>,
    counts: &mut Vec<u64>,
) -> Result<(), String> {
    loop {
        let due = period * answers_ms.len() as u32;
        if due >= time {
            return Ok(());
        }
        pause(due.saturating_sub(began.elapsed()))?;
        let answer = site.enter(send)?;
        let took_ms = began.elapsed().saturating_sub(due).as_secs_f64() * 1e3;
        answers_ms.push(answer.is_ok().then_some(took_ms));
        counts.extend(answer);
    }
}

/// One packet; how many readings the database then has.
fn send() -> io::Result<u64> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(PACKET)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let count = answer.trim().trim_start_matches(':').parse();
    count.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("answered: {}", answer.trim())))
}

fn all(speed: u32) -> String {
    let idle_ms = Some(IDLE_S * 1_000 / speed);
    let application = |name: &str, run: &str| deployment(name, idle_ms, &format!("image: '{IMAGE}', {run}"));
    let service = |name: &str, port: u16, inner: u16| {
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec:\n  selector: {{app: {name}}}\n  ports: [{{port: {port}, \
             targetPort: {inner}}}]\n"
        )
    };
    let database = format!("{DATABASE}, ports: [{{containerPort: {DATABASE_PORT}}}]");
    let orchestrator = format!(
        "command: [/bin/busybox], args: [nc, -ll, -p, '8080', -e, /handler], ports: [{{containerPort: 8080, hostPort: {PORT}}}]"
    );
    [
        application(
            "web",
            "command: [/bin/busybox], args: [httpd, -f, -p, '8080', -h, /www], ports: [{containerPort: 8080}]",
        ),
        service("web", 80, 8_080),
        application("database", &database) + DATABASE_VOLUME,
        service("database", DATABASE_PORT, DATABASE_PORT),
        application("orchestrator", &orchestrator),
    ]
    .join("---\n")
}

/// What each of the three has taken, look by look.
#[derive(Default)]
struct Seen {
    last: HashMap<String, (u64, Duration)>,
    cpu_shares: HashMap<&'static str, Vec<Option<f64>>>,
    memory_bytes: HashMap<&'static str, Vec<Option<f64>>>,
    all: Vec<Option<f64>>,
    at_s: Vec<Option<f64>>,
}

impl Seen {
    /// Looks again and again until it is over.
    fn until(edge: &Edge, began: Instant, is_over: &AtomicBool) -> Result<Seen, String> {
        let mut seen = Seen::default();
        while !is_over.load(Ordering::Relaxed) {
            let top = edge.top()?;
            seen.look(&top, began.elapsed());
            pause(LOOK_EVERY)?;
        }
        Ok(seen)
    }

    fn look(&mut self, top: &[Taken], at: Duration) {
        let mut all = 0.0;
        for name in NAMES {
            let of_it = top.iter().filter(|taken| taken.deployment == name);
            let (mut share, mut memory) = (0.0, 0);
            for taken in of_it {
                // A new start counts from 0, since the look before.
                let before = self.last.insert(taken.start.clone(), (taken.cpu_us, at));
                let (before_us, before_at) = before.unwrap_or((0, at));
                let time = at.saturating_sub(before_at).as_secs_f64();
                if time > 0.0 {
                    share += taken.cpu_us.saturating_sub(before_us) as f64 / 1e6 / time;
                }
                memory += taken.memory_bytes;
            }
            all += share;
            self.cpu_shares.entry(name).or_default().push(Some(share));
            self.memory_bytes.entry(name).or_default().push(Some(memory as f64));
        }
        self.all.push(Some(all));
        self.at_s.push(Some(at.as_secs_f64()));
    }

    fn samples(mut self) -> Vec<Sample> {
        let shares = [
            Figure::WebCpuShare,
            Figure::DatabaseCpuShare,
            Figure::OrchestratorCpuShare,
        ];
        let memory = [
            Figure::WebMemoryBytes,
            Figure::DatabaseMemoryBytes,
            Figure::OrchestratorMemoryBytes,
        ];
        let mut samples = vec![
            Sample {
                figure: Figure::LookS,
                values: self.at_s,
            },
            Sample {
                figure: Figure::AllCpuShare,
                values: self.all,
            },
        ];
        for ((name, share), memory) in NAMES.into_iter().zip(shares).zip(memory) {
            for (figure, of) in [(share, &mut self.cpu_shares), (memory, &mut self.memory_bytes)] {
                samples.push(Sample {
                    figure,
                    values: of.remove(name).unwrap_or_default(),
                });
            }
        }
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_the_time_between_two_looks_and_a_new_start_begins_anew() {
        let taken = |start: &str, cpu_us| {
            [Taken {
                deployment: "web".to_owned(),
                start: start.to_owned(),
                cpu_us,
                memory_bytes: 5,
            }]
        };
        let mut seen = Seen::default();
        seen.look(&taken("a", 10_000), Duration::from_secs(1));
        seen.look(&taken("a", 110_000), Duration::from_secs(2));
        seen.look(&taken("b", 7_000), Duration::from_secs(3));
        seen.look(&[], Duration::from_secs(4));
        let of = |figure| {
            let samples = seen.samples();
            samples
                .into_iter()
                .find(|sample| sample.figure == figure)
                .unwrap()
                .values
        };
        assert_eq!(of(Figure::WebCpuShare), [Some(0.0), Some(0.1), Some(0.0), Some(0.0)]);
    }
}
