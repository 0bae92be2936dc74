//! What a container says, as it says it.

use std::fmt;
use std::pin::Pin;

use bollard::container::LogOutput;
use bollard::errors::Error as Refused;
use bollard::query_parameters::LogsOptionsBuilder;
use futures_util::{Stream, StreamExt};

use super::{absent, add_line, connect};
use crate::instance::InEngine;
use crate::runtime::Error;

/// The output of a container that an engine runs.
pub struct Followed {
    container: InEngine,
    said: Pin<Box<dyn Stream<Item = Result<LogOutput, Refused>> + Send>>,
}

impl Followed {
    /// From so many lines before its end on.
    ///
    /// # Errors
    /// No engine answers.
    pub async fn open(container: InEngine, lines: usize) -> Result<Self, Error> {
        let docker = connect(&container.socket).await?;
        let tail = match lines {
            usize::MAX => "all".to_owned(),
            lines => lines.to_string(),
        };
        let options = LogsOptionsBuilder::new().stdout(true).stderr(true).timestamps(true);
        let options = options.follow(true).tail(&tail).build();
        let said = Box::pin(docker.logs(&container.name, Some(options)));
        Ok(Followed { container, said })
    }

    /// What it says next, as a log of ours has it; `None` once it has ended.
    ///
    /// # Errors
    /// The engine is away, or refuses.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        match self.said.next().await {
            None => Ok(None),
            Some(Ok(said)) => {
                let mut line = Vec::new();
                add_line(&mut line, &said);
                Ok(Some(line))
            }
            Some(Err(Refused::DockerResponseServerError { message, .. })) => {
                Err(Error::Engine(format!("Docker: {message}")))
            }
            Some(Err(error)) => Err(absent(&self.container.socket, &error)),
        }
    }
}

impl fmt::Debug for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Followed")
            .field("container", &self.container)
            .finish_non_exhaustive()
    }
}
