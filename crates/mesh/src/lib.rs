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
mod leading;
mod names;
mod nodes;
mod others;
mod room;
mod scaling;
mod table;
mod terms;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use agent::network::{HostRules, Network};
use agent::sockets::{At, Sockets};
use agent::supervise::{Key, Requests, Supervisor};
use balance::scale::Verdict;
use manifest::workload::{Deployments, Service};
use site::{Site, Stream};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use self::door::{Leads, Opened, Reached};
use self::figures::OfService;
use self::idle::Activity;
pub use self::idle::Request;
use self::leading::{Leading, Redirects, of_containers};
use self::nodes::{Call, Ways};
use self::others::OfSite;
use self::room::Room;
use self::scaling::Scalers;
use self::table::Place;
pub use self::table::{
    Activation, SUBSCRIPTIONS, activation, selected, unsupported, unsupported_annotations, unsupported_of_service,
};

/// How long an edge leads requests where the edge before it did, where nobody has said yet that they are ready.
const RESUMPTION: Duration = Duration::from_secs(10);
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
