//! A day of requests to a few applications that run all the time, or only while somebody asks: memory and processor
//! time over it, energy where the machine says, and how long answers take.
//!
//! The day goes by faster than it was, and with it the time after which an application sleeps; what a start, a request
//! and a second at rest take is as it is. So each is measured for itself: a replay for the first two, a while without
//! requests for the third.

mod traffic;

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(crate) use self::traffic::day_by_steps;
pub(super) use self::traffic::{Application, Traffic};
use super::activation::PORT;
use super::ask::{PATIENCE, SMALL, ask};
use super::edge::Edge;
use super::manifests::{DATABASE, DATABASE_PORT, DATABASE_VOLUME, INNER_PORT, deployment};
use super::options::Options;
use super::power;
use super::record::{Arm, Figure, Sample};
use super::site::Site;
use super::taken::{Group, Own, Processes};
use super::work::{API_PATH, IDLE_S, IMAGE};
use crate::capacity::pause;
use crate::interrupt;

/// Between two looks at what is taken.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Until what a start has left to be done is done.
const SETTLED: Duration = Duration::from_secs(2);
/// What the database stores, in the protocol's short form, and the start of its answer: how many there are.
const STORE: &[u8] = b"RPUSH readings 21.5\r\n";
const STORED: char = ':';
const LOADING: &str = "-LOADING";
/// Until it is asked again.
const STEP: Duration = Duration::from_millis(5);

/// An edge of its own with the applications, first with nobody asking, then over the day.
pub(super) fn measure(site: &Site, arm: Arm, options: &Options, traffic: &Traffic) -> Result<Vec<Sample>, String> {
    let own = Own::make()?;
    let edge = Edge::start(site, "edge-day")?;
    edge.build(
        IMAGE,
        site.at_work.as_deref().ok_or("there is no image of applications")?,
    )?;
    own.take(&edge)?;
    let alone_bytes = Processes::of(&edge).memory_bytes();
    edge.apply(&manifests(None))?;
    wait(&edge, super::edge::Application::is_ready)?;
    let each = asked_once(&edge, site)?;
    let containers = Own::in_it(each[0].parent().ok_or("the group of a container is in no other")?)?;
    let all = [own.group(), containers.group()];
    let mut samples = awake(&all, &each, options)?;
    if arm == Arm::OnDemand {
        edge.apply(&manifests(Some((IDLE_S * 1_000 / options.day_speed).max(1))))?;
        wait(&edge, |one| one.is_asleep(false))?;
        samples.extend(asleep(&all, options)?);
    }
    samples.extend(over_the_day((&edge, alone_bytes), site, &all, (options, traffic))?);
    Ok(samples)
}

fn wait(edge: &Edge, is_so: impl Fn(&super::edge::Application) -> bool) -> Result<(), String> {
    Application::ALL
        .iter()
        .try_for_each(|one| edge.wait(one.name(), &is_so).map(drop))
}

/// Asks each application, and finds where its container is counted. Nobody asks them whether they are ready: they are
/// when they run, and may not listen yet.
fn asked_once(edge: &Edge, site: &Site) -> Result<Vec<Group>, String> {
    let began = Instant::now();
    let find = |one: &Application| {
        let name = one.name();
        while let Err(error) = site.enter(|| one.ask())? {
            if began.elapsed() > PATIENCE {
                return Err(format!("{name}, its first request: {error}"));
            }
            pause(STEP);
        }
        Processes::of(edge)
            .group_of(name)
            .ok_or_else(|| format!("{name} was asked and has no control group of a container"))
    };
    Application::ALL.iter().map(find).collect()
}

/// What is taken while all applications run and nobody asks, and what of it each of them does.
fn awake(all: &[&Group], each: &[Group], options: &Options) -> Result<Vec<Sample>, String> {
    let groups: Vec<&Group> = all.iter().copied().chain(each).collect();
    let rest = AtRest::of(&groups, options)?;
    let (of_all, of_each) = rest.cpu_shares.split_at(all.len());
    let mut samples = vec![
        sample(Figure::DayAwakeCpuShare, vec![of_all.iter().sum()]),
        sample(Figure::DayAppCpuShare, of_each.to_vec()),
    ];
    samples.extend(
        rest.power_w
            .map(|power_w| sample(Figure::DayAwakePowerW, vec![power_w])),
    );
    Ok(samples)
}

/// The same while all of them sleep.
fn asleep(all: &[&Group], options: &Options) -> Result<Vec<Sample>, String> {
    let rest = AtRest::of(all, options)?;
    let mut samples = vec![sample(Figure::DayAsleepCpuShare, vec![rest.cpu_shares.iter().sum()])];
    samples.extend(
        rest.power_w
            .map(|power_w| sample(Figure::DayAsleepPowerW, vec![power_w])),
    );
    Ok(samples)
}

/// What is taken while nobody asks.
struct AtRest {
    /// Of a core, group by group.
    cpu_shares: Vec<f64>,
    power_w: Option<f64>,
}

