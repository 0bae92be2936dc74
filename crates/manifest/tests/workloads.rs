//! Applications: read as Kubernetes reads them, and refused where it would not run.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::core::v1 as core;
use manifest::workload::{Cpu, Handler, PortRef, Share};
use manifest::{Change, Resource, diff, parse};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

const EVERYTHING: &str = include_str!("data/everything.yaml");

fn resources(text: &str) -> Vec<Resource> {
    let documents = parse("m.yaml", text).unwrap_or_else(|errors| panic!("{errors}"));
    documents.into_iter().map(|document| document.resource).collect()
}

/// All that a type of Kubernetes makes of a document.
fn as_read_by<K: DeserializeOwned + Serialize>(text: &str) -> BTreeMap<String, Value> {
    let read: K = serde_norway::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut leaves = BTreeMap::new();
    collect(&serde_json::to_value(read).unwrap(), String::new(), &mut leaves);
    leaves
}

fn collect(value: &Value, path: String, leaves: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                collect(member, format!("{path}.{name}"), leaves);
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                collect(item, format!("{path}[{i}]"), leaves);
            }
        }
        leaf => drop(leaves.insert(path, leaf.clone())),
    }
}

fn as_kubernetes_reads(kind: &str, text: &str) -> BTreeMap<String, Value> {
    match kind {
        "Deployment" => as_read_by::<apps::Deployment>(text),
        "Service" => as_read_by::<core::Service>(text),
        "ConfigMap" => as_read_by::<core::ConfigMap>(text),
        _ => as_read_by::<core::Secret>(text),
    }
}

#[test]
fn kubernetes_reads_the_same_files_and_loses_nothing_of_what_is_written_here() {
    let files: Vec<&str> = EVERYTHING.split("\n---\n").collect();
    let resources = resources(EVERYTHING);
    assert_eq!(resources.len(), files.len());
    for (resource, text) in resources.iter().zip(files) {
        let kind = resource.kind();
        let theirs = as_kubernetes_reads(kind, text);
        let ours = as_kubernetes_reads(kind, &resource.to_yaml());
        for (path, value) in &theirs {
            let defaults = [
                Value::from(false),
                "TCP".into(),
                "ClusterIP".into(),
                "Always".into(),
                "RollingUpdate".into(),
            ];
            let is_default = defaults.contains(value);
            assert!(
                ours.get(path) == Some(value) || is_default && !ours.contains_key(path),
                "{kind}{path}: {value} became {:?}",
                ours.get(path)
            );
        }
        let written = parse("m.yaml", &resource.to_yaml()).unwrap();
        assert_eq!(written[0].resource, *resource, "what is written is read as the same");
    }
}

#[test]
fn what_a_manifest_leaves_out_is_as_kubernetes_has_it() {
    let Resource::Deployment(least) = &resources(LEAST)[0] else {
        panic!()
    };
    let spec = &least.spec;
    assert_eq!(
        (spec.replicas, spec.progress_deadline_seconds, spec.min_ready_seconds),
        (1, 600, 0)
    );
    let pod = &spec.template.spec;
    assert_eq!(pod.termination_grace_period_seconds, 30);
    let probe = pod.containers[0].readiness_probe.as_ref().unwrap();
    let times = (probe.initial_delay_seconds, probe.period_seconds, probe.timeout_seconds);
    assert_eq!(times, (0, 10, 1));
    assert_eq!((probe.success_threshold, probe.failure_threshold), (1, 3));
    let Some(Handler::TcpSocket(socket)) = probe.handler() else {
        panic!()
    };
    assert_eq!(socket.port, PortRef::Number(80));
    let rolling = spec.strategy.rolling_update.unwrap_or_default();
    assert_eq!(
        (rolling.max_surge, rolling.max_unavailable),
        (Share::Percent(25), Share::Percent(25))
    );
    assert_eq!(pod.containers[0].resources.limits.cpu, Some(Cpu { millis: 1_500 }));
}

const LEAST: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - name: web
          image: web:1
          readinessProbe: {tcpSocket: {port: 80}}
          resources: {limits: {cpu: 1.5}}
";

/// What is said of the least deployment after one change.
fn check(from: &str, to: &str, expected: &str) {
    assert!(LEAST.contains(from), "{from}");
    let text = LEAST.replacen(from, to, 1);
    let said = parse("m.yaml", &text).map_or_else(|errors| errors.to_string(), |_| String::new());
    assert_eq!(said.replace("m.yaml:", ""), expected, "\n{text}");
}

#[test]
fn a_field_that_is_not_supported_is_refused_by_name_with_a_hint() {
    check(
        "      containers:",
        "      hostPID: true\n      containers:",
        "9: spec.template.spec.hostPID: not supported here; containers do not see the host's processes; leave it out",
    );
    check(
        "          image: web:1",
        "          image: web:1\n          privileged: true",
        "12: spec.template.spec.containers[0].privileged: not supported here; give the container the devices and \
         capabilities that it needs",
    );
    check(
        "tcpSocket: {port: 80}",
        "grpc: {port: 80}",
        "12: spec.template.spec.containers[0].readinessProbe.grpc: not supported here; probe with exec, httpGet or \
         tcpSocket",
    );
    check(
        "          image: web:1",
        "          imagee: web:1",
        "10: spec.template.spec.containers[0].image: missing; the image to run, such as registry.example/web:1.4\n\
         11: spec.template.spec.containers[0].imagee: unknown field; did you mean \"image\"?",
    );
}

