"""`python3 tests/crates.py`: builds the tests of the crates and runs their programs, several at once.

`cargo test` runs one after the other; most of them wait more than they compute. `cargo nextest` would do the same, and
would have to be built first.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

AT_ONCE = 2 * (os.cpu_count() or 1)


def programs() -> list[tuple[str, str]]:
    """Those that are built, and the directories of their crates, where Cargo runs them."""
    build = [
        "cargo",
        "test",
        "--workspace",
        "--no-run",
        "--quiet",
        "--message-format=json-render-diagnostics",
    ]
    built = subprocess.run(build, stdout=subprocess.PIPE, text=True, check=False)
    if built.returncode != 0:
        sys.exit(built.returncode)
    told = [json.loads(line) for line in built.stdout.splitlines()]
    tests = [
        one
        for one in told
        if one["reason"] == "compiler-artifact"
        and one["profile"]["test"]
        and one["executable"]
    ]
    return [(one["executable"], os.path.dirname(one["manifest_path"])) for one in tests]


def run(program: tuple[str, str]) -> tuple[str, subprocess.CompletedProcess]:
    """One, and what it says."""
    path, directory = program
    environment = {**os.environ, "CARGO_MANIFEST_DIR": directory}
    said = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return path, subprocess.run(
        [path, "--quiet"],
        cwd=directory,
        env=environment,
        text=True,
        check=False,
        **said,
    )


def main() -> int:
    """0 where all have passed."""
    failed = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for path, done in pool.map(run, programs()):
            name = os.path.basename(path).rsplit("-", 1)[0]
            result = next(
                (
                    line
                    for line in done.stdout.splitlines()
                    if line.startswith("test result:")
                ),
                "no result",
            )
            print(f"{name}: {result}", flush=True)
            if done.returncode != 0:
                failed.append(name)
                print(done.stdout, flush=True)
    documented = subprocess.run(
        ["cargo", "test", "--workspace", "--doc", "--quiet"], check=False
    )
    if documented.returncode != 0:
        failed.append("examples in the documentation")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
