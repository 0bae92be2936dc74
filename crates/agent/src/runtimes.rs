//! All runtimes of an edge, as one.

use std::collections::BTreeSet;
use std::path::Path;

use crate::cgroup::Usage;
use crate::engine::Engine;
use crate::local::Local;
use crate::runtime::{Answer, Done, Error, Kind, Launch, Runtime, State};

/// Containers of this host: whoever is asked for one of them asks what runs it.
#[derive(Clone, Debug)]
pub struct Runtimes {
    local: Local,
    engine: Engine,
}

impl Runtimes {
    /// What runs without a daemon is run by `local`; containers of a Docker Engine by the one at the `socket`, which is
    /// asked for nothing else.
    #[must_use]
    pub fn new(local: Local, socket: &Path) -> Self {
        let engine = local.engine(socket);
        Runtimes { local, engine }
    }

    /// The engine, where that runs it.
    async fn engine(&self, name: &str) -> Result<Option<&Engine>, Error> {
        let instance = self.local.instance(name);
        let found = tokio::task::spawn_blocking(move || instance.is_in_engine()).await;
        let is_in_engine = found.expect("work on a container does not panic")?;
        Ok(is_in_engine.then_some(&self.engine))
    }
}

impl Runtime for Runtimes {
    fn prepare<'a>(&'a self, launch: &'a Launch) -> Answer<'a, ()> {
        match launch.kind {
            Kind::Process | Kind::Oci => self.local.prepare(launch),
            Kind::Docker => Box::pin(self.engine.prepare(launch)),
        }
    }

    fn start(&self, name: &str, launch: Launch) -> Answer<'_, ()> {
        match launch.kind {
            Kind::Process | Kind::Oci => self.local.start(name, launch),
            Kind::Docker => {
                let name = name.to_owned();
                Box::pin(async move { self.engine.start(&name, launch).await })
            }
        }
    }

    fn state(&self, name: &str) -> Answer<'_, State> {
        let name = name.to_owned();
        Box::pin(async move {
            match self.engine(&name).await? {
                Some(engine) => engine.state(&name).await,
                None => self.local.state(&name).await,
            }
        })
    }

    fn wait(&self, name: &str) -> Answer<'_, State> {
        let name = name.to_owned();
        Box::pin(async move {
            match self.engine(&name).await? {
                Some(engine) => engine.wait(&name).await,
                None => self.local.wait(&name).await,
            }
        })
    }

    fn ask_to_end(&self, name: &str) -> Answer<'_, ()> {
        let name = name.to_owned();
        Box::pin(async move {
            match self.engine(&name).await? {
                Some(engine) => engine.ask_to_end(&name).await,
                None => Runtime::ask_to_end(&self.local, &name).await,
            }
        })
    }

    fn kill(&self, name: &str) -> Answer<'_, ()> {
        let name = name.to_owned();
        Box::pin(async move {
            match self.engine(&name).await? {
                Some(engine) => engine.kill(&name).await,
                None => self.local.kill(&name).await,
            }
        })
    }

    fn remove(&self, name: &str) -> Answer<'_, ()> {
        let name = name.to_owned();
        Box::pin(async move {
            match self.engine(&name).await? {
                Some(engine) => engine.remove(&name).await,
                None => Runtime::remove(&self.local, &name).await,
            }
        })
    }

    fn exec(&self, name: &str, command: Vec<String>) -> Answer<'_, Done> {
        let name = name.to_owned();
        Box::pin(async move {
            match self.engine(&name).await? {
                Some(engine) => engine.exec(&name, command).await,
                None => self.local.exec(&name, command).await,
            }
        })
    }

    fn clear(&self, tenant: &str, application: &str, kept: BTreeSet<u32>) -> Answer<'_, ()> {
        self.local.clear(tenant, application, kept)
    }

    fn usage(&self, name: &str) -> Answer<'_, Option<Usage>> {
        let name = name.to_owned();
        Box::pin(async move {
            match self.engine(&name).await? {
                Some(engine) => engine.usage(&name).await,
                None => Runtime::usage(&self.local, &name).await,
            }
        })
    }

    fn log_tail(&self, name: &str, lines: usize) -> Answer<'_, Option<Vec<u8>>> {
        let name = name.to_owned();
        Box::pin(async move {
            match self.engine(&name).await? {
                Some(engine) => engine.log_tail(&name, lines).await,
                None => Runtime::log_tail(&self.local, &name, lines).await,
            }
        })
    }

    fn names(&self) -> Answer<'_, Vec<String>> {
        self.local.names()
    }
}
