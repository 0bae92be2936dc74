"""Counts what a running broker does: system calls with strace, instructions and heap allocations with callgrind."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

from brokers import Broker
from raw import PATIENCE_S

# The calls by which a program gets memory of the heap; Rust's allocator makes them for all of Selvedge.
ALLOCATORS = {"malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc", "memalign"}


@dataclass
class Count:
    """What happened while something was watched."""

    system_calls: int = 0
    instructions: int = 0
    allocations: int = 0


@dataclass
class Strace:
    """Writes every system call down with its time."""

    broker: Broker
    NAME = "strace.out"
    COMMAND = ("strace", "-D", "-f", "-qq", "-ttt", "-e", "signal=none", "-o", NAME)

    def count(self, work: Callable[[], None]) -> Count:
        """Those that began while `work` was done."""
        since = time.time()
        work()
        until = time.time()
        return Count(system_calls=sum(since <= at < until for at in self._times(until)))

    def _times(self, until: float) -> list[float]:
        """When each call began, once strace has written all down that began before `until`."""
        path, deadline = self.broker.directory / self.NAME, time.monotonic() + PATIENCE_S
        while True:
            # A call that another thread interrupts has two lines: `<unfinished ...>` and `<... resumed>`.
            lines = [line.split(maxsplit=2) for line in path.read_text(errors="replace").splitlines()]
            times = [float(at) for _, at, call in lines if not call.startswith(("<...", "+++"))]
            if times and times[-1] >= until or time.monotonic() > deadline:
                return times
            time.sleep(0.05)  # The idle broker's own timers bring the next line.


@dataclass
class Callgrind:
    """Runs the broker on a simulated processor that counts instructions and calls of functions."""

    broker: Broker
    dumps: int = 0
    COMMAND = (
        "valgrind",
        "--tool=callgrind",
        "--instr-atstart=no",
        "--separate-threads=yes",
        "--callgrind-out-file=callgrind.out",
    )

    def begin(self) -> None:
        """Counts from now on; until then the broker runs some ten times faster."""
        self._tell("instrumentation", "on")

    def count(self, work: Callable[[], None]) -> Count:
        """What the broker executed while `work` was done. The instructions are those of its busiest thread, the shard:
        others do at times of their own what is nobody's to wait for."""
        self._tell("zero")
        work()
        self._tell("dump")
        self.dumps += 1
        threads = [parse(path.read_text()) for path in self.broker.directory.glob(f"callgrind.out.{self.dumps}-*")]
        return Count(
            instructions=max(thread.instructions for thread in threads),
            allocations=sum(thread.allocations for thread in threads),
        )

    def _tell(self, *words: str) -> None:
        command = ["vgdb", f"--pid={self.broker.process.pid}", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"


def parse(profile: str) -> Count:
    """Totals of one thread's profile in callgrind's format, where a function is named at its first mention only."""
    names: dict[str, str] = {}
    count, called = Count(), ""
    for line in profile.splitlines():
        if mention := re.match(r"(c?)fn=(\(\d+\))(?: (.*))?", line):
            names.setdefault(mention[2], mention[3])
            called = names[mention[2]] if mention[1] else ""
        elif line.startswith("calls=") and called in ALLOCATORS:
            count.allocations += int(line[6:].split()[0])
        elif line.startswith("totals:"):
            count.instructions += int(line.split()[1])
    return count
