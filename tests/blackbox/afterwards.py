"""Ends what a run of the tests has left, once that has ended, however it did: `python afterwards.py DIRECTORY`.

Containers outlive their edge, as they are to. Of a run that is killed they would go on, and one that fills a disk would
fill it. Whoever runs the tests holds the standard input; when that closes, processes that name the run's directory are
ended, with all that they have started.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

# What one has started while others were ended is found by the next look; a process that becomes another program has no
# arguments for a moment, so that one look that finds none says little.
LOOKS = 20
LOOKS_WITHOUT = 3


def parents() -> dict[int, int]:
    """The parent of each process."""
    known = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            known[int(path.parent.name)] = int(path.read_text().rsplit(")", 1)[1].split()[1])
    return known


def of_run(directory: str) -> set[int]:
    """Processes that name it, and what they have started, but for this one."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if directory.encode() in path.read_bytes():
                found.add(int(path.parent.name))
    found.discard(os.getpid())
    parent_of = parents()
    while more := {pid for pid, parent in parent_of.items() if parent in found and pid not in found}:
        found |= more
    return found


def main() -> None:
    """Waits, and ends them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdin.buffer.read()
    without = 0
    for _ in range(LOOKS):
        left = of_run(sys.argv[1])
        without = 0 if left else without + 1
        if without == LOOKS_WITHOUT:
            return
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


if __name__ == "__main__":
    main()
