#!/usr/bin/env bash
# Installs what a target of the Makefile needs, and only what is missing. Says what it does.
#   tools/install.sh rust | lints | system | python | node | ml | deny | shellcheck | fuzz | vm ...
# System packages come from apt (as root, or with sudo); everything else stays under target/.
set -euo pipefail
cd "$(dirname "$0")/.."

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; return; fi
    command -v sudo >/dev/null || {
        echo "install: this takes root, and there is no sudo: $*" >&2
        exit 1
    }
    sudo "$@"
}

# apt_for COMMAND PACKAGE ...: installs PACKAGE where COMMAND is not there. Mosquitto lives in /usr/sbin.
apt_for() {
    local missing=()
    while [ $# -gt 0 ]; do
        PATH="$PATH:/usr/sbin" command -v "$1" >/dev/null || missing+=("$2")
        shift 2
    done
    if [ ${#missing[@]} -gt 0 ]; then apt_install "${missing[@]}"; fi
}

lists_are_new=
apt_install() {
    command -v apt-get >/dev/null || {
        echo "install: $* missing, and this is no Debian: install them with your package manager" >&2
        exit 1
    }
    echo "install: apt-get install $*"
    [ -n "$lists_are_new" ] || as_root apt-get update -qq
    lists_are_new=yes
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

install_rust() {
    apt_for cc gcc make make
    command -v cargo >/dev/null || {
        echo "install: cargo is missing: Selvedge needs Rust 1.95 or newer (https://rustup.rs)" >&2
        exit 1
    }
}

# Where rustup gave the least that builds, these two are missing.
install_lints() {
    install_rust
    cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 && return
    echo 'install: rustup component add rustfmt clippy'
    rustup component add rustfmt clippy
}

# The brokers and clients that Selvedge is tested with and measured against, the web servers and the proxy that a link goes
# through, the database, the tools of namespaces, what counts its cost, and what shows it another time or a disk that fails.
install_system() {
    install_rust
    install_without_service mosquitto mosquitto mosquitto
    install_without_service nginx nginx-light nginx
    install_without_service haproxy haproxy haproxy
    install_without_service lighttpd lighttpd lighttpd
    install_without_service tinyproxy tinyproxy tinyproxy
    install_without_service docker-registry docker-registry docker-registry
    install_without_service dockerd docker.io docker.service docker.socket
    install_without_service podman podman podman.service podman.socket podman-restart.service podman-auto-update.timer
    apt_for mosquitto_pub mosquitto-clients curl curl wget wget openssl openssl
    apt_for strace strace valgrind valgrind faketime faketime mkfs.ext4 e2fsprogs
    apt_for ip iproute2 unshare util-linux setpriv util-linux pgrep procps
    apt_for docker docker-cli runc runc busybox busybox-static nft nftables
    install_without_service redis-server redis-server redis-server
    apt_for sysbench sysbench mbw mbw fio fio iperf3 iperf3 bonnie++ bonnie++
    install_postgresql
}

# Its programs lie beside the path, and the tests make clusters of their own.
install_postgresql() {
    ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && return
    apt_install postgresql
    if [ -d /run/systemd/system ]; then
        echo "install: postgresql is only run by tests: its service is switched off"
        as_root systemctl disable --now --quiet postgresql
    fi
}

# install_without_service COMMAND PACKAGE SERVICE...: Debian's packages of servers start them, on ports that are somebody else's; a
# newly installed Selvedge would find 1883 in use.
install_without_service() {
    PATH="$PATH:/usr/sbin" command -v "$1" >/dev/null && return
    apt_install "$2"
    if [ -d /run/systemd/system ]; then
        echo "install: $1 is only run by tests and benchmarks: its service is switched off"
        as_root systemctl disable --now --quiet "${@:3}"
    fi
}

install_python() {
    apt_for python3 python3
    local wanted=tests/blackbox/requirements.txt
    cmp -s "$wanted" target/venv/requirements.txt && return
    python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv
    echo "install: Python packages of $wanted into target/venv"
    python3 -m venv --clear target/venv
    target/venv/bin/pip install --quiet --disable-pip-version-check -r "$wanted"
    cp "$wanted" target/venv/requirements.txt
}

# uv, as it keeps to a lock file with hashes, and installs in seconds. Models are pushed to a registry; Keras that is not compiled
# takes 13 s to start instead of 4.
install_ml() {
    install_without_service docker-registry docker-registry docker-registry
    apt_for python3 python3
    python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv
    local version=0.13.9
    target/tools/uv/bin/uv --version 2>/dev/null | grep -q "^uv $version " || {
        echo "install: uv $version into target/tools/uv"
        python3 -m venv --clear target/tools/uv
        target/tools/uv/bin/pip install --quiet --disable-pip-version-check "uv==$version"
    }
    UV_PROJECT_ENVIRONMENT="$PWD/target/ml" target/tools/uv/bin/uv sync --quiet --locked --compile-bytecode --all-extras --project ml
}

install_node() {
    apt_for node nodejs npm npm
    cmp -s tests/blackbox/node/package.json target/node/package.json && [ -d target/node/node_modules/mqtt ] && return
    echo "install: mqtt.js into target/node"
    mkdir -p target/node
    cp tests/blackbox/node/package.json target/node/package.json
    npm install --prefix target/node --silent --no-audit --no-fund
}

install_shellcheck() {
    apt_for shellcheck shellcheck
}

# Without optimisation it builds in a fraction of the time and still checks the workspace in seconds.
install_deny() {
    install_rust
    local version=0.20.2
    target/tools/bin/cargo-deny --version 2>/dev/null | grep -q " $version$" && return
    echo "install: cargo-deny $version into target/tools (about 2 minutes)"
    CARGO_PROFILE_DEV_DEBUG=none CARGO_TARGET_DIR=target/tools/build cargo install --quiet --locked --debug --root target/tools \
        --version "$version" cargo-deny
    rm -rf target/tools/build
}

install_vm() {
    apt_for qemu-system-x86_64 qemu-system-x86 debootstrap debootstrap ssh openssh-client
}

install_fuzz() {
    apt_for c++ g++
    install_rust
}

for part in "$@"; do
    case $part in
        rust | lints | system | python | node | ml | shellcheck | deny | fuzz | vm) "install_$part" ;;
        *)
            echo "install: what is \"$part\"? One of: rust lints system python node ml shellcheck deny fuzz vm" >&2
            exit 2
            ;;
    esac
done
