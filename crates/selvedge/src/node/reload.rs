//! SIGHUP: the configuration is read again and takes effect as far as it can, without dropping anybody.

use std::collections::{BTreeMap, BTreeSet};

use super::config::Config;
use super::running::Running;
use crate::output::message;

/// What takes effect at the next start only: the beginnings of keys.
const AT_START: [&str; 15] = [
    "data",
    "shards",
    "low_latency",
    "allow_anonymous",
    "listen.",
    "store.",
    "link.",
    "site.",
    "database.",
    "enrolment.",
    "history.",
    "images.",
    "labels.",
    "snapshots.",
    "log.format",
];

impl Running<'_> {
    /// Takes the configuration over that the file and the flags are now; where that is wrong, nothing of it.
    pub(super) async fn reload(&mut self) {
        match self.flags.config(self.role) {
            Ok(config) => self.take_over(config).await,
            Err(error) => tracing::error!("the configuration stays as it was: {}", message(&error)),
        }
        if let Some(certificates) = &self.certificates {
            certificates.reload(&self.config);
        }
        if let Err(error) = self.hub.refresh().await {
            tracing::error!(%error, "labels and quotas stay as they were");
        }
        tracing::info!("reloaded");
    }

    async fn take_over(&mut self, new: Config) {
        for key in left_for_a_start(&self.config, &new) {
            tracing::warn!(
                key,
                "changed in the configuration; it takes effect when the edge is started again"
            );
        }
        if let Err(error) = self.log.set_level(&new.log) {
            return tracing::error!("the configuration stays as it was: {}", message(&error));
        }
        self.config.limits = new.limits;
        self.config.tls = new.tls;
        self.config.audit = new.audit;
        self.config.tokens = new.tokens;
        self.config.log.level = new.log.level;
        self.hub.set_limits(&self.config.limits.hub()).await;
        self.audit.set_options(self.config.audit.options());
        self.desk.set_configuration(self.config.to_toml());
    }
}

/// The keys that changed without effect.
fn left_for_a_start(old: &Config, new: &Config) -> Vec<String> {
    let (old, new) = (old.values(), new.values());
    let is_changed = |key: &&String| old.get(*key) != new.get(*key);
    let is_at_start = |key: &&String| AT_START.iter().any(|start| key.starts_with(start));
    // A label that is gone is among the old ones alone.
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let changed = keys.into_iter().filter(is_changed).filter(is_at_start);
    changed.cloned().collect()
}

impl Config {
    /// All values by the paths of their keys, such as `limits.sessions`.
    pub(super) fn values(&self) -> BTreeMap<String, toml::Value> {
        let mut values = BTreeMap::new();
        for (name, value) in toml::Table::try_from(self).expect("a configuration is TOML") {
            match value {
                toml::Value::Table(table) => {
                    values.extend(table.into_iter().map(|(key, value)| (format!("{name}.{key}"), value)));
                }
                value => drop(values.insert(name, value)),
            }
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_a_start_is_named_and_nothing_else() {
        let old = Config::default();
        let mut new = Config {
            shards: 3,
            low_latency: true,
            ..old.clone()
        };
        new.listen.mqtt.clear();
        new.store.limit_bytes = 5;
        new.limits.connections = 5;
        new.audit.old_files = 5;
        new.log.level = "debug".to_owned();
        let mut old = old;
        old.labels.insert("hall".to_owned(), "3".to_owned());
        assert_eq!(
            left_for_a_start(&old, &new),
            [
                "labels.hall",
                "listen.mqtt",
                "low_latency",
                "shards",
                "store.limit_bytes"
            ]
        );
        assert!(left_for_a_start(&old, &old).is_empty());
    }

    #[test]
    fn every_key_is_known_by_its_path() {
        let mut config = Config::default();
        config.labels.insert("hall".to_owned(), "3".to_owned());
        let values = config.values();
        assert!(
            ["data", "limits.sessions", "log.level"]
                .iter()
                .all(|key| values.contains_key(*key))
        );
        let unknown = AT_START
            .iter()
            .find(|start| !values.keys().any(|key| key.starts_with(**start)));
        assert_eq!(unknown, None);
    }
}
