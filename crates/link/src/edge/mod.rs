//! The edge's end of the link: carries what leaves the hub to the cloud, over one connection, for as long as the hub
//! runs.

mod allowance;
mod dial;
mod greeting;
mod life;
mod load;
mod packing;
mod pauses;
mod session;
mod status;
mod verdict;
mod window;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use hub::{Allowance, Fate, Hub, Outbox, Outgoing, Place, Settler, TwinChange};
use identity::{DEFAULT_TENANT, Identity};
use rand::Rng;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

pub use self::dial::{Proxies, ReadWrite, Stream, Target, WrongProxy, WrongTarget, connect};
use self::dial::{Ways, dial};
use self::greeting::{Greeted, log_in};
use self::load::Load;
use self::pauses::Pauses;
use self::session::{Ended, Session};
pub use self::status::{LinkStatus, State};
use crate::Talk;
use crate::devices::{Common, Follow};

/// Time for a connection to be made: name, TCP, proxy, TLS and WebSocket; and then for the answer to CONNECT.
const DIAL_TIMEOUT: Duration = Duration::from_secs(20);

/// Says where the link goes and as whom, or in words why that is not known. It is asked before each connection, so that
/// what has changed on disk since the one before is used: a password that was replaced, a certificate that was renewed.
pub type Way = Arc<dyn Fn() -> Result<Options, String> + Send + Sync>;

/// Where an edge's link goes, and as whom.
#[derive(Clone)]
pub struct Options {
    /// The other end.
    pub target: Target,
    /// What stands between.
    pub proxies: Proxies,
    /// The edge's name, in the cloud as in what it sends.
    pub edge: Arc<str>,
    /// User name and password or token; `None`: a client certificate in `tls`, or nothing.
    pub login: Option<Login>,
    /// Whom the link believes, and what it shows; for the schemes with TLS.
    pub tls: Arc<rustls::ClientConfig>,
}

/// What the edge logs in with.
#[derive(Clone)]
pub struct Login {
    /// As MQTT's.
    pub user_name: String,
    /// As MQTT's.
    pub password: Vec<u8>,
}

/// Speaks with a cloud of Selvedge about what it wants of this edge.
pub trait Correspondent: Send + Sync {
    /// There is a connection.
    fn begin(&self, talk: Talk);
}

/// What a link works with.
pub struct Parts {
    /// The edge's hub.
    pub hub: Arc<Hub>,
    /// What leaves it.
    pub outbox: Outbox,
    /// Which devices there are.
    pub identity: Arc<Identity>,
    /// Acts on what the cloud changes about them.
    pub follow: Follow,
    /// Told once the authority is another one that the cloud signs the certificates of devices with.
    pub new_authority: Arc<Notify>,
    /// Who speaks of manifests.
    pub manifests: Box<dyn Correspondent>,
    /// Where the link says how it is.
    pub status: Arc<LinkStatus>,
    /// Ends the connection or the pause of the moment: there is another way.
    pub redial: Arc<Notify>,
}

/// Runs the link until the hub ends.
pub async fn run(way: Way, parts: Parts) {
    let Parts {
        hub,
        outbox,
        identity,
        follow,
        new_authority,
        manifests,
        status,
        redial,
    } = parts;
    let settler = outbox.settler();
    let twin_changes = hub.take_twin_changes();
    let mut link = Link {
        instance: format!("{:016x}", rand::random::<u64>()),
        way,
        common: Common {
            hub: Arc::clone(&hub),
            identity,
            follow,
            figures: Arc::clone(status.devices()),
            new_authority,
        },
        hub,
        twin_changes,
        outbox,
        settler,
        load: Load::default(),
        term: 0,
        allowed: Allowance::default(),
        status,
        redial,
        manifests,
    };
    let mut pauses = Pauses::default();
    loop {
        let began = Instant::now();
        let ended;
        (link, ended) = match link.connect().await {
            Ok(greeted) => match serve(link, greeted).await {
                Some(back) => back,
                None => return,
            },
            Err(reason) => (link, Ended::Broken(reason)),
        };
        let is_cloud_stopping = match ended {
            Ended::HubStopped => return,
            Ended::CloudStopped(reason) => {
                link.status.broke(&reason);
                true
            }
            Ended::Broken(reason) => {
                link.status.broke(&reason);
                false
            }
        };
        link.put_back().await;
        let longest = pauses.next(began.elapsed(), is_cloud_stopping);
        // Full jitter: edges that lost their cloud at the same instant do not come back at the same instant.
        let pause = longest.mul_f64(rand::rng().random());
        if link.rest(pause).await.is_break() {
            return;
        }
    }
}

