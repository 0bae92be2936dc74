//! Where a behaviour is tried: an empty database of either kind.

use std::sync::atomic::{AtomicU32, Ordering};

use cloud::{Database, Queries};

use crate::cluster::Cluster;

/// An empty database.
pub(crate) struct Place {
    pub(crate) url: String,
    kind: Kind,
}

enum Kind {
    Sqlite(tempfile::TempDir),
    Postgres(String),
}

impl Place {
    pub(crate) fn sqlite() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", directory.path().join("telemetry.db").display());
        Some(Place {
            url,
            kind: Kind::Sqlite(directory),
        })
    }

    /// None: there is no PostgreSQL here.
    pub(crate) fn postgres() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("place_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let url = Cluster::shared()?.make_database(&name);
        Some(Place {
            url,
            kind: Kind::Postgres(name),
        })
    }

    pub(crate) fn open(&self) -> Database {
        Database::open(&self.url).unwrap()
    }

    pub(crate) fn queries(&self) -> Queries {
        Queries::open(&self.url).unwrap()
    }

    /// SQL for either kind, as somebody else would run it beside Selvedge.
    pub(crate) fn sql(&self, sqlite: &str, postgres: &str) {
        match &self.kind {
            Kind::Sqlite(directory) => {
                let other = rusqlite::Connection::open(directory.path().join("telemetry.db")).unwrap();
                other.execute_batch(sqlite).unwrap();
            }
            Kind::Postgres(name) => {
                let sql = format!("SET search_path = selvedge; {postgres}");
                Cluster::shared().unwrap().sql(name, &sql);
            }
        }
    }
}

impl Place {
    /// Ends all connections to the database, whatever they are doing. SQLite has none that can be cut.
    pub(crate) fn cut(&self) {
        if let Kind::Postgres(name) = &self.kind {
            let others = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'");
            Cluster::shared().unwrap().sql("postgres", &others);
        }
    }
}

/// Makes of each function `fn(&Place)` a test on SQLite and one on PostgreSQL.
#[macro_export]
macro_rules! on_both {
    ($($claim:ident),+ $(,)?) => {
        mod sqlite {
            $(#[test]
            fn $claim() {
                super::$claim(&$crate::place::Place::sqlite().unwrap());
            })+
        }
        mod postgres {
            $(#[test]
            fn $claim() {
                if let Some(place) = $crate::place::Place::postgres() {
                    super::$claim(&place);
                }
            })+
        }
    };
}
