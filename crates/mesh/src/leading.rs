//! Keeps doors open for what there is, and has the kernel lead past them where it can.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use agent::network::{HostRules, Network, Redirect, connections};
use agent::sockets::{At, Sockets};
use agent::supervise::{Key, Supervisor};
use agent::workload::sockets;
use tokio::sync::{Notify, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::door::{Listens, Opened, Reached, Shared, Way};
use crate::idle::{Activity, Connections, Idle, Rules, Watcher};
use crate::names::{self, Names};
use crate::nodes::{Call, Has, MAX_FOREIGN_SERVICES, Others};
use crate::others::OfSite;
use crate::room::Room;
use crate::scaling::{Scaled, scaling};
use crate::table::{self, Activation, Door, Place, activation};
use crate::{Doors, OfTenants, held};

/// Until the kernel is asked again where it did not do what it was to, or goes on to lead somebody.
const AGAIN: Duration = Duration::from_secs(2);

/// Keeps doors open, and says to each who is ready.
pub(crate) struct Leading {
    pub(crate) supervisor: Arc<Mutex<Supervisor>>,
    pub(crate) network: Network,
    pub(crate) sockets: Sockets,
    pub(crate) doors: Arc<Mutex<Doors>>,
    pub(crate) names: Arc<RwLock<Names>>,
    pub(crate) resolver: Option<AbortOnDropHandle<()>>,
    /// Of applications that run on demand.
    pub(crate) watchers: HashMap<Key, Watcher>,
    /// Those that have as many replicas as what comes needs.
    pub(crate) scaled: watch::Sender<Arc<Scaled>>,
    /// Of all doors.
    pub(crate) reached: Reached,
    /// For connections that doors hold.
    pub(crate) room: Arc<Room>,
    /// Connections of HTTP that they have.
    pub(crate) served: TaskTracker,
    pub(crate) site: OfSite,
    /// Told when one of those wants something else of the kernel, or a door is open.
    pub(crate) of_parts: Arc<Notify>,
    /// What the kernel led for an edge before this one, which stands until it is known who is ready, or this time.
    /// Those whom it led to have taken connections.
    pub(crate) before: Redirects,
    pub(crate) until: Instant,
    pub(crate) host: HostRules,
    /// From when on no program has had a door.
    pub(crate) unneeded_since: Option<Instant>,
    /// Why the kernel does not lead so, as it was said last: to containers, and to programs.
    pub(crate) said: [Option<String>; 2],
    /// The number of the last look at everything that has begun, and of the last after which the kernel leads so.
    pub(crate) begun: Arc<AtomicU64>,
    pub(crate) done: watch::Sender<u64>,
    pub(crate) looked: watch::Sender<()>,
}

/// What the kernel leads past doors, or to those of services.
#[derive(Clone, Debug, Default)]
pub(crate) struct Redirects {
    pub(crate) to_containers: Vec<Redirect>,
    /// Calls of the host itself.
    pub(crate) to_programs: Vec<Redirect>,
}

impl Leading {
    pub(crate) async fn run(mut self, mut wanting: watch::Receiver<OfTenants>) {
        let mut changes = held(&self.supervisor).changes();
        let of_parts = Arc::clone(&self.of_parts);
        loop {
            let wanted = wanting.borrow_and_update().clone();
            let changed = *changes.borrow_and_update();
            let following = move || {
                let look_at = self.follow(&wanted, changed);
                held(&self.doors).followed = wanted;
                self.looked.send_replace(());
                (self, look_at)
            };
            let look_at;
            (self, look_at) = spawn_blocking(following).await.expect("leading does not panic");
            tokio::select! {
                more = wanting.changed() => if more.is_err() { return },
                more = changes.changed() => if more.is_err() { return },
                () = of_parts.notified() => {}
                () = sleep_until(look_at.unwrap_or(self.until)), if look_at.is_some() => {}
            }
        }
    }

    /// Leads by all that has `changed` till now, and says when it has to be looked again, whatever is told till then.
    fn follow(&mut self, wanted: &OfTenants, changed: u64) -> Option<Instant> {
        let is_resumed = Instant::now() >= self.until;
        if is_resumed {
            self.before = Redirects::default();
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let others = Arc::clone(&*held(&self.site.others));
        self.follow_services(wanted, &others);
        self.watch_sleepers(wanted);
        self.follow_scaled(wanted);
        let mut table: HashMap<Place, Door> = HashMap::new();
        let mut names = Names::default();
        let nothing = BTreeMap::new();
        {
            let (supervisor, doors) = (held(&self.supervisor), held(&self.doors));
            for (tenant, wanted) in wanted {
                let addresses = doors.services.get(tenant).cloned().unwrap_or_default();
                let status = |application: &str| {
                    supervisor.status(&Key {
                        tenant: tenant.clone(),
                        application: application.to_owned(),
                    })
                };
                let pods = table::pods(wanted, &status);
                names.add(tenant, &pods, &addresses);
                let of_others = others.get(tenant).unwrap_or(&nothing);
                for (place, door) in table::doors(tenant, wanted, &addresses, &pods, of_others) {
                    // Of two that want the same, the first has it.
                    table.entry(place).or_insert(door);
                }
            }
        }
        *self.names.write().unwrap_or_else(PoisonError::into_inner) = names;
        let backends: BTreeSet<SocketAddrV4> = table.values().flat_map(|door| &door.backends).copied().collect();
        {
            let mut reached = held(&self.reached);
            reached.extend(self.before.all_led_to());
            reached.retain(|backend| backends.contains(backend));
        }
        self.tell(&table);
        let opening = self.opening(&table);
        let redirects = self.redirects(&table);
        let are_programs = table.values().any(|door| !door.programs.is_empty());
        self.open(table);
        self.serve_names();
        let is_so = self.lead_to_containers(&redirects.to_containers);
        let are_so = self.lead_to_programs(&redirects.to_programs);
        let is_needed = are_programs || !is_resumed || !self.host.is_there();
        // Who is applied anew at once need not wait for that.
        self.unneeded_since = (!is_needed).then(|| self.unneeded_since.unwrap_or_else(Instant::now));
        let is_over = match self.unneeded_since {
            Some(since) => since.elapsed() >= AGAIN && self.clear_programs(),
            None => true,
        };
        held(&self.doors).opening = opening;
        // Else somebody may still be led past a door whose application would sleep.
        if is_so && are_so {
            self.done.send_replace(number);
            held(&self.supervisor).followed(changed);
        }
        let resumes = !is_resumed && (!self.before.is_empty() || self.host.is_there());
        let again = (!is_so || !are_so || !is_over).then(|| Instant::now() + AGAIN);
        again.into_iter().chain(resumes.then_some(self.until)).min()
    }

    /// Has other nodes know of what services have here.
    fn tell(&self, table: &HashMap<Place, Door>) {
        let (supervisor, doors) = (held(&self.supervisor), held(&self.doors));
        // One that sleeps has all its replicas to come.
        let grows = |key: &Key| {
            let verdict = doors.verdicts.get(key);
            verdict.map_or_else(|| supervisor.sleeps(key), |verdict| verdict.may_grow)
        };
        let told = table.iter().filter(|(_, door)| door.is_told);
        let told = told.filter_map(|(place, door)| {
            let At::Tcp(at) = place.at else { return None };
            let call = Call::at(place, at.port());
            let has = Has {
                endpoints: door.backends.len() as u16,
                wakes: !door.sleepers.is_empty(),
                grows: door.scalers.iter().any(grows),
            };
            Some((call, has))
        });
        let told: BTreeMap<Call, Has> = told.collect();
        self.site.told.send_if_modified(|before| {
            let is_new = **before != told;
            if is_new {
                *before = Arc::new(told);
            }
            is_new
        });
    }

    /// Whether the kernel leads nobody else to containers.
    fn lead_to_containers(&mut self, redirects: &[Redirect]) -> bool {
        let led = self.network.redirect(redirects.to_owned());
        say(
            &mut self.said[0],
            "connections are not led past doors, and are slower",
            &led,
        );
        led.is_ok() || self.network.redirects().iter().all(|led| redirects.contains(led))
    }

    /// Whether the kernel leads no other call of the host to programs.
    fn lead_to_programs(&mut self, redirects: &[Redirect]) -> bool {
        let led = self.host.lead(redirects.to_owned());
        let what = "calls of the host to its programs are not led past doors, and are slower";
        say(&mut self.said[1], what, &led);
        led.is_ok() || self.host.redirects().iter().all(|led| redirects.contains(led))
    }

    /// Whether no call of the host goes on that the kernel led.
    fn clear_programs(&mut self) -> bool {
        let cleared = self.host.clear();
        say(
            &mut self.said[1],
            "rules of calls of the host stay that nobody needs",
            &cleared,
        );
        cleared.is_ok_and(|is_over| is_over)
    }

    /// What the kernel leads: past doors, to those whom nobody need wake; and to the doors of services, which listen at
    /// ports that are free, as the ports of services may be those of other programs of the host. Containers with
    /// networks of their own are led to wherever a call comes from, programs of the host from the host itself alone.
    fn redirects(&mut self, table: &HashMap<Place, Door>) -> Redirects {
        let are_listed = connections::are_listed();
        let reached = held(&self.reached).clone();
        let (mut redirects, mut before) = (Redirects::default(), self.before.clone());
        let doors = held(&self.doors);
        for (place, door) in table {
            let At::Tcp(at) = place.at else { continue };
            let watchers = door.sleepers.iter().filter_map(|key| self.watchers.get(key));
            watchers
                .clone()
                .for_each(|watcher| watcher.activity().add_programs(&door.programs));
            let may_be_led_past =
                !door.terms.need_the_door() && watchers.clone().all(|watcher| are_listed && watcher.may_be_led_past());
            let listens_at = doors.opened.get(place).and_then(Opened::listens_at);
            // What has been started for who calls may not take connections yet.
            let are_there = door.sleepers.is_empty() || door.backends.iter().all(|backend| reached.contains(backend));
            let is_counted = !door.elsewhere.is_empty() || !door.scalers.is_empty();
            let is_direct = may_be_led_past && are_there && !door.backends.is_empty() && !is_counted;
            let are_programs = door.backends.iter().filter(|to| to.ip().is_loopback()).count();
            let tenant = door.is_of_service.then(|| place.tenant.clone());
            // Whoever was led before goes on to be until it is known who is ready.
            let stands = may_be_led_past && (listens_at.is_none() || door.backends.is_empty());

            let is_same = |redirect: &Redirect| redirect.at == at && redirect.tenant == tenant;
            if !stands {
                before.to_containers.retain(|redirect| !is_same(redirect));
            }
            if let Some(listens_at) = listens_at
                && !before.to_containers.iter().any(is_same)
            {
                let to = match (is_direct && are_programs == 0, door.is_of_service) {
                    (true, _) => Some(door.backends.clone()),
                    (false, true) => Some(vec![listens_at]),
                    (false, false) => None,
                };
                let redirect = to.map(|to| Redirect { at, tenant, to });
                redirects.to_containers.extend(redirect);
            }

            let is_same = |redirect: &Redirect| redirect.at == at;
            if !stands {
                before.to_programs.retain(|redirect| !is_same(redirect));
            }
            let is_led = listens_at.is_some() && !before.to_programs.iter().any(is_same);
            if is_led && is_direct && are_programs == door.backends.len() {
                redirects.to_programs.push(Redirect {
                    at,
                    tenant: None,
                    to: door.backends.clone(),
                });
            }
        }
        drop(doors);
        redirects.to_containers.extend(before.to_containers.iter().cloned());
        redirects.to_programs.extend(before.to_programs.iter().cloned());
        self.before = before;
        redirects.to_containers.sort_unstable();
        redirects.to_programs.sort_unstable();
        redirects
    }

    /// Tenants with doors that the kernel does not lead to yet.
    fn opening(&self, table: &HashMap<Place, Door>) -> BTreeSet<String> {
        let doors = held(&self.doors);
        let is_opening = |place: &&Place| doors.opened.get(*place).is_none_or(Opened::is_opening);
        table
            .keys()
            .filter(is_opening)
            .map(|place| place.tenant.clone())
            .collect()
    }

    fn follow_services(&self, wanted: &OfTenants, others: &Others) {
        let mut doors = held(&self.doors);
        let known: Vec<String> = doors.services.keys().cloned().collect();
        let mut room = MAX_FOREIGN_SERVICES;
        for tenant in wanted.keys().chain(&known) {
            let own = wanted.get(tenant).map(|wanted| &wanted.services);
            // Those of others are for who calls from here.
            let foreign = own.and_then(|own| Some((own, others.get(tenant)?)));
            let foreign = foreign.into_iter().flat_map(|(own, others)| {
                let names = others.keys().filter(|name| !own.contains_key(*name));
                names.map(String::as_str)
            });
            let foreign: BTreeSet<&str> = foreign.take(room).collect();
            room -= foreign.len();
            let own = own.into_iter().flat_map(BTreeMap::keys).map(String::as_str);
            let names = own.chain(foreign).collect();
            doors.no_addresses.remove(tenant);
            match self.network.services(tenant, &names) {
                Ok(addresses) if addresses.is_empty() => drop(doors.services.remove(tenant)),
                Ok(addresses) => drop(doors.services.insert(tenant.clone(), addresses)),
                Err(error) => {
                    let why = format!("services have no addresses here: {error}");
                    tracing::warn!(%tenant, "{why}");
                    doors.no_addresses.insert(tenant.clone(), why);
                }
            }
        }
    }

    fn follow_scaled(&self, wanted: &OfTenants) {
        let mut scaled = Scaled::new();
        for (tenant, wanted) in wanted {
            for (application, deployment) in &wanted.deployments {
                let key = || Key {
                    tenant: tenant.clone(),
                    application: application.clone(),
                };
                scaled.extend(scaling(deployment).map(|scaling| (key(), scaling)));
            }
        }
        self.scaled.send_if_modified(|before| {
            let is_new = **before != scaled;
            if is_new {
                *before = Arc::new(scaled);
            }
            is_new
        });
    }

    fn watch_sleepers(&mut self, wanted: &OfTenants) {
        let mut sleepers = HashMap::new();
        for (tenant, wanted) in wanted {
            for (application, deployment) in &wanted.deployments {
                let Some(Activation { idle_timeout, .. }) = activation(deployment) else {
                    continue;
                };
                let key = Key {
                    tenant: tenant.clone(),
                    application: application.clone(),
                };
                let taken = match sockets::take_sockets(deployment) {
                    true => sockets::taken(deployment).collect(),
                    false => BTreeSet::new(),
                };
                sleepers.insert(key, Idle { idle_timeout, taken });
            }
        }
        self.watchers
            .retain(|key, watcher| sleepers.get(key) == Some(watcher.idle()));
        for (key, idle) in sleepers {
            self.watchers.entry(key).or_insert_with_key(|key| {
                let (supervisor, changes) = (Arc::clone(&self.supervisor), Arc::clone(&self.of_parts));
                let rules = Rules {
                    begun: Arc::clone(&self.begun),
                    done: self.done.subscribe(),
                };
                let connections = Connections {
                    sockets: self.sockets.clone(),
                    network: self.network.clone(),
                    host: self.host.clone(),
                };
                Watcher::new(supervisor, key.clone(), idle, connections, changes, rules)
            });
        }
        let activities = self.watchers.iter();
        held(&self.doors).activities = activities
            .map(|(key, watcher)| (key.clone(), watcher.activity()))
            .collect();
    }

    fn open(&self, table: HashMap<Place, Door>) {
        let mut doors = held(&self.doors);
        doors.opened.retain(|place, _| table.contains_key(place));
        let is_held = |(place, door): &(&Place, &Door)| door.is_taken || matches!(place.at, At::Unix { .. });
        let held = table.iter().filter(is_held).map(|(place, _)| place.at.clone());
        self.sockets.keep(&held.collect());
        for (place, door) in table {
            let sleepers = door.sleepers.iter().filter_map(|key| self.watchers.get(key));
            let sleepers: Vec<Activity> = sleepers.map(Watcher::activity).collect();
            let way = Way {
                backends: door.backends.into(),
                sleepers: sleepers.into(),
                elsewhere: door.elsewhere.into(),
                terms: door.terms,
                is_no_http: door.is_no_http,
                is_told: door.is_told,
                scalers: door.scalers.into(),
            };
            match doors.opened.get(&place) {
                Some(opened) => opened.lead_to(way),
                None => {
                    let listens = match &place.at {
                        at if door.is_taken => Listens::Given(at.clone(), self.sockets.clone()),
                        at @ At::Unix { .. } => Listens::Unix(at.clone(), self.sockets.clone()),
                        At::Tcp(at) => {
                            let port = if door.is_of_service { 0 } else { at.port() };
                            Listens::Tcp(SocketAddrV4::new(*at.ip(), port))
                        }
                    };
                    let shared = Shared {
                        reached: Arc::clone(&self.reached),
                        changes: Arc::clone(&self.of_parts),
                        room: Arc::clone(&self.room),
                        ways: self.site.ways.clone(),
                        served: self.served.clone(),
                    };
                    let port = if let At::Tcp(at) = place.at { at.port() } else { 0 };
                    let opened = Opened::new(listens, way, Call::at(&place, port), shared);
                    doors.opened.insert(place, opened);
                }
            }
        }
    }

    /// From when containers have a network on.
    fn serve_names(&mut self) {
        let is_served = self.resolver.as_ref().is_some_and(|resolver| !resolver.is_finished());
        if let (Some(gateway), false) = (self.network.gateway(), is_served) {
            let serving = names::serve(gateway, Arc::clone(&self.names));
            self.resolver = Some(AbortOnDropHandle::new(tokio::spawn(serving)));
        }
    }
}

impl Redirects {
    pub(crate) fn is_empty(&self) -> bool {
        self.to_containers.is_empty() && self.to_programs.is_empty()
    }

    fn all_led_to(&self) -> impl Iterator<Item = SocketAddrV4> {
        let all = self.to_containers.iter().chain(&self.to_programs);
        all.flat_map(|redirect| redirect.to.iter().copied())
    }
}

/// Those that lead to containers, which run on; doors ended with the edge whose they were.
pub(crate) fn of_containers(mut redirects: Vec<Redirect>) -> Vec<Redirect> {
    let is_door = |redirect: &Redirect| redirect.to.iter().any(|to| to.ip() == redirect.at.ip());
    redirects.retain(|redirect| !is_door(redirect));
    redirects
}

/// Says why something was not done, once for each reason.
fn say<T>(said: &mut Option<String>, what: &str, done: &io::Result<T>) {
    let why = done.as_ref().err().map(ToString::to_string);
    if let Some(error) = why.as_ref().filter(|_| why != *said) {
        tracing::warn!(%error, "{what}");
    }
    *said = why;
}
