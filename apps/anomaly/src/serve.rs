//! The application: readings in, verdicts out, one at a time and in order.

use std::collections::VecDeque;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mqtt::QoS;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::hub::{Connection, Error, Event, Given, READINGS_AT_ONCE, Unsettled};
use crate::loader::{Loaded, Loader};
use crate::model::Model;
use crate::predictor::{Failure, Predictor};
use crate::reading::{Mismatch, Reading, Reason, parse};
use crate::settings::Settings;
use crate::status::{Status, log};
use crate::windows::{Taken, Windows};

/// Before the hub is asked again; each time twice as long.
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// At the end, for acknowledgements that are under way.
const FAREWELL: Duration = Duration::from_secs(2);
/// Times that a model is tried again whose process has ended or was late, without as many good predictions between.
const TRIES: u32 = 2;
const GOOD_PREDICTIONS: u32 = 1_000;

/// What is said of a reading.
#[derive(Serialize)]
struct Verdict<'a> {
    device: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<&'a Value>,
    score: f32,
    verdict: &'static str,
    model: String,
    predict_us: f32,
}

/// What says which model is to run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    model: String,
}

/// A reading as it came.
struct Message {
    topic: String,
    payload: Vec<u8>,
    given: Option<Given>,
}

/// What a message comes to.
enum Outcome {
    Verdict(Vec<u8>),
    Nothing,
    /// There is no model.
    Waits,
}

/// All of it.
struct Serve {
    settings: Settings,
    unsettled: Unsettled,
    connection: Option<Connection>,
    /// When the hub is asked again, and after what.
    retry: (Instant, Duration),
    /// Readings that wait for a model.
    waiting: VecDeque<Message>,
    loader: Loader,
    wanted: Option<String>,
    running: Option<Predictor>,
    /// Failures of what runs, and good predictions since the last.
    failures: u32,
    good: u32,
    /// What ran before.
    earlier: Option<Arc<Model>>,
    windows: Windows,
    status: Status,
}

/// Runs until it is told to end.
///
/// # Errors
/// It cannot begin.
pub(crate) fn run(settings: Settings) -> std::io::Result<()> {
    let (mut bell, rings) = UnixStream::pair()?;
    bell.set_nonblocking(true)?;
    let (signals, signalled) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT] {
        signal_hook::low_level::pipe::register(signal, signalled.try_clone()?)?;
    }
    let loader = Loader::start(settings.registries.clone(), settings.limits, rings)?;
    let mut serve = Serve::new(settings, loader);
    loop {
        let (is_rung, is_over, is_spoken_to) = serve.wait(&bell, &signals)?;
        if is_over {
            serve.end();
            return Ok(());
        }
        if is_rung {
            let _ = bell.read(&mut [0; 16]);
            serve.take_loaded();
        }
        serve.turn(is_spoken_to, Instant::now());
    }
}

impl Serve {
    fn new(settings: Settings, loader: Loader) -> Self {
        let windows = Windows::new(settings.devices_max);
        Serve {
            settings,
            unsettled: Unsettled::default(),
            connection: None,
            retry: (Instant::now(), PAUSE),
            waiting: VecDeque::new(),
            loader,
            wanted: None,
            running: None,
            failures: 0,
            good: 0,
            earlier: None,
            windows,
            status: Status::default(),
        }
    }

