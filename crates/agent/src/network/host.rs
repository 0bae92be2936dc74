//! Calls of the host itself to programs of the host: the kernel leads them past doors as they are made, or by a table
//! of their own (decisions 44, 47).

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Redirect;
use super::calls::{self, Calls};
use super::connections::{self, Led, Use};
use super::range::Range;
use super::rules::{self, leads, lines};

/// Numbers that are tried, by chance, until one is nobody else's.
const CLAIMS_MAX: u32 = 10;
/// Those who call the address of a Service of any edge come here before they come to its own rules.
const PRIORITY: i32 = -101;

/// What an edge has the kernel do with calls of the host to its programs. There is no table before it leads one.
#[derive(Clone, Debug)]
pub struct HostRules {
    kept: PathBuf,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    table: Option<Table>,
    calls: Calls,
    /// The kernel may have others than those.
    is_unsure: bool,
    /// What the kernel says of the table, once it was asked.
    listed: Option<Vec<u8>>,
    is_over: bool,
}

/// What whoever runs the edge anew has to know of its table, as programs run on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Table {
    number: u32,
    redirects: Vec<Redirect>,
    /// Programs that it leads to, or did.
    led_to: BTreeSet<SocketAddrV4>,
}

impl HostRules {
    /// Keeps what it is in the file `kept`.
    #[must_use]
    pub fn new(kept: &Path) -> Self {
        HostRules {
            kept: kept.to_owned(),
            state: Arc::default(),
        }
    }

    /// Goes on with the table of an edge before this one, if it has left one.
    ///
    /// # Errors
    /// Of reading what is kept; `nft` is not here, or refuses.
    pub fn resume(&self) -> io::Result<()> {
        let table: Table = match fs::read(&self.kept) {
            Ok(text) => serde_json::from_slice(&text)
                .map_err(|error| io::Error::other(format!("{}: {error}", self.kept.display())))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut state = self.state();
        let table = state.table.insert(table).clone();
        state.is_unsure = true;
        if rules::listed(&table.name())?.is_none() {
            // The host was started anew, and no program of before runs.
            return self.delete(&mut state, &table);
        }
        rules::run(&table.script())?;
        state.is_unsure = false;
        state.calls.lead(table.calls());
        Ok(())
    }

    /// What the kernel leads now, or still does for an edge before this one.
    #[must_use]
    pub fn redirects(&self) -> Vec<Redirect> {
        let state = self.state();
        state
            .table
            .as_ref()
            .map_or_else(Vec::new, |table| table.redirects.clone())
    }

    /// Whether there is a table.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.state().table.is_some()
    }

    /// Has the kernel lead these calls of the host past their doors, and no others. Those that it leads already go on.
    ///
    /// # Errors
    /// The edge is not root; `nft` is not here, or refuses; of writing what is kept.
    pub fn lead(&self, redirects: Vec<Redirect>) -> io::Result<()> {
        let mut state = self.state();
        match state.is_over {
            true => Ok(()),
            false => self.set(&mut state, redirects),
        }
    }

    /// How long ago the last call was made that was led as it was made to one of these by this edge; `None`: none is
    /// known of.
    pub(super) fn last_call(&self, led: &Led) -> Option<Duration> {
        self.state().calls.last(led)
    }

    /// Has the kernel lead no call, and removes the table once none that it led goes on; whether there is none any
    /// more.
    ///
    /// # Errors
    /// As of [`HostRules::lead`], and of reading the kernel's list of connections.
    pub fn clear(&self) -> io::Result<bool> {
        self.remove(&mut self.state())
    }

    /// The same for good: nothing is led any more, whoever wants it.
    ///
    /// # Errors
    /// As of [`HostRules::clear`].
    pub fn stop(&self) -> io::Result<bool> {
        let mut state = self.state();
        state.is_over = true;
        self.remove(&mut state)
    }

