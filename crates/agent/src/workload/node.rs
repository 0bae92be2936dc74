//! Which node an application is for: `nodeSelector`.

use std::collections::BTreeMap;

use manifest::workload::Deployment;

use super::Finding;

/// What a node is called by, such as `kubernetes.io/arch: amd64`.
pub type Labels = BTreeMap<String, String>;

/// Those of this machine, and its `own`; nobody gives it another architecture or name.
#[must_use]
pub fn labels(own: Labels) -> Labels {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let of_machine = [
        ("kubernetes.io/os", std::env::consts::OS.to_owned()),
        ("kubernetes.io/arch", arch.to_owned()),
        ("kubernetes.io/hostname", name),
    ];
    let mut labels = own;
    labels.extend(of_machine.map(|(label, value)| (label.to_owned(), value)));
    labels
}

/// Why an application is for another node than the one that has these labels, if it is.
#[must_use]
pub fn elsewhere(deployment: &Deployment, labels: &Labels) -> Option<Finding> {
    let wanted = &deployment.spec.template.spec.node_selector;
    let (label, value) = wanted.iter().find(|(label, value)| labels.get(*label) != Some(value))?;
    let here = match labels.get(label) {
        Some(other) => format!("{label} is {other:?} here, not {value:?}"),
        None => {
            let known: Vec<&str> = labels.keys().map(String::as_str).collect();
            format!("this edge has no label {label:?}; it has {}", known.join(", "))
        }
    };
    Some(Finding::at(
        "spec.template.spec.nodeSelector",
        format!("it is for another edge: {here}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(selector: &str) -> Deployment {
        let text = format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: a}}\nspec:\n  selector: {{matchLabels: {{app: a}}}}\n  \
             template:\n    metadata: {{labels: {{app: a}}}}\n    spec: {{nodeSelector: {selector}, containers: [{{name: a, image: b}}]}}\n"
        );
        let documents = manifest::parse("a.yaml", &text).unwrap();
        match documents.into_iter().next().unwrap().resource {
            manifest::Resource::Deployment(deployment) => *deployment,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_application_is_for_the_nodes_that_have_all_labels_that_it_selects() {
        let here = labels(Labels::from([
            ("hall".to_owned(), "3".to_owned()),
            ("kubernetes.io/os".to_owned(), "windows".to_owned()),
        ]));
        let why = |selector: &str| elsewhere(&deployment(selector), &here).map(|finding| finding.message);
        assert_eq!(why("{}"), None);
        assert_eq!(why("{hall: '3', kubernetes.io/os: linux}"), None);
        assert_eq!(
            why("{hall: '4'}").unwrap(),
            "it is for another edge: hall is \"3\" here, not \"4\""
        );
        assert_eq!(
            why("{hall: '3', disk: ssd}").unwrap(),
            "it is for another edge: this edge has no label \"disk\"; it has hall, kubernetes.io/arch, \
             kubernetes.io/hostname, kubernetes.io/os"
        );
    }
}
