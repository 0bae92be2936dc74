//! Applications kept as they are wanted, as programs of this host: through ends, changes, and agents that are no more.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::image::registry::Registries;
use agent::image::store::Images;
use agent::instance::How;
use agent::local::Local;
use agent::network::Network;
use agent::probe::{Ask, Probe, Probes};
use agent::runtime::{Kind, Launch, Pod, Runtime as _, State};
use agent::sockets::Sockets;
use agent::supervise::{Container, Key, Rollout, Salt, Status, Supervisor, Update, Wanted, What};
use tempfile::TempDir;
use tokio::time::sleep;

const PATIENCE: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(60);
/// Runs until it is asked to end.
const SLEEPER: &str = "trap 'exit 0' TERM; while :; do sleep 0.05; done";

/// A host, whose containers end with it.
struct Host {
    local: Local,
    place: TempDir,
}

impl Host {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let name = place.path().file_name().unwrap().to_string_lossy().replace('.', "");
        let shim = PathBuf::from(env!("CARGO_BIN_EXE_agent-shim"));
        let containers = place.path().join("containers");
        fs::create_dir(&containers).unwrap();
        let images = Images::open(&place.path().join("images")).unwrap();
        let registries = Registries::new(Arc::new(images), Arc::new(|_, _| panic!("no registry is asked")));
        Host {
            local: Local::new(
                &containers,
                &place.path().join("volumes"),
                Network::new(&place.path().join("network"), Vec::new()),
                Arc::new(registries),
                Sockets::new(&place.path().join("sockets"), &place.path().join("containers")),
                &shim,
                &format!("test{name}-"),
            ),
            place,
        }
    }

    async fn agent(&self) -> Supervisor {
        let salt = Salt::kept_at(&self.file("salt")).unwrap();
        let (histories, logs) = (self.file("good"), self.file("logs"));
        Supervisor::new(Arc::new(self.local.clone()), salt, &histories, &logs)
            .await
            .unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    async fn names(&self) -> Vec<String> {
        self.local.names().await.unwrap()
    }

    /// Process numbers of all that run.
    async fn running(&self) -> Vec<i32> {
        let mut running = Vec::new();
        for name in self.names().await {
            if let State::Running(started) = self.local.state(&name).await.unwrap() {
                running.push(started.pid);
            }
        }
        running
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // A runtime of its own: that of the test may be where this is dropped.
        let local = self.local.clone();
        let clean = move || {
            let tokio = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            tokio.block_on(async {
                for name in local.names().await.unwrap_or_default() {
                    let _ = local.kill(&name).await;
                    let _ = local.remove(&name).await;
                }
            });
        };
        std::thread::spawn(clean).join().unwrap();
    }
}

const TENANT: &str = "default";

fn key(application: &str) -> Key {
    Key {
        tenant: TENANT.to_owned(),
        application: application.to_owned(),
    }
}

/// That a sleeper is all that the tenant wants.
fn wanting(application: &str) -> BTreeMap<String, Option<Wanted>> {
    let sleeper = of(application, &[container(SLEEPER, LONG)]);
    BTreeMap::from([(application.to_owned(), Some(sleeper))])
}

/// Has these run of an application.
fn set(agent: &mut Supervisor, application: &str, containers: &[Container]) {
    agent.set(key(application), &of(application, containers));
}

fn of(application: &str, containers: &[Container]) -> Wanted {
    let mut containers = containers.to_vec();
    for container in &mut containers {
        container.launch.pod.application = application.to_owned();
    }
    Wanted {
        containers,
        replicas: 1,
        most: 1,
        update: Update::recreate(),
        after: BTreeSet::new(),
        when_idle: None,
    }
}

fn container(script: &str, grace: Duration) -> Container {
    let pod = Pod {
        tenant: "default".to_owned(),
        application: "app".to_owned(),
        replica: 0,
    };
    Container {
        name: "main".to_owned(),
        replica: 0,
        is_init: false,
        probes: Probes::default(),
        pre_stop: None,
        launch: Launch {
            args: ["-c", script].map(str::to_owned).to_vec(),
            ..Launch::of(Kind::Process, "/bin/sh", pod)
        },
        grace,
    }
}

