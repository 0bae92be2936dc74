//! Where a database lies.

use std::path::PathBuf;

use crate::error::Error;

/// A parsed database URL.
pub(crate) enum Location {
    Sqlite(PathBuf),
    /// Boxed: a configuration is large.
    Postgres(Box<tokio_postgres::Config>),
}

impl Location {
    /// Reads `sqlite:PATH`, `postgres://…` or `postgresql://…`.
    pub(crate) fn parse(url: &str) -> Result<Self, Error> {
        if let Some(path) = url.strip_prefix("sqlite:").filter(|path| !path.is_empty()) {
            return Ok(Location::Sqlite(path.into()));
        }
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(refusal(url, "unknown kind of database".to_owned()));
        }
        let config = url
            .parse()
            .map_err(|error: tokio_postgres::Error| refusal(url, crate::postgres::said(&error)))?;
        Ok(Location::Postgres(Box::new(config)))
    }
}

fn refusal(url: &str, rule: String) -> Error {
    // A password stands between the first ':' behind "//" and the last '@'.
    let shown = match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://…@{host}"),
        _ => url.to_owned(),
    };
    Error::Location { shown, rule }
}
