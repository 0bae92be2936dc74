"""Applications as tests apply them, and what runs of them."""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from brokers import Selvedge
from sites import wait_until

SLEEPS = "echo started; exec sleep 1000"


def application(name: str, script: str, more: str = "", replicas: int = 1) -> str:
    """A shell that runs a script; `more` are lines of its container, after its arguments in line 13."""
    return f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      runtimeClassName: process
      terminationGracePeriodSeconds: 2
      containers:
        - {{name: main, image: /bin/sh, args: [-c, {json.dumps(script)}]{more}}}
"""


class Host:
    """What runs of an edge's applications, as the files and the kernel have it."""

    def __init__(self, edge: Selvedge):
        self.edge = edge
        self.containers = edge.data / "containers"

    def pids(self) -> list[int]:
        """First processes of the containers that run."""
        started = []
        for path in self.containers.glob("*/started.json"):
            with contextlib.suppress(FileNotFoundError):
                known = json.loads(path.read_text())
                # Another process may have its number by now.
                if began_ticks(known["pid"]) == known["pid_start_ticks"]:
                    started.append(known["pid"])
        return sorted(pid for pid in started + self.in_engine() if runs_now(pid))

    def in_engine(self) -> list[int]:
        """Of those that a Docker Engine runs, if it does."""
        found = []
        for path in self.containers.glob("*/engine.json"):
            with contextlib.suppress(FileNotFoundError):
                known = json.loads(path.read_text())
                command = ["docker", "--host", f"unix://{known['socket']}", "inspect", "--format", "{{.State.Pid}}"]
                done = subprocess.run([*command, known["name"]], capture_output=True, text=True)
                found += [int(pid) for pid in done.stdout.split() if pid != "0"]
        return found

    def shims(self) -> list[int]:
        """The processes beside them."""
        return self.listed_as("shim")

    def zygotes(self) -> list[int]:
        """What those are forked of."""
        return self.listed_as("shims")

    def listed_as(self, word: str) -> list[int]:
        """Processes for containers that are called so."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = path.read_text().split("\0")
                if words[1:2] == [word] and words[2].startswith(str(self.containers)):
                    found.append(int(path.parent.name))
        return found

    def kill_all(self) -> None:
        """As the host does that is switched off."""
        for pid in self.shims() + self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def began_ticks(pid: int) -> int | None:
    """When a process began, in ticks since the host did, if there is one."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    except (FileNotFoundError, ProcessLookupError):
        return None


def runs_now(pid: int) -> bool:
    """Whether there is such a process, and one that has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def as_run(edge: Selvedge, text: str) -> str:
    """What has a network of its own is run as the test has it for this edge."""
    runtime = getattr(edge, "runtime", None)
    return text.replace("hostNetwork: false", f"runtimeClassName: {runtime}") if runtime else text


def apply(edge: Selvedge, text: str, *words: str, check: bool = True):
    """`selvedge apply -f FILE`, run as [`as_run`] has it."""
    path = edge.directory / "app.yaml"
    path.write_text(as_run(edge, text))
    return edge.run("apply", "-f", str(path), *words, check=check)


def deployment(edge: Selvedge, name: str, *words: str) -> dict:
    """What `selvedge get deployments` says of one."""
    found = json.loads(edge.run("get", "deployments", *words, "--output", "json").stdout)
    return next(one for one in found if one["name"] == name)


def runs(edge: Selvedge, name: str, *words: str) -> None:
    """Waits until all of it runs."""
    wait_until(lambda: (one := deployment(edge, name, *words))["ready"] == one["replicas"], patience_s=30)


@contextlib.contextmanager
def ending(edge: Selvedge) -> Iterator[Selvedge]:
    """An edge whose applications end with the test, which may have failed."""
    try:
        yield edge
    finally:
        edge.stop()  # It would start them again.
        Host(edge).kill_all()
        forget_network(edge)
        forget_groups(edge)


def writes_nothing(edge: Selvedge) -> bool:
    """Whether the edge, its shims, and their children that have ended write nothing to a disk for ten seconds."""

    def written() -> int:
        total = 0
        for pid in [edge.process.pid, *Host(edge).shims()]:
            lines = Path(f"/proc/{pid}/io").read_text().splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))
        return total

    before = written()
    time.sleep(10)
    return written() == before


def host_table(edge: Selvedge) -> str | None:
    """What the rules of calls of the host to programs of this edge are in, if there are any."""
    with contextlib.suppress(FileNotFoundError):
        return f"selvedge-host-{json.loads((edge.data / 'containers.host').read_text())['number']:08x}"
    return None


def forget_network(edge: Selvedge) -> None:
    """What the kernel knows of an edge's network, which stays while its applications could run on."""
    if table := host_table(edge):
        # An edge that is stopped while a call goes on, or that was killed.
        subprocess.run(["nft", "delete", "table", "ip", table], check=False)
    kept = edge.data / "containers.network"
    if kept.exists():
        base = ipaddress.IPv4Address(json.loads(kept.read_text())["range"])
        table = f"inet selvedge-{int(base):08x}"
        for words in (
            # One that was stopped as it began has none yet.
            ["nft", f"add table {table}; delete table {table}"],
            ["ip", "route", "del", "local", f"{base + 2048}/21", "dev", "lo", "table", "local"],
            ["ip", "addr", "del", f"{base + 1}/32", "dev", "lo"],
            # Last: whoever finds the range free takes it at once.
            ["ip", "route", "del", "unreachable", f"{base}/20"],
        ):
            subprocess.run(words, check=True)


def tag_of(edge: Selvedge) -> str:
    """What names of its own begin with, where all edges of the machine have theirs."""
    salt = (edge.data / "containers.salt").read_bytes()
    return hmac.new(salt, b"tag", "sha256").hexdigest()[:12]


def of_runners(edge: Selvedge) -> list[Path]:
    """What runners have in memory of its containers."""
    return [place for memory in ("/run", "/dev/shm") for place in Path(memory).glob(f"selvedge-{tag_of(edge)}-*")]


def forget_groups(edge: Selvedge) -> None:
    """Its control groups, and what is in memory of it, which stay while its applications could run on.

    Those of all tests make each start slower.
    """
    if not (edge.data / "containers.salt").exists():
        return
    tag = tag_of(edge)
    for place in (Path("/run/selvedge") / tag, *of_runners(edge)):
        shutil.rmtree(place, ignore_errors=True)
    trees = [tree for of in ("", "*/") for tree in Path("/sys/fs/cgroup").glob(f"{of}selvedge/{tag}-*")]
    groups = [group for tree in trees for group, _, _ in os.walk(tree, topdown=False)]
    deadline = time.monotonic() + 5
    while groups and time.monotonic() < deadline:
        for group in groups:
            with contextlib.suppress(OSError):  # What was killed has yet to end.
                os.rmdir(group)
        groups = [group for group in groups if os.path.exists(group)]
        time.sleep(0.01)


def answers_while_it_falls_asleep(
    ask: Callable[[], str], times: int = 40, pauses_s: tuple[float, ...] = (0.11, 0.2)
) -> set[str]:
    """All that clients are answered, each of which asks again after a little longer than it takes to sleep."""

    def asks(pause_s: float) -> set[str]:
        answers = set()
        for _ in range(times):
            answers.add(ask())
            time.sleep(pause_s)
        return answers

    with ThreadPoolExecutor(len(pauses_s)) as clients:
        return set().union(*clients.map(asks, pauses_s))