#[test]
fn a_wrong_type_is_refused_with_what_would_be_right() {
    let container = "spec.template.spec.containers[0]";
    check(
        "image: web:1",
        "image: 7",
        &format!("11: {container}.image: expected a string, found the number 7; write \"7\""),
    );
    check(
        "image: web:1",
        "image: web:1\n          ports: {containerPort: 80}",
        &format!("12: {container}.ports: expected a list, found a mapping; put \"- \" before each item"),
    );
    check(
        "image: web:1",
        "image: web:1\n          ports: [{containerPort: 70000}]",
        &format!("12: {container}.ports[0].containerPort: 70000 is out of range"),
    );
    check(
        "image: web:1",
        "image: web:1\n          imagePullPolicy: ifNotPresent",
        &format!("12: {container}.imagePullPolicy: \"ifNotPresent\" is not known here; did you mean \"IfNotPresent\"?"),
    );
    check(
        "{cpu: 1.5}",
        "{cpu: lots}",
        &format!(
            "13: {container}.resources.limits.cpu: \"lots\" is no share of processor time; write one such as 500m, \
             0.5 or 2"
        ),
    );
    check(
        "{cpu: 1.5}",
        "{gpu: 1}",
        &format!(
            "13: {container}.resources.limits: no resource \"gpu\"; there are cpu, memory, ephemeral-storage, \
             selvedge.dev/pids, selvedge.dev/read-bytes-per-s, selvedge.dev/write-bytes-per-s and devices such as \
             selvedge.dev/ttyUSB0"
        ),
    );
    check(
        "{name: web}\nspec",
        "{name: web}\nspek",
        "1: spec: missing; what shall run\n4: spek: unknown field; did you mean \"spec\"?",
    );
}

#[test]
fn what_refers_to_nothing_is_refused() {
    let container = "spec.template.spec.containers[0]";
    check(
        "{matchLabels: {app: web}}",
        "{matchLabels: {app: wep}}",
        "5: spec.selector.matchLabels.app: the template has no label app: wep; write it at spec.template.metadata.labels",
    );
    check(
        "tcpSocket: {port: 80}",
        "tcpSocket: {port: http}",
        &format!(
            "12: {container}.readinessProbe.tcpSocket.port: the container has no port \"http\"; give one of its ports \
             that name, or write a number"
        ),
    );
    check(
        "image: web:1",
        "image: web:1\n          volumeMounts: [{name: data, mountPath: data}]",
        &format!(
            "12: {container}.volumeMounts[0].name: there is no volume \"data\"; volumes stand at \
             spec.template.spec.volumes\n\
             12: {container}.volumeMounts[0].mountPath: \"data\" is no absolute path without .. in it"
        ),
    );
    check(
        "    spec:\n",
        "    spec:\n      runtimeClassName: dokcer\n      volumes: [{name: v, emptyDir: {}, hostPath: {path: /a/../b}}]\n",
        "9: spec.template.spec.runtimeClassName: unknown runtime \"dokcer\"; did you mean \"docker\"?\n\
         10: spec.template.spec.volumes[0]: has to be exactly one of emptyDir, hostPath, persistentVolumeClaim, \
         configMap and secret\n\
         10: spec.template.spec.volumes[0].hostPath.path: \"/a/../b\" is no absolute path without .. in it",
    );
}

#[test]
fn two_of_one_name_are_refused() {
    check(
        "          image: web:1",
        "          image: web:1\n        - name: web\n          image: web:2",
        "12: spec.template.spec.containers[1].name: is there already",
    );
    check(
        "metadata: {name: web}",
        "metadata: {name: web}\nkind: Deployment",
        "4: kind: given twice, first in line 2",
    );
}

#[test]
fn a_kind_with_the_version_of_another_is_told_its_own() {
    check(
        "apps/v1",
        "v1",
        "1: apiVersion: a Deployment is of \"apps/v1\", not of \"v1\"",
    );
    check(
        "kind: Deployment",
        "kind: StatefulSet",
        "2: kind: unknown kind \"StatefulSet\"; there are Device, Route, Deployment, Service, ConfigMap and Secret",
    );
}

#[test]
fn a_diff_never_shows_what_is_secret() {
    let secret = |value: &str| {
        resources(&format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: login}}\nstringData: {{password: {value}}}\n"
        ))
    };
    let (before, after) = (secret("swordfish"), secret("trout"));
    let changes: Vec<String> = diff(&before, &after).iter().map(Change::to_string).collect();
    assert_eq!(changes, ["~ Secret/login stringData.password: (hidden) → (hidden)"]);
    let shown = format!("{before:?}");
    assert!(!shown.contains("swordfish"), "{shown}");
}
