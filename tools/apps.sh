#!/usr/bin/env bash
# Builds the applications that come with Selvedge, each one static binary in target/apps, and runs their own tests:
#   tools/apps.sh [test]
set -euo pipefail
cd "$(dirname "$0")/.."

target=x86_64-unknown-linux-gnu
limit_bytes=30000000
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}
export RUSTFLAGS='-C target-feature=+crt-static'

echo 'apps: anomaly'
cargo build --quiet --locked --release --target "$target" --manifest-path apps/anomaly/Cargo.toml
if [ "${1:-}" = test ]; then
    cargo test --quiet --locked --release --target "$target" --manifest-path apps/anomaly/Cargo.toml
fi
mkdir -p target/apps
cmp -s "$CARGO_TARGET_DIR/$target/release/anomaly" target/apps/anomaly ||
    install "$CARGO_TARGET_DIR/$target/release/anomaly" target/apps/anomaly

if readelf --program-headers target/apps/anomaly | grep -q INTERP; then
    echo 'apps: target/apps/anomaly asks for a dynamic loader; it has to be static' >&2
    exit 1
fi
size_bytes=$(stat --format %s target/apps/anomaly)
if [ "$size_bytes" -gt "$limit_bytes" ]; then
    echo "apps: target/apps/anomaly has $size_bytes bytes, more than $limit_bytes" >&2
    exit 1
fi
echo "apps: target/apps/anomaly, static, $((size_bytes / 1000)) kB"
