//! Networks of containers: each pod has an address of the edge's, and reaches those of its tenant (decision 28).

pub(crate) mod attach;
mod calls;
pub mod connections;
mod host;
mod netlink;
mod range;
mod rules;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::attach::Attachment;
use self::attach::{LINK_PREFIX, link_of, set, settle};
use self::calls::Calls;
use self::connections::Led;
pub use self::host::HostRules;
use self::netlink::{Known, LOOPBACK, Netlink, Way};
use self::range::Range;
use self::rules::{Rules, Tenant};
pub use self::watch::watch;
use crate::runtime::Pod;
use crate::shim::boot_id;

/// Tenants whose containers have had a network; each has links of its own group.
const TENANTS_MAX: u32 = 4_000;

/// The network of one edge's containers. Nothing is made of it before it is needed.
#[derive(Clone, Debug)]
pub struct Network {
    kept: PathBuf,
    doors: Vec<SocketAddrV4>,
    state: Arc<Mutex<Option<State>>>,
}

/// Connections that the kernel leads past a door, to containers or programs of the host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Redirect {
    /// Where they come in.
    pub at: SocketAddrV4,
    /// Whose containers may use it, beside the host; `None`: the host and the world.
    pub tenant: Option<String>,
    /// Where each goes in its turn; one at least.
    pub to: Vec<SocketAddrV4>,
}

/// A link of the host's that an engine makes, with the one container of a pod behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bridge {
    /// Its name.
    pub(crate) link: String,
    /// What is behind it, such as `10.112.4.0/30`.
    pub(crate) subnet: String,
    /// The host's end of it.
    pub(crate) host: Ipv4Addr,
    /// How the container is in its network.
    pub(crate) attachment: Attachment,
}

#[derive(Debug)]
struct State {
    plan: Plan,
    /// That are led as they are made, beside the rules.
    calls: Calls,
    /// The next address that is tried.
    next: u32,
    /// What the kernel says of the rules that it has of this plan, once it was asked.
    listed: Option<Vec<u8>>,
}

/// What has to be the same for whoever runs the edge anew, as containers run on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Plan {
    range: Range,
    /// Of the host, since which the range is this edge's: what is there after another may be another edge's.
    #[serde(default)]
    boot_id: Option<String>,
    /// Each tenant's number, from 1 on.
    tenants: BTreeMap<String, u32>,
    /// Each tenant's services, and their numbers from 1 on.
    #[serde(default)]
    services: BTreeMap<String, BTreeMap<String, u32>>,
    /// Links of the host between which nothing was forwarded before there was a network of containers.
    #[serde(default)]
    apart: Vec<String>,
    /// Pods behind a bridge, and its number.
    #[serde(default)]
    bridges: Vec<(Pod, u32)>,
    /// Connections that come in go on to do so while nobody runs the edge.
    #[serde(default)]
    redirects: Vec<Redirect>,
}

/// What networks need and is not here, and how to have it.
pub(crate) fn missing() -> Option<String> {
    rules::missing()
}

impl Network {
    /// Keeps what it is in the file `kept`; its containers reach the edge's `doors`.
    #[must_use]
    pub fn new(kept: &Path, doors: Vec<SocketAddrV4>) -> Self {
        Network {
            kept: kept.to_owned(),
            doors,
            state: Arc::default(),
        }
    }