    /// Whether something was loaded, it is over, the hub says something.
    fn wait(&self, bell: &UnixStream, signals: &UnixStream) -> std::io::Result<(bool, bool, bool)> {
        let mut fds = vec![PollFd::new(bell, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
        let now = Instant::now();
        let due = match &self.connection {
            None => Some(self.retry.0),
            Some(connection) => {
                let mut flags = PollFlags::IN;
                flags.set(PollFlags::OUT, connection.wants_to_write());
                fds.push(PollFd::from_borrowed_fd(connection.fd(), flags));
                let told = self.status.due(now).filter(|_| self.unsettled.has_room());
                told.into_iter().chain([connection.due()]).min()
            }
        };
        let patience = due.map(|due| due.saturating_duration_since(now));
        let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
        match poll(&mut fds, patience.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
        Ok((is_ready(0), is_ready(1), is_ready(2)))
    }

    /// Does what is to be done now.
    fn turn(&mut self, is_spoken_to: bool, now: Instant) {
        if self.connection.is_none() && self.retry.0 <= now {
            self.connect(now);
        }
        let done = self.speak(is_spoken_to, now);
        if let Err(error) = done {
            self.break_off(&error, now);
        }
    }

    fn connect(&mut self, now: Instant) {
        let topics = &self.settings.topics;
        let filters = [(&*topics.model, QoS::AtMostOnce), (&*topics.readings, QoS::AtLeastOnce)];
        match Connection::open(&self.settings.login, &mut self.unsettled, filters, now) {
            Ok(connection) => self.connection = Some(connection),
            Err(error) => self.break_off(&error, now),
        }
    }

    fn break_off(&mut self, error: &Error, now: Instant) {
        let pause = if matches!(error, Error::TakenOver) {
            PAUSE_MAX
        } else {
            self.retry.1
        };
        log(&format!(
            "the hub at {}: {error}; asked again in {} ms",
            self.settings.login.address,
            pause.as_millis()
        ));
        self.connection = None;
        self.retry = (now + pause, (pause * 2).min(PAUSE_MAX));
    }

    fn speak(&mut self, is_spoken_to: bool, now: Instant) -> Result<(), Error> {
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        let (events, received) = match is_spoken_to {
            true => connection.receive(&mut self.unsettled),
            false => (Vec::new(), Ok(())),
        };
        // What has come does not come again over another connection.
        let handled = events
            .into_iter()
            .map(|event| self.handle(event))
            .fold(Ok(()), Result::and);
        received.and(handled)?;
        self.tell(now);
        self.flush(now)
    }

    fn flush(&mut self, now: Instant) -> Result<(), Error> {
        self.connection
            .as_mut()
            .map_or(Ok(()), |connection| connection.turn(now))
    }

    fn handle(&mut self, event: Event) -> Result<(), Error> {
        match event {
            Event::Subscribed => {
                self.retry.1 = PAUSE;
                if self.wanted.is_none() {
                    self.want_first();
                }
                Ok(())
            }
            Event::Message {
                topic,
                payload,
                is_retained,
                ..
            } if topic == self.settings.topics.model => {
                self.wish(&payload, is_retained);
                Ok(())
            }
            Event::Message {
                topic, payload, given, ..
            } => {
                self.reading(Message { topic, payload, given });
                self.flush(Instant::now())
            }
        }
    }

    /// Which model is to run, as somebody says.
    fn wish(&mut self, payload: &[u8], is_retained: bool) {
        if payload.is_empty() {
            return self.want_first();
        }
        match serde_json::from_slice::<Wish>(payload) {
            Ok(wish) if is_retained && self.wanted.as_ref() == Some(&wish.model) => {}
            Ok(wish) => self.want(wish.model),
            Err(error) => {
                let reason = format!("{error}; it is to be {{\"model\": \"registry:port/models/name:version\"}}");
                self.status
                    .refuses_model(&String::from_utf8_lossy(&payload[..payload.len().min(200)]), &reason);
            }
        }
    }

    /// The model of the settings.
    fn want_first(&mut self) {
        match self.settings.model.clone() {
            Some(model) => self.want(model),
            None if self.running.is_some() => {}
            None => {
                self.status.stands();
                log(&format!(
                    "there is no model: name one by ANOMALY_MODEL, or by a retained message on {}",
                    self.settings.topics.model
                ));
            }
        }
    }

    fn want(&mut self, model: String) {
        self.status.loads(Some(&model));
        self.loader.want(&model);
        self.wanted = Some(model);
    }

    /// What has been loaded takes the place of what runs, between two readings.
    fn take_loaded(&mut self) {
        while let Some(Loaded { reference, outcome }) = self.loader.take() {
            // Another one has been asked for since.
            if self.wanted.as_ref() != Some(&reference) {
                continue;
            }
            match outcome {
                Ok(predictor) => self.put_to_work(predictor),
                Err(refusal) => {
                    self.status.loads(refusal.is_passing.then_some(&*reference));
                    self.status.refuses_model(&reference, &refusal.reason);
                    if !refusal.is_passing && self.running.is_none() && self.settings.model.as_ref() != Some(&reference)
                    {
                        self.want_first();
                    }
                }
            }
        }
    }

    fn put_to_work(&mut self, predictor: Predictor) {
        self.status.loads(None);
        let before = self.running.as_ref().map(|running| Arc::clone(&running.model));
        self.run(predictor);
        self.earlier = before;
        self.take_up();
    }

    fn run(&mut self, predictor: Predictor) {
        self.status.runs(&predictor.model);
        self.windows.fit(&predictor.model.description);
        self.running = Some(predictor);
        (self.failures, self.good) = (0, 0);
    }

    /// Readings that have waited.
    fn take_up(&mut self) {
        for message in std::mem::take(&mut self.waiting) {
            self.reading(message);
        }
    }

    /// From a reading to what is said of it.
    fn reading(&mut self, message: Message) {
        if message.given.is_none() && !self.unsettled.has_room() {
            self.status.counts.dropped += 1;
            return self.status.counted();
        }
        let outcome = match self.waiting.is_empty() {
            true => self.judge(&message),
            false => Outcome::Waits,
        };
        match outcome {
            Outcome::Waits => return self.hold(message),
            Outcome::Verdict(verdict) => self.say(&message, verdict),
            Outcome::Nothing => self.pass_over(message.given),
        }
        self.count();
    }

    /// A reading waits for a model. The hub gives so many and no more at QoS 1.
    fn hold(&mut self, message: Message) {
        if message.given.is_none() && self.waiting.len() >= usize::from(READINGS_AT_ONCE) {
            self.status.counts.dropped += 1;
            return self.status.counted();
        }
        self.waiting.push_back(message);
    }

    fn say(&mut self, message: &Message, verdict: Vec<u8>) {
        let device = self.settings.topics.device(&message.topic).unwrap_or_default();
        let topic = format!("{}/{device}", self.settings.topics.verdicts);
        self.status.counts.verdicts += 1;
        self.publish(topic, verdict, false, message.given);
    }

    fn publish(&mut self, topic: String, payload: Vec<u8>, retain: bool, of: Option<Given>) {
        self.unsettled
            .publish(self.connection.as_mut(), topic, payload, retain, of);
    }

    fn pass_over(&mut self, given: Option<Given>) {
        if let Some(given) = given {
            self.unsettled.acknowledge(self.connection.as_mut(), given);
        }
    }

    fn count(&mut self) {
        let counts = &mut self.status.counts;
        counts.readings += 1;
        counts.devices = self.windows.devices();
        counts.devices_forgotten = self.windows.forgotten;
        counts.gaps = self.windows.gaps;
        self.status.counted();
    }

    /// What a reading comes to with what runs; where that fails, with what runs then.
    fn judge(&mut self, message: &Message) -> Outcome {
        while let Some(running) = &self.running {
            let model = Arc::clone(&running.model);
            let device = self.settings.topics.device(&message.topic);
            let judged = match device {
                Some(device) => self.judge_with(&model, device, &message.payload),
                None => Ok(Err(no_device(&message.topic, &self.settings.topics.readings))),
            };
            match judged {
                Ok(Ok(outcome)) => return outcome,
                Ok(Err(mismatch)) => {
                    self.status.refuses_reading(device.unwrap_or(&message.topic), mismatch);
                    return Outcome::Nothing;
                }
                Err(failure) => self.recover(&failure),
            }
        }
        Outcome::Waits
    }

    /// What one model says of a reading, or why that does not fit.
    fn judge_with(
        &mut self,
        model: &Model,
        device: &str,
        payload: &[u8],
    ) -> Result<Result<Outcome, Mismatch>, Failure> {
        let description = &model.description;
        let reading = match parse(payload, description) {
            Ok(reading) => reading,
            Err(mismatch) => return Ok(Err(mismatch)),
        };
        let outcome = match self.windows.with(device, &reading, description) {
            Ok(Taken::Filling) => {
                self.status.counts.filling += 1;
                Ok(Outcome::Nothing)
            }
            Ok(Taken::Window(window)) => Ok(Outcome::Verdict(self.verdict(model, device, &reading, &window)?)),
            Err(mismatch) if mismatch.reason == Reason::OutOfOrder => return Ok(Err(mismatch)),
            Err(mismatch) => Err(mismatch),
        };
        self.windows.keep(device, reading, description);
        Ok(outcome)
    }

    fn verdict(&mut self, model: &Model, device: &str, reading: &Reading, window: &[f32]) -> Result<Vec<u8>, Failure> {
        let Some(running) = &mut self.running else {
            return Ok(Vec::new());
        };
        let score = running.score(window)?;
        self.good = self.good.saturating_add(1);
        let is_anomalous = score.score > model.description.threshold;
        let verdict = Verdict {
            device,
            time: reading.time.as_ref(),
            score: score.score,
            verdict: if is_anomalous { "anomalous" } else { "normal" },
            model: model.description.label(),
            predict_us: score.predict_us,
        };
        serde_json::to_vec(&verdict).map_err(|error| Failure::Refused(error.to_string()))
    }

    /// What runs has failed: it is started again a few times, and then given up for what ran before.
    fn recover(&mut self, failure: &Failure) {
        let Some(failed) = self.running.take() else { return };
        let model = Arc::clone(&failed.model);
        drop(failed);
        self.failures = if self.good >= GOOD_PREDICTIONS {
            1
        } else {
            self.failures + 1
        };
        self.good = 0;
        log(&format!("model {}: {failure}", model.description.label()));
        let mut reason = failure.to_string();
        if self.failures <= TRIES {
            self.status.counts.restarts += 1;
            match Predictor::start(Arc::clone(&model), self.settings.limits) {
                Ok(predictor) => return self.running = Some(predictor),
                Err(failure) => reason = failure.to_string(),
            }
        }
        self.status
            .refuses_model(&model.reference, &format!("it was given up: {reason}"));
        self.fall_back();
    }

    fn fall_back(&mut self) {
        self.status.stands();
        let Some(earlier) = self.earlier.take() else { return };
        match Predictor::start(Arc::clone(&earlier), self.settings.limits) {
            Ok(predictor) => self.run(predictor),
            Err(failure) => self.status.refuses_model(&earlier.reference, &failure.to_string()),
        }
    }

    /// What is so now.
    fn tell(&mut self, now: Instant) {
        if self.connection.is_some()
            && self.unsettled.has_room()
            && let Some(status) = self.status.tell(now)
        {
            let topic = self.settings.topics.status.clone();
            self.publish(topic, status, true, None);
        }
    }

    /// Waits for what is under way, so that nothing comes again that was said.
    fn end(mut self) {
        let until = Instant::now() + FAREWELL;
        while let Some(connection) = &mut self.connection {
            let now = Instant::now();
            if self.unsettled.is_settled() || now >= until || connection.turn(now).is_err() {
                break;
            }
            let patience = Timespec::try_from(until - now).ok();
            let _ = poll(
                &mut [PollFd::from_borrowed_fd(connection.fd(), PollFlags::IN)],
                patience.as_ref(),
            );
            // What comes now comes again.
            if connection.receive(&mut self.unsettled).1.is_err() {
                break;
            }
        }
        if let Some(connection) = self.connection {
            connection.close();
        }
    }
}

fn no_device(topic: &str, readings: &str) -> Mismatch {
    Mismatch::new(Reason::NoDevice, None, topic, format!("a topic of {readings}"))
}
