"""Starts and stops the broker under test: Selvedge, or Mosquitto to check the tests themselves against."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from raw import PATIENCE_S, SLOWNESS

ROOT = Path(__file__).resolve().parents[2]
NAME = os.environ.get("BROKER", "selvedge")
PATH = os.environ["PATH"] + ":/usr/sbin"
BINARY = {
    "selvedge": os.environ.get("SELVEDGE", str(ROOT / "target/fast/selvedge")),
    "mosquitto": shutil.which("mosquitto", path=PATH) or "mosquitto",
}[NAME]

# As a user has it: no backtraces below an error, no colours in a file.
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("RUST_")}
ENVIRONMENT |= {"NO_COLOR": "1", "PATH": PATH}


@dataclass
class Settings:
    """What a test asks of its broker, in no broker's own words."""

    anonymous: bool = True
    websocket: bool = False
    unix: bool = False
    # Files for a door of TLS by name; empty: the broker makes its own certificate. None: no such door.
    tls: dict[str, Path] | None = None
    proxy_protocol: bool = False
    http: bool = False
    durability: str | None = None
    arguments: list[str] = field(default_factory=list)
    configuration: str = ""
    # The program that runs it and watches: strace, valgrind. It must leave the broker as the child of the test.
    watcher: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)


def led_elsewhere() -> set[int]:
    """Ports whose calls the kernel leads elsewhere: it does for an edge that was killed, also by an earlier run."""
    with contextlib.suppress(OSError):
        done = subprocess.run(["nft", "list", "ruleset"], capture_output=True, text=True, check=False)
        return {int(port) for port in re.findall(r"tcp dport (\d+) dnat", done.stdout)}
    return set()


class Ports:
    """Free TCP ports below the range that the kernel hands out: blocks that no other process that runs tests has."""

    def __init__(self) -> None:
        self.claims: list[socket.socket] = []
        self.left: list[int] = []

    def _claim(self) -> None:
        """Takes the first block that nobody has claimed, by a name that ends with this process."""
        claim = socket.socket(socket.AF_UNIX)
        for first in range(14_000, 30_000, 1_000):
            with contextlib.suppress(OSError):
                claim.bind(f"\0selvedge-tests-{first}")
                self.claims.append(claim)
                self.left = sorted(set(range(first, first + 1_000)) - led_elsewhere(), reverse=True)
                return
        raise RuntimeError("all ports for tests are claimed")

    def take(self) -> int:
        """A port that nothing listens on, and that was not taken before."""
        while True:
            if not self.left:
                self._claim()
            port = self.left.pop()
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
                return port


PORTS = Ports()


class Broker:
    """A running broker with its log, its data directory and its ports."""

    def __init__(self, directory: Path, settings: Settings):
        self.directory = directory
        self.settings = settings
        self.data = directory / "data"
        self.log = directory / "broker.log"
        self.port = PORTS.take()
        self.websocket_port = PORTS.take() if settings.websocket else None
        self.tls_port = PORTS.take() if settings.tls is not None else None
        self.secure_websocket_port = PORTS.take() if settings.tls is not None and settings.websocket else None
        self.http_port = PORTS.take() if settings.http else None
        self.unix_path = directory / "mqtt.sock" if settings.unix else None
        self.process: subprocess.Popen | None = None
        # A test that it ran for has failed.
        self.is_evidence = False

    def command(self) -> list[str]:
        """The command line that starts it."""
        raise NotImplementedError

    def start(self) -> Broker:
        """Starts it and waits until it accepts connections."""
        self.spawn()
        # Under valgrind everything takes some ten times longer.
        deadline = time.monotonic() + PATIENCE_S * (6 if self.settings.watcher else 1)
        while not self._accepts():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise AssertionError(f"ended with {self.process.returncode} before it was ready:\n{self.tail()}")
            time.sleep(0.005)  # A port gives no event before it listens.
        return self

    def spawn(self, stderr: int = subprocess.STDOUT) -> None:
        """Starts it and waits for nothing."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                stdout=log,
                stderr=stderr,
                stdin=subprocess.DEVNULL,
                cwd=self.directory,
                env=ENVIRONMENT | self.settings.environment,
            )

    def _accepts(self) -> bool:
        ports = [self.port, self.websocket_port, self.tls_port, self.secure_websocket_port, self.http_port]
        return all(port is None or self._listening(port) for port in ports)

    @staticmethod
    def _listening(port: int) -> bool:
        """Asks for the port, which only a listener is in the way of: a connection made to look would count as one with
        the broker, and the kernel's table of sockets takes seconds to read where there are tens of thousands."""
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError as error:
                return error.errno == errno.EADDRINUSE
            return False

    def signal(self, number: int) -> None:
        """Sends a signal to it."""
        self.process.send_signal(number)

    def stop(self) -> int | None:
        """SIGTERM, then SIGKILL if it does not end in time; its exit status."""
        if self.process is None or self.process.poll() is not None:
            return None if self.process is None else self.process.returncode
        self.signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return self.process.returncode

    def kill(self) -> None:
        """SIGKILL: it gets no chance to write anything."""
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def rss_bytes(self) -> int:
        """Resident memory."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def descriptors(self) -> int:
        """Open file descriptors."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def alive(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    def said(self, words: str) -> str:
        """Its log, once these words are in it: a thread of its own writes there."""
        deadline = time.monotonic() + PATIENCE_S
        while words not in self.log.read_text():
            assert time.monotonic() < deadline, f"{words!r} is not in the log:\n{self.tail()}"
            time.sleep(0.02)  # A file gives no event when it grows.
        return self.log.read_text()

    def tail(self, lines: int = 60) -> str:
        """The end of its log."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


class Selvedge(Broker):
    """`selvedge edge`."""

    def command(self) -> list[str]:
        """Flags alone, as the first five minutes have it."""
        settings = self.settings
        words = [*settings.watcher, BINARY, "edge", "--data", str(self.data), "--mqtt", f"127.0.0.1:{self.port}"]
        words += ["--allow-anonymous"] if settings.anonymous else []
        words += ["--mqtt-ws", f"127.0.0.1:{self.websocket_port}"] if settings.websocket else []
        words += ["--http", f"127.0.0.1:{self.http_port}"] if settings.http else []
        words += ["--mqtt-unix", str(self.unix_path)] if settings.unix else []
        words += ["--durability", settings.durability] if settings.durability else []
        words += ["--proxy-protocol"] if settings.proxy_protocol else []
        if settings.tls is not None:
            words += ["--mqtts", f"127.0.0.1:{self.tls_port}"]
            words += [word for name, path in settings.tls.items() for word in (f"--tls-{name}", str(path))]
        words += ["--mqtt-wss", f"127.0.0.1:{self.secure_websocket_port}"] if self.secure_websocket_port else []
        if settings.configuration:
            (self.directory / "selvedge.toml").write_text(settings.configuration)
            words += ["--config", str(self.directory / "selvedge.toml")]
        return words + settings.arguments

    def run(self, *words: str, check: bool = True) -> subprocess.CompletedProcess:
        """A `selvedge` command on this broker's data directory."""
        return selvedge(*words, "--data", str(self.data), check=check, cwd=self.directory)

    def events(self) -> str:
        """What has happened to its applications; nothing where it does not run."""
        if self.process is None or self.process.poll() is not None or not (self.data / "containers").exists():
            return ""
        return "\n".join(self.run(*words, check=False).stdout for words in (["events"], ["get", "deployments"]))


