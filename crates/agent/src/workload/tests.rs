use std::collections::BTreeMap;

use manifest::Resource;
use manifest::workload::{Deployment, PullSecret, RollingUpdate, Share};

use super::*;

/// A deployment whose one container has these lines.
fn deployment(lines: &str) -> Deployment {
    let text = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: site}}\nspec:\n  selector: {{matchLabels: {{app: site}}}}\n  \
         template:\n    metadata: {{labels: {{app: site}}}}\n    spec:\n      runtimeClassName: process\n      containers:\n        \
         - name: web\n          image: /bin/web\n{lines}"
    );
    match resource(&text) {
        Resource::Deployment(deployment) => *deployment,
        other => panic!("{other:?}"),
    }
}

fn resource(text: &str) -> Resource {
    manifest::parse("test", text)
        .unwrap()
        .into_iter()
        .next()
        .unwrap()
        .resource
}

fn configuration() -> Configuration {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: limits}\ndata: {LOW: '1', HIGH: '9'}\n";
    let Resource::ConfigMap(map) = resource(text) else {
        panic!()
    };
    // `key` is `hidden`, `raw` is a byte that no text has.
    let text =
        "apiVersion: v1\nkind: Secret\nmetadata: {name: keys}\ndata: {key: aGlkZGVu}\nstringData: {word: $(LOW)}\n";
    let Resource::Secret(secret) = resource(text) else {
        panic!()
    };
    Configuration {
        config_maps: BTreeMap::from([("limits".to_owned(), map)]),
        secrets: BTreeMap::from([("keys".to_owned(), secret)]),
    }
}

fn launch_of(lines: &str) -> Launch {
    let containers = wanted(&deployment(lines), &configuration()).unwrap().containers;
    containers.into_iter().next().unwrap().launch
}

fn wrong_with(lines: &str) -> Vec<(String, String)> {
    let wrong = wanted(&deployment(lines), &configuration()).unwrap_err();
    wrong
        .into_iter()
        .map(|finding| (finding.path, finding.message))
        .collect()
}

#[test]
fn variables_come_from_manifests_config_maps_and_secrets_the_nearer_before_the_farther() {
    let launch = launch_of(
        "          args: ['$(BOTH)', '$(WORD)']\n          envFrom:\n            - configMapRef: {name: limits}\n              prefix: L_\n            \
         - configMapRef: {name: none, optional: true}\n          env:\n            - {name: LOW, value: '5'}\n            \
         - {name: L_HIGH, value: '7'}\n            - {name: BOTH, value: '$(L_LOW)-$(LOW)-$(L_HIGH)-$(LATER)'}\n            \
         - {name: LATER, value: x}\n            - {name: KEY, valueFrom: {secretKeyRef: {name: keys, key: key}}}\n            \
         - {name: WORD, valueFrom: {secretKeyRef: {name: keys, key: word}}}\n            \
         - {name: NONE, valueFrom: {configMapKeyRef: {name: limits, key: none, optional: true}}}\n",
    );
    let env: BTreeMap<&str, &str> = launch.env.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(env["BOTH"], "1-5-7-$(LATER)");
    assert_eq!(
        (env["KEY"], env["WORD"]),
        ("hidden", "$(LOW)"),
        "what is kept is taken as it is"
    );
    assert!(!env.contains_key("NONE"));
    assert_eq!(launch.args, ["1-5-7-$(LATER)", "$(LOW)"]);
}

#[test]
fn what_is_referred_to_and_not_there_is_said_by_its_place() {
    let wrong = wrong_with(
        "          envFrom:\n            - secretRef: {name: none}\n          env:\n            \
         - {name: A, valueFrom: {configMapKeyRef: {name: limits, key: LOV}}}\n",
    );
    let path = "spec.template.spec.containers[0]";
    let expected = [
        (
            format!("{path}.envFrom[0]"),
            "there is no Secret none; apply one".to_owned(),
        ),
        (
            format!("{path}.env[0]"),
            "the ConfigMap limits has no \"LOV\"; did you mean \"LOW\"?".to_owned(),
        ),
    ];
    assert_eq!(wrong, expected);
}

#[test]
fn limits_and_the_user_are_those_of_the_manifest() {
    let launch = launch_of(
        "          securityContext: {runAsUser: 65534}\n          resources:\n            limits: {cpu: 250m, memory: 16Mi, selvedge.dev/pids: 8, selvedge.dev/read-bytes-per-s: 10Mi, selvedge.dev/write-bytes-per-s: 5000000}\n            requests: {cpu: 100m, memory: 8Mi}\n",
    );
    assert_eq!((launch.uid, launch.gid), (Some(65_534), None));
    let limits = Limits {
        cpu_millis: Some(250),
        memory_bytes: Some(16 << 20),
        pids: Some(8),
        read_bytes_per_s: Some(10 << 20),
        write_bytes_per_s: Some(5_000_000),
        promised_cpu_millis: Some(100),
        promised_memory_bytes: Some(8 << 20),
    };
    assert_eq!(launch.limits, limits);
}

