//! Requests to applications: where they come in, who answers them, and who is woken for that.
//!
//! It knows services, doors of the edge and which containers are ready, and not how those are started.

mod budget;
mod choice;
mod door;
pub mod figures;
mod first_bytes;
mod health;
mod idle;
mod names;
mod nodes;
mod room;
mod scaling;
mod table;
mod terms;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;
use std::{fmt, io};

use agent::network::{HostRules, Network, Redirect, connections};
use agent::sockets::{At, Sockets};
use agent::supervise::{Key, Requests, Supervisor};
use agent::workload::sockets;
use balance::scale::Verdict;
use manifest::workload::{Deployments, Service};
use site::{Site, Stream};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use self::door::{Leads, Listens, Opened, Reached, Shared, Way};
use self::figures::OfService;
pub use self::idle::Request;
use self::idle::{Activity, Connections, Idle, Rules, Watcher};
use self::names::Names;
use self::nodes::{Call, Has, MAX_FOREIGN_SERVICES, Near, Others, Ways};
use self::room::Room;
use self::scaling::{Scaled, Scalers, scaling};
pub use self::table::{
    Activation, SUBSCRIPTIONS, activation, selected, unsupported, unsupported_annotations, unsupported_of_service,
};
use self::table::{Door, Place};

/// How long an edge leads requests where the edge before it did, where nobody has said yet that they are ready.
const RESUMPTION: Duration = Duration::from_secs(10);
/// Until the kernel is asked again where it did not do what it was to, or goes on to lead somebody.
const AGAIN: Duration = Duration::from_secs(2);
/// Between two looks at which other nodes are there, and how far it is to them.
const NEAR_PAUSE: Duration = Duration::from_millis(250);
/// For the doors of a tenant to be open, or it to be known why one is not.
const OPEN_PATIENCE: Duration = Duration::from_secs(5);
/// For requests that are under way as the edge stops: who asks at other nodes finds this one gone after it.
const DRAIN_PATIENCE: Duration = Duration::from_secs(5);

/// What a tenant has for requests to come in by.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// By their names.
    pub services: BTreeMap<String, Service>,
    /// By theirs.
    pub deployments: Deployments,
}

/// What other nodes have of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AtOthers {
    /// Where it listens.
    pub ports: Vec<u16>,
    /// By their names.
    pub nodes: BTreeMap<String, AtOther>,
}

/// What another node has of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtOther {
    /// Endpoints that are ready; none where the node is silent.
    pub ready: u16,
    /// Whether a request wakes some, and none is ready.
    pub sleeps: bool,
}

/// What each of them has.
type OfTenants = BTreeMap<String, Arc<Wanted>>;

/// Leads requests to the applications of an edge.
pub struct Mesh {
    wanted: watch::Sender<OfTenants>,
    doors: Arc<Mutex<Doors>>,
    /// Told after each look at everything.
    looks: watch::Receiver<()>,
    host: HostRules,
    site: OfSite,
    in_site: Mutex<Option<AbortOnDropHandle<()>>>,
    served: TaskTracker,
    _leading: AbortOnDropHandle<()>,
    _scaling: AbortOnDropHandle<()>,
}

/// What is shared with other nodes.
#[derive(Clone)]
struct OfSite {
    /// What they have.
    others: Arc<Mutex<Arc<Others>>>,
    /// What they are told that there is here.
    told: watch::Sender<Arc<BTreeMap<Call, Has>>>,
    ways: Ways,
    /// Told when the others have something else.
    changes: Arc<Notify>,
}

