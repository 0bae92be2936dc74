"""Types what a document prints at terminals, word for word, and waits for what it says that they print."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import brokers
from raw import PATIENCE_S

# A command, and the lines that it prints.
Typed = tuple[str, list[str]]

# What differs from run to run, and stands for any number of its kind.
DURATION = re.compile(r"\d+ (?=ms\b)")
LOG = re.compile(r"^\S+Z  INFO \S+: ")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
JOB = re.compile(r"^\[\d+\]")


def commands(document: str, heading: str) -> list[Typed]:
    """All commands in the console blocks of a section."""
    _, _, section = document.partition(f"\n## {heading}\n")
    section, _, _ = section.partition("\n## ")
    blocks = re.findall(r"```console\n(.*?)```", section, re.DOTALL)
    return [typed for block in blocks for typed in _of_block(block)]


def _of_block(block: str) -> Iterator[Typed]:
    """Commands begin with `$ `; a here-document goes on until its word."""
    command, printed, until = "", [], ""
    for line in block.splitlines():
        if until:
            command += "\n" + line
            until = "" if line == until else until
        elif line.startswith("$ "):
            if command:
                yield command, printed
            command, printed = line[2:], []
            found = re.search(r"<<'(\w+)'", command)
            until = found[1] if found else ""
        else:
            printed.append(line)
    yield command, printed


class Terminal:
    """A shell at a terminal of its own, which prints lines as they come."""

    def __init__(self, directory: Path):
        ours, theirs = pty.openpty()
        modes = termios.tcgetattr(theirs)
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(theirs, termios.TCSANOW, modes)
        path = f"{directory / 'target/fast'}:{brokers.ENVIRONMENT['PATH']}"
        environment = brokers.ENVIRONMENT | {"PATH": path, "PS1": "", "PS2": "", "TERM": "dumb"}
        self.shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "--noediting", "-i"],
            stdin=theirs, stdout=theirs, stderr=theirs, cwd=directory, env=environment, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self.ours = ours
        self.lines: list[str] = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        with open(self.ours, errors="replace", closefd=False) as stream:
            try:
                for line in stream:
                    self.lines.append(line.rstrip("\r\n"))
            except OSError:  # The last process on the terminal has ended.
                return

    def type(self, command: str) -> None:
        """Types a command."""
        os.write(self.ours, (command + "\n").encode())

    def shown(self) -> list[str]:
        """All that it has printed, without the shell's own lines about jobs in the background."""
        return [line for line in self.lines if line and not JOB.match(line) and not line.startswith("bash: ")]

    def shows(self, expected: list[str]) -> None:
        """Waits until exactly these lines were printed."""
        deadline = time.monotonic() + PATIENCE_S
        while sorted(map(elide, self.shown())) != sorted(map(elide, expected)):
            assert time.monotonic() < deadline, "\n".join(["expected", *expected, "", "got", *self.shown()])
            time.sleep(0.02)

    def close(self) -> None:
        """Ends the shell and all that was started from it, which is one session of processes."""
        for pid in (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()):
            with contextlib.suppress(ProcessLookupError):
                if os.getsid(pid) == self.shell.pid:
                    os.kill(pid, signal.SIGKILL)
        self.shell.wait(PATIENCE_S)
        os.close(self.ours)


def elide(line: str) -> str:
    """A line without what differs from run to run."""
    line = LOG.sub("", line)
    return DURATION.sub("N ", TIME.sub("TIME", line))


def play(open_one: Callable[[], Terminal], directory: Path, typed: list[Typed]) -> None:
    """Starts the edge, which is the first command, in a terminal, types all others in a second one, stops the edge."""
    (edge, ready), *others = typed
    screen = open_one()
    screen.type(edge)
    screen.shows(ready)
    _follow(open_one(), directory, others)
    screen.type("\x03")
    screen.type("echo $?")
    screen.shows([*ready, "stopping", "0"])


def _follow(terminal: Terminal, directory: Path, typed: list[Typed]) -> None:
    """Types each command once the one before has printed what it should."""
    expected: list[str] = []
    for command, printed in typed:
        before = _sessions(directory) if command.endswith("&") else ""
        terminal.type(command)
        expected += printed
        terminal.shows(expected)
        deadline = time.monotonic() + PATIENCE_S
        while before and _sessions(directory) == before:  # A reader is slower than a subscription.
            assert time.monotonic() < deadline, f"{command} has not subscribed"


def _sessions(directory: Path) -> str:
    """Who is connected to the document's edge, and with how many subscriptions."""
    data = directory / "selvedge-data/edge"
    return brokers.selvedge("get", "sessions", "--data", str(data)).stdout