#[test]
fn a_replica_has_all_containers() {
    let mut both = deployment("        - name: log\n          image: /bin/log\n");
    both.spec.replicas = 2;
    let both = wanted(&both, &configuration()).unwrap();
    let names: Vec<(u32, &str)> = both.containers.iter().map(|one| (one.replica, &*one.name)).collect();
    assert_eq!((both.replicas, names), (2, vec![(0, "web"), (0, "log")]));
}

#[test]
fn old_and_new_replicas_overlap_as_the_strategy_says_or_where_they_share_nothing() {
    let of_image = |lines: &str| {
        let mut of_image = deployment(lines);
        of_image.spec.replicas = 4;
        of_image.spec.template.spec.runtime_class_name = None;
        of_image.spec.template.spec.containers[0].image = "site".to_owned();
        of_image
    };
    let program = deployment("");
    let mut on_host = of_image("");
    on_host.spec.template.spec.host_network = true;
    let device = of_image("          resources: {limits: {selvedge.dev/ttyUSB0: 1}}\n");
    let ways = |deployment: &Deployment| (update(deployment).surge, update(deployment).unavailable);
    for (deployment, way) in [
        (program, (0, 1)),
        (on_host, (0, 1)),
        (device, (0, 1)),
        (of_image(""), (1, 1)),
    ] {
        assert_eq!(ways(&deployment), way);
    }
    let written = |surge: Share, unavailable: Share| {
        let mut written = of_image("");
        written.spec.template.spec.host_network = true;
        written.spec.strategy.rolling_update = Some(RollingUpdate {
            max_surge: surge,
            max_unavailable: unavailable,
        });
        ways(&written)
    };
    assert_eq!(written(Share::Count(3), Share::Count(0)), (3, 0));
    assert_eq!(written(Share::Percent(30), Share::Percent(30)), (2, 1));
    assert_eq!(written(Share::Percent(0), Share::Percent(10)), (0, 1));
    let mut recreated = of_image("");
    recreated.spec.strategy.kind = StrategyType::Recreate;
    assert_eq!(ways(&recreated), (0, u32::MAX));
}

#[test]
fn what_is_not_done_is_refused_by_name() {
    let path = "spec.template.spec.containers[0]";
    for (lines, field) in [
        (
            "          resources: {requests: {ephemeral-storage: 1Gi}}\n",
            "resources.requests.ephemeral-storage",
        ),
        (
            "          resources: {limits: {ephemeral-storage: 1Gi}}\n",
            "resources.limits.ephemeral-storage",
        ),
        (
            "          resources: {limits: {selvedge.dev/ttyUSB0: 1}}\n",
            "resources.limits.selvedge.dev/ttyUSB0",
        ),
        (
            "          resources: {requests: {selvedge.dev/read-bytes-per-s: 1Mi}}\n",
            "resources.requests.selvedge.dev/read-bytes-per-s",
        ),
        (
            "          resources: {limits: {selvedge.dev/write-bytes-per-s: 1}}\n",
            "resources.limits.selvedge.dev/write-bytes-per-s",
        ),
        (
            "          securityContext: {runAsNonRoot: true}\n",
            "securityContext.runAsNonRoot",
        ),
        (
            "          securityContext: {capabilities: {add: [NET_ADMIN]}}\n",
            "securityContext.capabilities",
        ),
    ] {
        let wrong = wrong_with(lines);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert_eq!(wrong[0].0, format!("{path}.{field}"));
    }
    let mut other = deployment("");
    other.spec.replicas = u32::MAX;
    assert_eq!(paths(&other), ["spec.replicas"]);
}

#[test]
fn what_no_container_of_docker_can_have_is_refused_by_name() {
    let mut of_image = deployment(
        "          volumeMounts: [{name: data, mountPath: /data, subPath: part}]\n          securityContext: {runAsGroup: 5}\n      \
         volumes: [{name: data, emptyDir: {}}]\n",
    );
    let pod = &mut of_image.spec.template.spec;
    pod.runtime_class_name = Some("docker".to_owned());
    pod.containers[0].image = "nginx".to_owned();
    let mut second = pod.containers[0].clone();
    second.volume_mounts.clear();
    second.security_context.run_as_user = Some(5);
    pod.containers.push(second);
    let of_pod = "spec.template.spec";
    let expected = [
        "containers",
        "containers[0].volumeMounts[0].subPath",
        "containers[0].securityContext.runAsGroup",
    ];
    assert_eq!(paths(&of_image), expected.map(|field| format!("{of_pod}.{field}")));
    let pod = &mut of_image.spec.template.spec;
    pod.host_network = true;
    pod.containers[0].volume_mounts[0].sub_path = None;
    pod.containers[0].security_context.run_as_user = Some(5);
    assert_eq!(paths(&of_image), [""; 0]);
    let launch = wanted(&of_image, &configuration()).unwrap().containers.remove(0).launch;
    assert_eq!(launch.kind, Kind::Docker);
}

