#!/usr/bin/env bash
# Builds the one binary that people download, and proves that it is what was promised: static, at most 25 MB.
set -euo pipefail
cd "$(dirname "$0")/.."

target=x86_64-unknown-linux-gnu
limit_bytes=25000000

RUSTFLAGS='-C target-feature=+crt-static' cargo build --release --target "$target" -p selvedge
mkdir -p target/dist
cp "target/$target/release/selvedge" target/dist/selvedge

if readelf --program-headers target/dist/selvedge | grep -q INTERP; then
    echo 'dist: target/dist/selvedge asks for a dynamic loader; it has to be static' >&2
    exit 1
fi
size=$(stat --format %s target/dist/selvedge)
if [ "$size" -gt "$limit_bytes" ]; then
    echo "dist: target/dist/selvedge has $size bytes, more than $limit_bytes" >&2
    exit 1
fi
target/dist/selvedge --version >/dev/null
(cd target/dist && sha256sum selvedge >selvedge.sha256)
echo "dist: target/dist/selvedge, static, $((size / 1000)) kB, SHA-256 beside it"
