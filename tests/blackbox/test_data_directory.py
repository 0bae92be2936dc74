"""Starts that cannot go well: each says what is wrong and what would be right, and ends with a status that is not 0."""

import os
import shutil
import sqlite3
import subprocess

import pytest

from machine import NOBODY
from raw import PATIENCE_S

pytestmark = pytest.mark.contract


def ends(own) -> str:
    """Starts a broker that has to give up; what it said."""
    own.spawn()
    assert own.process.wait(PATIENCE_S) != 0
    said = own.log.read_text()
    assert "panicked" not in said, said
    return said


def test_a_port_in_use_is_named(start):
    """An error says what happened and where."""
    first = start()
    second = start(begin=False)
    second.port = first.port
    said = ends(second)
    assert f"127.0.0.1:{first.port}" in said and "in use" in said


def test_a_data_directory_that_another_edge_uses_is_named(start):
    """Two programs in one log would destroy it."""
    first = start()
    second = start(begin=False)
    second.data = first.data
    assert str(first.data) in ends(second)
    assert first.alive()


@pytest.mark.machine("nobody")
def test_a_data_directory_that_cannot_be_written_is_named(start, tmp_path):
    """As an unprivileged user: root writes everywhere."""
    own = start(begin=False)
    own.data = tmp_path / "read-only"
    own.data.mkdir(mode=0o555)
    own.data.chmod(0o555)
    command = own.command()
    if os.geteuid() == 0:
        shutil.copy(command[0], tmp_path / "selvedge")
        command = [*NOBODY, str(tmp_path / "selvedge"), *command[1:]]
        for parent in (tmp_path, *tmp_path.parents[:3]):
            parent.chmod(0o755)
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode != 0
    assert str(own.data) in done.stderr + done.stdout and "panicked" not in done.stderr


def test_a_data_directory_that_is_a_file_is_named(start):
    """A slip of the command line."""
    own = start(begin=False)
    own.data.write_text("not a directory")
    assert str(own.data) in ends(own)


def test_a_data_directory_of_a_newer_version_is_left_alone(start):
    """What cannot be understood is not touched."""
    own = start()
    own.stop()
    formats = list(own.data.rglob("format"))
    assert formats, "no file says which version wrote the log"
    for path in formats:
        path.write_text("selvedge log 99\n")
    said = ends(own)
    assert "selvedge log 99" in said and any(str(path) in said for path in formats)
    assert formats[0].read_text() == "selvedge log 99\n"


def test_a_registry_of_a_newer_version_is_left_alone(start):
    """The same for the file of devices and credentials, by an edge and by a command."""
    own = start()
    own.stop()
    path = own.data / "registry.db"
    with sqlite3.connect(path) as registry:
        registry.execute("PRAGMA user_version = 99")
    said = [ends(own), own.run("device", "list", check=False).stderr]
    assert all(str(path) in each and "99" in each for each in said), said
    with sqlite3.connect(path) as registry:
        assert registry.execute("PRAGMA user_version").fetchone() == (99,)