#[test]
fn what_no_image_can_have_is_refused_by_name() {
    let mut of_image = deployment("");
    let pod = &mut of_image.spec.template.spec;
    pod.runtime_class_name = None;
    pod.containers[0].image = "nginx".to_owned();
    pod.containers[0].security_context.capabilities.add = vec!["FLY".to_owned()];
    let of_pod = "spec.template.spec";
    assert_eq!(
        paths(&of_image),
        [format!("{of_pod}.containers[0].securityContext.capabilities")]
    );
    let pod = &mut of_image.spec.template.spec;
    pod.containers[0].security_context.capabilities.add = vec!["NET_ADMIN".to_owned(), "CAP_SYS_TIME".to_owned()];
    let limits = &mut pod.containers[0].resources.limits.others;
    limits.insert("selvedge.dev/ttyUSB0".to_owned(), 1);
    limits.insert("selvedge.dev/gpiochip0".to_owned(), 0);
    assert_eq!(paths(&of_image), [""; 0]);
    let launch = wanted(&of_image, &configuration()).unwrap().containers.remove(0).launch;
    assert_eq!(launch.devices, ["ttyUSB0"]);
    let pod = &mut of_image.spec.template.spec;
    let limits = &mut pod.containers[0].resources.limits.others;
    limits.insert("selvedge.dev/../sda".to_owned(), 1);
    assert_eq!(
        paths(&of_image),
        [format!("{of_pod}.containers[0].resources.limits.selvedge.dev/../sda")]
    );
}

#[test]
fn what_has_no_effect_is_named_and_what_was_applied_with_it_runs_on() {
    let lines = "          imagePullPolicy: Always\n          resources: {requests: {selvedge.dev/pids: 8}}\n";
    let mut of_program = deployment(lines);
    of_program.spec.template.spec.image_pull_secrets = vec![PullSecret {
        name: "keys".to_owned(),
    }];
    let found = without_effect(&of_program).into_iter().map(|finding| finding.path);
    let of_pod = "spec.template.spec";
    let expected = [
        "imagePullSecrets",
        "containers[0].imagePullPolicy",
        "containers[0].resources.requests.selvedge.dev/pids",
    ];
    assert_eq!(
        found.collect::<Vec<_>>(),
        expected.map(|field| format!("{of_pod}.{field}"))
    );
    assert!(wanted(&deployment(lines), &configuration()).is_ok());
}

fn paths(deployment: &Deployment) -> Vec<String> {
    unsupported(deployment)
        .into_iter()
        .map(|finding| finding.path)
        .collect()
}

/// What agents have called an application so far: where this changes, an upgrade starts all of them again.
#[test]
fn an_application_of_an_earlier_agent_is_the_same_to_this_one() {
    let lines =
        "          args: [serve]\n          resources: {limits: {cpu: 250m, memory: 16Mi, selvedge.dev/pids: 8}}\n";
    let written = serde_json::to_string(&wanted(&deployment(lines), &configuration()).unwrap().containers).unwrap();
    assert_eq!(written, EARLIER.lines().map(str::trim).collect::<String>());
}

const EARLIER: &str = r#"
    [{"name":"web","replica":0,"is_init":false,"launch":{"kind":"process","image":"/bin/web",
    "pull":{"policy":"if-absent","login":null},"command":[],"args":["serve"],"env":[],"working_dir":null,
    "uid":null,"gid":null,"pod":{"tenant":"default","application":"site","replica":0},"has_own_network":false,
    "hostname":null,"mounts":[],"volumes_gid":null,"devices":[],
    "rights":{"added":[],"dropped":[],"is_root_read_only":false,"may_gain":false,"is_never_root":false},
    "limits":{"cpu_millis":250,"memory_bytes":16777216,"pids":8,"promised_cpu_millis":null,
    "promised_memory_bytes":null},"log":{"file_bytes":4194304,"files":3}},
    "probes":{"startup":null,"liveness":null,"readiness":null},"pre_stop":null,"grace":{"secs":30,"nanos":0}}]
"#;
