#!/usr/bin/env bash
# Runs tests/vm: the program on a machine of its own, a Debian that systemd starts, with cgroups of version 2 alone, which can be
# restarted and lose its power. It is emulated (no KVM is needed), which takes its time; all it is lies under target/vm.
#   tools/vm.sh PROGRAM [ARGUMENT OF PYTEST ...]
set -euo pipefail
program=$(realpath "$1")
shift
cd "$(dirname "$0")/.."

at=target/vm
release=bookworm
# What a machine has whose user installed Selvedge, and what the black-box tests take.
packages=(systemd-sysv linux-image-cloud-amd64 openssh-server procps iproute2 util-linux e2fsprogs curl wget openssl zstd python3
    runc nftables busybox-static mosquitto mosquitto-clients nginx-light docker.io podman netavark
    apparmor docker-registry)
# Debian's packages of servers start them, at ports that tests take.
servers=(mosquitto.service nginx.service docker.service docker.socket containerd.service docker-registry.service)
# What a machine does by itself that only takes time.
chores=(apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer man-db.timer)

[ "$(id -u)" = 0 ] || {
    echo 'vm: a system of its own is put together by root' >&2
    exit 1
}

# make_disk FILE FOLDER SIZE
make_disk() {
    rm -f "$1"
    mkfs.ext4 -q -F -d "$2" "$1" "$3"
}

make_system() {
    echo "vm: a Debian $release for tests into $at (a few minutes, once)"
    rm -rf "$at"
    mkdir -p "$at"
    local root=$at/root names
    names=$(IFS=,; echo "${packages[*]}")
    debootstrap --variant=minbase --include="$names" "$release" "$root" >"$at/debootstrap.log" 2>&1 || {
        tail -3 "$at/debootstrap.log" >&2
        exit 1
    }
    ssh-keygen -q -t ed25519 -N '' -f "$at/key"
    install -D -m 600 "$at/key.pub" "$root/root/.ssh/authorized_keys"
    printf '[Match]\nName=en*\n[Network]\nDHCP=yes\n' >"$root/etc/systemd/network/en.network"
    printf '/dev/vdb /selvedge ext4 ro 0 0\n' >>"$root/etc/fstab"
    mkdir "$root/selvedge"
    echo gateway >"$root/etc/hostname"
    chroot "$root" systemctl --quiet enable systemd-networkd
    chroot "$root" systemctl --quiet disable "${servers[@]}" "${chores[@]}" 2>/dev/null
    cp "$root"/boot/vmlinuz-* "$at/vmlinuz"
    cp "$root"/boot/initrd.img-* "$at/initrd.img"
    make_disk "$at/system.new" "$root" 4G
    rm -rf "$root"
    mv "$at/system.new" "$at/system"
}

# The program under test and the tests, on a disk of their own.
make_payload() {
    local content=$at/content
    rm -rf "$content"
    mkdir "$content"
    strip -o "$content/selvedge" "$program"
    cp -r tests/blackbox docs/selvedge-edge.service "$content"
    cp -r target/venv/lib/python3*/site-packages "$content/packages"
    make_disk "$at/payload" "$content" 512M
}

[ -e "$at/system" ] || make_system
make_payload
[ $# -gt 0 ] || set -- tests/vm
exec target/venv/bin/python -m pytest "$@"
