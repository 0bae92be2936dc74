//! What the rooms above the two ends say to each other over a link: bytes that it passes on as they are, in their
//! order, as long as the connection lasts.

use tokio::sync::mpsc;

/// What came and waits to be looked at, and what is to be said and waits for the socket, at most. An end that sends
/// more than the other looks at loses its connection; one that says more waits.
pub const WAITING_MAX: usize = 64;

/// One connection, for who speaks over it. Both channels end with it; dropping this says no more over it.
#[derive(Debug)]
pub struct Talk {
    /// What the other end says.
    pub heard: mpsc::Receiver<Vec<u8>>,
    /// What it is told: at most half a mebibyte at a time. It waits for the line as what is said of devices does.
    pub say: mpsc::Sender<Vec<u8>>,
}

/// The connection's side of a [`Talk`].
pub(crate) struct Line {
    heard: mpsc::Sender<Vec<u8>>,
    say: mpsc::Receiver<Vec<u8>>,
    is_over: bool,
}

pub(crate) fn channel() -> (Talk, Line) {
    let (heard, to_hear) = mpsc::channel(WAITING_MAX);
    let (say, to_say) = mpsc::channel(WAITING_MAX);
    let talk = Talk { heard: to_hear, say };
    let line = Line {
        heard,
        say: to_say,
        is_over: false,
    };
    (talk, line)
}

impl Line {
    /// Passes on what the other end said.
    ///
    /// # Errors
    /// More waits already than may.
    pub(crate) fn hear(&self, said: &[u8]) -> Result<(), String> {
        match self.heard.try_send(said.to_vec()) {
            Err(mpsc::error::TrySendError::Full(_)) => Err(format!(
                "the other end said more than {WAITING_MAX} things that wait to be looked at"
            )),
            // Where nobody listens any more nothing is lost.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
        }
    }

    /// What is to be said next; never, once nobody speaks any more.
    pub(crate) async fn next(&mut self) -> Vec<u8> {
        if !self.is_over {
            match self.say.recv().await {
                Some(saying) => return saying,
                None => self.is_over = true,
            }
        }
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_says_more_than_is_looked_at_is_told_of() {
        let (talk, line) = channel();
        for number in 0..WAITING_MAX {
            assert_eq!(line.hear(&[number as u8]), Ok(()));
        }
        assert!(line.hear(b"more").is_err());
        drop(talk);
        assert_eq!(line.hear(b"to nobody"), Ok(()));
    }
}
