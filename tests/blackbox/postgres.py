"""A PostgreSQL server of the machine's own, for one test: started, stopped, killed."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from pathlib import Path

import machine
from brokers import ROOT

SCRIPT = ROOT / "crates/cloud/tests/database/cluster.sh"


def programs() -> Path:
    """Where the newest version's programs are."""
    found = [bin for bin in Path("/usr/lib/postgresql").glob("*/bin") if (bin / "initdb").exists()]
    if not found:
        machine.lacking("no PostgreSQL under /usr/lib/postgresql: tools/install.sh system")
    return max(found)


class Postgres:
    """The server, with an empty database `telemetry`."""

    def __init__(self) -> None:
        self.bin = programs()
        # Not below the test's directory, whose path is longer than that of a socket may be.
        self.directory = Path(tempfile.mkdtemp(prefix="selvedge-pg"))
        self.driver = subprocess.Popen(
            ["sh", str(SCRIPT), str(self.directory), str(self.bin)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.order("start -c fsync=off")
        self.sql("CREATE DATABASE telemetry", "postgres")
        self.url = f"postgres://postgres@{str(self.directory).replace('/', '%2F')}/telemetry"

    def order(self, order: str) -> None:
        """`start`, `stop`, `kill` (-9, every process), `pause`, `resume`."""
        self.driver.stdin.write(f"{order}\n")
        said = self.driver.stdout.readline()
        assert said == "done\n", f"{order}: {(self.directory / 'log').read_text()[-2000:]}"

    def sql(self, sql: str, database: str = "telemetry") -> list[str]:
        """What psql prints for it, a row a line."""
        words = [str(self.bin / "psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-h", str(self.directory)]
        words += ["-d", database, "-c", sql]
        return subprocess.run(words, capture_output=True, text=True, timeout=30, check=True).stdout.split()

    def close(self) -> None:
        """Ends it, and removes all of it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.driver.communicate(timeout=30)
        self.driver.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
