//! What goes into the database, told to those who watch while it goes in.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::query::StoredPoint;
use crate::value::Value;

/// Watchers of one tenant at a time.
pub const MAX_WATCHERS_OF_TENANT: usize = 16;
/// Watchers of all tenants.
pub const MAX_WATCHERS: usize = 128;

/// Points that wait for one watcher, and about how many bytes they take. At either bound the oldest go, and are
/// counted.
const MAX_WAITING: usize = 1_024;
const MAX_WAITING_BYTES: usize = 1 << 20;
/// What a point takes beside its names and value.
const POINT_BYTES: usize = 200;

/// Which points are watched: those of a tenant, of one of its devices, of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Whose.
    pub tenant: String,
    /// The device; `None`: all.
    pub device: Option<String>,
    /// The stream; `None`: all.
    pub stream: Option<String>,
}

impl Filter {
    fn admits(&self, told: &Told) -> bool {
        let is = |wanted: &Option<String>, name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
        self.tenant == told.tenant && is(&self.device, &told.stored.device) && is(&self.stream, &told.stored.stream)
    }
}

/// A point as it is told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) tenant: String,
    pub(crate) stored: StoredPoint,
}

impl Told {
    fn bytes(&self) -> usize {
        let value = match &self.stored.point.value {
            Value::Number(_) | Value::Boolean(_) => 0,
            Value::Decimal(text) | Value::Text(text) | Value::Json(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
        };
        POINT_BYTES + self.tenant.len() + self.stored.device.len() + self.stored.stream.len() + value
    }
}

/// What a watcher learns.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// A point.
    Point(Arc<StoredPoint>),
    /// So many points came faster than they were taken, and are not told.
    Lost(u64),
}

/// As many watch as may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("as many watch as may: {MAX_WATCHERS_OF_TENANT} of a tenant, {MAX_WATCHERS} of all")]
pub struct TooMany;

/// Tells points to watchers; clones are one. What nobody watches costs a look at a number.
#[derive(Clone, Debug, Default)]
pub struct Feed(Arc<Watchers>);

#[derive(Debug, Default)]
struct Watchers {
    waiting: Mutex<Vec<Arc<Waiting>>>,
    /// Whether there are any, for those who look often.
    are_there: Arc<AtomicBool>,
    begun: Notify,
}

/// What waits for one watcher.
#[derive(Debug)]
struct Waiting {
    filter: Filter,
    queue: Mutex<Queue>,
    bell: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    points: VecDeque<(Arc<StoredPoint>, usize)>,
    bytes: usize,
    lost: u64,
}

impl Feed {
    /// Watches from now on, until it is dropped.
    ///
    /// # Errors
    /// [`TooMany`]: of the tenant [`MAX_WATCHERS_OF_TENANT`], or [`MAX_WATCHERS`] of all.
    pub fn watch(&self, filter: Filter) -> Result<Watch, TooMany> {
        let mut watchers = self.watchers();
        let of_tenant = watchers.iter().filter(|one| one.filter.tenant == filter.tenant);
        if of_tenant.count() >= MAX_WATCHERS_OF_TENANT || watchers.len() >= MAX_WATCHERS {
            return Err(TooMany);
        }
        let waiting = Arc::new(Waiting {
            filter,
            queue: Mutex::default(),
            bell: Notify::new(),
        });
        watchers.push(Arc::clone(&waiting));
        self.0.are_there.store(true, Ordering::Relaxed);
        self.0.begun.notify_waiters();
        Ok(Watch {
            feed: self.clone(),
            waiting,
        })
    }

    /// How many watch.
    pub fn count(&self) -> usize {
        self.watchers().len()
    }

    /// Whether anybody watches: true from before [`Feed::watch`] returns.
    pub fn is_watched(&self) -> bool {
        self.0.are_there.load(Ordering::Relaxed)
    }

    /// The same, for who looks at it with every message.
    pub fn watched_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0.are_there)
    }

    /// Waits until somebody watches.
    pub async fn watched(&self) {
        while !self.is_watched() {
            let begun = self.0.begun.notified();
            // One who began meanwhile has not been told of yet.
            if !self.is_watched() {
                begun.await;
            }
        }
    }

    /// Tells points, in their order; they are made where anybody watches.
    pub(crate) fn tell(&self, points: impl FnOnce() -> Vec<Told>) {
        let watchers = self.watchers();
        if watchers.is_empty() {
            return;
        }
        for told in points() {
            let bytes = told.bytes();
            let mut admitting = watchers.iter().filter(|one| one.filter.admits(&told)).peekable();
            if admitting.peek().is_none() {
                continue;
            }
            let stored = Arc::new(told.stored.clone());
            admitting.for_each(|one| one.push(&stored, bytes));
        }
    }

    fn watchers(&self) -> MutexGuard<'_, Vec<Arc<Waiting>>> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn push(&self, stored: &Arc<StoredPoint>, bytes: usize) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.points.push_back((Arc::clone(stored), bytes));
        queue.bytes += bytes;
        while queue.points.len() > MAX_WAITING || queue.bytes > MAX_WAITING_BYTES && queue.points.len() > 1 {
            let Some((_, bytes)) = queue.points.pop_front() else {
                break;
            };
            queue.bytes -= bytes;
            queue.lost += 1;
        }
        drop(queue);
        self.bell.notify_one();
    }

    fn pop(&self) -> Option<Seen> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.lost > 0 {
            return Some(Seen::Lost(std::mem::take(&mut queue.lost)));
        }
        let (stored, bytes) = queue.points.pop_front()?;
        queue.bytes -= bytes;
        Some(Seen::Point(stored))
    }
}

