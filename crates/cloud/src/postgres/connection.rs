//! A connection, every wait on which has a limit.

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio_postgres::config::Host;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row, Statement};

use super::{class, schema};
use crate::error::{Error, Failure};

/// Until a connection is made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// For each answer. The server gives up before we do, so that we hear why.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(35);
const SERVER_OPTIONS: &str = "-c search_path=selvedge -c statement_timeout=30s -c lock_timeout=10s \
    -c idle_in_transaction_session_timeout=60s -c client_min_messages=warning -c jit=off";

/// Parameters of a statement.
pub(super) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

pub(super) struct Connection {
    place: String,
    client: Client,
    statements: HashMap<&'static str, Statement>,
    /// Last, so that it outlives the client: it drives the connection while something is waited for.
    runtime: Runtime,
}

impl Connection {
    /// Connects, with these settings of the server beside those that every connection has, and makes or renews the
    /// tables.
    pub(super) fn open(config: &Config, settings: &str) -> Result<Self, Failure> {
        let place = place(config);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::Away {
            place: place.clone(),
            reason: error.to_string(),
        })?;
        let connecting = async {
            let (client, connection) = with_limits(config, settings).connect(NoTls).await?;
            // It ends, with an error that the client's next call tells, when the connection does.
            tokio::spawn(async move { drop(connection.await) });
            Ok(client)
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

fn wait<T>(
    runtime: &Runtime,
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

/// Where it is, as a URL without user and password.
pub(super) fn place(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        Some(Host::Unix(path)) => path.display().to_string(),
        None => "?".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("postgres://{host}:{port}/{database}")
}
