//! What would be right instead of a field that is not read here, or that is missing.

use crate::names::nearest;

/// Fields of Kubernetes that mean nothing on one board, or that would be promised and not kept, and what to do instead.
const NOT_SUPPORTED: &[(&str, &str)] = &[
    (
        "affinity",
        "all of an application runs on its edge; nodeSelector says on which",
    ),
    (
        "clusterIPs",
        "a service has one address, which the edge chooses; leave it out",
    ),
    ("dnsConfig", "names are resolved by the edge; leave it out"),
    ("dnsPolicy", "names are resolved by the edge; leave it out"),
    ("enableServiceLinks", "services are found by their names; leave it out"),
    ("ephemeralContainers", "use selvedge exec"),
    ("externalIPs", "give the container's port a hostPort"),
    ("externalTrafficPolicy", "give the container's port a hostPort"),
    ("fsGroupChangePolicy", "leave it out"),
    ("grpc", "probe with exec, httpGet or tcpSocket"),
    ("hostAliases", "leave it out"),
    ("hostIPC", "containers do not share memory with the host; leave it out"),
    ("hostPID", "containers do not see the host's processes; leave it out"),
    ("loadBalancerIP", "give the container's port a hostPort"),
    ("matchExpressions", "write the labels as matchLabels"),
    ("nodeName", "a manifest is applied for an edge; leave it out"),
    ("nodePort", "give the container's port a hostPort"),
    ("overhead", "leave it out"),
    ("postStart", "use an init container or a startupProbe"),
    ("preemptionPolicy", "leave it out"),
    ("priority", "leave it out"),
    ("priorityClassName", "leave it out"),
    (
        "privileged",
        "give the container the devices and capabilities that it needs",
    ),
    ("procMount", "leave it out"),
    ("readinessGates", "use a readinessProbe"),
    (
        "revisionHistoryLimit",
        "one revision is kept to roll back to; leave it out",
    ),
    ("seLinuxOptions", "leave it out"),
    ("schedulerName", "leave it out"),
    ("serviceAccount", "an application has its own credentials; leave it out"),
    (
        "serviceAccountName",
        "an application has its own credentials; leave it out",
    ),
    ("sessionAffinity", "leave it out"),
    ("shareProcessNamespace", "leave it out"),
    ("stdin", "use selvedge exec"),
    ("subPathExpr", "write it out as subPath"),
    ("sysctls", "leave it out"),
    ("tolerations", "a manifest is applied for an edge; leave it out"),
    (
        "topologySpreadConstraints",
        "all of an application runs on its edge; leave it out",
    ),
    ("tty", "use selvedge exec"),
    ("volumeDevices", "devices of the host are given by name, as resources"),
];

/// What a field is for that has to be there.
const MISSING: &[(&str, &str)] = &[
    ("containerPort", "the port that the container listens on, such as 8080"),
    ("containers", "at least one, such as - {name: web, image: …}"),
    ("image", "the image to run, such as registry.example/web:1.4"),
    ("key", "which of its values"),
    ("metadata", "it has at least a name: metadata: {name: …}"),
    ("mountPath", "where the container sees the volume, such as /data"),
    ("name", "everything has one"),
    ("path", "an absolute path"),
    ("port", "a number, or the name of one of the container's ports"),
    (
        "selector",
        "the labels of the template: selector: {matchLabels: {app: …}}",
    ),
    ("spec", "what shall run"),
    ("template", "what is run: its labels and its containers"),
];

/// What to say of a field that the type `owner` does not have.
pub(crate) fn unknown(owner: &str, name: &str, known: &[&str]) -> String {
    let hint = |table: &[(&str, &'static str)]| table.iter().find(|(field, _)| *field == name).map(|(_, hint)| *hint);
    if let Some(hint) = hint(NOT_SUPPORTED) {
        return format!("not supported here; {hint}");
    }
    match nearest(name, known.iter().copied()) {
        Some(meant) => format!("unknown field; did you mean {meant:?}?"),
        None => format!("unknown field; a {owner} has {}", list(known, "and")),
    }
}

/// What to say of a field that has to be there.
pub(crate) fn missing(name: &str) -> String {
    let help = MISSING.iter().find(|(field, _)| *field == name);
    help.map_or_else(|| "missing".to_owned(), |(_, help)| format!("missing; {help}"))
}

/// `a, b and c`.
pub(crate) fn list(names: &[&str], before_last: &str) -> String {
    match names {
        [all @ .., last] if !all.is_empty() => format!("{} {before_last} {last}", all.join(", ")),
        names => names.concat(),
    }
}
