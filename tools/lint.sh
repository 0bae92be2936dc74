#!/usr/bin/env bash
# Everything that can be said about the sources without running them. Stops at the first complaint.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "lint: $1"; }

say 'formatting of Rust and Python'
cargo fmt --all --check
cargo fmt --manifest-path apps/anomaly/Cargo.toml --check
target/venv/bin/ruff format --check --quiet tests ml
say 'clippy, warnings are errors; the banned calls are in clippy.toml'
cargo clippy --workspace --all-targets --quiet -- -D warnings
cargo clippy --manifest-path apps/anomaly/Cargo.toml --locked --all-targets --release --quiet -- -D warnings
say 'documentation builds without a warning'
RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --quiet
say 'ruff, shellcheck'
target/venv/bin/ruff check --quiet tests ml
shellcheck tools/*.sh .ci/run
say 'licences, duplicate and foreign sources (deny.toml)'
export PATH="$PWD/target/tools/bin:$PATH"
cargo deny --log-level error check licenses bans sources
cargo deny --manifest-path apps/anomaly/Cargo.toml --log-level error check licenses bans sources
say 'advisories'
if [ -n "${ADVISORY_DB:-}" ] || timeout 20 git ls-remote --exit-code "$(sed -n 's/^db-urls = \["\(.*\)"\]$/\1/p' deny.toml)" HEAD >/dev/null 2>&1; then
    cargo deny --log-level error check advisories
    cargo deny --manifest-path apps/anomaly/Cargo.toml --log-level error check advisories
else
    say 'the advisory database is not reachable from here: advisories were NOT checked'
fi
say 'clean'
