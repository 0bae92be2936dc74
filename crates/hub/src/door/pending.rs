//! Clients that are not in yet: those whose CONNECT has not all arrived, and those whose login waits to be checked. All
//! of them together are bounded, and who comes from one address cannot keep out who comes from another.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// All clients that are not in yet.
#[derive(Default)]
pub(super) struct Pending(Mutex<Clients>);

#[derive(Default)]
struct Clients {
    /// By number, so oldest first.
    all: BTreeMap<u64, Client>,
    next_number: u64,
    arriving: Counts,
    logging_in: Counts,
}

struct Client {
    origin: IpAddr,
    /// Ends it; `None` until that is known.
    handshake: Option<AbortHandle>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Arriving,
    LoggingIn,
}

/// How many clients there are, by where they come from.
#[derive(Default)]
struct Counts {
    by_origin: HashMap<IpAddr, usize>,
    total: usize,
}

/// A client's place among those that are not in yet, until it is dropped.
pub(super) struct Ticket {
    pending: Arc<Pending>,
    number: u64,
}

impl Pending {
    /// One more client from this address.
    pub(super) fn begin(self: &Arc<Self>, origin: IpAddr) -> Ticket {
        let number = self.clients().add(origin);
        Ticket {
            pending: Arc::clone(self),
            number,
        }
    }

    /// Notes how to end the client with this number, where `limit` may be there. Whether one was given up for it: of
    /// those whose CONNECT has not arrived the oldest, of the address that has the most.
    pub(super) fn watch(&self, number: u64, handshake: AbortHandle, limit: usize) -> bool {
        let mut clients = self.clients();
        if let Some(client) = clients.all.get_mut(&number) {
            client.handshake = Some(handshake);
        }
        clients.all.len() > limit && clients.give_up_one()
    }

    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The client comes from elsewhere than its connection, says the PROXY protocol.
    pub(super) fn comes_from(&self, origin: IpAddr) {
        self.pending
            .clients()
            .change(self.number, |client| client.origin = origin);
    }

    /// The CONNECT has arrived, and its login is to be checked: it is not given up for others any more. False where
    /// the address has as many of these as are left of `limit` for all (the dynamic thresholds of Choudhury and Hahne,
    /// 1998), so that there always is a place for another one.
    pub(super) fn logs_in(&self, limit: usize) -> bool {
        let mut clients = self.pending.clients();
        let Some(client) = clients.all.get(&self.number) else {
            return false;
        };
        let left = limit.saturating_sub(clients.logging_in.total);
        let may_wait = clients.logging_in.of(client.origin) < left;
        if may_wait {
            clients.change(self.number, |client| client.stage = Stage::LoggingIn);
        }
        may_wait
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.pending.clients().remove(self.number);
    }
}

impl Clients {
    fn add(&mut self, origin: IpAddr) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        let client = Client {
            origin,
            handshake: None,
            stage: Stage::Arriving,
        };
        self.insert(number, client);
        number
    }

    fn insert(&mut self, number: u64, client: Client) {
        self.counts(client.stage).add(client.origin);
        self.all.insert(number, client);
    }

    fn remove(&mut self, number: u64) -> Option<Client> {
        let client = self.all.remove(&number)?;
        self.counts(client.stage).remove(client.origin);
        Some(client)
    }

    fn change(&mut self, number: u64, change: impl FnOnce(&mut Client)) {
        if let Some(mut client) = self.remove(number) {
            change(&mut client);
            self.insert(number, client);
        }
    }

    fn counts(&mut self, stage: Stage) -> &mut Counts {
        match stage {
            Stage::Arriving => &mut self.arriving,
            Stage::LoggingIn => &mut self.logging_in,
        }
    }

    fn give_up_one(&mut self) -> bool {
        let most = self.arriving.by_origin.values().max().copied();
        let is_one_of_most =
            |client: &Client| client.stage == Stage::Arriving && Some(self.arriving.of(client.origin)) == most;
        let oldest = self.all.iter().find(|(_, client)| is_one_of_most(client));
        let Some(number) = oldest.map(|(number, _)| *number) else {
            return false;
        };
        let given_up = self.remove(number).and_then(|client| client.handshake);
        given_up.inspect(AbortHandle::abort).is_some()
    }
}

impl Counts {
    fn of(&self, origin: IpAddr) -> usize {
        self.by_origin.get(&origin).copied().unwrap_or_default()
    }

    fn add(&mut self, origin: IpAddr) {
        *self.by_origin.entry(origin).or_default() += 1;
        self.total += 1;
    }

    fn remove(&mut self, origin: IpAddr) {
        if let Some(count) = self.by_origin.get_mut(&origin) {
            *count -= 1;
            if *count == 0 {
                self.by_origin.remove(&origin);
            }
            self.total -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinHandle;

    use super::*;

    const LIMIT: usize = 10;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    /// A client that does not finish, and its task.
    fn come(pending: &Arc<Pending>, origin: IpAddr) -> (Ticket, JoinHandle<()>) {
        let ticket = pending.begin(origin);
        let task = tokio::spawn(std::future::pending());
        pending.watch(ticket.number(), task.abort_handle(), LIMIT);
        (ticket, task)
    }

    async fn is_given_up(task: JoinHandle<()>) -> bool {
        tokio::task::yield_now().await;
        task.is_finished()
    }

    #[tokio::test]
    async fn of_those_that_do_not_finish_the_oldest_of_the_address_with_most_is_given_up() {
        let pending = Arc::new(Pending::default());
        let (honest, honest_task) = come(&pending, address(1));
        let mut flood: Vec<_> = (0..30).map(|_| come(&pending, address(2))).collect();
        assert!(!is_given_up(honest_task).await);
        let (_, newest) = flood.pop().unwrap();
        let (_, oldest) = flood.swap_remove(0);
        assert!(!is_given_up(newest).await && is_given_up(oldest).await);
        drop((honest, flood));
        let clients = pending.clients();
        assert!(clients.all.is_empty() && clients.arriving.by_origin.is_empty());
    }

    #[tokio::test]
    async fn whose_login_waits_is_not_given_up_and_one_address_leaves_room_for_others() {
        let pending = Arc::new(Pending::default());
        let flood: Vec<_> = (0..LIMIT).map(|_| come(&pending, address(2))).collect();
        let waiting = flood.iter().filter(|(ticket, _)| ticket.logs_in(LIMIT)).count();
        assert_eq!(waiting, LIMIT / 2);
        let (honest, _) = come(&pending, address(1));
        assert!(honest.logs_in(LIMIT));
        for (ticket, task) in flood.into_iter().take(waiting) {
            assert!(!is_given_up(task).await);
            drop(ticket);
        }
        assert_eq!(pending.clients().logging_in.total, 1);
    }

    #[tokio::test]
    async fn behind_a_load_balancer_the_address_that_it_names_counts() {
        let pending = Arc::new(Pending::default());
        let balancer = address(9);
        let (honest, honest_task) = come(&pending, balancer);
        honest.comes_from(address(1));
        let _flood: Vec<_> = (0..30)
            .map(|_| {
                let client = come(&pending, balancer);
                client.0.comes_from(address(2));
                client
            })
            .collect();
        assert!(!is_given_up(honest_task).await);
    }
}
