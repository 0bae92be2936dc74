"""Fixtures: a broker for each module, brokers with other settings for the tests that need them, clients that close."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import brokers
import machine
import raw
from brokers import Settings
from clocks import Clock
from credentials import Authority
from engines import Engine
from mosquitto_deviations import DEVIATIONS
from paho_client import Client
from plants import Plant
from postgres import Postgres
from sites import Cloud, Site

RUNNING: list[brokers.Broker] = []
NUMBERS = itertools.count(1)
HAS_FAILED = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    """Declares the markers."""
    config.addinivalue_line("markers", "needs(*words): runs where `selvedge --help` lists these commands and flags")
    config.addinivalue_line("markers", "machine(*names): takes what `machine.py` knows under these names")
    config.addinivalue_line("markers", "contract: Selvedge's own contract, which no other broker has to keep")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Against Mosquitto: leaves out what only Selvedge promises, and expects Mosquitto's known deviations."""
    if brokers.NAME != "mosquitto":
        return
    for item in items:
        if item.get_closest_marker("contract"):
            item.add_marker(pytest.mark.skip(reason="a contract of Selvedge alone"))
        if item.nodeid in DEVIATIONS:
            item.add_marker(pytest.mark.xfail(reason=DEVIATIONS[item.nodeid], strict=True))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test of what the machine or the binary lacks is skipped on a developer's machine, and fails in CI."""
    for marker in item.iter_markers("machine"):
        machine.require(*marker.args)
    marker = item.get_closest_marker("needs")
    if not marker or brokers.NAME != "selvedge":
        return
    missing = [word for word in marker.args if word not in brokers.abilities()]
    if missing:
        machine.lacking(f"`selvedge --help` does not list {', '.join(missing)}")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    """Shows the brokers' logs below a failure, and has what is on disk stay (`leave`)."""
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        item.stash[HAS_FAILED] = True
        for broker in RUNNING:
            broker.is_evidence = True
            report.sections.append((f"log of {broker.directory.name}", broker.tail()))
            if isinstance(broker, brokers.Selvedge):
                report.sections.append((f"events of {broker.directory.name}", broker.events()))


@pytest.fixture(scope="session", autouse=True)
def afterwards(tmp_path_factory: pytest.TempPathFactory):
    """Nothing that was started outlives a run that is killed (`afterwards.py`)."""
    command = [sys.executable, str(Path(__file__).with_name("afterwards.py")), str(tmp_path_factory.getbasetemp())]
    # Who ends a run with all of its session leaves it.
    watching = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    yield
    watching.stdin.close()
    watching.wait(timeout=30)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory):
    """A broker with every default, anonymous, shared by the tests of a module."""
    yield from running(tmp_path_factory, Settings(websocket=True))


def running(tmp_path_factory: pytest.TempPathFactory, settings: Settings):
    """Runs a broker until the module's tests are over."""
    made = brokers.make(tmp_path_factory.mktemp("shared"), settings).start()
    RUNNING.append(made)
    yield made
    clear_away(made)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A certificate authority of the module's own."""
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory, authority: Authority):
    """A broker with doors of TLS, TCP and WebSocket, shared by the tests of a module."""
    certificate, key = authority.issue("server", "/CN=localhost")
    settings = Settings(tls={"certificate": certificate, "key": key}, websocket=True)
    yield from running(tmp_path_factory, settings)


@pytest.fixture
def start(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest):
    """Starts a broker with settings of the test's own."""
    made: dict[Path, brokers.Broker] = {}

    def start_one(*, begin: bool = True, **settings: object) -> brokers.Broker:
        directory = tmp_path_factory.mktemp("own")
        one = made[directory] = brokers.make(directory, Settings(**settings))
        RUNNING.append(one)
        return one.start() if begin else one

    yield start_one
    for directory, one in made.items():
        clear_away(one)
        leave(directory, request.node)


def leave(directory: Path, node: pytest.Item) -> None:
    """What was on disk stays where a test failed; of all tests together it would fill a small disk."""
    if not node.stash.get(HAS_FAILED, False):
        shutil.rmtree(directory, ignore_errors=True)


def clear_away(broker: brokers.Broker) -> None:
    """Stops it, whose data goes as well where no test of its module failed."""
    RUNNING.remove(broker)
    broker.stop()
    if not broker.is_evidence:
        shutil.rmtree(broker.data, ignore_errors=True)


@pytest.fixture
def small_disk(tmp_path: Path):
    """A file system of 32 MiB in memory."""
    place = tmp_path / "small"
    place.mkdir()
    machine.mounted("-t", "tmpfs", "-o", "size=32m", "tmpfs", str(place))
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def own_disk(tmp_path: Path):
    """An ext4 of its own, which turns read-only at the first error, as most machines have theirs."""
    place, image = tmp_path / "disk", tmp_path / "disk.img"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(128 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True, timeout=30, env=brokers.ENVIRONMENT)
    machine.mounted("-o", "loop,errors=remount-ro", str(image), str(place))
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest):
    """Makes a cloud and an edge behind it; what is given is set at the edge before it starts."""
    made: dict[Path, Site] = {}

    def make(**edge: object) -> Site:
        directory = tmp_path_factory.mktemp("site")
        made[directory] = Site(directory, **edge)
        return made[directory]

    yield make
    for directory, one in made.items():
        one.close()
        leave(directory, request.node)


@pytest.fixture
def plant(tmp_path: Path):
    """A cloud, and an edge that has not heard of it yet."""
    made = Plant(tmp_path)
    yield made
    made.close()


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    """A clock to set."""
    return Clock(tmp_path)


@pytest.fixture
def timed(tmp_path: Path, clock: Clock):
    """A plant that sees that clock."""
    made = Plant(tmp_path, environment=clock.environment)
    yield made
    made.close()


@pytest.fixture
def dial(request: pytest.FixtureRequest):
    """Makes connections of bare sockets to the module's broker, or to the one that is given."""
    made: list[raw.Connection] = []

    def dial_one(version: int = 5, to: brokers.Broker | None = None) -> raw.Connection:
        target = to or request.getfixturevalue("broker")
        made.append(raw.dial(target.port, version))
        return made[-1]

    yield dial_one
    for one in made:
        one.cut()


@pytest.fixture
def client(request: pytest.FixtureRequest):
    """Makes connected paho clients of the module's broker, or of the one that is given."""
    made: list[Client] = []

    def connect_one(
        client_id: str = "", version: int = 5, to: brokers.Broker | None = None, port: int | None = None, **options
    ) -> Client:
        port = port or (to or request.getfixturevalue("broker")).port
        made.append(Client(port, client_id, version, **options))
        return made[-1].opened()

    yield connect_one
    for one in made:
        one.close()


@pytest.fixture
def name() -> str:
    """A name that no other test uses, for topics and client ids."""
    return f"t{os.getpid()}-{next(NUMBERS)}"


@pytest.fixture
def cloud(tmp_path):
    """A cloud of its own."""
    made = Cloud(tmp_path, Settings(anonymous=False))
    made.start()
    yield made
    made.stop()


@pytest.fixture
def postgres():
    """A server of its own."""
    made = Postgres()
    yield made
    made.close()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory):
    """A Docker Engine, which is started once, as it takes seconds."""
    engine = Engine(tmp_path_factory.mktemp("dockerd"))
    engine.start()
    try:
        engine.import_image()
        yield engine
    finally:
        engine.forget()
