//! What values of a configuration may be, beyond their types: with the others an edge would serve nobody, or be mute.

use std::ops::RangeInclusive;
use std::path::absolute;

use link::edge::{Proxies, Target};
use toml::de::{DeTable, DeValue};

use super::config::Config;
use super::flags::SHARDS_MAX;
use super::logging::check_level;

/// A value that cannot be.
#[derive(Debug)]
pub(super) struct Mistake {
    /// The path of its key, such as `limits.connections`.
    key: String,
    /// What it is, and what would be right.
    message: String,
}

const ANY: i64 = i64::MAX;

/// What numbers may be.
const RANGES: [(&str, RangeInclusive<i64>); 16] = [
    // 0: as many as the logs say. Each takes a thread, and two segment files of its own.
    ("shards", 0..=SHARDS_MAX as i64),
    ("enrolment.renewal_grace_days", 0..=3_650),
    ("enrolment.certificate_days", 1..=3_650),
    // 0: never.
    ("tokens.key_days", 0..=3_650),
    // Rows go in steps of some 10,000.
    ("history.bytes", 16 << 20..=ANY),
    ("backup.keep", 1..=ANY),
    ("limits.connections", 1..=ANY),
    ("limits.connects_per_s", 1..=ANY),
    ("limits.pending_connects", 1..=ANY),
    ("limits.connect_timeout_s", 1..=ANY),
    // A CONNECT with a client id, user name and password of usual lengths.
    ("limits.connect_bytes", 128..=ANY),
    // MQTT 5.0, section 2.1.4: the longest packet that a remaining length can say.
    ("limits.packet_bytes", 128..=268_435_460),
    ("limits.login_checks", 1..=ANY),
    ("limits.sessions", 1..=ANY),
    ("limits.subscriptions_per_session", 1..=ANY),
    ("limits.topic_levels", 1..=ANY),
];

impl Config {
    /// The first value that cannot be, if there is one.
    pub(super) fn mistake(&self) -> Option<Mistake> {
        self.out_of_range()
            .or_else(|| self.of_store())
            .or_else(|| self.of_link())
            .or_else(|| self.of_enrolment())
            .or_else(|| self.of_backup())
            .or_else(|| self.of_log())
    }

    fn out_of_range(&self) -> Option<Mistake> {
        let values = self.values();
        RANGES.iter().find_map(|(key, range)| {
            let value = values.get(*key)?.as_integer()?;
            let right = match *range.end() {
                ANY => format!("at least {}", range.start()),
                most => format!("from {} to {most}", range.start()),
            };
            let message = format!("{key} is {value}; it must be {right}");
            (!range.contains(&value)).then(|| Mistake::new(key, message))
        })
    }

    fn of_store(&self) -> Option<Mistake> {
        let message = self.store.options().check().err()?;
        let key = message.split(' ').next().unwrap_or_default();
        Some(Mistake::new(&format!("store.{key}"), format!("store.{message}")))
    }

    fn of_link(&self) -> Option<Mistake> {
        let link = &self.link;
        let is_given = |path: &std::path::Path| !path.as_os_str().is_empty();
        let mistake = |key, message: String| Some(Mistake::new(key, format!("{key}: {message}")));
        if !link.url.is_empty() {
            if let Err(error) = link.url.parse::<Target>() {
                return mistake("link.url", error.to_string());
            }
            if link.user_name.is_empty() {
                return mistake(
                    "link.user_name",
                    "it is empty; the cloud knows this edge by a name".to_owned(),
                );
            }
        }
        if !link.proxy.is_empty()
            && let Err(error) = Proxies::always(&link.proxy)
        {
            return mistake("link.proxy", error.to_string());
        }
        match (is_given(&link.certificate), is_given(&link.key)) {
            (true, false) => mistake(
                "link.certificate",
                "it goes with its private key in link.key".to_owned(),
            ),
            (false, true) => mistake(
                "link.key",
                "it goes with its certificate in link.certificate".to_owned(),
            ),
            _ => None,
        }
    }

