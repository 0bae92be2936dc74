"""What some tests take of the machine beside the program under test: privileges, and programs that watch.

`@pytest.mark.machine("mount")` names it. Where it is lacking, such a test is skipped on a developer's machine, with the
reason, and fails in CI, where nothing may be left out.
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest

# mount, mkfs and their like are not in every user's path.
ENVIRONMENT = os.environ | {"PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
FAKETIME = "/usr/lib/*/faketime/libfaketimeMT.so.1"
# Runs a program as somebody who owns nothing.
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


class Lacking(Exception):
    """What the machine does not have or let us do, in words."""


def lacking(what: str) -> NoReturn:
    """Skips the test that runs, or fails it in CI."""
    say = pytest.fail if os.environ.get("CI") else pytest.skip
    say(what)


def require(*names: str) -> None:
    """Skips the test that runs, or fails it in CI, unless the machine has all of these."""
    for name in names:
        if reason := absence(name):
            lacking(reason)


@cache
def absence(name: str) -> str | None:
    """Why the machine does not have it, found out by trying; `None` if it has."""
    try:
        PROBES[name]()
    except Lacking as reason:
        return f"{name}: {reason}"
    return None


def tried(*command: str) -> str:
    """Runs a command to its end; what it printed."""
    if not shutil.which(command[0], path=ENVIRONMENT["PATH"]):
        raise Lacking(f"{command[0]} is not here: tools/install.sh system installs it")
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, env=ENVIRONMENT)
    if done.returncode:
        raise Lacking(f"{' '.join(command[:2])}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def mounted(*words: str) -> None:
    """Mounts a file system."""
    subprocess.run(["mount", *words], check=True, timeout=30, env=ENVIRONMENT)


def mount() -> None:
    """Mounting a file system, which takes root."""
    with tempfile.TemporaryDirectory() as place:
        tried("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place)
        tried("umount", place)


def ext4() -> None:
    """Making and mounting an ext4 in a file, and telling it to fail."""
    tried("e2fsck", "-V")
    with tempfile.TemporaryDirectory() as directory, ExitStack() as undo:
        image, place = Path(directory, "image"), Path(directory, "place")
        place.mkdir()
        with image.open("wb") as file:
            file.truncate(8 << 20)
        tried("mkfs.ext4", "-q", "-F", str(image))
        tried("mount", "-o", "loop", str(image), str(place))
        undo.callback(tried, "umount", str(place))
        device = Path(tried("findmnt", "-no", "SOURCE", str(place)).strip()).name
        if not os.access(f"/sys/fs/ext4/{device}/trigger_fs_error", os.W_OK):
            raise Lacking("/sys/fs/ext4/…/trigger_fs_error cannot be written")


def strace() -> None:
    """Watching the system calls of a program that it starts."""
    tried("strace", "-D", "-o", os.devnull, "true")


def attach() -> None:
    """Watching a program that runs already, with strace."""
    strace()
    with subprocess.Popen(["sleep", "30"]) as watched:
        try:
            command = ["strace", "-p", str(watched.pid), "-o", os.devnull]
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as watcher:
                said = watcher.stderr.readline()
                watcher.terminate()
        finally:
            watched.kill()
    if "attached" not in said:
        raise Lacking(said.strip())


def valgrind() -> None:
    """Running a program on valgrind's simulated processor."""
    tried("valgrind", "--tool=none", "-q", "true")


def faketime() -> None:
    """A library that shows a program another time."""
    if not glob.glob(FAKETIME):
        raise Lacking("libfaketime is not here: tools/install.sh system installs it")


def nginx() -> None:
    """The web server."""
    tried("nginx", "-v")


def tinyproxy() -> None:
    """The HTTP proxy."""
    tried("tinyproxy", "-v")


def nobody() -> None:
    """Not being root, or being able to run a program as somebody else."""
    if os.geteuid() == 0:
        tried(*NOBODY, "true")


def namespaces() -> None:
    """Network namespaces, which take root, and iproute2 in them."""
    tried("unshare", "--net", "ip", "link", "set", "lo", "up")


PROBES: dict[str, Callable[[], None]] = {
    probe.__name__: probe
    for probe in (mount, ext4, strace, attach, valgrind, faketime, nginx, tinyproxy, nobody, namespaces)
}