/// Sees what goes in.
#[derive(Debug)]
pub struct Watch {
    feed: Feed,
    waiting: Arc<Waiting>,
}

impl Watch {
    /// The next that is to be told; how many were lost stands where they would have. May be given up at any await.
    pub async fn next(&mut self) -> Seen {
        loop {
            if let Some(seen) = self.waiting.pop() {
                return seen;
            }
            self.waiting.bell.notified().await;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watchers = self.feed.watchers();
        watchers.retain(|one| !Arc::ptr_eq(one, &self.waiting));
        self.feed.0.are_there.store(!watchers.is_empty(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Point;
    use crate::reading::Origin;

    fn told(tenant: &str, device: &str, stream: &str, number: u64) -> Told {
        Told {
            tenant: tenant.to_owned(),
            stored: StoredPoint {
                device: device.to_owned(),
                stream: stream.to_owned(),
                point: Point {
                    source_time_ms: 0,
                    received_at_ms: 0,
                    value: Value::Number(number as f64),
                    quality: None,
                    origin: Origin::new("hall-1".into(), 2, number).unwrap(),
                },
                cursor: None,
            },
        }
    }

    fn filter(device: Option<&str>, stream: Option<&str>) -> Filter {
        Filter {
            tenant: "acme".to_owned(),
            device: device.map(str::to_owned),
            stream: stream.map(str::to_owned),
        }
    }

    /// All that waits: numbers of points, and how many were lost before them.
    fn taken(watch: &Watch) -> (u64, Vec<u64>) {
        let (mut lost, mut numbers) = (0, Vec::new());
        while let Some(seen) = watch.waiting.pop() {
            match seen {
                Seen::Lost(count) => lost += count,
                Seen::Point(stored) => numbers.push(stored.point.origin.sequence()),
            }
        }
        (lost, numbers)
    }

    #[test]
    fn a_watcher_sees_what_its_filter_admits_and_nothing_of_another_tenant() {
        let feed = Feed::default();
        let all = feed.watch(filter(None, None)).unwrap();
        let one = feed.watch(filter(Some("p7"), Some("t"))).unwrap();
        let points = [
            ("acme", "p7", "t"),
            ("acme", "p7", "u"),
            ("acme", "p8", "t"),
            ("beta", "p7", "t"),
        ];
        let numbered = points.into_iter().zip(0..);
        let numbered = numbered.map(|((tenant, device, stream), number)| told(tenant, device, stream, number));
        feed.tell(|| numbered.collect());
        assert_eq!(taken(&all), (0, vec![0, 1, 2]));
        assert_eq!(taken(&one), (0, vec![0]));
    }

    #[test]
    fn a_slow_watcher_loses_the_oldest_and_is_told_how_many() {
        let feed = Feed::default();
        let watch = feed.watch(filter(None, None)).unwrap();
        let numbers = 0..MAX_WAITING as u64 + 3;
        feed.tell(|| numbers.map(|number| told("acme", "p7", "t", number)).collect());
        let (lost, numbers) = taken(&watch);
        assert_eq!((lost, numbers.len(), numbers[0]), (3, MAX_WAITING, 3));
        assert_eq!(watch.waiting.queue.lock().unwrap().bytes, 0);
    }

    #[test]
    fn what_waits_is_bounded_in_bytes_and_the_newest_stays() {
        let feed = Feed::default();
        let watch = feed.watch(filter(None, None)).unwrap();
        let long = |number| {
            let mut told = told("acme", "p7", "t", number);
            told.stored.point.value = Value::Text("x".repeat(MAX_WAITING_BYTES / 2).into());
            told
        };
        feed.tell(|| (0..10).map(long).collect());
        assert_eq!(taken(&watch), (9, vec![9]));
    }

    #[test]
    fn watchers_are_bounded_for_each_tenant_and_leave_nothing_behind() {
        let feed = Feed::default();
        let watches: Vec<_> = (0..MAX_WATCHERS_OF_TENANT)
            .map(|_| feed.watch(filter(None, None)).unwrap())
            .collect();
        assert!(feed.watch(filter(None, None)).is_err());
        let other = Filter {
            tenant: "beta".to_owned(),
            ..filter(None, None)
        };
        let other = feed.watch(other).unwrap();
        assert!(feed.is_watched());
        drop((watches, other));
        assert!(!feed.is_watched() && feed.watchers().is_empty());
    }
}