    /// A place in it for a container of a tenant's, with an address that no other has.
    ///
    /// # Errors
    /// The kernel allows none, `nft` is not here, or there is no address left.
    pub fn attach(&self, tenant: &str) -> io::Result<Attachment> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.there(&mut state)?;
        let mut with = state.plan.clone();
        let number = with.number(tenant)?;
        if with != state.plan {
            self.change(state, with)?;
        }
        Ok(Attachment {
            address: state.free_address()?,
            gateway: state.plan.range.gateway(),
            group: state.plan.range.group(number),
            shared_with: None,
        })
    }

    /// The bridge of a pod, which is the same for as long as it is not forgotten. Nothing of it is made.
    ///
    /// # Errors
    /// As of [`Network::attach`].
    pub(crate) fn bridge(&self, pod: &Pod) -> io::Result<Bridge> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.there(&mut state)?;
        let mut with = state.plan.clone();
        let group = with.range.group(with.number(&pod.tenant)?);
        let number = with.bridge(pod)?;
        if with != state.plan {
            self.change(state, with)?;
        }
        let range = state.plan.range;
        let bridged = range.bridged(number);
        Ok(Bridge {
            link: link_of(bridged.container),
            subnet: bridged.subnet,
            host: bridged.host,
            attachment: Attachment {
                address: bridged.container,
                gateway: range.gateway(),
                group,
                shared_with: None,
            },
        })
    }

    /// Those of an application's replicas that have a bridge.
    ///
    /// # Errors
    /// Of reading what is kept.
    pub(crate) fn bridged(&self, tenant: &str, application: &str) -> io::Result<Vec<Pod>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_none() && !self.kept.exists() {
            return Ok(Vec::new());
        }
        let pods = self.there(&mut state)?.plan.bridges.iter().map(|(pod, _)| pod);
        let of_application = pods.filter(|pod| pod.tenant == tenant && pod.application == application);
        Ok(of_application.cloned().collect())
    }

    /// Another pod may have its bridge, which is not there any more.
    ///
    /// # Errors
    /// Of writing what is kept.
    pub(crate) fn forget_bridge(&self, pod: &Pod) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.there(&mut state)?;
        let mut with = state.plan.clone();
        with.bridges.retain(|(other, _)| other != pod);
        self.keep(&with)?;
        state.plan = with;
        Ok(())
    }

    /// Goes on with what an edge before this one made, if any did.
    ///
    /// # Errors
    /// As of [`Network::attach`].
    pub fn resume(&self) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match self.kept.exists() {
            true => self.there(&mut state).map(drop),
            false => Ok(()),
        }
    }

    /// The host as its containers see it; `None`: none has had a network yet.
    #[must_use]
    pub fn gateway(&self) -> Option<Ipv4Addr> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.as_ref().map(|state| state.plan.range.gateway())
    }

    /// The addresses of these services of a tenant, each its own for as long as it is among them. They are this
    /// machine's.
    ///
    /// # Errors
    /// As of [`Network::attach`].
    pub fn services(&self, tenant: &str, names: &BTreeSet<&str>) -> io::Result<BTreeMap<String, Ipv4Addr>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if names.is_empty() && state.is_none() && !self.kept.exists() {
            return Ok(BTreeMap::new());
        }
        let state = self.there(&mut state)?;
        let mut with = state.plan.clone();
        with.set_services(tenant, names)?;
        if with != state.plan {
            self.change(state, with)?;
        }
        let plan = &state.plan;
        Ok(plan
            .addresses(tenant)
            .map(|(name, address)| (name.to_owned(), address))
            .collect())
    }

    /// Has the kernel lead these connections past their doors, and no others. Those that it leads already go on.
    ///
    /// # Errors
    /// `nft` is not here, or refuses.
    pub fn redirect(&self, redirects: Vec<Redirect>) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *state {
            Some(state) if state.plan.redirects != redirects => {
                let mut with = state.plan.clone();
                with.redirects = redirects;
                self.change(state, with)
            }
            _ => Ok(()),
        }
    }

    /// What the kernel leads now, or still does for an edge before this one.
    #[must_use]
    pub fn redirects(&self) -> Vec<Redirect> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state
            .as_ref()
            .map_or_else(Vec::new, |state| state.plan.redirects.clone())
    }

    /// How long ago the last call was made that was led as it was made to one of these by this edge; `None`: none is
    /// known of.
    fn last_call(&self, led: &Led) -> Option<Duration> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.as_ref().and_then(|state| state.calls.last(led))
    }

    fn there<'a>(&self, state: &'a mut Option<State>) -> io::Result<&'a mut State> {
        match state {
            Some(state) => Ok(state),
            none => Ok(none.insert(self.set_up()?)),
        }
    }

    fn set_up(&self) -> io::Result<State> {
        let mut netlink = Netlink::open()?;
        let networks = netlink.networks()?;
        let kept = self.kept()?;
        let boot_id = boot_id()?;
        // Of an edge that has none yet since the host was started, a range that is there is another's.
        let is_there = kept.as_ref().is_some_and(|plan| {
            let own = (plan.range.base(), plan.range.prefix_len());
            plan.boot_id.as_ref().is_none_or(|kept| *kept == boot_id)
                && networks.iter().any(|known| (known.network, known.prefix_len) == own)
        });
        let mut plan = kept.unwrap_or_else(Plan::new);
        if !is_there {
            // No container of before runs: whatever was kept of addresses may change.
            let own = plan.bridge_links();
            plan.range = claim(&mut netlink, plan.range, &networks, &own)?;
            plan.boot_id = Some(boot_id);
            let kept = links_apart(&mut netlink).and_then(|apart| {
                plan.apart = apart;
                plan.redirects.clear();
                self.keep(&plan)
            });
            if let Err(error) = kept {
                let _ = netlink.give_up(plan.range.base(), plan.range.prefix_len());
                return Err(error);
            }
        }
        forward()?;
        let range = plan.range;
        netlink.add_address(LOOPBACK, range.gateway(), 32)?;
        let (services, prefix_len) = range.services();
        netlink.add_route(services, prefix_len, &Way::Here)?;
        self.rules(&plan)?;
        let mut calls = Calls::default();
        calls.lead(calls::of_redirects(&plan.redirects, |ip| plan.range.is_of_pods(ip)));
        Ok(State {
            plan,
            calls,
            next: rand::random(),
            listed: None,
        })
    }

    /// What was decided before this, if anything was.
    fn kept(&self) -> io::Result<Option<Plan>> {
        match fs::read(&self.kept) {
            Ok(text) => serde_json::from_slice(&text)
                .map_err(|error| io::Error::other(format!("{}: {error}", self.kept.display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn rules(&self, plan: &Plan) -> io::Result<()> {
        let tenant = |(name, number): (&String, &u32)| Tenant {
            group: plan.range.group(*number),
            services: plan.addresses(name).map(|(_, address)| address).collect(),
        };
        let rules = Rules {
            range: plan.range,
            tenants: plan.tenants.iter().map(tenant).collect(),
            doors: &self.doors,
            apart: &plan.apart,
            redirects: plan
                .redirects
                .iter()
                .filter_map(|redirect| match &redirect.tenant {
                    Some(tenant) => Some((Some(plan.range.group(*plan.tenants.get(tenant)?)), redirect)),
                    None => Some((None, redirect)),
                })
                .collect(),
        };
        rules.apply()
    }

    /// Has the kernel keep to another plan, too, and keeps it.
    fn change(&self, state: &mut State, with: Plan) -> io::Result<()> {
        let led = calls::of_redirects(&with.redirects, |ip| with.range.is_of_pods(ip));
        state.calls.keep(&led);
        self.rules(&with)?;
        state.calls.lead(led);
        state.listed = None;
        // So it is, kept or not.
        state.plan.redirects.clone_from(&with.redirects);
        self.keep(&with)?;
        state.plan = with;
        Ok(())
    }

    /// Has the kernel's rules be as they are to be; whether they were not.
    fn mend(&self) -> io::Result<bool> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(state) = &mut *state else {
            return Ok(false);
        };
        let range = state.plan.range;
        let table = rules::table(range);
        let now = rules::listed(&table)?;
        let is_changed = now.is_none() || state.listed.is_some() && now != state.listed;
        state.listed = match is_changed {
            true => {
                self.rules(&state.plan)?;
                rules::listed(&table)?
            }
            false => {
                rules::let_through_docker();
                now
            }
        };
        forward()?;
        Ok(is_changed)
    }

    fn keep(&self, plan: &Plan) -> io::Result<()> {
        let new = self.kept.with_extension("new");
        fs::write(&new, serde_json::to_vec(plan).expect("it is JSON"))?;
        fs::rename(&new, &self.kept)
    }
}

impl Plan {
    /// Of an edge that has had no network, with some range that it wishes for.
    fn new() -> Self {
        Plan {
            range: Range::any(rand::random()),
            boot_id: None,
            tenants: BTreeMap::new(),
            services: BTreeMap::new(),
            bridges: Vec::new(),
            apart: Vec::new(),
            redirects: Vec::new(),
        }
    }

    fn number(&mut self, tenant: &str) -> io::Result<u32> {
        if let Some(number) = self.tenants.get(tenant) {
            return Ok(*number);
        }
        let number = self.tenants.values().max().map_or(1, |last| last + 1);
        if number > TENANTS_MAX {
            return Err(io::Error::other(format!(
                "{TENANTS_MAX} tenants have had a network here, and there are no more"
            )));
        }
        self.tenants.insert(tenant.to_owned(), number);
        Ok(number)
    }

    /// Its number, which is its own from now on.
    fn bridge(&mut self, pod: &Pod) -> io::Result<u32> {
        if let Some((_, number)) = self.bridges.iter().find(|(other, _)| other == pod) {
            return Ok(*number);
        }
        let taken: BTreeSet<u32> = self.bridges.iter().map(|(_, number)| *number).collect();
        let count = self.range.bridge_count();
        let is_free = |number: &u32| {
            let link = link_of(self.range.bridged(*number).container);
            !taken.contains(number) && netlink::index(&link).is_err()
        };
        let number = (0..count).find(is_free).ok_or_else(|| {
            io::Error::other(format!(
                "{count} containers of Docker have a network here, and there are no more"
            ))
        })?;
        self.bridges.push((pod.clone(), number));
        Ok(number)
    }

    /// Those that an engine has made again before the edge was started.
    fn bridge_links(&self) -> Vec<u32> {
        let numbers = self.bridges.iter().map(|(_, number)| *number);
        let names = numbers.map(|number| link_of(self.range.bridged(number).container));
        names.filter_map(|name| netlink::index(&name).ok()).collect()
    }

    fn addresses(&self, tenant: &str) -> impl Iterator<Item = (&str, Ipv4Addr)> {
        let services = self.services.get(tenant).into_iter().flatten();
        services.map(|(name, number)| (name.as_str(), self.range.service(*number)))
    }

    fn set_services(&mut self, tenant: &str, names: &BTreeSet<&str>) -> io::Result<()> {
        let mut of_tenant = self.services.remove(tenant).unwrap_or_default();
        of_tenant.retain(|name, _| names.contains(&**name));
        let others = self.services.values().flat_map(BTreeMap::values);
        let mut taken: BTreeSet<u32> = others.chain(of_tenant.values()).copied().collect();
        for name in names {
            if of_tenant.contains_key(*name) {
                continue;
            }
            let free = (1..=self.range.service_count()).find(|number| taken.insert(*number));
            let free = free.ok_or_else(|| io::Error::other(format!("all addresses of {} are in use", self.range)))?;
            of_tenant.insert((*name).to_owned(), free);
        }
        if !of_tenant.is_empty() {
            self.number(tenant)?;
            self.services.insert(tenant.to_owned(), of_tenant);
        }
        Ok(())
    }
}

impl State {
    /// One that no link of the host is there for.
    fn free_address(&mut self) -> io::Result<Ipv4Addr> {
        let range = self.plan.range;
        for _ in 0..range.pod_count() {
            self.next = self.next.wrapping_add(1);
            let address = range.pod(self.next);
            if netlink::index(&link_of(address)).is_err() {
                return Ok(address);
            }
        }
        Err(io::Error::other(format!("all addresses of {range} are in use")))
    }
}

impl Bridge {
    pub(crate) fn is_there(&self) -> bool {
        netlink::index(&self.link).is_ok()
    }

    /// Has it be a link of its tenant's, as all who forward for it begin without one: before anything runs behind it.
    ///
    /// # Errors
    /// It is not there, or the kernel allows none of it.
    pub(crate) fn let_in(&self) -> io::Result<()> {
        settle(&self.link)?;
        Netlink::open()?.set_group(netlink::index(&self.link)?, self.attachment.group)
    }

    /// Has its container, which is there, reach itself by the address of its service: where rules are for what crosses
    /// bridges, too (`br_netfilter`, which Docker loads), that would be sent back where it came from.
    ///
    /// # Errors
    /// As of [`Bridge::let_in`].
    pub(crate) fn turn_back(&self) -> io::Result<()> {
        Netlink::open()?.set_turning_back(netlink::index(&self.link)?)
    }
}

/// Has the host do so.
fn forward() -> io::Result<()> {
    match does_forward()? {
        true => Ok(()),
        false => set("ipv4", "ip_forward=1"),
    }
}

fn does_forward() -> io::Result<bool> {
    Ok(fs::read_to_string("/proc/sys/net/ipv4/ip_forward")?.trim() != "0")
}

/// All of the host, where it forwards nothing: that it does so for containers makes it no router between its networks.
fn links_apart(netlink: &mut Netlink) -> io::Result<Vec<String>> {
    let mut links = match does_forward()? {
        true => Vec::new(),
        false => netlink.links()?,
    };
    links.retain(|link| !link.starts_with(LINK_PREFIX));
    Ok(links)
}

/// Takes one that this machine knows no way into yet but by its `own` links, `wished` if may be. What is for nobody in
/// it is refused at once, and does not go to the next router.
fn claim(netlink: &mut Netlink, wished: Range, networks: &[Known], own: &[u32]) -> io::Result<Range> {
    let others = || {
        let is_own = |known: &Known| known.link.is_some_and(|link| own.contains(&link));
        networks
            .iter()
            .filter(move |known| known.prefix_len > 0 && !is_own(known))
    };
    let is_taken = |range: &Range| others().any(|other| range.overlaps(other.network, other.prefix_len));
    for range in wished.and_all_others().filter(|range| !is_taken(range)) {
        match netlink.claim(range.base(), range.prefix_len()) {
            // Another edge was quicker.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            claimed => return claimed.map(|()| range),
        }
    }
    Err(io::Error::other(
        "this machine has a route to every range that containers could have",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_edges_that_look_at_once_each_has_a_range_of_its_own() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        // SAFETY: the thread has descriptors of its own making alone, and ends with the test.
        unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET).unwrap() };
        let mut netlink = Netlink::open().unwrap();
        let seen = netlink.networks().unwrap();
        let first = claim(&mut netlink, Range::any(7), &seen, &[]).unwrap();
        let second = claim(&mut netlink, Range::any(7), &seen, &[]).unwrap();
        assert_eq!([first, second], [Range::any(7), Range::any(8)]);
        netlink.give_up(first.base(), first.prefix_len()).unwrap();
        assert_eq!(claim(&mut netlink, Range::any(7), &seen, &[]).unwrap(), first);
    }

    #[test]
    fn an_edge_that_has_had_no_network_takes_the_range_of_no_other_whichever_it_wishes_for() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        host_is_started();
        let mut netlink = Netlink::open().unwrap();
        for others in Range::any(8).and_all_others().filter(|range| *range != Range::any(7)) {
            netlink.claim(others.base(), others.prefix_len()).unwrap();
        }
        let directory = tempfile::tempdir().unwrap();
        let network = Network::new(&directory.path().join("kept"), Vec::new());
        assert_eq!(network.set_up().unwrap().plan.range, Range::any(7));
        // Whoever runs that edge anew finds its own.
        assert_eq!(network.set_up().unwrap().plan.range, Range::any(7));
    }

    #[test]
    fn after_the_host_was_started_again_an_edge_leaves_its_range_to_another_that_has_it_since() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        host_is_started();
        let directory = tempfile::tempdir().unwrap();
        let network = Network::new(&directory.path().join("kept"), Vec::new());
        let mut of_before = network.set_up().unwrap().plan;
        let range = of_before.range;
        of_before.boot_id = Some("5d9c6f9e-8e3f-4c35-9d4e-6d2b0a1f7c11".to_owned());
        for is_taken in [false, true] {
            network.keep(&of_before).unwrap();
            host_is_started();
            if is_taken {
                let mut other = Netlink::open().unwrap();
                other.claim(range.base(), range.prefix_len()).unwrap();
            }
            let now = network.set_up().unwrap().plan.range;
            assert_eq!(now != range, is_taken, "{now} after {range}");
        }
    }

    /// A network without anything in it, as every host begins with.
    fn host_is_started() {
        // SAFETY: the thread has descriptors of its own making alone, and ends with the test.
        unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET).unwrap() };
        let up = std::process::Command::new("ip")
            .args(["link", "set", "lo", "up"])
            .status();
        assert!(up.unwrap().success());
    }
}
