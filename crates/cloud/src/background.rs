//! What a database has to write gives way to whoever is served: it has the core of a shard for itself else, for as long
//! as a time slice lasts, and live messages wait behind it.

use std::sync::mpsc;
use std::thread;

use tokio::sync::oneshot;

/// As the command `nice` counts: a ninth of the weight of other threads. Where nobody else wants a core it has all of
/// it.
const NICE: i32 = 10;

type Work = Box<dyn FnOnce() + Send>;

/// A thread for one thing after another; it ends with this.
pub(crate) struct Background(mpsc::SyncSender<Work>);

impl Background {
    /// Starts it.
    pub(crate) fn start(name: &str) -> Self {
        let (sender, works) = mpsc::sync_channel::<Work>(1);
        let run = move || {
            // Of the calling thread alone, on Linux; to give way is always allowed.
            let _ = rustix::process::setpriority_process(None, NICE);
            works.into_iter().for_each(|work| work());
        };
        let started = thread::Builder::new().name(name.to_owned()).spawn(run);
        started.expect("the process may have a thread more");
        Self(sender)
    }

    /// Does something there, and waits for it.
    pub(crate) async fn run<R: Send + 'static>(&mut self, work: impl FnOnce() -> R + Send + 'static) -> R {
        let (sender, result) = oneshot::channel();
        let work = move || {
            let _ = sender.send(work());
        };
        let sent = self.0.send(Box::new(work));
        sent.expect("nothing that it did panicked");
        result.await.expect("what it does does not panic")
    }
}