impl Mesh {
    /// Over the applications that `supervisor` runs, in the `network` and with the `sockets` that it gives them; calls
    /// of the `host` itself to its programs are led by rules of their own.
    #[must_use]
    pub fn new(supervisor: Arc<Mutex<Supervisor>>, network: Network, host: HostRules, sockets: Sockets) -> Self {
        let (wanted, wanting) = watch::channel(BTreeMap::new());
        let (looked, looks) = watch::channel(());
        let (doors, of_parts) = (Arc::<Mutex<Doors>>::default(), Arc::<Notify>::default());
        let site = OfSite {
            others: Arc::default(),
            told: watch::channel(Arc::default()).0,
            ways: Ways::default(),
            changes: Arc::clone(&of_parts),
        };
        let before = Redirects {
            to_containers: of_containers(network.redirects()),
            to_programs: host.redirects(),
        };
        let resumption = match before.is_empty() && !host.is_there() {
            true => Duration::ZERO,
            false => RESUMPTION,
        };
        held(&supervisor).wait_for(Arc::new(OfDoors(Arc::downgrade(&doors))));
        let (scaled, to_scale) = watch::channel(Arc::default());
        let scalers = Scalers {
            supervisor: Arc::clone(&supervisor),
            doors: Arc::clone(&doors),
            changes: Arc::clone(&of_parts),
        };
        let served = TaskTracker::new();
        let leading = Leading {
            supervisor,
            scaled,
            doors: Arc::clone(&doors),
            names: Arc::default(),
            resolver: None,
            watchers: HashMap::new(),
            reached: Reached::default(),
            room: Room::of_process(),
            served: served.clone(),
            of_parts,
            site: site.clone(),
            before,
            until: Instant::now() + resumption,
            network,
            host: host.clone(),
            unneeded_since: None,
            said: [None, None],
            sockets,
            begun: Arc::default(),
            done: watch::channel(0).0,
            looked,
        };
        Mesh {
            wanted,
            doors,
            looks,
            host,
            site,
            in_site: Mutex::default(),
            served,
            _leading: AbortOnDropHandle::new(tokio::spawn(leading.run(wanting))),
            _scaling: AbortOnDropHandle::new(tokio::spawn(scalers.run(to_scale))),
        }
    }

    /// Has requests to a tenant's applications come in so, and no other way.
    pub fn set_tenant(&self, tenant: &str, wanted: Wanted) {
        self.wanted.send_modify(|all| {
            let is_any = !wanted.services.is_empty() || !wanted.deployments.is_empty();
            match is_any {
                true => all.insert(tenant.to_owned(), Arc::new(wanted)),
                false => all.remove(tenant),
            };
        });
    }

    /// Leads requests to other nodes of this site, too, and those that they send, which come by the channel: from now on
    /// until it is over, and no more to those of a site before.
    pub fn join(&self, site: &Arc<Site>, requests: mpsc::Receiver<(String, Stream)>) {
        let site = Arc::downgrade(site);
        self.site.ways.set(Weak::clone(&site));
        let following = self.site.clone().follow(site, requests, Arc::clone(&self.doors));
        *held(&self.in_site) = Some(AbortOnDropHandle::new(tokio::spawn(following)));
    }

    /// Wakes an application that runs on demand, and keeps it awake for as long as the request is under way; `None`
    /// where it is not known, or not yet.
    #[must_use]
    pub fn request(&self, tenant: &str, application: &str) -> Option<Request> {
        let key = Key {
            tenant: tenant.to_owned(),
            application: application.to_owned(),
        };
        let activity = held(&self.doors).activities.get(&key)?.clone();
        let request = activity.begin();
        activity.wake();
        Some(request)
    }

    /// Whether a request to an application comes in where it is to: its tenant's doors are open as they were wanted
    /// last, or it is known why one is not.
    #[must_use]
    pub fn is_open(&self, tenant: &str, application: &str) -> bool {
        let of = |all: &OfTenants| all.get(tenant)?.deployments.get(application).cloned();
        let Some(wanted) = of(&self.wanted.borrow()) else {
            return false;
        };
        let doors = held(&self.doors);
        let is_followed = of(&doors.followed).is_some_and(|followed| Arc::ptr_eq(&followed, &wanted));
        is_followed && !doors.opening.contains(tenant)
    }

