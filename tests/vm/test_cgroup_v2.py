"""Where cgroups of version 2 are all there is: the suites of applications of `tests/blackbox`, run there."""

from __future__ import annotations

import pytest

SUITES = [
    "test_applications.py",
    "test_app_tenants.py",
    "test_bad_applications.py",
    "test_host_doors.py",
    "test_networks.py",
    "test_on_demand.py",
    "test_pause.py",
    "test_podman.py",
    "test_pods.py",
    "test_snapshots.py",
    "test_updates.py",
    "test_users.py",
    "test_volumes.py",
]


def test_only_version_2_is_there(gateway):
    assert gateway.run("stat -fc %T /sys/fs/cgroup").strip() == "cgroup2fs"
    assert gateway.run("ls -d /sys/fs/cgroup/memory", check=False) == ""


@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_of_applications_passes(gateway, suite):
    environment = "SELVEDGE=/selvedge/selvedge PYTHONPATH=/selvedge/packages PYTHONDONTWRITEBYTECODE=1 SLOWNESS=10"
    run = f"cd /tmp && {environment} python3 -m pytest /selvedge/blackbox/{suite} -q -x --timeout=1200"
    said = gateway.run(f"{run} 2>&1 | tail -60; exit 0", timeout_s=3500)
    assert " passed" in said and " failed" not in said and " error" not in said, said
