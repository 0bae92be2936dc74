"""A machine of its own: a Debian that is emulated, can be restarted, and can lose its power (`tools/vm.sh`)."""

from __future__ import annotations

import json
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

DISKS = Path(__file__).parents[2] / "target/vm"
# Each instruction is emulated: what takes a second elsewhere may take twenty here.
BOOT_S = 600


class Gateway:
    """One that runs, and is reached by SSH."""

    def __init__(self):
        self.directory = Path(tempfile.mkdtemp(prefix="selvedge-vm-"))
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.console = self.directory / "console"
        monitor = self.directory / "monitor"
        # What is written goes with it, and until then survives what the machine survives: not what it had not synced.
        disks = [f"-drive=file={DISKS / name},format=raw,if=virtio,snapshot=on" for name in ("system", "payload")]
        command = [
            *("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "3072"),
            *("-display", "none", "-serial", f"file:{self.console}", "-qmp", f"unix:{monitor},server=on,wait=off"),
            *("-kernel", DISKS / "vmlinuz", "-initrd", DISKS / "initrd.img"),
            *("-append", "root=/dev/vda rw console=ttyS0 quiet"),
            *(word for disk in disks for word in disk.split("=", 1)),
            *("-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{self.port}-:22"),
            *("-device", "virtio-net-pci,netdev=net,romfile="),
        ]
        self.process = subprocess.Popen(command)
        self.monitor = monitor
        self.boot_id = ""

    def stop(self) -> None:
        """Has it be gone."""
        self.hang_up()
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory)

    def ssh(self, *words: str) -> list[str]:
        """The command that runs these there, by one connection for all."""
        options = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "ConnectTimeout=60")
        shared = ("ControlMaster=auto", f"ControlPath={self.directory / 'ssh'}", "ControlPersist=yes")
        set_to = [word for option in (*options, *shared) for word in ("-o", option)]
        return ["ssh", "-i", str(DISKS / "key"), "-p", str(self.port), *set_to, "root@127.0.0.1", *words]

    def hang_up(self) -> None:
        """Closes the connection."""
        subprocess.run(self.ssh("-O", "exit"), capture_output=True)
        (self.directory / "ssh").unlink(missing_ok=True)

    def run(self, script: str, check: bool = True, timeout_s: float = 300) -> str:
        """What a shell there prints of a script."""
        command = self.ssh(f"sh -c {shlex.quote(script)}")
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL)
        assert not check or done.returncode == 0, f"{script}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def write(self, path: str, text: str) -> None:
        """Has a file be there."""
        subprocess.run(self.ssh(f"cat >{shlex.quote(path)}"), input=text, text=True, check=True, timeout=120)

    def wait_for_boot(self) -> None:
        """Waits until it was started once more, and all that starts with it has."""
        deadline = time.monotonic() + BOOT_S
        while True:
            assert self.process.poll() is None, f"qemu ended: {self.process.returncode}"
            assert time.monotonic() < deadline, f"it did not start: {self.console.read_text()[-2000:]}"
            self.hang_up()
            try:
                now = self.run("cat /proc/sys/kernel/random/boot_id && systemctl is-system-running --wait", check=False)
            except subprocess.TimeoutExpired:
                continue
            if now and not now.startswith(self.boot_id or " "):
                self.boot_id = now.split()[0]
                return
            time.sleep(2)

    def reboot(self) -> None:
        """As an operator does it."""
        self.run("systemctl reboot", check=False)
        self.wait_for_boot()

    def lose_power(self) -> None:
        """At once, and have it again."""
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.connect(str(self.monitor))
            for command in ("qmp_capabilities", "system_reset"):
                monitor.sendall(json.dumps({"execute": command}).encode() + b"\n")
                monitor.recv(4096)
            time.sleep(1)  # The answer may not be there yet, and who hangs up before is not heard.
        self.wait_for_boot()


def wait_until(what: Callable[[], bool], patience_s: float = 300) -> None:
    """Waits until something is so."""
    deadline = time.monotonic() + patience_s
    while not what():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(2)