async fn wait_until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < PATIENCE, "it is not so in time: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until the application's only container runs.
async fn runs(agent: &Supervisor, application: &str) -> Status {
    let mut seen = None;
    wait_until("the container runs", async || {
        seen = agent.status(&key(application)).into_iter().next();
        seen.as_ref().is_some_and(|status| status.doing.is_running)
    })
    .await;
    seen.unwrap()
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

#[tokio::test]
async fn what_ends_is_started_again_after_pauses_that_grow_and_its_last_end_is_known() {
    let (host, began) = (Host::new(), Instant::now());
    let mut agent = host.agent().await;
    let starts = host.file("starts");
    let script = format!("echo >> {}; exit 3", starts.display());
    set(&mut agent, "crasher", &[container(&script, LONG)]);
    wait_until("three starts", async || lines(&starts) == 3).await;
    // At least half of 1 s and half of 2 s.
    assert!(began.elapsed() >= Duration::from_millis(1_500), "{:?}", began.elapsed());
    wait_until("its third end", async || {
        let doing = &agent.status(&key("crasher"))[0].doing;
        doing.restarts == 2 && !doing.is_running
    })
    .await;
    let doing = agent.status(&key("crasher")).remove(0).doing;
    assert_eq!(doing.last_end.unwrap().how, How::Exited { code: 3 });
    assert_eq!(
        host.names().await.len(),
        2,
        "the files of the last start and of the one before it"
    );
}

#[tokio::test]
async fn another_agent_finds_what_runs_and_leaves_it_alone() {
    let host = Host::new();
    let mut agent = host.agent().await;
    set(&mut agent, "sleeper", &[container(SLEEPER, LONG)]);
    let before = runs(&agent, "sleeper").await;
    let pids = host.running().await;
    drop(agent);
    let mut agent = host.agent().await;
    agent.set_tenant(TENANT, wanting("sleeper"));
    let after = runs(&agent, "sleeper").await;
    assert_eq!((after.doing.start, after.doing.restarts), (before.doing.start, 0));
    sleep(Duration::from_millis(300)).await;
    assert_eq!((host.running().await, pids.len()), (pids, 1));
}

#[tokio::test]
async fn what_ended_while_there_was_no_agent_is_started_again_by_the_next_one() {
    let host = Host::new();
    let mut agent = host.agent().await;
    set(&mut agent, "sleeper", &[container(SLEEPER, LONG)]);
    let before = runs(&agent, "sleeper").await.doing.start.unwrap();
    drop(agent);
    host.local.kill(&before).await.unwrap();
    let mut agent = host.agent().await;
    set(&mut agent, "sleeper", &[container(SLEEPER, LONG)]);
    let after = runs(&agent, "sleeper").await.doing.start.unwrap();
    assert_ne!(after, before);
    assert_eq!(host.running().await.len(), 1);
}

#[tokio::test]
async fn a_changed_one_has_ended_before_its_successor_starts() {
    let host = Host::new();
    let mut agent = host.agent().await;
    let order = host.file("order");
    let saying = |name: &str| {
        let file = order.display();
        format!(
            "echo {name} begins >> {file}; trap 'sleep 0.3; echo {name} ends >> {file}; exit 0' TERM; \
             while :; do sleep 0.05; done"
        )
    };
    set(&mut agent, "site", &[container(&saying("old"), LONG)]);
    wait_until("the old one begins", async || lines(&order) == 1).await;
    set(&mut agent, "site", &[container(&saying("new"), LONG)]);
    wait_until("the new one begins", async || lines(&order) == 3).await;
    // Nobody starts the old one again, as is done with what ends by itself.
    sleep(Duration::from_millis(1_500)).await;
    let said = fs::read_to_string(&order).unwrap();
    assert_eq!(said, "old begins\nold ends\nnew begins\n");
    assert_eq!((host.running().await.len(), host.names().await.len()), (1, 1));
}

#[tokio::test]
async fn what_is_wanted_as_it_was_runs_on() {
    let host = Host::new();
    let mut agent = host.agent().await;
    let twice = |script: &str, replicas: u32| Wanted {
        replicas,
        ..of("pair", &[container(script, LONG)])
    };
    let running = |agent: &Supervisor, count: usize| {
        let status = agent.status(&key("pair"));
        let are_running = status.len() == count && status.iter().all(|status| status.doing.is_running);
        are_running.then_some(status)
    };
    agent.set(key("pair"), &twice(SLEEPER, 1));
    wait_until("it runs", async || running(&agent, 1).is_some()).await;
    let before = running(&agent, 1).unwrap();
    agent.set(key("pair"), &twice(SLEEPER, 2));
    wait_until("both run", async || running(&agent, 2).is_some()).await;
    let both = running(&agent, 2).unwrap();
    assert_eq!(both[0], before[0]);
    agent.set(key("pair"), &twice(SLEEPER, 1));
    wait_until("one runs", async || running(&agent, 1).is_some()).await;
    assert_eq!(running(&agent, 1).unwrap(), before);
}

#[tokio::test]
async fn replicas_are_as_many_as_are_asked_for_between_those_that_are_wanted_and_the_most() {
    let host = Host::new();
    let mut agent = host.agent().await;
    let wanted = |replicas: u32, most: u32| Wanted {
        replicas,
        most,
        ..of("site", &[container(SLEEPER, LONG)])
    };
    let are_running = |agent: &Supervisor, count: usize| {
        let status = agent.status(&key("site"));
        status.len() == count && status.iter().all(|status| status.doing.is_running)
    };
    agent.set(key("site"), &wanted(1, 3));
    wait_until("one runs", async || are_running(&agent, 1)).await;
    for (asked, count) in [(Some(2), 2), (Some(9), 3), (Some(0), 1), (Some(3), 3)] {
        agent.scale(&key("site"), asked);
        wait_until("as many run", async || are_running(&agent, count)).await;
    }
    // An agent after this one keeps them, until somebody says how many there are to be.
    drop(agent);
    let mut agent = host.agent().await;
    agent.set(key("site"), &wanted(1, 3));
    wait_until("they are found", async || are_running(&agent, 3)).await;
    let events = agent.events("default");
    assert!(events.iter().all(|event| event.what != What::Stopped), "{events:?}");
    agent.scale(&key("site"), Some(2));
    wait_until("two run", async || are_running(&agent, 2)).await;
    agent.scale(&key("site"), None);
    wait_until("one runs again", async || are_running(&agent, 1)).await;
}

/// A version that is started before the one that runs has ended.
fn rolling(script: &str, change: impl FnOnce(&mut Container)) -> Wanted {
    let mut container = container(script, LONG);
    change(&mut container);
    Wanted {
        update: Update {
            surge: 1,
            unavailable: 0,
            ..Update::recreate()
        },
        ..of("site", &[container])
    }
}

/// Is never ready.
fn unready(container: &mut Container) {
    container.probes.readiness = Some(Probe {
        ask: Ask::Exec(vec!["/bin/false".to_owned()]),
        initial_delay: Duration::ZERO,
        period: Duration::from_millis(100),
        timeout: Duration::from_secs(1),
        successes: 1,
        failures: 1,
    });
}

fn is_taken_back(agent: &Supervisor) -> Option<String> {
    match agent.rollout(&key("site")) {
        Some(Rollout::TakenBack { why }) => Some(why),
        _ => None,
    }
}

/// Waits until it is the only version, and good.
async fn is_settled(host: &Host, agent: &Supervisor, mark: &str) {
    wait_until(mark, async || {
        let kept = fs::read_to_string(host.file("good/default+site.json")).unwrap_or_default();
        kept.contains(mark) && host.running().await.len() == 1 && agent.rollout(&key("site")).is_none()
    })
    .await;
}

#[tokio::test]
async fn a_new_version_runs_before_the_old_one_ends() {
    let host = Host::new();
    let mut agent = host.agent().await;
    let order = host.file("order");
    let saying = |name: &str| {
        let file = order.display();
        format!(
            "echo {name} begins >> {file}; trap 'echo {name} ends >> {file}; exit 0' TERM; while :; do sleep 0.05; done"
        )
    };
    agent.set(key("site"), &rolling(&saying("old"), |_| {}));
    is_settled(&host, &agent, "echo old").await;
    agent.set(key("site"), &rolling(&saying("new"), |_| {}));
    is_settled(&host, &agent, "echo new").await;
    assert_eq!(
        fs::read_to_string(&order).unwrap(),
        "old begins\nnew begins\nold ends\n"
    );
    assert_eq!(agent.status(&key("site"))[0].replica, 1, "a number that was free");
}

#[tokio::test]
async fn what_is_to_end_runs_on_until_requests_are_led_without_it() {
    let host = Host::new();
    let mut agent = host.agent().await;
    agent.followed(0);
    agent.set(key("site"), &rolling("sleep 1000 # old", |_| {}));
    is_settled(&host, &agent, "# old").await;
    agent.set(key("site"), &rolling("sleep 1000 # new", |_| {}));
    wait_until("both", async || host.running().await.len() == 2).await;
    // Longer than it would be left otherwise: it has settled by then, and who is on his way has arrived.
    sleep(Duration::from_secs(3)).await;
    assert_eq!(host.running().await.len(), 2);
    agent.followed(*agent.changes().borrow());
    is_settled(&host, &agent, "# new").await;
}

#[tokio::test]
async fn a_new_version_that_is_not_ready_in_time_is_taken_back_for_good_and_can_be_replaced() {
    let host = Host::new();
    let mut agent = host.agent().await;
    agent.set(key("site"), &rolling(SLEEPER, |_| {}));
    is_settled(&host, &agent, "trap").await;
    let good = agent.status(&key("site"));
    let mut bad = rolling("exec sleep 100", unready);
    bad.update.deadline = Duration::from_secs(2);
    agent.set(key("site"), &bad);
    wait_until("it is taken back", async || is_taken_back(&agent).is_some()).await;
    assert!(
        is_taken_back(&agent).unwrap().starts_with("it was not ready in 2 s: "),
        "{:?}",
        is_taken_back(&agent)
    );
    assert_eq!(agent.status(&key("site")), good, "it ran all the time");
    let what: Vec<String> = agent
        .events(TENANT)
        .iter()
        .map(|event| event.what.to_string())
        .collect();
    assert!(what.contains(&"taken-back".to_owned()), "{what:?}");
    drop(agent);
    let mut agent = host.agent().await;
    agent.set(key("site"), &bad);
    let found = runs(&agent, "site").await;
    assert_eq!(found.doing.start, good[0].doing.start);
    assert!(is_taken_back(&agent).is_some());
    sleep(Duration::from_millis(300)).await;
    assert_eq!(host.names().await.len(), 1);
    agent.set(key("site"), &rolling("exec sleep 101", |_| {}));
    is_settled(&host, &agent, "sleep 101").await;
    // What was taken back once may be tried again from there.
    agent.set(key("site"), &rolling("exec sleep 100", |_| {}));
    is_settled(&host, &agent, "sleep 100").await;
}

#[tokio::test]
async fn a_new_version_that_does_not_stay_up_is_taken_back_before_its_time_is_over() {
    let host = Host::new();
    let mut agent = host.agent().await;
    let starts = host.file("starts");
    let good = || Wanted {
        update: Update::recreate(),
        ..rolling(SLEEPER, |_| {})
    };
    agent.set(key("site"), &good());
    is_settled(&host, &agent, "trap").await;
    let crasher = format!("echo >> {}; exit 3", starts.display());
    let crashing = Wanted {
        update: Update::recreate(),
        ..rolling(&crasher, |_| {})
    };
    agent.set(key("site"), &crashing);
    wait_until("it is taken back", async || is_taken_back(&agent).is_some()).await;
    assert_eq!(is_taken_back(&agent).unwrap(), "main does not stay up: exited with 3");
    assert_eq!(lines(&starts), 4);
    runs(&agent, "site").await;
    assert_eq!(host.names().await.len(), 1);
}

#[tokio::test]
async fn an_update_goes_on_wherever_its_agent_ended() {
    let host = Host::new();
    let mut agent = host.agent().await;
    agent.set(key("site"), &rolling(SLEEPER, |_| {}));
    is_settled(&host, &agent, "trap").await;
    let mut version = 0;
    for after_ms in [0, 5, 20, 60, 150, 400, 900, 1_050, 1_150, 1_250, 1_400] {
        version += 1;
        let next = rolling(&format!("exec sleep {}", 1_000 + version), |_| {});
        agent.set(key("site"), &next);
        sleep(Duration::from_millis(after_ms)).await;
        drop(agent);
        assert!(!host.running().await.is_empty(), "after {after_ms} ms nothing runs");
        agent = host.agent().await;
        agent.set(key("site"), &next);
        is_settled(&host, &agent, &format!("sleep {}", 1_000 + version)).await;
    }
}

#[tokio::test]
async fn who_ignores_that_it_is_asked_to_end_is_made_to_after_its_grace() {
    let host = Host::new();
    let mut agent = host.agent().await;
    let deaf = container("trap '' TERM; while :; do sleep 0.05; done", Duration::from_millis(500));
    set(&mut agent, "deaf", &[deaf]);
    runs(&agent, "deaf").await;
    // Until it is deaf.
    sleep(Duration::from_millis(200)).await;
    let began = Instant::now();
    agent.set_tenant(TENANT, BTreeMap::new());
    wait_until("it is gone", async || host.names().await.is_empty()).await;
    assert!(began.elapsed() >= Duration::from_millis(500), "{:?}", began.elapsed());
}

#[tokio::test]
async fn what_nobody_wants_any_more_ends_though_another_agent_started_it() {
    let host = Host::new();
    let mut agent = host.agent().await;
    set(&mut agent, "old", &[container(SLEEPER, LONG)]);
    set(&mut agent, "kept", &[container(SLEEPER, LONG)]);
    let kept = runs(&agent, "kept").await;
    runs(&agent, "old").await;
    drop(agent);
    let mut agent = host.agent().await;
    sleep(Duration::from_millis(200)).await;
    assert_eq!(host.running().await.len(), 2, "until it is known what is wanted");
    agent.set_tenant(TENANT, wanting("kept"));
    wait_until("one is gone", async || {
        host.names().await == [kept.doing.start.clone().unwrap()]
    })
    .await;
}

#[tokio::test]
async fn a_container_that_cannot_be_started_is_tried_again_and_says_why() {
    let host = Host::new();
    let mut agent = host.agent().await;
    let mut wrong = container("", LONG);
    wrong.launch.command = vec!["/no/such/program".to_owned()];
    set(&mut agent, "wrong", &[wrong]);
    wait_until("a second try", async || {
        agent
            .status(&key("wrong"))
            .first()
            .is_some_and(|status| status.doing.restarts == 1)
    })
    .await;
    let doing = agent.status(&key("wrong")).remove(0).doing;
    let How::NotStarted { reason } = doing.last_end.unwrap().how else {
        panic!()
    };
    assert!(reason.starts_with("/no/such/program: "), "{reason}");
    // It can be replaced all the same.
    set(&mut agent, "wrong", &[container(SLEEPER, LONG)]);
    wait_until("the right one runs", async || host.running().await.len() == 1).await;
}