    /// Returns once requests to all that a tenant was wanted to have last come in where they are to, or it is known why
    /// they do not: in five seconds, whatever happens.
    pub async fn opened(&self, tenant: &str) {
        let mut looks = self.looks.clone();
        let is_open = || {
            let (wanted, doors) = (self.wanted.borrow(), held(&self.doors));
            let of = |all: &OfTenants| all.get(tenant).map(Arc::as_ptr);
            of(&doors.followed) == of(&wanted) && !doors.opening.contains(tenant)
        };
        // Where nobody looks any more the edge is being stopped.
        let _ = timeout(OPEN_PATIENCE, looks.wait_for(|()| is_open())).await;
    }

    /// Calls of the host are not led past doors any more, and no door takes a connection; what is led goes on. Returns
    /// once the requests of HTTP that are under way have been answered: in five seconds, whatever happens.
    pub async fn stop(&self) {
        let host = self.host.clone();
        let stopped = spawn_blocking(move || host.stop()).await.expect("rules do not panic");
        if let Err(error) = stopped {
            tracing::warn!(%error, "calls of the host are still led to its programs");
        }
        held(&self.doors).opened.values().for_each(Opened::close);
        self.served.close();
        if timeout(DRAIN_PATIENCE, self.served.wait()).await.is_err() {
            let left = self.served.len();
            tracing::warn!(left, "connections with requests under way are cut off");
        }
    }

    /// The address of a service, once it has one.
    #[must_use]
    pub fn address(&self, tenant: &str, service: &str) -> Option<Ipv4Addr> {
        held(&self.doors).services.get(tenant)?.get(service).copied()
    }

    /// What other nodes have of a tenant's services, by their names; of those that keep to their node nobody knows.
    #[must_use]
    pub fn elsewhere(&self, tenant: &str) -> BTreeMap<String, AtOthers> {
        let others = Arc::clone(&*held(&self.site.others));
        let of_tenant = others.get(tenant).into_iter().flatten();
        let of_service = of_tenant.map(|(service, ports)| {
            let mut nodes: BTreeMap<String, AtOther> = BTreeMap::new();
            for other in ports.values().flatten() {
                let at = nodes.entry(other.node.as_ref().to_owned()).or_default();
                at.ready = at.ready.max(other.has.endpoints);
                at.sleeps |= other.has.wakes && other.has.endpoints == 0;
            }
            let ports = ports.keys().copied().collect();
            (service.clone(), AtOthers { ports, nodes })
        });
        of_service.collect()
    }

    /// How many replicas of an application there are to be for what comes; `None`: it does not scale, or sleeps.
    #[must_use]
    pub fn scale(&self, tenant: &str, application: &str) -> Option<u32> {
        let key = Key {
            tenant: tenant.to_owned(),
            application: application.to_owned(),
        };
        held(&self.doors).verdicts.get(&key).map(|verdict| verdict.count)
    }

    /// What doors of services have led where.
    #[must_use]
    pub fn figures(&self) -> Vec<OfService> {
        let doors = held(&self.doors);
        let of_services = doors.opened.iter().filter(|(place, _)| doors.is_of_service(place));
        let mut figures: Vec<OfService> = of_services.map(|(_, opened)| opened.figures()).collect();
        figures.sort_by(|one, other| {
            let key = |of: &OfService| (of.tenant.clone(), of.service.clone(), of.port);
            key(one).cmp(&key(other))
        });
        figures
    }

