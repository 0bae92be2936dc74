//! All runtimes of an edge, as one.

use std::collections::BTreeSet;
use std::path::Path;

use crate::cgroup::{Limits, Usage};
use crate::engine::Engine;
use crate::local::Local;
use crate::logins::Logins;
use crate::runtime::{Answer, Done, Error, Kind, Launch, Pod, Runtime, State};

/// Containers of this host: whoever is asked for one of them asks what runs it.
#[derive(Clone, Debug)]
pub struct Runtimes {
    local: Local,
    engine: Engine,
    logins: Logins,
}

impl Runtimes {
    /// What runs without a daemon is run by `local`; containers of a Docker Engine by the one at the `socket`, which is
    /// asked for nothing else. What they log in by at the edge is of `logins`.
    #[must_use]
    pub fn new(local: Local, socket: &Path, logins: Logins) -> Self {
        let engine = local.engine(socket);
        Runtimes { local, engine, logins }
    }

    async fn with_login(&self, name: &str, mut launch: Launch) -> Result<Launch, Error> {
        self.of_logins(name, move |logins, name| {
            logins.furnish(name, &mut launch)?;
            Ok(launch)
        })
        .await
    }

    async fn forget_login(&self, name: &str) -> Result<(), Error> {
        self.of_logins(name, |logins, name| Ok(logins.forget(name)?)).await
    }

    async fn of_logins<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(&Logins, &str) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (logins, name) = (self.logins.clone(), name.to_owned());
        let working = tokio::task::spawn_blocking(move || work(&logins, &name));
        working.await.expect("work on a container does not panic")
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
        let name = name.to_owned();
        Box::pin(async move {
            let launch = self.with_login(&name, launch).await?;
            let started = match launch.kind {
                Kind::Process | Kind::Oci => self.local.start(&name, launch).await,
                Kind::Docker => self.engine.start(&name, launch).await,
            };
            if started.is_err() {
                self.forget_login(&name).await?;
            }
            started
        })
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

    fn pause(&self, name: &str, is_paused: bool) -> Answer<'_, bool> {
        let name = name.to_owned();
        Box::pin(async move {
            match self.engine(&name).await? {
                Some(engine) => engine.pause(&name, is_paused).await,
                None => Runtime::pause(&self.local, &name, is_paused).await,
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
                Some(engine) => engine.remove(&name).await?,
                None => Runtime::remove(&self.local, &name).await?,
            }
            self.forget_login(&name).await
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

    fn clear(&self, tenant: &str, application: &str, kept: BTreeSet<u32>, wanted: u32) -> Answer<'_, ()> {
        let (tenant, application) = (tenant.to_owned(), application.to_owned());
        Box::pin(async move {
            self.engine.clear(&tenant, &application, &kept, wanted).await?;
            self.local.clear(&tenant, &application, kept, wanted).await
        })
    }

    fn limit(&self, tenant: &str, limits: Limits) -> Answer<'_, ()> {
        Runtime::limit(&self.local, tenant, limits)
    }

    fn usage_of(&self, tenant: &str) -> Answer<'_, Option<Usage>> {
        self.local.usage_of(tenant)
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

    fn written(&self, name: &str, bytes_max: u64) -> Answer<'_, u64> {
        let name = name.to_owned();
        Box::pin(async move {
            match self.engine(&name).await? {
                Some(engine) => engine.written(&name).await,
                None => Runtime::written(&self.local, &name, bytes_max).await,
            }
        })
    }

    fn scratch(&self, pod: &Pod, volume: &str, bytes_max: u64) -> Answer<'_, u64> {
        self.local.scratch(pod, volume, bytes_max)
    }

    fn kept(&self, tenant: &str, bytes_max: u64) -> Answer<'_, u64> {
        self.local.kept(tenant, bytes_max)
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
