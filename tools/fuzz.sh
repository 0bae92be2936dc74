#!/usr/bin/env bash
# Runs every fuzz target for so many seconds each (60): coverage-guided, with libFuzzer, on the stable compiler.
# New inputs that reach new code stay in target/fuzz/corpus; an input that fails is left in target/fuzz/failures.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
triple=x86_64-unknown-linux-gnu
coverage=(
    -Cpasses=sancov-module
    -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares
    -Ccodegen-units=1
)

RUSTFLAGS="--cfg fuzzing ${coverage[*]}" CARGO_TARGET_DIR=target/fuzz \
    cargo build --quiet --release --target "$triple" --manifest-path fuzz/Cargo.toml

for source in fuzz/fuzz_targets/*.rs; do
    name=$(basename "$source" .rs)
    corpus=target/fuzz/corpus/$name
    seeds=fuzz/seeds/$name
    dictionary=fuzz/dictionaries/$name.dict
    words=()
    [[ -e $dictionary ]] && words=(-dict="$dictionary")
    mkdir -p "$corpus" "$seeds" target/fuzz/failures
    echo "fuzz: $name for $seconds s"
    "target/fuzz/$triple/release/$name" "$corpus" "$seeds" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=1024 \
        -max_len=65536 "${words[@]}" -print_final_stats=1 -artifact_prefix=target/fuzz/failures/ 2>target/fuzz/"$name".log || {
        tail -40 target/fuzz/"$name".log >&2
        echo "fuzz: $name failed; the input is in target/fuzz/failures" >&2
        exit 1
    }
    grep -E 'number_of_executed_units|new_units_added' target/fuzz/"$name".log | tr '\n' ' '
    echo
done
