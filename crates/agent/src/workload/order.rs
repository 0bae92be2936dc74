//! What an application is started after.

use std::collections::{BTreeMap, BTreeSet};

use manifest::workload::{Deployment, Deployments};

use super::Finding;

/// Names of applications of its tenant, between commas, that have to be ready before this one is started.
pub const DEPENDS_ON: &str = "selvedge.dev/depends-on";
/// Longest name of an application: a label of DNS (RFC 1123, 2.1).
const NAME_BYTES_MAX: usize = 63;

/// Those that an application is started after.
#[must_use]
pub fn depends_on(deployment: &Deployment) -> BTreeSet<String> {
    let text = deployment.metadata.annotations.get(DEPENDS_ON);
    let names = text.map_or("", String::as_str).split(',').map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// What of it names no application, whatever there is.
pub(super) fn unsupported(deployment: &Deployment) -> Option<Finding> {
    let names = depends_on(deployment);
    let wrong = names.iter().find(|name| !is_name(name))?;
    let message = format!("{wrong:?} names no application; write such as: db, cache");
    Some(Finding::at(path(), message))
}

/// What is to be said of an application that waits for itself by way of others; `all`: those of its tenant.
#[must_use]
pub fn circle(deployment: &Deployment, all: &Deployments) -> Option<Finding> {
    let name = &deployment.metadata.name;
    // Each with the one that led to it; the first that is found is on a shortest way.
    let mut led_by: BTreeMap<String, String> = BTreeMap::new();
    let mut nearest = vec![name.clone()];
    while !nearest.is_empty() {
        let mut next = Vec::new();
        for one in nearest {
            let deployment = if one == *name {
                Some(deployment)
            } else {
                all.get(&one).map(|one| &**one)
            };
            for other in deployment.map(depends_on).unwrap_or_default() {
                if other == *name {
                    return Some(Finding::at(path(), words(name, &one, &led_by)));
                }
                if !led_by.contains_key(&other) {
                    led_by.insert(other.clone(), one.clone());
                    next.push(other);
                }
            }
        }
        nearest = next;
    }
    None
}

fn words<'a>(name: &'a str, last: &'a str, led_by: &'a BTreeMap<String, String>) -> String {
    let mut way = vec![name, last];
    while way.last() != Some(&name) {
        way.push(&led_by[way[way.len() - 1]]);
    }
    way.reverse();
    let way = way.join(" → ");
    format!("goes round in a circle ({way}), so that none of them would start; take one of these out")
}

fn path() -> String {
    format!("metadata.annotations.{DEPENDS_ON}")
}

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_end = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    bytes.len() <= NAME_BYTES_MAX
        && is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(|byte| *byte == b'-' || is_end(Some(byte)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use manifest::Resource;

    use super::*;

    fn deployment(name: &str, after: &str) -> Deployment {
        let text = format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, annotations: {{{DEPENDS_ON}: '{after}'}}}}\n\
             spec:\n  selector: {{matchLabels: {{app: a}}}}\n  template:\n    metadata: {{labels: {{app: a}}}}\n    spec:\n      \
             containers: [{{name: web, image: web}}]\n"
        );
        match manifest::parse("test", &text).unwrap().remove(0).resource {
            Resource::Deployment(deployment) => *deployment,
            other => panic!("{other:?}"),
        }
    }

    fn check(all: &[(&str, &str)], expected: Option<&str>) {
        let all = all
            .iter()
            .map(|(name, after)| ((*name).to_owned(), Arc::new(deployment(name, after))));
        let all: Deployments = all.collect();
        let found = circle(&all["a"], &all).map(|finding| finding.message);
        let way = found.as_ref().map(|words| words.split(['(', ')']).nth(1).unwrap());
        assert_eq!(way, expected, "{all:?}");
    }

    #[test]
    fn who_waits_for_itself_is_told_the_shortest_way_round() {
        check(&[("a", "b, c"), ("b", "c"), ("c", "none")], None);
        check(&[("a", "b, a")], Some("a → a"));
        check(&[("a", "b"), ("b", "a")], Some("a → b → a"));
        check(&[("a", "b, d"), ("b", "c"), ("c", "a"), ("d", "a")], Some("a → d → a"));
        check(&[("a", "b"), ("b", "c"), ("c", "a")], Some("a → b → c → a"));
        check(&[("a", "b"), ("b", "c"), ("c", "b")], None);
    }

    #[test]
    fn names_are_those_of_applications() {
        for (after, wrong) in [
            ("db, cache-2 ,", None),
            ("db cache", Some("names no application")),
            ("DB", Some("names no application")),
            ("-db", Some("names no application")),
        ] {
            let found = unsupported(&deployment("a", after)).map(|finding| finding.message);
            assert_eq!(found.is_some(), wrong.is_some(), "{after}");
            assert!(wrong.is_none_or(|wrong| found.unwrap().contains(wrong)), "{after}");
        }
        let names: Vec<String> = depends_on(&deployment("a", "db, cache-2 ,")).into_iter().collect();
        assert_eq!(names, ["cache-2", "db"]);
    }
}
