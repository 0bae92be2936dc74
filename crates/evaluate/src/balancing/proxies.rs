//! nginx and HAProxy in front of the same pods, past the edges.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::nodes::Nodes;
use super::record::Arm;
use crate::arms::ServerProcess;
use crate::gateway::{About, found};

/// Where one listens, on its node.
const PORT: u16 = 8_000;

/// What those say of themselves that are there.
pub(super) fn about() -> Vec<About> {
    const SETTINGS: &str = "one worker or thread, connections kept";
    let of = |name: &str| {
        let output = Command::new(found(name, name).ok()?).arg("-v").output().ok()?;
        // Each says it where it likes.
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let version = said.lines().next()?.trim_start_matches("nginx version: ").to_owned();
        Some(About {
            name: name.to_owned(),
            version,
            settings: SETTINGS.to_owned(),
        })
    };
    ["nginx", "haproxy"].into_iter().filter_map(of).collect()
}

/// One that runs, where it is asked.
pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    server: ServerProcess,
}

impl Proxy {
    /// Starts one on a node, before all pods of the site.
    ///
    /// # Errors
    /// It is not installed or does not start, in words.
    pub(super) fn start(arm: Arm, nodes: &Nodes, place: usize) -> Result<Proxy, String> {
        let node = &nodes.all()[place];
        let address = SocketAddr::from((node.address(), PORT));
        let directory = node.site.make_directory("proxy")?;
        let pods = nodes.pods_seen_from(place);
        let (program, text) = match arm {
            Arm::Haproxy => (found("haproxy", "haproxy")?, haproxy(address, &pods)),
            arm => (found("nginx", "nginx-light")?, nginx(arm, (address, &pods), &directory)),
        };
        let file = directory.join("proxy.conf");
        std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        let words = words(arm, &file, &directory);
        let mut server = ServerProcess::start(&node.site.edge_helper(), None, &program, &words, &directory)?;
        node.site.enter(|| server.wait_until_ready(address))??;
        Ok(Proxy { address, server })
    }

    /// Processor seconds that it has taken.
    pub(super) fn cpu_s(&self) -> Option<f64> {
        self.server.cpu_s()
    }
}

fn words(arm: Arm, file: &Path, directory: &Path) -> Vec<String> {
    let words: Vec<PathBuf> = match arm {
        Arm::Haproxy => vec!["-db".into(), "-f".into(), file.into()],
        _ => vec!["-p".into(), directory.into(), "-c".into(), file.into()],
    };
    words.iter().map(|word| word.display().to_string()).collect()
}

/// One worker, so that it knows all requests; connections to pods are kept.
fn nginx(arm: Arm, (address, pods): (SocketAddr, &[SocketAddr]), directory: &Path) -> String {
    let mut servers = String::new();
    for pod in pods {
        let _ = writeln!(servers, "    server {pod};");
    }
    let by = match arm {
        Arm::NginxLeastConnections => "    least_conn;\n",
        _ => "",
    };
    let directory = directory.display();
    format!(
        "daemon off;\nuser root;\nmaster_process off;\nworker_processes 1;\npid {directory}/nginx.pid;\nerror_log {directory}/error.log;\n\
         events {{ worker_connections 4096; }}\nhttp {{\n  access_log off;\n  keepalive_requests 1000000000;\n  \
         client_body_temp_path {directory}/body;\n  proxy_temp_path {directory}/temporary;\n  fastcgi_temp_path \
         {directory}/fastcgi;\n  uwsgi_temp_path {directory}/uwsgi;\n  scgi_temp_path {directory}/scgi;\n  upstream pods \
         {{\n{by}{servers}    keepalive 256;\n    keepalive_requests 1000000000;\n  }}\n  server {{\n    listen {address};\n    \
         location / {{ proxy_pass http://pods; proxy_http_version 1.1; proxy_set_header Connection \"\"; }}\n  }}\n}}\n"
    )
}

/// One thread, so that it knows all requests; connections to pods are kept.
fn haproxy(address: SocketAddr, pods: &[SocketAddr]) -> String {
    let mut servers = String::new();
    for (number, pod) in pods.iter().enumerate() {
        let _ = writeln!(servers, "  server pod-{number} {pod} check");
    }
    format!(
        "global\n  maxconn 4096\n  nbthread 1\ndefaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  \
         timeout server 60s\n  http-reuse always\nfrontend all\n  bind {address}\n  default_backend pods\nbackend pods\n  \
         balance leastconn\n{servers}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_proxy_has_all_pods_and_its_own_rule() {
        let pods: Vec<SocketAddr> = ["10.0.0.1:8080", "10.0.0.2:8080"]
            .map(|pod| pod.parse().unwrap())
            .to_vec();
        let address = "10.0.0.9:8000".parse().unwrap();
        let of = |arm| nginx(arm, (address, &pods), Path::new("/d"));
        let [turns, least] = [Arm::NginxRoundRobin, Arm::NginxLeastConnections].map(of);
        assert!(turns.contains("10.0.0.1:8080") && turns.contains("10.0.0.2:8080") && !turns.contains("least_conn"));
        assert!(least.contains("least_conn"));
        assert!(haproxy(address, &pods).contains("server pod-1 10.0.0.2:8080"));
    }
}
