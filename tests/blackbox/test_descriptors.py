"""File descriptors: each connection takes one, and the system lets a process have so many."""

import contextlib
import re

import pytest

import raw
import wire
from credentials import add
from raw import PATIENCE_S
from test_operation import get

pytestmark = [pytest.mark.contract, pytest.mark.needs("--http", "device")]

# Fewer than the connections of the default limits need.
ALLOWED = 400


def within(count: int) -> dict[str, list[str]]:
    """Starts the broker in a process that may have so many descriptors."""
    return {"watcher": ["sh", "-c", f'ulimit -n {count}; exec "$@"', "sh"]}


def told(own) -> tuple[int, int]:
    """The connections, and those without a CONNECT, that the broker said it is held to."""
    (line,) = [line for line in own.said("file descriptors").splitlines() if "file descriptors" in line]
    assert "WARN" in line and f"may have {ALLOWED}" in line and "LimitNOFILE=" in line and "ulimit -n" in line, line
    found = re.search(r"held to (\d+) and (\d+)", line)
    return int(found[1]), int(found[2])


@pytest.fixture
def own(start):
    """An edge that may have few file descriptors."""
    return start(http=True, **within(ALLOWED))


@pytest.fixture
def crowd(own):
    """Opens connections, and closes them in the end."""
    with contextlib.ExitStack() as stack:

        def dial() -> raw.Connection:
            made = raw.dial(own.port)
            stack.callback(made.cut)
            return made

        yield dial


def test_connections_are_held_to_the_file_descriptors_that_there_are(own, crowd):
    """It says so at its start. At the bound one more is told so, and logs, registry and probes still work."""
    connections, unfinished = told(own)
    assert ALLOWED / 4 < connections + unfinished < ALLOWED
    inside = [crowd().open(f"c{number}") for number in range(connections)]
    for _ in range(2 * unfinished):
        crowd()
    assert crowd().send(wire.connect("more")).verdict() == 0x89
    add(own, "device", "pump-7")
    assert get(own, "/readyz")[0] == 200
    inside[0].publish("kept", bytes(100_000), retain=True, qos=1, packet_id=1).expect(wire.Kind.PUBACK)
    inside[-1].ping()
    assert own.descriptors() <= ALLOWED
    assert "could not be accepted" not in own.log.read_text()
    inside[0].leave()
    crowd().open("more").ping()


def test_too_few_file_descriptors_for_anybody_are_an_error_that_says_what_would_do(start):
    """Rather than a hub that lets nobody in."""
    own = start(begin=False, **within(100))
    own.spawn()
    assert own.process.wait(PATIENCE_S) == 1
    said = own.log.read_text()
    assert "may have 100 file descriptors" in said and "LimitNOFILE=" in said, said
