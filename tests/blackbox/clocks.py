"""Another time than the host's, shown to a program by libfaketime."""

from __future__ import annotations

import glob
from pathlib import Path

from machine import FAKETIME


class Clock:
    """The wall clock that an edge sees. Its monotonic clock is the kernel's, as when somebody sets the time."""

    def __init__(self, directory: Path):
        self.path = directory / "clock"
        self.environment = {
            "LD_PRELOAD": glob.glob(FAKETIME)[0],
            "FAKETIME_TIMESTAMP_FILE": str(self.path),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }
        self.set(0)

    def set(self, offset_s: int) -> None:
        """So many seconds after the host's clock, at once."""
        new = self.path.with_suffix(".new")
        new.write_text(f"{offset_s:+d}\n")
        new.rename(self.path)
