//! The manifests that are applied, and the files of the image that they run.

use std::os::unix::fs::symlink;
use std::path::Path;

use super::ask::LARGE_BYTES;
use super::options::Runtime;
use super::record::Mode;

/// The image of the web server, at the edge and in the engine.
pub(super) const IMAGE: &str = "site:1";
/// Where it listens, in a network of its own.
pub(super) const INNER_PORT: u16 = 8080;
/// What it runs.
pub(super) const SERVES: [&str; 6] = ["/bin/busybox", "httpd", "-f", "-p", "8080", "-h"];
pub(super) const ROOT: &str = "/www";
/// Programs of busybox that scripts call by their name.
const NAMES: [&str; 6] = ["sh", "httpd", "sleep", "cat", "mkdir", "nc"];

/// A web server as it is applied.
pub(super) struct Web<'a> {
    pub(super) name: &'a str,
    pub(super) runtime: Runtime,
    /// What it is while nobody asks, and after how many milliseconds; none = it runs all the time.
    pub(super) sleeps: Option<(Mode, u32)>,
    /// Port of the edge; none = nobody asks it.
    pub(super) port: Option<u16>,
    /// Where the image's files are on the host: programs of the host are run there.
    pub(super) folder: &'a Path,
    /// busybox on the host.
    pub(super) busybox: &'a Path,
}

/// Where a program of the host listens, whose network is the host's: beside the port of the edge that leads to it.
pub(super) fn inner_port(runtime: Runtime, port: u16) -> u16 {
    if runtime == Runtime::Process {
        port + 10_000
    } else {
        INNER_PORT
    }
}

impl Web<'_> {
    /// The manifest.
    pub(super) fn yaml(&self) -> String {
        let Web { name, runtime, .. } = self;
        let class = match runtime {
            Runtime::Oci => String::new(),
            Runtime::Process => "      runtimeClassName: process\n".to_owned(),
            Runtime::Docker => "      runtimeClassName: docker\n".to_owned(),
        };
        let inner = inner_port(*runtime, self.port.unwrap_or_default());
        let image = if *runtime == Runtime::Process {
            let (busybox, root) = (self.busybox.display(), self.folder.join("www"));
            format!(
                "image: '{busybox}', args: [httpd, -f, -p, '127.0.0.1:{inner}', -h, '{}']",
                root.display()
            )
        } else {
            let [program, arguments @ ..] = SERVES;
            format!(
                "image: '{IMAGE}', command: [{program}], args: ['{}', '{ROOT}']",
                arguments.join("', '")
            )
        };
        let ports = self.port.map_or(String::new(), |port| {
            format!(", ports: [{{containerPort: {inner}, hostPort: {port}}}]")
        });
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}{}}}\nspec:\n  selector: {{matchLabels: {{app: \
             {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec:\n{class}      \
             terminationGracePeriodSeconds: 0\n      containers:\n        - {{name: main, {image}{ports}}}\n",
            self.annotations()
        )
    }

    fn annotations(&self) -> String {
        self.sleeps.map_or(String::new(), |(mode, idle_ms)| {
            let when_idle = match mode {
                Mode::Cold => "stop",
                Mode::Paused => "pause",
                Mode::Warm => "renew",
            };
            format!(
                ", annotations: {{selvedge.dev/activation: on-demand, selvedge.dev/idle-timeout: {idle_ms}ms, \
                 selvedge.dev/when-idle: {when_idle}}}"
            )
        })
    }
}

/// A web server with so many replicas. There may be one more, for which all that comes is counted: nobody asks past the
/// edge.
pub(super) fn counted(name: &str, replicas: u32) -> String {
    let [program, arguments @ ..] = SERVES;
    let (arguments, most) = (arguments.join("', '"), replicas + 1);
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, annotations: {{selvedge.dev/max-replicas: '{most}', \
         selvedge.dev/target-concurrency: '1000'}}}}\nspec:\n  replicas: {replicas}\n  selector: {{matchLabels: {{app: \
         {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec:\n      \
         terminationGracePeriodSeconds: 0\n      containers:\n        - {{name: main, image: '{IMAGE}', command: [{program}], \
         args: ['{arguments}', '{ROOT}']}}\n"
    )
}

/// The service of an application of the same name, at port 80.
pub(super) fn service(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec:\n  selector: {{app: {name}}}\n  ports: [{{port: \
         80, targetPort: {INNER_PORT}}}]\n"
    )
}

/// An application of one container, which `run` describes; it sleeps after so many milliseconds, or runs all the time.
pub(super) fn deployment(name: &str, idle_ms: Option<u32>, run: &str) -> String {
    let annotations = idle_ms.map_or(String::new(), |idle_ms| {
        format!(", annotations: {{selvedge.dev/activation: on-demand, selvedge.dev/idle-timeout: {idle_ms}ms}}")
    });
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}{annotations}}}\nspec:\n  selector: {{matchLabels: \
         {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec:\n      \
         terminationGracePeriodSeconds: 0\n      containers:\n        - {{name: main, {run}}}\n"
    )
}

/// A database that keeps what it is told in a volume, which outlives its sleep: what [`deployment`] is given to run.
pub(super) const DATABASE: &str = "command: [/usr/bin/redis-server], args: [--save, '', --appendonly, 'yes', \
    --protected-mode, 'no', --bind, 0.0.0.0, --dir, /data], volumeMounts: [{name: readings, mountPath: /data}]";
/// What follows the manifest of one.
pub(super) const DATABASE_VOLUME: &str =
    "      volumes:\n        - {name: readings, persistentVolumeClaim: {claimName: readings}}\n";
/// Where it listens.
pub(super) const DATABASE_PORT: u16 = 6_379;

/// Files of the image: a shell and a web server, which are one static program, and what it serves.
///
/// # Errors
/// They cannot be written, in words.
pub(super) fn fill(folder: &Path, busybox: &Path) -> Result<(), String> {
    let write = || {
        for name in ["bin", "www", "tmp"] {
            std::fs::create_dir_all(folder.join(name))?;
        }
        std::fs::copy(busybox, folder.join("bin/busybox"))?;
        for name in NAMES {
            symlink("busybox", folder.join("bin").join(name))?;
        }
        std::fs::write(folder.join("www/index.html"), "here\n")?;
        std::fs::write(folder.join("www/large"), vec![b'x'; LARGE_BYTES])
    };
    write().map_err(|error: std::io::Error| format!("{}: {error}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_the_host_listens_beside_its_port_and_a_container_where_it_likes() {
        let web = |runtime| Web {
            name: "site",
            runtime,
            sleeps: Some((Mode::Warm, 50)),
            port: Some(8001),
            folder: Path::new("/f"),
            busybox: Path::new("/bin/busybox"),
        };
        let process = web(Runtime::Process).yaml();
        assert!(process.contains("'127.0.0.1:18001'") && process.contains("containerPort: 18001, hostPort: 8001"));
        assert!(process.contains("runtimeClassName: process") && process.contains("idle-timeout: 50ms"));
        let oci = web(Runtime::Oci).yaml();
        assert!(oci.contains("containerPort: 8080, hostPort: 8001") && !oci.contains("runtimeClassName"));
        assert!(oci.contains("when-idle: renew"));
    }
}
