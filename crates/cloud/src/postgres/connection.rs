//! A connection, every wait on which has a limit.

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Runtime;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row, Statement};

use super::{Server, class, schema};
use crate::error::{Error, Failure};

/// Until a connection is made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// For each answer. The server gives up before we do, so that we hear why.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(35);
/// Whatever the database's owner has set: what was committed is on disk, and no wait of the server's is endless.
const SERVER_OPTIONS: &str = "-c search_path=selvedge -c statement_timeout=30s -c lock_timeout=10s \
    -c idle_in_transaction_session_timeout=60s -c client_min_messages=warning \
    -c synchronous_commit=on -c jit=off";

/// Parameters of a statement.
pub(super) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

pub(super) struct Connection {
    place: String,
    client: Client,
    statements: HashMap<&'static str, Statement>,
    /// Last, so that it outlives the client: it drives the connection while something is waited for.
    runtime: Driver,
}

/// A runtime that ends without a wait: one that waited could not be dropped in an async task.
struct Driver(Option<Runtime>);

impl Driver {
    fn new() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Driver(Some(runtime)))
    }

    fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.0.as_ref().expect("taken by drop alone").block_on(work)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Connection {
    /// Connects, with these settings of the server beside those that every connection has, and makes or renews the
    /// tables.
    pub(super) fn open(server: &Server, settings: &str) -> Result<Self, Failure> {
        let place = server.place.clone();
        let runtime = Driver::new().map_err(|error| Error::Away {
            place: place.clone(),
            reason: error.to_string(),
        })?;
        let config = with_limits(&server.config, settings);
        let connecting = async {
            match server.tls.clone() {
                Some(tls) => start(config.connect(tls).await?),
                None => start(config.connect(NoTls).await?),
            }
        };
        let client = wait(&runtime, &place, connecting)?;
        let mut connection = Connection {
            place,
            client,
            statements: HashMap::new(),
            runtime,
        };
        schema::migrate(&mut connection)?;
        Ok(connection)
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Statements without parameters.
    pub(super) fn batch(&mut self, sql: &str) -> Result<(), Failure> {
        wait(&self.runtime, &self.place, self.client.batch_execute(sql))
    }

    pub(super) fn execute(&mut self, sql: &'static str, parameters: Parameters<'_>) -> Result<u64, Failure> {
        let statement = self.prepared(sql)?;
        wait(&self.runtime, &self.place, self.client.execute(&statement, parameters))
    }

    pub(super) fn query(&mut self, sql: &'static str, parameters: Parameters<'_>) -> Result<Vec<Row>, Failure> {
        let statement = self.prepared(sql)?;
        wait(&self.runtime, &self.place, self.client.query(&statement, parameters))
    }

    /// Waits for something of several steps, within the limit of one answer.
    pub(super) fn run<'a, T, F>(&'a mut self, work: impl FnOnce(&'a mut Client) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, tokio_postgres::Error>>,
    {
        wait(&self.runtime, &self.place, work(&mut self.client))
    }

    /// Prepares each statement once.
    pub(super) fn prepared(&mut self, sql: &'static str) -> Result<Statement, Failure> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = wait(&self.runtime, &self.place, self.client.prepare(sql))?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }
}

/// Has the connection driven by the runtime. It ends, with an error that the client's next call tells, when it is lost.
fn start<S, T>(
    (client, connection): (Client, tokio_postgres::Connection<S, T>),
) -> Result<Client, tokio_postgres::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}

fn wait<T>(
    runtime: &Driver,
    place: &str,
    work: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, Failure> {
    let answer = runtime.block_on(async { tokio::time::timeout(ANSWER_TIMEOUT, work).await });
    match answer {
        Ok(answer) => answer.map_err(|error| class(place, &error)),
        Err(_) => Err(Error::Away {
            place: place.to_owned(),
            reason: format!("no answer in {} s", ANSWER_TIMEOUT.as_secs()),
        }
        .into()),
    }
}

fn with_limits(config: &Config, settings: &str) -> Config {
    let mut config = config.clone();
    let options = config
        .get_options()
        .map_or_else(String::new, |options| format!("{options} "));
    config
        .options(format!("{options}{SERVER_OPTIONS} {settings}"))
        .application_name("selvedge")
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_user_timeout(ANSWER_TIMEOUT)
        .keepalives_idle(ANSWER_TIMEOUT);
    config
}
