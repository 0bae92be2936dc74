//! A model at work in a process of its own, which is ended when it is late.
//!
//! A window goes to it as its values, little-endian singles, as many as the description says. What comes back is a byte
//! that says what it is, the length of the rest, and that: a score and the microseconds that it took, or a complaint.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::model::Model;

/// What follows is the answer to a window, or nothing where the model was loaded.
pub(crate) const ANSWER: u8 = 0;
/// What follows is a text.
pub(crate) const COMPLAINT: u8 = 1;
/// Of an answer.
const ANSWER_BYTES_MAX: usize = 4 << 10;
/// A model is read, checked and made ready in as many times what it has for a prediction, and then tried in as many.
const LOADING: u32 = 10;
/// Of what a process says as it dies.
const LAST_WORDS_BYTES: u64 = 1 << 10;

/// What a model may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// For one window.
    pub deadline: Duration,
    /// Of memory, for the model and all that it computes.
    pub memory_bytes: u64,
}

/// Why there is no score.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// It took too long.
    #[error("{what} took more than {} ms, so it was stopped", .deadline.as_millis())]
    Late {
        /// Loading, or a prediction.
        what: &'static str,
        /// The time that it had.
        deadline: Duration,
    },
    /// It asked for too much.
    #[error("it needs more than the {} MiB of memory that it may have, so it was stopped ({words})", .memory_bytes >> 20)]
    Memory {
        /// What it could have had.
        memory_bytes: u64,
        /// What it said.
        words: String,
    },
    /// Its process ended.
    #[error("its process ended: {status} ({words})")]
    Died {
        /// How.
        status: ExitStatus,
        /// What it said.
        words: String,
    },
    /// It says so itself.
    #[error("{0}")]
    Refused(String),
    /// No process can be started, or talked to.
    #[error("its process cannot be worked with: {0}")]
    Io(#[from] io::Error),
}

/// What a model says of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Score {
    /// The larger, the less it looks like what the model was trained on.
    pub score: f32,
    /// The prediction alone.
    pub predict_us: f32,
}

/// A model at work.
#[derive(Debug)]
pub(crate) struct Predictor {
    /// Which.
    pub model: Arc<Model>,
    limits: Limits,
    process: Child,
    socket: UnixStream,
}

impl Predictor {
    /// Loads a model in a process of its own and tries it.
    ///
    /// The process ends with the thread that calls this.
    ///
    /// # Errors
    /// It cannot be used.
    pub(crate) fn start(model: Arc<Model>, limits: Limits) -> Result<Self, Failure> {
        let (socket, theirs) = UnixStream::pair()?;
        let description = &model.description;
        let process = Command::new("/proc/self/exe")
            .arg("worker")
            .arg(description.window_readings.to_string())
            .arg(description.features.len().to_string())
            .arg(description.opset.to_string())
            .arg(limits.memory_bytes.to_string())
            .env_clear()
            .env("RTEN_NUM_THREADS", "1")
            .stdin(Stdio::from(File::try_clone(&model.onnx)?))
            .stdout(Stdio::from(OwnedFd::from(theirs)))
            .stderr(Stdio::piped())
            .spawn()?;
        let mut predictor = Predictor {
            model,
            limits,
            process,
            socket,
        };
        let deadline = limits.deadline * LOADING;
        predictor.answer("loading it", deadline)?;
        let middle = predictor.middle();
        predictor.ask(&middle, "a first prediction", deadline)?;
        predictor.score(&middle)?;
        Ok(predictor)
    }

    /// Score of a window.
    ///
    /// # Errors
    /// There is none, and the process is gone.
    pub(crate) fn score(&mut self, window: &[f32]) -> Result<Score, Failure> {
        self.ask(window, "a prediction", self.limits.deadline)
    }

    /// A window of what lies in the middle of each feature's range.
    fn middle(&self) -> Vec<f32> {
        let description = &self.model.description;
        #[expect(clippy::cast_possible_truncation, reason = "models take single precision")]
        let reading = description
            .ranges
            .iter()
            .map(|[low, high]| f64::midpoint(*low, *high) as f32);
        reading.cycle().take(description.window_values()).collect()
    }

    fn ask(&mut self, window: &[f32], what: &'static str, deadline: Duration) -> Result<Score, Failure> {
        let bytes: Vec<u8> = window.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.socket.set_write_timeout(Some(deadline))?;
        if let Err(error) = self.socket.write_all(&bytes) {
            return Err(self.failure(&error, what, deadline));
        }
        let answer = self.answer(what, deadline)?;
        let Some((score, predict_us)) = answer.split_at_checked(4) else {
            return Err(Failure::Refused("it answered too little".into()));
        };
        let single = |bytes: &[u8]| bytes.try_into().map(f32::from_le_bytes).unwrap_or(f32::NAN);
        let score = single(score);
        if !score.is_finite() {
            return Err(Failure::Refused(format!(
                "its score is {score}; a score is a finite number"
            )));
        }
        Ok(Score {
            score,
            predict_us: single(predict_us),
        })
    }

    fn answer(&mut self, what: &'static str, deadline: Duration) -> Result<Vec<u8>, Failure> {
        let answer = self.read_answer(Instant::now() + deadline);
        match answer {
            Ok((ANSWER, answer)) => Ok(answer),
            Ok((_, complaint)) => Err(Failure::Refused(String::from_utf8_lossy(&complaint).into_owned())),
            Err(error) => Err(self.failure(&error, what, deadline)),
        }
    }

    fn read_answer(&mut self, until: Instant) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.read_exact(&mut head, until)?;
        let [kind, length @ ..] = head;
        let length = u32::from_le_bytes(length) as usize;
        if length > ANSWER_BYTES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("an answer of {length} bytes"),
            ));
        }
        let mut answer = vec![0; length];
        self.read_exact(&mut answer, until)?;
        Ok((kind, answer))
    }

    fn read_exact(&mut self, mut into: &mut [u8], until: Instant) -> io::Result<()> {
        while !into.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.socket.set_read_timeout(Some(left))?;
            match self.socket.read(into) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => into = &mut into[read..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends the process, and says what became of it.
    fn failure(&mut self, error: &io::Error, what: &'static str, deadline: Duration) -> Failure {
        let is_late = matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock);
        let status = match self.end() {
            Ok(status) => status,
            Err(error) => return Failure::Io(error),
        };
        if is_late {
            return Failure::Late { what, deadline };
        }
        let words = self.last_words();
        let memory_bytes = self.limits.memory_bytes;
        if words.contains("memory allocation of") {
            return Failure::Memory { memory_bytes, words };
        }
        let words = match status.signal() {
            Some(9) if words.is_empty() => "which the kernel sends where memory is short".into(),
            _ => words,
        };
        Failure::Died { status, words }
    }

    /// Of one that has ended already, how it did.
    fn end(&mut self) -> io::Result<ExitStatus> {
        self.process.kill()?;
        self.process.wait()
    }

    fn last_words(&mut self) -> String {
        let mut words = Vec::new();
        if let Some(stderr) = self.process.stderr.take() {
            let _ = stderr.take(LAST_WORDS_BYTES).read_to_end(&mut words);
        }
        String::from_utf8_lossy(&words).trim().replace('\n', "; ")
    }
}

impl Drop for Predictor {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