    /// Why doors of a tenant's application or service are not open, in words.
    #[must_use]
    pub fn troubles(&self, tenant: &str, of: &str) -> Vec<String> {
        let doors = held(&self.doors);
        let own = doors
            .opened
            .iter()
            .filter(|(place, _)| place.tenant == tenant && place.of == of);
        let words = |(place, opened): (&Place, &Opened)| {
            let why = opened.trouble()?;
            // Names of other tenants are nobody's business.
            let first = doors.opened.iter().find(|(other, opened)| {
                let is_other = other.tenant == place.tenant && other.of != place.of;
                is_other && has_same(&other.at, &place.at) && opened.trouble().is_none()
            });
            Some(match (first, &place.at) {
                (None, _) => why,
                (Some((first, _)), At::Tcp(at)) => {
                    format!("port {} is that of {}, which had it first", at.port(), first.of)
                }
                (Some((first, _)), At::Unix { name, .. }) => {
                    format!("the socket {name} is that of {}, which had it first", first.of)
                }
            })
        };
        let mut troubles: Vec<String> = own.filter_map(words).collect();
        troubles.extend(doors.no_addresses.get(tenant).cloned());
        troubles
    }
}

/// Requests that doors have led.
struct OfDoors(Weak<Mutex<Doors>>);

impl Requests for OfDoors {
    fn is_busy(&self, address: Ipv4Addr) -> bool {
        let is_leaving = |doors: Arc<Mutex<Doors>>| {
            let doors = held(&doors);
            doors.opened.values().any(|opened| opened.is_leaving(address))
        };
        self.0.upgrade().is_some_and(is_leaving)
    }
}

impl fmt::Debug for OfDoors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("requests of doors")
    }
}

impl OfSite {
    /// Tells the others what there is here, and keeps what they have, until the site is over.
    async fn follow(self, site: Weak<Site>, requests: mpsc::Receiver<(String, Stream)>, doors: Arc<Mutex<Doors>>) {
        self.follow_while_there(&site, requests, doors).await;
        *held(&self.others) = Arc::default();
        self.ways.set_near(Near::default());
        self.changes.notify_one();
    }

    async fn follow_while_there(
        &self,
        site: &Weak<Site>,
        mut requests: mpsc::Receiver<(String, Stream)>,
        doors: Arc<Mutex<Doors>>,
    ) {
        let Some(mut known) = site.upgrade().map(|site| site.known()) else {
            return;
        };
        let mut telling = self.told.subscribe();
        telling.mark_changed();
        known.mark_changed();
        // They end with this.
        let mut taken = JoinSet::new();
        let mut looks = interval(NEAR_PAUSE);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                changed = telling.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let (said, left_out) = nodes::say(&telling.borrow_and_update());
                    if left_out > 0 {
                        tracing::warn!(left_out, "there are more services here than other nodes can be told of");
                    }
                    let Some(site) = site.upgrade() else { return };
                    site.say(said).await;
                }
                changed = known.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let others = Arc::new(nodes::heard(&known.borrow_and_update()));
                    let before = std::mem::replace(&mut *held(&self.others), Arc::clone(&others));
                    if before != others {
                        self.changes.notify_one();
                    }
                }
                _ = looks.tick() => {
                    let Some(site) = site.upgrade() else { return };
                    self.ways.set_near(site.near());
                }
                Some((node, stream)) = requests.recv() => {
                    while taken.try_join_next().is_some() {}
                    taken.spawn(take(node, stream, Arc::clone(&doors)));
                }
            }
        }
    }
}

/// A request that another node has sent.
async fn take(node: String, mut stream: Stream, doors: Arc<Mutex<Doors>>) {
    let (call, speaks) = match nodes::called(&mut stream).await {
        Ok(called) => called,
        Err(error) => return tracing::warn!(node, %error, "a request of another node cannot be read"),
    };
    let leads = held(&doors).of_service(&call);
    match leads {
        Some(leads) => leads.lead_of_node(stream, speaks, node).await,
        None => {
            let why = format!("it has no port {} of a service {}", call.port, call.service);
            let _ = nodes::refuse(&mut stream, &why).await;
        }
    }
}

impl Doors {
    fn is_of_service(&self, place: &Place) -> bool {
        let address = self
            .services
            .get(&place.tenant)
            .and_then(|services| services.get(&place.of));
        address.is_some_and(|address| matches!(place.at, At::Tcp(at) if at.ip() == address))
    }