    fn of_enrolment(&self) -> Option<Mistake> {
        let mistake = |key, message: String| Some(Mistake::new(key, format!("{key}: {message}")));
        let (url, link_url) = (&self.enrolment.url, &self.enrolment.link_url);
        if let Some(error) = (!url.is_empty()).then(|| Target::https(url).err()).flatten() {
            return mistake("enrolment.url", error.to_string());
        }
        let link_url = link_url.replace("{host}", "cloud.example");
        let error = (!link_url.is_empty())
            .then(|| link_url.parse::<Target>().err())
            .flatten()?;
        mistake("enrolment.link_url", error.to_string())
    }

    fn of_backup(&self) -> Option<Mistake> {
        let backup = &self.backup;
        if backup.directory.as_os_str().is_empty() {
            return None;
        }
        let mistake = |key, message: &str| Some(Mistake::new(key, format!("{key}: {message}")));
        if backup.passphrase_file.as_os_str().is_empty() {
            let message = "it is empty; a backup is sealed by the passphrase, or the key, in a file";
            return mistake("backup.passphrase_file", message);
        }
        if backup.every.age().is_none() {
            return mistake("backup.every", "it is empty; write how often, such as \"24h\"");
        }
        let (Ok(directory), Ok(data)) = (absolute(&backup.directory), absolute(&self.data)) else {
            return None;
        };
        let message = "it is in the data directory, of which the backups are; write another place";
        directory
            .starts_with(data)
            .then(|| mistake("backup.directory", message))?
    }

    fn of_log(&self) -> Option<Mistake> {
        let message = check_level(&self.log.level).err()?;
        Some(Mistake::new("log.level", format!("log.level: {message}")))
    }
}

impl Mistake {
    fn new(key: &str, message: String) -> Self {
        Self {
            key: key.to_owned(),
            message,
        }
    }

    /// File, line, what is wrong, and what would be right. A value that the file does not give has its default.
    pub(super) fn explain(&self, file: &str, text: &str) -> String {
        match line_of(text, &self.key) {
            Some(line) => format!("{file}:{line}: {}", self.message),
            None => format!("{file}: {}", self.message),
        }
    }
}

