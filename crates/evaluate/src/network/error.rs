//! What can go wrong with an emulated network.

use std::io;

/// Why a network could not be made, measured or changed.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// A setting that no line can have.
    #[error("{0}")]
    Setting(String),
    /// The kernel refused.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// A program of iproute2 refused.
    #[error("`{command}` failed: {said}")]
    Command {
        /// The commands it was given.
        command: String,
        /// Its last words.
        said: String,
    },
    /// This line cannot be changed or cut.
    #[error("the line cannot be {wish}: {reason}")]
    Fixed {
        /// What was asked for: `changed`, `shaped`, `cut` or `mended`.
        wish: &'static str,
        /// Why not, and what would help.
        reason: String,
    },
    /// The thread that carries a line's packets has ended.
    #[error("the packet relay of this line has ended: {0}")]
    RelayEnded(String),
    /// Nothing came through.
    #[error("{0}")]
    Silence(String),
}

/// Names what was tried where the kernel refuses.
pub(super) fn trying<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> NetworkError {
    move |error| NetworkError::System {
        what,
        source: error.into(),
    }
}
