"""`selvedge evaluate gateway`: a small cell of each part, for real, beside a Docker Engine that it starts itself."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import ipaddress
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import machine
from brokers import BINARY, ENVIRONMENT

pytestmark = pytest.mark.contract

# As short as each can be and still show something; none of the figures is a result.
SHORT = [
    "--blocks",
    "1",
    "--seed",
    "7",
    "--activations",
    "2",
    "--applies",
    "1",
    "--throughput-ms",
    "200",
    "--rest-ms",
    "300",
]
SHORT += ["--instances", "2", "--cost-divisor", "50", "--udp-s", "1", "--burst", "50"]


def measure(out: Path, part: str, *words: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
    """Measures one part to its end."""
    command = [*prefix, BINARY, "evaluate", "gateway", "--parts", part, "--out", str(out), *SHORT, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def measured(out: Path, part: str, *words: str, place: str | None = None) -> dict[tuple, dict[str, list]]:
    """What was seen, by task and arm; `place` is where its files are, if not where those of others are."""
    done = measure(out, part, *words, prefix=("env", f"TMPDIR={place}") if place else ())
    assert done.returncode == 0, done.stderr
    run = json.loads((out / "gateway.json").read_text())
    assert run["skipped"] == [], run["skipped"]
    # But for where the files are, which is as long as the test's own name.
    assert max(len(line) for line in done.stdout.splitlines() if str(out) not in line) <= 100
    found = {}
    for one in run["done"]:
        key = (json.dumps(one["job"]["task"]), one["job"]["arm"])
        found[key] = {sample["figure"]: sample["values"] for sample in one["samples"]}
    return found


@pytest.fixture(autouse=True)
def root() -> None:
    """Containers take an edge that runs as root."""
    if os.geteuid() != 0:
        machine.lacking("root, which runs containers")


class Family:
    """Processes of a run whose files are all in one place: those that name it, and whatever they have started."""

    def __init__(self, place: str) -> None:
        self.place = place

    def members(self) -> dict[tuple[int, str], str]:
        """Each by its number and start, as a number is given anew, with its name."""
        all_, found = processes(), set()
        for pid, start in all_:
            with contextlib.suppress(OSError):
                if self.place in Path(f"/proc/{pid}/cmdline").read_text(errors="replace"):
                    found.add((pid, start))
        while more := {key for key, (parent, _) in all_.items() if parent in {pid for pid, _ in found}} - found:
            found |= more
        return {key: all_[key][1] for key in found}

    def left(self, before: dict[tuple[int, str], str]) -> dict[tuple[int, str], str]:
        """Who of those of before is still there, and who has come."""
        now = processes()
        return self.members() | {key: name for key, name in before.items() if key in now}


def processes() -> dict[tuple[int, str], tuple[int, str]]:
    """Parent and name of every process that has not ended, by its number and start."""
    found = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, fields = re.search(r"\((.*)\) (.*)", file.read_text()).groups()
            state, parent, *more = fields.split()
            # One that nobody has asked after holds nothing any more.
            if state != "Z":
                found[int(file.parent.name), more[17]] = (int(parent), name)
    return found


@pytest.fixture(name="place")
def place_of_a_run() -> Iterator[str]:
    """Where a run has its files: a short path, as sockets are among them."""
    with tempfile.TemporaryDirectory(prefix="gw-") as directory:
        yield directory


def traces(place: str) -> set[str]:
    """What a run could leave behind: rules, mounts and groups; edges and runs of other tests have some meanwhile."""
    of_tests = tables_of_tests()
    rules = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True).stdout.splitlines()
    of_tests |= tables_of_tests()
    rules = [rule for rule in rules if rule.split()[-1] not in of_tests]
    mounts = {line.split()[1] for line in Path("/proc/mounts").read_text().splitlines() if place in line}
    groups = glob.glob("/sys/fs/cgroup/**/selvedge-evaluate-*", recursive=True)
    # The number is that of the run, which is over where it is this test's.
    over = {group for group in groups if not Path("/proc", re.search(r"evaluate-(\d+)", group)[1]).exists()}
    return set(rules) | mounts | over


# Where an edge keeps which tables are its own.
KEPT = ("network", "host")


def tables_of_tests() -> set[str]:
    """What edges of other tests have their rules in."""
    tables = set()
    # What other tests make and remove meanwhile: `glob` passes over a directory that is gone, `Path.glob` fails on it.
    places = [f"{tempfile.gettempdir()}/{of}/**/containers." for of in ("pytest-of-*", "??-*/.tmp*")]
    kept_of = [[path for place in places for path in glob.glob(place + name, recursive=True)] for name in KEPT]
    for kept in kept_of[0]:
        with contextlib.suppress(FileNotFoundError):
            base = ipaddress.IPv4Address(json.loads(Path(kept).read_text())["range"])
            tables.add(f"selvedge-{int(base):08x}")
    for kept in kept_of[1]:
        with contextlib.suppress(FileNotFoundError):
            tables.add(f"selvedge-host-{json.loads(Path(kept).read_text())['number']:08x}")
    return tables


def test_first_requests_are_answered_by_every_runtime_beside_docker_start_and_runc_run_and_nothing_is_left(
    tmp_path, place
):
    before = traces(place)
    found = measured(tmp_path, "activation", place=place)
    asked = {arm: seen["answer_ms"] for (task, arm), seen in found.items() if "cold" in task}
    unpaused = {arm: seen["answer_ms"] for (task, arm), seen in found.items() if "paused" in task}
    assert set(asked) == {
        *("process", "oci", "docker", "runc-run", "runc-run-again"),
        *("docker-start", "docker-start-again", "docker-engine"),
    }
    assert set(unpaused) == {
        *("process", "oci", "docker"),
        *("docker-unpause", "docker-unpause-again", "docker-unpause-engine"),
    }
    answers = [*asked.values(), *unpaused.values()]
    assert all(0 < value < 10_000 for values in answers for value in values), found
    for arm in ("process", "oci", "docker"):
        assert len(found[('{"activation": "paused"}', arm)]["answer_ms"]) == 2
        assert len(found[('{"activation": "warm"}', arm)]["answer_ms"]) == 2
        assert found[('"burst"', arm)]["burst_lost_requests"] == [0]
        assert found[('"burst"', arm)]["burst_starts"] == [1]
        assert found[('"throughput"', arm)]["through_per_s"][0] > 0
    assert traces(place) <= before


def test_a_run_says_which_cells_of_how_many_it_has_measured(tmp_path):
    done = measure(tmp_path, "activation", "--runtime", "process", "--quick")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    count, of_all = (int(word) for word in re.search(r"Measured (\d+) of the (\d+) cells of a full run", said).groups())
    run = json.loads((tmp_path / "gateway.json").read_text())
    assert count == len({json.dumps(one["job"]) for one in run["done"]}) == 5 < of_all
    assert "activation, cold; activation, paused; activation, warm; throughput; burst: process" in said


def test_an_edge_at_rest_and_what_is_applied_are_measured_without_docker_where_it_is_not_asked_for(tmp_path):
    found = measured(tmp_path, "footprint", "--runtime", "oci")
    at_rest = found[('"running"', "oci")]
    assert 1e6 < at_rest["edge_pss_bytes"][0] < at_rest["with_pss_bytes"][0] < 200e6
    assert found[('"sleeping"', "oci")]["added_pss_bytes"][0] < 50e6
    assert 0 < found[('"apply"', "oci")]["answer_ms"][0] < 10_000
    assert {arm for _, arm in found} == {"oci"}


def says_its_power() -> bool:
    """Whether this machine does (RAPL): of a package, such as `intel-rapl:0`, and not of a part of one."""
    return any(file.parent.name.count(":") == 1 for file in Path("/sys/class/powercap").glob("*/energy_uj"))


def test_benchmark_programs_run_two_at_a_time_natively_and_in_each_runtime_within_the_same_limits(tmp_path):
    found = measured(tmp_path, "cost", "--runtime", "process,oci,docker")
    arms = {"native", "native-again", "process", "oci", "docker"}
    roots = {"oci-root", "docker-root"}
    for benchmark, figures in {
        "cpu": ["cpu_s"],
        "memory": ["memcpy_bytes_per_s", "dumb_bytes_per_s", "mcblock_bytes_per_s"],
        "disk": ["write_bytes_per_s", "read_bytes_per_s"],
        "udp": ["udp_receive_cpu_share", "udp_send_cpu_share"],
    }.items():
        figures += ["power_w"] if says_its_power() else []
        cell = json.dumps({"cost": [benchmark, 2]})
        seen = {arm: values for (task, arm), values in found.items() if task == cell}
        assert set(seen) == (arms | roots if benchmark == "disk" else arms)
        assert all(values[figure][0] > 0 for values in seen.values() for figure in figures), seen
    # Of each of the two in three turns.
    assert {arm: len(found['{"cost": ["cpu", 2]}', arm]["cpu_s"]) for arm in arms} == dict.fromkeys(arms, 6)
    report = (tmp_path / "report.html").read_text()
    assert "sysbench, time × 2, oci" in report
    here = "of the processor" if says_its_power() else "not measurable here: the machine has no /sys/class/powercap"
    assert f"Power: {here}" in report
    assert ("power × 2, native" in report) == says_its_power()


def test_web_server_database_and_orchestrator_are_started_by_the_first_packet_and_readings_are_counted(tmp_path):
    found = measured(tmp_path, "work", "--runtime", "oci", "--speed", "600")[('"work"', "oci")]
    assert len(found["first_packet_ms"]) == 1 and found["first_packet_ms"][0] > 0
    assert len(found["packet_ms"]) > 30
    assert found["packets_lost"] == [found["packet_ms"].count(None)]
    assert max(found["database_memory_bytes"]) > 500_000
    assert max(found["all_cpu_share"]) > 0


def an_office(file: Path) -> bytes:
    """Readings of a night, a whole day with people from 8 to 10, and a morning: one every 10 minutes."""
    rows = ['"date","Temperature","Humidity","Light","CO2","HumidityRatio","Occupancy"']
    for number in range(6 * 30):
        hour, minute = divmod(10 * (number + 6 * 22), 60)
        day, hour = divmod(hour, 24)
        occupied = int(day == 1 and 8 <= hour < 10)
        temperature, co2 = 21 + (0.5 if day == 1 and hour >= 12 else 0), 500 + 200 * occupied
        rows.append(
            f'"{number}","2015-02-{4 + day:02} {hour:02}:{minute:02}:00",{temperature},27,0,{co2},0.004,{occupied}'
        )
    file.write_text("\n".join(rows) + "\n")
    return file.read_bytes()


@pytest.mark.timeout(300)
def test_a_day_of_requests_finds_applications_on_demand_started_each_time_and_the_others_never(tmp_path, place):
    readings = tmp_path / "office.csv"
    content = an_office(readings)
    before = traces(place)
    words = ("--runtime", "oci", "--day", str(readings), "--day-speed", "4800")
    found = measured(tmp_path, "day", *words, place=place)
    on_demand, always_on = found[('"day"', "on-demand")], found[('"day"', "always-on")]
    assert {arm for _, arm in found} == {"on-demand", "always-on", "always-on-again"}
    for seen in found.values():
        assert len(seen["day_answer_ms"]) == 19
        assert seen["day_lost_requests"] == [0]
        assert seen["look_s"] == sorted(seen["look_s"]) and len(seen["look_s"]) == len(seen["day_memory_bytes"])
        assert seen["day_replay_s"][0] >= 86_400 / 4800
        assert seen["day_cpu_s"][0] > 0
    assert always_on["day_starts"] == [0] and always_on["day_awake_share"] == [1, 1, 1, 1]
    assert on_demand["day_starts"][0] >= 6
    assert all(0 <= share < 0.5 for share in on_demand["day_awake_share"])

    def mean_added(seen: dict[str, list]) -> float:
        return sum(seen["day_added_memory_bytes"]) / len(seen["day_added_memory_bytes"])

    assert mean_added(on_demand) < mean_added(always_on)
    run = json.loads((tmp_path / "gateway.json").read_text())
    assert run["day"] == {
        "source": "office.csv",
        "sha256": hashlib.sha256(content).hexdigest(),
        "date": "2015-02-05",
        "requests": [["dashboard", 12], ["air", 3], ["database", 2], ["lights", 2]],
    }
    assert run["environment"]["data_hashes"] == [["office.csv", hashlib.sha256(content).hexdigest()]]
    summary = json.loads((tmp_path / "report.json").read_text())
    claims = {claim["id"]: claim["findings"] for claim in summary["gateways"][0]["claims"]}
    assert "of a day, on demand" in claims["c4.3.energy"][0]["words"]
    # One block is no interval.
    assert [finding["shape"] for finding in claims["c4.3.energy"]] == ["undecided"] * len(claims["c4.3.energy"])
    assert claims["c4.1.write"][0]["shape"] == "not_measured"
    report = (tmp_path / "report.html").read_text()
    assert "Claims, tested for shape" in report
    assert "hour of the day" in report and "The paper beside ours" in report
    assert traces(place) <= before


def test_a_day_that_is_none_is_refused_with_what_is_missing(tmp_path):
    readings = tmp_path / "short.csv"
    readings.write_text("date,Temperature,CO2,Occupancy\n2015-02-04 17:51:00,23.18,721,1\n")
    done = measure(tmp_path, "day", "--day", str(readings))
    assert done.returncode != 0
    assert "short.csv: no day has readings in each of its 24 hours" in done.stderr


def file_systems_of(words: bytes) -> set[str]:
    """Mount namespaces of the processes that have these words among their arguments."""
    found = set()
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if words in (directory / "cmdline").read_bytes():
                found.add(os.readlink(directory / "ns/mnt"))
    return found


def test_a_system_on_the_host_is_compared_with_the_same_in_each_runtime_and_so_is_a_hub_with_its_responder(tmp_path):
    command = [
        BINARY,
        "evaluate",
        "rtt",
        "--runtime",
        "host,process,oci,docker",
        "--arms",
        "mosquitto,selvedge+responder,tcp-echo",
    ]
    command += ["--blocks", "1", "--duration", "200ms", "--out", str(tmp_path)]
    deadline, seen = time.monotonic() + 300, set()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
        while run.poll() is None and time.monotonic() < deadline:
            seen |= file_systems_of(b"\0responder\0--listen\0")
            time.sleep(0.05)
        run.kill()
        said = run.stderr.read()
    assert run.returncode == 0, said
    # Those of a container of each kind, and the host's.
    assert len(seen - {os.readlink("/proc/self/ns/mnt")}) >= 2 and os.readlink("/proc/self/ns/mnt") in seen
    runs = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("rtt-*.json"))]
    assert [run["skipped"] for run in runs] == [[], [], []], said
    assert re.search(r"of mosquitto, selvedge\+responder, tcp-echo: about \d+ \w+ in all; --resume goes on", said), said
    for run in runs:
        (host,) = [arm["name"] for arm in run["arms"] if arm["baseline"]]
        names = {arm["name"] for arm in run["arms"]}
        assert names >= {host, f"{host}@process", f"{host}@oci", f"{host}@docker"}
        assert all(block["counters"]["answered"] > 0 for block in run["blocks"])
        assert all(block["counters"]["duplicates"] == 0 for block in run["blocks"]), "two responders answer"
        assert all(block["usage"]["server_cpu_s"] > 0 for block in run["blocks"])
    resumed = subprocess.run([*command, "--resume"], capture_output=True, text=True, timeout=60, check=True)
    assert resumed.stderr.count("measured before") == 3
    assert len(list(tmp_path.glob("rtt-*.json"))) == 3


def test_a_run_that_was_ended_is_gone_on_with_and_what_it_had_is_not_measured_again(tmp_path):
    words = ["--runtime", "process"]
    measured(tmp_path, "activation", *words)
    file = tmp_path / "gateway.json"
    run = json.loads(file.read_text())
    kept, taken = run["done"][:-1], run["done"][-1]
    file.write_text(json.dumps(run | {"done": kept}))
    measured(tmp_path, "activation", *words, "--resume")
    again = json.loads(file.read_text())["done"]
    assert again[:-1] == kept
    assert again[-1]["job"] == taken["job"] and again[-1]["samples"] != taken["samples"]


def groups_of(members: dict[tuple[int, str], str]) -> set[Path]:
    """Control groups that edges, engines and runs have made for these processes."""
    found = set()
    for pid, _ in members:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
                _, controllers, path = line.split(":", 2)
                for part in re.findall(r"^.*/(?:selvedge|docker)/[^/]+|^.*/selvedge-evaluate-[^/]+", path):
                    trees = (controllers.removeprefix("name="), "unified", "")
                    found |= {Path("/sys/fs/cgroup", tree, part.lstrip("/")) for tree in trees}
    return {group for group in found if group.is_dir()}


LONG = ("--instances", "1", "--events", "1000000")


@pytest.mark.parametrize(
    ("words", "program", "by"),
    [
        # As a terminal's Ctrl-C: to all processes of the group.
        (("--parts", "work", "--runtime", "oci", "--seed", "7"), "redis-server", signal.SIGINT),
        (("--parts", "activation", "--runtime", "docker", "--seed", "7"), "busybox", signal.SIGTERM),
        # A program of the host that would run for long, as the first of all.
        (("--parts", "cost", "--runtime", "process", "--seed", "5", *LONG), "sysbench", signal.SIGTERM),
    ],
    ids=["oci", "docker", "native"],
)
def test_a_run_that_is_interrupted_ends_its_containers_leaves_nothing_and_says_so(tmp_path, place, words, program, by):
    family = Family(place)
    # Whoever runs tests in the background may have them ignore Ctrl-C.
    command = [
        "env",
        "--default-signal=INT",
        BINARY,
        "evaluate",
        "gateway",
        "--out",
        str(tmp_path),
        "--blocks",
        "1",
        *words,
    ]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=ENVIRONMENT | {"TMPDIR": place},
        process_group=0,
    ) as run:
        try:
            members, deadline = {}, time.monotonic() + 120
            while program not in members.values():
                assert run.poll() is None and time.monotonic() < deadline, f"no {program} among {members}"
                time.sleep(0.02)
                members = family.members()
            groups = groups_of(members)
            if by == signal.SIGINT:
                os.killpg(run.pid, by)
            else:
                run.send_signal(by)
            said, _ = run.communicate(timeout=60)
        finally:
            run.kill()
    assert run.returncode == 128 + by, said
    assert f"ended by {by.name}: its containers, networks and files are gone" in said
    assert family.left(members) == {}
    assert groups and not any(group.exists() for group in groups)
    assert os.listdir(place) == []
    assert place not in Path("/proc/mounts").read_text()


def test_without_a_docker_engine_it_is_said_and_the_others_are_measured(tmp_path):
    nowhere = tmp_path / "bin"
    nowhere.mkdir()
    hidden = ("env", f"PATH={nowhere}:/usr/bin:/bin", "unshare", "--mount", "sh", "-c")
    hides = "for name in /usr/sbin/dockerd /usr/bin/dockerd; do [ -e $name ] && mount --bind /etc/hostname $name && "
    hides += 'umount $name && mount --bind /dev/null $name; done; exec "$@"'
    done = measure(tmp_path, "footprint", "--runtime", "process,docker", prefix=(*hidden, hides, "sh"))
    assert done.returncode == 0, done.stderr
    words = " ".join(done.stdout.split())
    assert "Not measured: docker: " in words
    assert "docker, p50" not in words