/// The line that the key's value stands in.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let mut table = DeTable::parse(text).ok()?.into_inner();
    let mut names = key.split('.').peekable();
    while let Some(name) = names.next() {
        let (_, value) = table.into_iter().find(|(found, _)| found.get_ref() == name)?;
        if names.peek().is_none() {
            let before = &text.as_bytes()[..value.span().start];
            return Some(before.iter().filter(|byte| **byte == b'\n').count() + 1);
        }
        let DeValue::Table(inner) = value.into_inner() else {
            return None;
        };
        table = inner;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let error = Config::parse("edge.toml", text).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn a_number_that_would_lock_everybody_out_is_named_with_its_line_and_what_it_must_be() {
        // Below zero nothing is a number of its kind.
        for (key, range) in RANGES.iter().filter(|(_, range)| *range.start() > 0) {
            let (table, name) = key.split_once('.').unwrap();
            let (wrong, right) = (range.start() - 1, range.start());
            let end = match *range.end() {
                ANY => format!("at least {right}"),
                most => format!("from {right} to {most}"),
            };
            let expected = format!("edge.toml:3: {key} is {wrong}; it must be {end}");
            check(&format!("[{table}]\n# low\n{name} = {wrong}\n"), &expected);
            Config::parse("edge.toml", &format!("[{table}]\n{name} = {right}\n")).unwrap();
        }
        check(
            "limits.packet_bytes = 300_000_000",
            "edge.toml:1: limits.packet_bytes is 300000000; it must be from 128 to 268435460",
        );
    }

    #[test]
    fn more_shards_than_a_machine_has_use_for_are_refused_with_their_line() {
        check(
            "low_latency = false\nshards = 257\n",
            "edge.toml:2: shards is 257; it must be from 0 to 256",
        );
        Config::parse("edge.toml", "shards = 256\n").unwrap();
    }

    #[test]
    fn backups_that_would_be_of_no_use_are_refused_with_their_line() {
        check(
            "[backup]\ndirectory = \"/b\"\n",
            "edge.toml: backup.passphrase_file: it is empty; a backup is sealed by the passphrase, or the key, in a file",
        );
        check(
            "[backup]\ndirectory = \"/b\"\npassphrase_file = \"/k\"\nevery = \"\"\n",
            "edge.toml:4: backup.every: it is empty; write how often, such as \"24h\"",
        );
        check(
            "data = \"/d\"\n[backup]\ndirectory = \"/d/b\"\npassphrase_file = \"/k\"\n",
            "edge.toml:3: backup.directory: it is in the data directory, of which the backups are; write another place",
        );
    }

    #[test]
    fn sizes_of_the_log_that_cannot_be_are_named_with_their_line() {
        check(
            "shards = 1\nstore = { segment_bytes = 10 }\n",
            "edge.toml:2: store.segment_bytes is 10; it must be from 64 KiB to 1 GiB",
        );
        // The default of the other no longer fits.
        check(
            "[store]\nsegment_bytes = 65536\n",
            "edge.toml: store.pending_bytes is 8388608; it must be from 4096 to half a segment (32768)",
        );
    }

    #[test]
    fn a_link_that_leads_nowhere_is_named_with_its_line_and_what_would_be_right() {
        let check_start = |text: &str, start: &str| {
            let error = Config::parse("edge.toml", text).unwrap_err().to_string();
            assert!(error.starts_with(start) && !error.contains("secret"), "{error}");
        };
        check(
            "[link]\nuser_name = \"hall-1\"\nurl = \"https://cloud\"\n",
            "edge.toml:3: link.url: the scheme \"https\" is none of mqtts, wss, mqtt and ws",
        );
        check(
            "[link]\nurl = \"wss://cloud\"\n",
            "edge.toml: link.user_name: it is empty; the cloud knows this edge by a name",
        );
        check_start(
            "[link]\nproxy = \"socks5://me:secret@proxy:1\"\n",
            "edge.toml:2: link.proxy: the proxy socks5://proxy:1/: a link goes through proxies that speak HTTP",
        );
        check(
            "[link]\n\ncertificate = \"hall-1.pem\"\n",
            "edge.toml:3: link.certificate: it goes with its private key in link.key",
        );
        check(
            "link.key = \"hall-1.key\"\n",
            "edge.toml:1: link.key: it goes with its certificate in link.certificate",
        );
    }

    #[test]
    fn a_way_to_join_that_leads_nowhere_is_named_with_its_line_and_what_would_be_right() {
        check(
            "[enrolment]\nurl = \"cloud.example:8443\"\n",
            "edge.toml:2: enrolment.url: \"cloud.example:8443\" is no URL of HTTPS; one is \"https://cloud.example:8443\"",
        );
        check(
            "[enrolment]\nlink_url = \"https://{host}\"\n",
            "edge.toml:2: enrolment.link_url: the scheme \"https\" is none of mqtts, wss, mqtt and ws",
        );
        check(
            "[enrolment]\ncertificate_days = 0\n",
            "edge.toml:2: enrolment.certificate_days is 0; it must be from 1 to 3650",
        );
        Config::parse("edge.toml", "enrolment.link_url = \"wss://{host}/mqtt\"\n").unwrap();
    }

    #[test]
    fn a_level_that_is_none_is_named_with_its_line_and_what_was_meant() {
        check(
            "[log]\nlevel = \"wran\"\n",
            "edge.toml:2: log.level: unknown level \"wran\"; did you mean \"warn\"?",
        );
    }
}
