"""What stands between an edge and its cloud in a plant: a web server that ends TLS, and a proxy that lets HTTPS out."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from brokers import ENVIRONMENT, PORTS, Broker
from raw import PATIENCE_S


class Server:
    """A program of Debian's that listens on a port."""

    def __init__(self, directory: Path):
        self.directory = directory
        directory.mkdir(parents=True)
        self.port = PORTS.take()
        self.log = directory / "log"
        self.process: subprocess.Popen | None = None

    def command(self) -> list[str]:
        """What runs it in the foreground."""
        raise NotImplementedError

    def start(self) -> Server:
        """Starts it and waits until it listens."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log, env=ENVIRONMENT)
        deadline = time.monotonic() + PATIENCE_S
        while not Broker._listening(self.port):
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.01)  # A port gives no event before it listens.
        return self

    def stop(self) -> None:
        """Ends it, and all connections through it."""
        if self.process:
            self.process.terminate()
            self.process.wait(PATIENCE_S)

    def restart(self) -> None:
        """Ends it and starts it again."""
        self.stop()
        self.start()


class Nginx(Server):
    """Ends TLS on one port, and passes requests for a WebSocket at /mqtt on to the door of a cloud; others to its port
    for HTTP, if that is given."""

    def __init__(
        self,
        directory: Path,
        certificate: tuple[Path, Path],
        target: int,
        host: str = "127.0.0.1",
        http: int | None = None,
    ):
        super().__init__(directory)
        self.certificate, self.target, self.host = certificate, target, host
        self.others = f"proxy_pass http://127.0.0.1:{http};" if http else "return 404;"

    def command(self) -> list[str]:
        """A file alone."""
        certificate, key = self.certificate
        temporary = "".join(
            f"{name}_temp_path {self.directory}/{name};"
            for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        path = self.directory / "nginx.conf"
        path.write_text(f"""
            daemon off; worker_processes 1; pid {self.directory}/pid; error_log stderr;
            events {{}}
            http {{
                access_log off; {temporary}
                server {{
                    listen {self.host}:{self.port} ssl;
                    ssl_certificate {certificate}; ssl_certificate_key {key};
                    location / {{ {self.others} }}
                    location = /mqtt {{
                        proxy_pass http://127.0.0.1:{self.target};
                        proxy_http_version 1.1;
                        proxy_set_header Upgrade $http_upgrade;
                        proxy_set_header Connection upgrade;
                        proxy_set_header Host $http_host;
                    }}
                }}
            }}
        """)
        return ["nginx", "-c", str(path), "-p", str(self.directory), "-e", "stderr"]


class Tinyproxy(Server):
    """A proxy that makes tunnels: for anybody, for one login, or to some ports alone."""

    def __init__(self, directory: Path, login: str = "", only_to: int | None = None):
        super().__init__(directory)
        self.login, self.only_to = login, only_to

    def command(self) -> list[str]:
        """A file alone."""
        lines = [f"Port {self.port}", "Listen 127.0.0.1", "Timeout 600", "MaxClients 20", "LogLevel Connect"]
        lines += [f"BasicAuth {self.login}"] if self.login else []
        lines += [f"ConnectPort {self.only_to}"] if self.only_to else []
        path = self.directory / "tinyproxy.conf"
        path.write_text("\n".join([*lines, ""]))
        return ["tinyproxy", "-d", "-c", str(path)]

    def tunnels(self) -> int:
        """How many it was asked for so far."""
        return self.log.read_text().count("CONNECT ")
