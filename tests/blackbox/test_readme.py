"""The README as a reader follows it: its first five minutes typed at a terminal, word for word, and what it prints."""

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
from pathlib import Path

import pytest

import brokers
import machine
from brokers import ROOT
from raw import PATIENCE_S

pytestmark = [pytest.mark.contract, pytest.mark.needs("apply")]
README = (ROOT / "README.md").read_text()
# What differs from run to run, and stands for any number of its kind.
DURATION = re.compile(r"\d+ (?=ms\b)")
LOG = re.compile(r"^\S+Z  INFO \S+: ")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
JOB = re.compile(r"^\[\d+\]")


def blocks(heading: str) -> list[list[tuple[str, list[str]]]]:
    """The console blocks of a section: each a list of commands with the lines that they print."""
    section = README.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [list(commands(block)) for block in re.findall(r"```console\n(.*?)```", section, re.DOTALL)]


def commands(block: str):
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
        environment = brokers.ENVIRONMENT | {"PS1": "", "PS2": "", "TERM": "dumb"}
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


@pytest.fixture
def terminal(tmp_path):
    """Opens terminals in a scratch directory that has the program where the README has it."""
    (tmp_path / "target/fast").mkdir(parents=True)
    (tmp_path / "target/fast/selvedge").symlink_to(brokers.BINARY)
    opened = []

    def open_one() -> Terminal:
        opened.append(Terminal(tmp_path))
        return opened[-1]

    yield open_one
    for one in reversed(opened):
        one.close()


def sessions(directory: Path) -> str:
    """Who is connected to the README's edge, and with how many subscriptions."""
    data = directory / "selvedge-data/edge"
    return brokers.selvedge("get", "sessions", "--data", str(data)).stdout


def follow(terminal: Terminal, directory: Path, typed: list[tuple[str, list[str]]]) -> None:
    """Types each command once the one before has printed what it should."""
    expected: list[str] = []
    for command, printed in typed:
        before = sessions(directory) if command.endswith("&") else ""
        terminal.type(command)
        expected += printed
        terminal.shows(expected)
        deadline = time.monotonic() + PATIENCE_S
        while before and sessions(directory) == before:  # A reader is slower than a subscription.
            assert time.monotonic() < deadline, f"{command} has not subscribed"


def test_the_first_five_minutes_go_as_the_readme_says(terminal, tmp_path):
    """Every command as it is printed there, on the port that clients take by themselves."""
    if brokers.Broker._listening(1883):
        machine.lacking("port 1883, which the README uses, is taken")
    first, second, third = blocks("The first five minutes")
    build, edge = first
    assert build == ("make build", [])
    screen = terminal()
    screen.type(edge[0])
    screen.shows(edge[1])
    follow(terminal(), tmp_path, second + third)
    screen.type("\x03")
    screen.type("echo $?")
    screen.shows([*edge[1], "stopping", "0"])


def test_make_build_makes_the_program_that_the_readme_starts():
    """The one line of it that the test above leaves out, because what is tested was built by it."""
    said = subprocess.run(["make", "-n", "build"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    assert "cargo build --profile fast -p selvedge" in said.stdout


def test_the_targets_of_make_that_the_readme_names_are_there():
    """`make help` lists each."""
    help_text = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, timeout=30).stdout
    named = set(re.findall(r"(?:`|^\$ )make ([a-z-]+)", README, re.MULTILINE)) - {"help"}
    assert named and all(f"make {target} " in help_text for target in named), named


def test_the_files_that_the_documents_link_to_are_there():
    """Of the README, the architecture and the decisions."""
    documents = {ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").rglob("*.md")}
    for document in documents - {ROOT / "docs/decisions/template.md"}:
        for link in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / link).exists(), f"{document.name} links to {link}"


def test_the_tests_that_the_map_of_bad_input_names_are_there():
    """A row of the table in this directory's README without its test would be an empty claim."""
    here = Path(__file__).parent
    named = re.findall(r"`(test_\w+\.py)(?:::(\w+))?(…?)", (here / "README.md").read_text())
    assert len(named) > 20
    for file, function, rest in named:
        assert f"def {function}{'' if rest or not function else '('}" in (here / file).read_text(), function
