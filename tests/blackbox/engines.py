"""A real Docker Engine of the tests' own, or a real Podman, beside any that the machine has."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from sites import wait_until

IMAGE = "box:1"
PROGRAMS = ["sh", "sleep", "cat", "echo", "httpd", "mkdir", "hostname", "touch", "ls", "id"]
# It changes nothing of the machine's but what it is asked for.
NO_NETWORK = ("--bridge", "none", "--iptables=false")


class Engine:
    """A Docker Engine, with its files in a place; `within` is a command that runs it elsewhere."""

    def __init__(self, place: Path, within: tuple[str, ...] = (), network: tuple[str, ...] = NO_NETWORK):
        self.place, self.within, self.network = place, within, network
        self.socket = place / "engine.sock"
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        command = [*self.within, "dockerd", "--host", f"unix://{self.socket}", "--data-root", str(self.place / "data")]
        command += ["--exec-root", str(self.place / "exec"), "--pidfile", str(self.place / "pid")]
        self.run([*command, *self.network])

    def run(self, command: list[str], environment: dict[str, str] | None = None) -> None:
        """Runs what answers at the socket, until it does."""
        with (self.place / "log").open("a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **(environment or {})})
        wait_until(lambda: self.docker("version", check=False).returncode == 0, patience_s=60)

    def stop(self) -> None:
        if self.process:
            self.process.terminate()
            self.process.wait(timeout=60)
            self.process = None

    def forget(self) -> None:
        """Ends it, and what it mounted."""
        self.stop()
        subprocess.run(f"umount {self.place}/exec/netns/*", shell=True, capture_output=True)

    def docker(self, *words: str, check: bool = True, stdin: bytes = b"") -> subprocess.CompletedProcess:
        command = ["docker", "--host", f"unix://{self.socket}", *words]
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=60)
        assert not check or done.returncode == 0, done.stderr
        return done

    def said(self, *words: str) -> list[str]:
        """The words that it answers."""
        return self.docker(*words).stdout.decode().split()

    def networks(self) -> list[str]:
        """Those that it was asked to make."""
        return self.said("network", "ls", "--quiet", "--filter", "type=custom")

    def clear(self) -> None:
        """Of all that it ran nothing is left."""

        def is_empty() -> bool:
            # One that the edge removes just now is gone a moment later.
            if found := self.said("ps", "--all", "--quiet"):
                self.docker("rm", "--force", *found, check=False)
            return not found

        wait_until(is_empty)
        if found := self.networks():
            # The edge removes those that it has no use for, too.
            self.docker("network", "rm", *found, check=False)

    def take_in(self, folder: Path) -> None:
        """An image that has these files."""
        packed = subprocess.run(["tar", "-C", str(folder), "-c", "."], capture_output=True, check=True)
        self.docker("import", "-", IMAGE, stdin=packed.stdout)

    def import_image(self) -> None:
        """An image of a shell, and what scripts call."""
        programs = self.place / "box/bin"
        programs.mkdir(parents=True)
        shutil.copy("/bin/busybox", programs / "busybox")
        for name in PROGRAMS:
            (programs / name).symlink_to("busybox")
        self.take_in(programs.parent)


# With the runner that is here, and no more files than a process may have here; as Podman comes it takes a million.
PODMAN_CONFIGURED = """\
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
"""


class Podman(Engine):
    """A Podman that answers as a Docker Engine does."""

    state: str | None = None

    def start(self) -> None:
        configured = self.place / "containers.conf"
        configured.write_text(PODMAN_CONFIGURED)
        # Podman takes no long name for it.
        self.state = self.state or tempfile.mkdtemp(prefix="podman-")
        command = ["podman", "--root", str(self.place / "data"), "--runroot", f"{self.state}/run"]
        command += ["--network-config-dir", str(self.place / "networks"), "--tmpdir", f"{self.state}/tmp"]
        command += ["system", "service", "--time=0", f"unix://{self.socket}"]
        self.run(command, {"CONTAINERS_CONF": str(configured)})

    def networks(self) -> list[str]:
        return []

    def forget(self) -> None:
        self.clear()
        self.stop()
        subprocess.run(f"umount {self.place}/data/overlay", shell=True, capture_output=True)
        shutil.rmtree(self.state)