/// Carries messages and calls over a connection until it ends, on the loop of the shard that most edges have most
/// devices on. `None`: that has ended.
async fn serve(mut link: Link, greeted: Greeted) -> Option<(Link, Ended)> {
    let hub = Arc::clone(&link.hub);
    let start = move |place: Place| async move {
        let ended = match Session::new(greeted, &place) {
            Ok(session) => session.serve(&mut link, &place).await,
            Err(error) => Ended::Broken(error.to_string()),
        };
        (link, ended)
    };
    hub.run_on_shard(DEFAULT_TENANT, start).await
}

/// All that lasts longer than a connection.
struct Link {
    /// Tells this start of the edge from all others, and from its copies.
    instance: String,
    way: Way,
    hub: Arc<Hub>,
    /// For what is told of devices.
    common: Common,
    outbox: Outbox,
    /// Which twins are changed here; `None`: nobody is told.
    twin_changes: Option<mpsc::Receiver<TwinChange>>,
    settler: Settler,
    load: Load,
    /// Number of the connection: see [`Settler::allow`].
    term: u32,
    /// What the hub was told.
    allowed: Allowance,
    status: Arc<LinkStatus>,
    redial: Arc<Notify>,
    /// Who speaks of manifests.
    manifests: Box<dyn Correspondent>,
}

impl Link {
    async fn connect(&self) -> Result<Greeted, String> {
        self.status.set(State::Connecting);
        let way = Arc::clone(&self.way);
        let options = tokio::task::spawn_blocking(move || way()).await;
        let options = options.expect("looking for the way does not panic")?;
        self.status.goes_to(&options.target);
        let ways = Ways {
            target: &options.target,
            proxies: &options.proxies,
            tls: &options.tls,
        };
        let stream = dial(&ways, DIAL_TIMEOUT).await.map_err(|error| error.to_string())?;
        let greeted = log_in(stream, &options, &self.instance, DIAL_TIMEOUT).await?;
        self.status.set(State::Connected);
        Ok(greeted)
    }

    /// Tells the hub how much it may send where messages of so many bytes may be on the way.
    async fn allow(&mut self, window_bytes: f64) {
        let allowance = allowance::of_window(window_bytes as u64, self.settler.shards());
        if allowance::differs(self.allowed, allowance) {
            self.allowed = allowance;
            self.settler.allow(self.term, allowance).await;
        }
    }

    /// Messages that left; those of an earlier connection's go back.
    async fn take(&mut self, messages: Vec<Outgoing>) {
        let is_now = |message: &Outgoing| message.term == self.term;
        let (now, before): (Vec<_>, Vec<_>) = messages.into_iter().partition(is_now);
        now.into_iter().for_each(|message| self.load.push(message));
        self.give_back(before).await;
    }

    /// Without a connection all that waits is in the log, where bounds and ages are looked at.
    async fn put_back(&mut self) {
        self.term = self.term.wrapping_add(1);
        self.allowed = Allowance::default();
        self.settler.allow(self.term, self.allowed).await;
        let messages = self.load.take_all();
        self.give_back(messages).await;
    }

    async fn give_back(&self, messages: Vec<Outgoing>) {
        if !messages.is_empty() {
            let unsent = messages.iter().map(|message| message.settled(Fate::Unsent));
            self.settler.settle(unsent).await;
        }
    }

    /// Waits; ends early with the hub, and where there is another way.
    async fn rest(&mut self, pause: Duration) -> ControlFlow<()> {
        let over = Instant::now() + pause;
        loop {
            tokio::select! {
                messages = self.outbox.next() => match messages {
                    Some(messages) => self.give_back(messages).await,
                    None => return ControlFlow::Break(()),
                },
                () = self.redial.notified() => return ControlFlow::Continue(()),
                () = tokio::time::sleep_until(over) => return ControlFlow::Continue(()),
            }
        }
    }
}