impl AtRest {
    fn of(groups: &[&Group], options: &Options) -> Result<AtRest, String> {
        interrupt::pause(SETTLED)?;
        let (energy_j, before_s, began) = (power::energy_j(), cpu_of_each(groups)?, Instant::now());
        interrupt::pause(Duration::from_millis(u64::from(options.rest_ms)))?;
        let (after_s, time_s) = (cpu_of_each(groups)?, began.elapsed().as_secs_f64());
        let shares = after_s
            .iter()
            .zip(before_s)
            .map(|(after_s, before_s)| (after_s - before_s) / time_s);
        Ok(AtRest {
            cpu_shares: shares.collect(),
            power_w: power::used_j(energy_j).map(|used_j| used_j / time_s),
        })
    }
}

fn cpu_s(groups: &[&Group]) -> Result<f64, String> {
    groups.iter().map(|group| group.cpu_s()).sum()
}

fn cpu_of_each(groups: &[&Group]) -> Result<Vec<f64>, String> {
    groups.iter().map(|group| group.cpu_s()).collect()
}

/// The replay of the day; of an edge that took so much without applications.
fn over_the_day(
    (edge, alone_bytes): (&Edge, u64),
    site: &Site,
    all: &[&Group],
    (options, traffic): (&Options, &Traffic),
) -> Result<Vec<Sample>, String> {
    let starts_before = starts(edge)?;
    let stored_before = site.enter(store)?.map_err(|error| format!("the database: {error}"))?;
    let is_over = AtomicBool::new(false);
    let (energy_j, before_s, began) = (power::energy_j(), cpu_s(all)?, Instant::now());
    let (answers, looks) = std::thread::scope(|scope| {
        let looking = scope.spawn(|| look(edge, began, &is_over));
        let answers = site.enter(|| ask_all(traffic, options, began));
        is_over.store(true, Ordering::Relaxed);
        (answers, looking.join().expect("looking does not panic"))
    });
    let (answers, replay_s) = (answers??, began.elapsed().as_secs_f64());
    let used_s = cpu_s(all)? - before_s;
    let used_j = power::used_j(energy_j);
    let stored = site.enter(store)?.map_err(|error| format!("the database: {error}"))? - 1 - stored_before;
    let memory = looks.iter().map(|look| look.memory_bytes as f64);
    let added = memory.clone().map(|bytes| bytes - alone_bytes as f64);
    let mut samples = vec![
        sample(Figure::DayReplayS, vec![replay_s]),
        sample(Figure::DayCpuS, vec![used_s]),
        sample(Figure::DayStarts, vec![(starts(edge)? - starts_before) as f64]),
        sample(Figure::DayLostRequests, vec![lost(&answers, stored) as f64]),
        sample(Figure::DayLateMs, answers.iter().map(|answer| answer.late_ms).collect()),
        Sample {
            figure: Figure::DayAnswerMs,
            values: answers.iter().map(|answer| answer.took_ms).collect(),
        },
        sample(Figure::LookS, looks.iter().map(|look| look.at_s).collect()),
        sample(Figure::DayMemoryBytes, memory.collect()),
        sample(Figure::DayAddedMemoryBytes, added.collect()),
        sample(Figure::DayAwakeShare, awake_shares(&looks)),
    ];
    samples.extend(used_j.map(|used_j| sample(Figure::DayEnergyJ, vec![used_j])));
    Ok(samples)
}

fn sample(figure: Figure, values: Vec<f64>) -> Sample {
    Sample {
        figure,
        values: values.into_iter().map(Some).collect(),
    }
}

fn starts(edge: &Edge) -> Result<u64, String> {
    Application::ALL.iter().map(|one| edge.starts(one.name())).sum()
}

/// What came of a request.
#[derive(Clone, Copy, Debug)]
struct Answer {
    of: Application,
    late_ms: f64,
    /// From when it was due; none = there was no answer.
    took_ms: Option<f64>,
}

/// All requests in an open loop, each when it is due, and then the rest of the day.
///
/// # Errors
/// The run was told to end.
fn ask_all(traffic: &Traffic, options: &Options, began: Instant) -> Result<Vec<Answer>, String> {
    let answers = std::thread::scope(|scope| {
        let asking: Vec<_> = traffic
            .requests
            .iter()
            .map(|request| {
                let due = request.at / options.day_speed;
                interrupt::pause(due.saturating_sub(began.elapsed()))?;
                Ok(scope.spawn(move || {
                    let since_due = || began.elapsed().saturating_sub(due).as_secs_f64() * 1e3;
                    let late_ms = since_due();
                    let answer = request.of.ask();
                    Answer {
                        of: request.of,
                        late_ms,
                        took_ms: answer.is_ok().then(since_due),
                    }
                }))
            })
            .collect::<Result<_, String>>()?;
        let answers = asking.into_iter().map(|one| one.join().expect("asking does not panic"));
        Ok::<_, String>(answers.collect())
    })?;
    interrupt::pause(options.day_time().saturating_sub(began.elapsed()))?;
    Ok(answers)
}