    /// Has the kernel's rules be as they are to be; whether they were not.
    pub(super) fn mend(&self) -> io::Result<bool> {
        let mut state = self.state();
        let Some(table) = state.table.clone().filter(|_| !state.is_over) else {
            return Ok(false);
        };
        let now = rules::listed(&table.name())?;
        let is_changed = now.is_none() || state.listed.is_some() && now != state.listed;
        state.listed = match is_changed {
            true => {
                rules::run(&table.script())?;
                rules::listed(&table.name())?
            }
            false => now,
        };
        Ok(is_changed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, state: &mut State, redirects: Vec<Redirect>) -> io::Result<()> {
        match &state.table {
            Some(table) if table.redirects == redirects && !state.is_unsure => return Ok(()),
            None if redirects.is_empty() => return Ok(()),
            _ => {}
        }
        if !rustix::process::geteuid().is_root() {
            return Err(io::Error::other("the edge is not root, which rules of the kernel need"));
        }
        let mut table = match &state.table {
            Some(table) => table.clone(),
            None => state.table.insert(self.claim()?).clone(),
        };
        // Whoever runs the edge anew knows of each whom it may have led.
        let known = table.led_to.len();
        table.led_to.extend(redirects.iter().flat_map(|redirect| &redirect.to));
        if table.led_to.len() > known {
            self.keep(&table)?;
        }
        table.redirects = redirects;
        state.calls.keep(&table.calls());
        rules::run(&table.script())?;
        state.calls.lead(table.calls());
        (state.is_unsure, state.listed) = (false, None);
        // So it is, kept or not.
        state.table = Some(table.clone());
        self.keep(&table)
    }

    /// A table that no edge of this machine has, with nothing in it.
    fn claim(&self) -> io::Result<Table> {
        for _ in 0..CLAIMS_MAX {
            let table = Table {
                number: rand::random(),
                ..Table::default()
            };
            // First: whoever is killed in between leaves none that nobody knows of.
            self.keep(&table)?;
            match rules::run(&format!("create table {}\n", table.name())) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| table),
            }
        }
        Err(io::Error::other(format!(
            "{CLAIMS_MAX} tables of other edges are in the way"
        )))
    }

    fn remove(&self, state: &mut State) -> io::Result<bool> {
        self.set(state, Vec::new())?;
        let Some(table) = &state.table else {
            return Ok(true);
        };
        let led = Led {
            programs: table.led_to.clone(),
            ..Led::default()
        };
        if connections::led_to(&led)? == Use::Open {
            return Ok(false);
        }
        let table = table.clone();
        self.delete(state, &table).map(|()| true)
    }

    fn delete(&self, state: &mut State, table: &Table) -> io::Result<()> {
        let name = table.name();
        rules::run(&format!("add table {name}\ndelete table {name}\n"))?;
        *state = State {
            is_over: state.is_over,
            ..State::default()
        };
        fs::remove_file(&self.kept)
    }

    fn keep(&self, table: &Table) -> io::Result<()> {
        let new = self.kept.with_extension("host.new");
        fs::write(&new, serde_json::to_vec(table).expect("it is JSON"))?;
        fs::rename(&new, &self.kept)
    }
}

impl Table {
    /// Those of what it leads that are led as they are made.
    fn calls(&self) -> calls::Led {
        calls::of_redirects(&self.redirects, |ip| ip.is_loopback())
    }

    fn name(&self) -> String {
        format!("ip selvedge-host-{:08x}", self.number)
    }

    /// All of it, in place of what it was. A connection is led from its first packet on: where the kernel begins to
    /// follow one that goes on, that has come to a door.
    fn script(&self) -> String {
        let name = self.name();
        let others = Range::all();
        let led = self.redirects.iter();
        let led = lines(led.map(|redirect| format!("tcp flags & (syn | ack) == syn {}", leads(redirect, &others))));
        // What it led the kernel goes on to follow for as long as there is a rule that asks: else it would list those
        // that end as open for days.
        format!(
            "add table {name}
delete table {name}
table {name} {{
chain output {{
type nat hook output priority {PRIORITY}; policy accept;
{led}}}
chain following {{
type filter hook output priority filter; policy accept;
ct state new accept
}}
}}
"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redirect(port: u16) -> Redirect {
        Redirect {
            at: SocketAddrV4::new([0, 0, 0, 0].into(), port),
            tenant: None,
            to: vec![SocketAddrV4::new([127, 0, 0, 1].into(), port + 1)],
        }
    }

    #[test]
    fn each_edge_has_a_table_of_its_own_which_the_next_over_the_same_directory_takes_over() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        // SAFETY: the thread has descriptors of its own making alone, and ends with the test.
        unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET).unwrap() };
        let places = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let kept = places.each_ref().map(|place| place.path().join("containers.host"));
        let [one, other] = kept.each_ref().map(|kept| HostRules::new(kept));
        let name = |rules: &HostRules| rules.state().table.clone().unwrap().name();
        one.lead(Vec::new()).unwrap();
        assert!(!one.is_there() && !kept[0].exists());
        one.lead(vec![redirect(80)]).unwrap();
        other.lead(vec![redirect(90)]).unwrap();
        assert_ne!(name(&one), name(&other));

        let next = HostRules::new(&kept[0]);
        next.resume().unwrap();
        assert_eq!((name(&next), next.redirects()), (name(&one), vec![redirect(80)]));
        assert!(!next.mend().unwrap());
        rules::run(&format!("delete table {}\n", name(&next))).unwrap();
        assert!(next.mend().unwrap());
        let listed = String::from_utf8(rules::listed(&name(&next)).unwrap().unwrap()).unwrap();
        assert!(listed.contains("tcp dport 80 dnat"), "{listed}");

        let name_of_first = name(&next);
        assert!(next.clear().unwrap());
        assert!(rules::listed(&name_of_first).unwrap().is_none() && !kept[0].exists());
        assert!(rules::listed(&name(&other)).unwrap().is_some());
        assert!(other.stop().unwrap());
        other.lead(vec![redirect(90)]).unwrap();
        assert!(!other.is_there());
    }
}