class Mosquitto(Broker):
    """Debian's Mosquitto with persistence on."""

    def command(self) -> list[str]:
        """Mosquitto takes a file only."""
        self.data.mkdir(exist_ok=True)
        lines = [f"listener {self.port} 127.0.0.1"]
        if self.websocket_port:
            lines += [f"listener {self.websocket_port} 127.0.0.1", "protocol websockets"]
        if self.unix_path:
            lines += [f"listener 0 {self.unix_path}"]
        if self.tls_port:
            lines += [f"listener {self.tls_port} 127.0.0.1", *self._tls()]
        if self.secure_websocket_port:
            lines += [f"listener {self.secure_websocket_port} 127.0.0.1", "protocol websockets", *self._tls()]
        lines += [f"allow_anonymous {str(self.settings.anonymous).lower()}", "set_tcp_nodelay true"]
        lines += ["persistence true", f"persistence_location {self.data}/", "sys_interval 1", "user root"]
        lines += ["max_packet_size 1048576", "max_queued_messages 100000"]
        path = self.directory / "mosquitto.conf"
        path.write_text("\n".join([*lines, self.settings.configuration, ""]))
        return [BINARY, "-c", str(path), *self.settings.arguments]

    def _tls(self) -> list[str]:
        names = {"certificate": "certfile", "key": "keyfile", "client-ca": "cafile"}
        lines = [f"{names[name]} {path}" for name, path in self.settings.tls.items()]
        return lines + (["require_certificate true"] if "client-ca" in self.settings.tls else [])


def selvedge(*words: str, check: bool = True, cwd: Path | None = None) -> subprocess.CompletedProcess:
    """Runs `selvedge` to its end."""
    timeout_s = 30 * SLOWNESS
    done = subprocess.run(
        [BINARY, *words], capture_output=True, text=True, timeout=timeout_s, check=False, env=ENVIRONMENT, cwd=cwd
    )
    if check:
        assert done.returncode == 0, f"selvedge {' '.join(words)} ended with {done.returncode}: {done.stderr}"
    return done


@cache
def abilities() -> set[str]:
    """The commands of the program and the flags of `edge`: the first words of the lines of `--help`."""
    said = selvedge("--help", check=False).stdout + selvedge("edge", "--help", check=False).stdout
    return {line.split()[0] for line in said.splitlines() if line.startswith("  ") and line.strip()}


def make(directory: Path, settings: Settings) -> Broker:
    """A broker of the kind that BROKER names, not started."""
    directory.mkdir(parents=True, exist_ok=True)
    return {"selvedge": Selvedge, "mosquitto": Mosquitto}[NAME](directory, settings)