    /// What leads requests to a port of a service.
    fn of_service(&self, call: &Call) -> Option<Leads> {
        let address = *self.services.get(&call.tenant)?.get(&call.service)?;
        let place = Place {
            at: At::Tcp(SocketAddrV4::new(address, call.port)),
            tenant: call.tenant.clone(),
            of: call.service.clone(),
        };
        self.opened.get(&place).map(Opened::leads)
    }
}

/// Whether two doors cannot both be open: one may be at all addresses.
fn has_same(one: &At, other: &At) -> bool {
    match (one, other) {
        (At::Tcp(one), At::Tcp(other)) => {
            let (ip, other_ip) = (one.ip(), other.ip());
            one.port() == other.port() && (ip == other_ip || ip.is_unspecified() || other_ip.is_unspecified())
        }
        (one, other) => one == other,
    }
}

/// What the kernel leads past doors, or to those of services.
#[derive(Clone, Debug, Default)]
struct Redirects {
    to_containers: Vec<Redirect>,
    /// Calls of the host itself.
    to_programs: Vec<Redirect>,
}

impl Redirects {
    fn is_empty(&self) -> bool {
        self.to_containers.is_empty() && self.to_programs.is_empty()
    }

    fn all_led_to(&self) -> impl Iterator<Item = SocketAddrV4> {
        let all = self.to_containers.iter().chain(&self.to_programs);
        all.flat_map(|redirect| redirect.to.iter().copied())
    }
}

/// Those that lead to containers, which run on; doors ended with the edge whose they were.
fn of_containers(mut redirects: Vec<Redirect>) -> Vec<Redirect> {
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

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is open now.
#[derive(Default)]
struct Doors {
    opened: HashMap<Place, Opened>,
    /// What they were opened for.
    followed: OfTenants,
    /// Tenants with one of which it was not known, when that was looked at last, whether it can be open.
    opening: BTreeSet<String>,
    /// Of applications that run on demand.
    activities: HashMap<Key, Activity>,
    /// Of those that scale, and are awake.
    verdicts: HashMap<Key, Verdict>,
    /// Of each tenant.
    services: BTreeMap<String, BTreeMap<String, Ipv4Addr>>,
    /// Why the services of a tenant have none.
    no_addresses: BTreeMap<String, String>,
}

/// Keeps doors open, and says to each who is ready.
struct Leading {
    supervisor: Arc<Mutex<Supervisor>>,
    network: Network,
    sockets: Sockets,
    doors: Arc<Mutex<Doors>>,
    names: Arc<RwLock<Names>>,
    resolver: Option<AbortOnDropHandle<()>>,
    /// Of applications that run on demand.
    watchers: HashMap<Key, Watcher>,
    /// Those that have as many replicas as what comes needs.
    scaled: watch::Sender<Arc<Scaled>>,
    /// Of all doors.
    reached: Reached,
    /// For connections that doors hold.
    room: Arc<Room>,
    /// Connections of HTTP that they have.
    served: TaskTracker,
    site: OfSite,
    /// Told when one of those wants something else of the kernel, or a door is open.
    of_parts: Arc<Notify>,
    /// What the kernel led for an edge before this one, which stands until it is known who is ready, or this time.
    /// Those whom it led to have taken connections.
    before: Redirects,
    until: Instant,
    host: HostRules,
    /// From when on no program has had a door.
    unneeded_since: Option<Instant>,
    /// Why the kernel does not lead so, as it was said last: to containers, and to programs.
    said: [Option<String>; 2],
    /// The number of the last look at everything that has begun, and of the last after which the kernel leads so.
    begun: Arc<AtomicU64>,
    done: watch::Sender<u64>,
    looked: watch::Sender<()>,
}

impl Leading {
    async fn run(mut self, mut wanting: watch::Receiver<OfTenants>) {
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