/// Requests without an answer, and those that the database answered and has not stored.
fn lost(answers: &[Answer], stored: u64) -> u64 {
    let unanswered = answers.iter().filter(|answer| answer.took_ms.is_none()).count() as u64;
    let of_database = answers.iter().filter(|answer| answer.of == Application::Database);
    let acknowledged = of_database.filter(|answer| answer.took_ms.is_some()).count() as u64;
    unanswered + acknowledged.saturating_sub(stored)
}

impl Application {
    /// Asks once and takes the whole answer.
    fn ask(self) -> io::Result<()> {
        match self {
            Application::Database => store().map(drop),
            Application::Air => ask(self.door(), API_PATH).map(drop),
            Application::Dashboard | Application::Lights => ask(self.door(), SMALL).map(drop),
        }
    }

    fn door(self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port()).into()
    }

    /// Of the edge.
    fn port(self) -> u16 {
        PORT + self as u16
    }

    fn manifest(self, idle_ms: Option<u32>) -> String {
        let (run, inner, volume) = match self {
            Application::Database => (DATABASE, DATABASE_PORT, DATABASE_VOLUME),
            _ => (
                "command: [/bin/busybox], args: [httpd, -f, -p, '8080', -h, /www]",
                INNER_PORT,
                "",
            ),
        };
        let port = self.port();
        let run = format!("image: '{IMAGE}', {run}, ports: [{{containerPort: {inner}, hostPort: {port}}}]");
        deployment(self.name(), idle_ms, &run) + volume
    }
}

fn manifests(idle_ms: Option<u32>) -> String {
    Application::ALL.map(|one| one.manifest(idle_ms)).join("---\n")
}

/// Stores a reading, again where the database has yet to load what it has, as its clients do; how many there then are.
fn store() -> io::Result<u64> {
    let began = Instant::now();
    loop {
        let answer = told(STORE)?;
        let is_loading = answer.starts_with(LOADING) && began.elapsed() < PATIENCE;
        if is_loading {
            pause(STEP);
            continue;
        }
        let count = answer.trim_start_matches(STORED).parse();
        return count.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("answered: {answer}")));
    }
}

/// The line that the database answers to a command.
fn told(command: &[u8]) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&Application::Database.door(), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(command)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    Ok(answer.trim().to_owned())
}

/// What is there at one time.
struct Look {
    at_s: f64,
    memory_bytes: u64,
    /// Whether a container of each application was there.
    awake: [bool; Application::ALL.len()],
}

/// Again and again until it is over, and once more then.
fn look(edge: &Edge, began: Instant, is_over: &AtomicBool) -> Vec<Look> {
    let mut looks = Vec::new();
    loop {
        let was_over = is_over.load(Ordering::Relaxed);
        let (processes, at_s) = (Processes::of(edge), began.elapsed().as_secs_f64());
        looks.push(Look {
            at_s,
            memory_bytes: processes.memory_bytes(),
            awake: Application::ALL.map(|one| processes.has(one.name())),
        });
        if was_over {
            return looks;
        }
        pause(LOOK_EVERY);
    }
}

fn awake_shares(looks: &[Look]) -> Vec<f64> {
    let share = |place: usize| looks.iter().filter(|look| look.awake[place]).count() as f64 / looks.len() as f64;
    (0..Application::ALL.len()).map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_answer_is_lost_and_so_is_what_was_answered_and_is_not_stored() {
        let answer = |of, took_ms| Answer {
            of,
            late_ms: 0.0,
            took_ms,
        };
        let answers = [
            answer(Application::Lights, Some(1.0)),
            answer(Application::Database, Some(2.0)),
            answer(Application::Database, Some(2.0)),
            answer(Application::Database, None),
        ];
        assert_eq!(lost(&answers, 2), 1);
        assert_eq!(lost(&answers, 1), 2);
        // One without an answer may have been stored.
        assert_eq!(lost(&answers, 3), 1);
    }

    #[test]
    fn an_application_is_awake_for_its_share_of_the_looks() {
        let look = |first| Look {
            at_s: 0.0,
            memory_bytes: 0,
            awake: [first, false, true, false],
        };
        assert_eq!(awake_shares(&[look(true), look(false)]), [0.5, 0.0, 1.0, 0.0]);
    }

    #[test]
    fn applications_sleep_only_where_they_are_on_demand_and_listen_at_ports_of_their_own() {
        let (always, on_demand) = (manifests(None), manifests(Some(208)));
        assert!(!always.contains("on-demand"));
        assert_eq!(on_demand.matches("selvedge.dev/idle-timeout: 208ms").count(), 4);
        for port in 8_001..=8_004 {
            assert_eq!(always.matches(&format!("hostPort: {port}")).count(), 1);
        }
    }
}
