"""Devices and apps of a Selvedge broker under test, and certificates of strangers."""

from __future__ import annotations

import re
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

from brokers import Selvedge


@dataclass
class Account:
    """What `selvedge device add` or `selvedge app add` gave out."""

    user: str
    password: str

    def login(self) -> dict[str, str]:
        """Options of a paho client."""
        return {"user": self.user, "password": self.password}


def add(broker: Selvedge, kind: str, name: str, password: str = "correct horse", tenant: str | None = None) -> Account:
    """A device or an app with a password."""
    words = [kind, "add", name, "--password", password, *(("--tenant", tenant) if tenant else ())]
    broker.run(*words)
    return Account(f"{tenant}/{name}" if tenant else name, password)


def add_with_token(broker: Selvedge, kind: str, name: str, *words: str, tenant: str | None = None) -> Account:
    """A device or an app with a signed token, which stands where a password would."""
    said = broker.run(kind, "add", name, "--token", *words, *(("--tenant", tenant) if tenant else ())).stdout
    token = re.search(r"ey[\w-]+\.[\w-]+\.[\w-]+", said)
    assert token, f"no token in: {said}"
    return Account(f"{tenant}/{name}" if tenant else name, token.group())


def add_with_certificate(broker: Selvedge, kind: str, name: str, *words: str) -> tuple[Path, Path]:
    """A device or an app with a certificate of the edge's own authority, and its key."""
    broker.run(kind, "add", name, "--certificate", *words)
    return broker.directory / f"{name}.pem", broker.directory / f"{name}.key"


def openssl(*words: str) -> None:
    """Runs openssl."""
    subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=30)


@dataclass
class Authority:
    """A certificate authority of the test's own."""

    directory: Path

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.certificate, self.key = self.directory / "ca.pem", self.directory / "ca.key"
        if not self.certificate.exists():
            curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
            files = ["-keyout", str(self.key), "-out", str(self.certificate)]
            openssl("req", "-x509", *curve, *files, "-subj", "/CN=Test authority")

    def issue(self, name: str, subject: str, days: int = 1, host: str = "localhost") -> tuple[Path, Path]:
        """A certificate and its key; a negative number of days is one that has expired."""
        certificate, key, request = (self.directory / f"{name}.{end}" for end in ("pem", "key", "csr"))
        extensions = self.directory / f"{name}.ext"
        extensions.write_text(f"subjectAltName=IP:127.0.0.1,DNS:{host}\n")
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        openssl("req", *curve, "-keyout", str(key), "-out", str(request), "-subj", subject)
        signed = ["-CA", str(self.certificate), "-CAkey", str(self.key), "-CAcreateserial", "-out", str(certificate)]
        dates = ["-days", str(days)]
        openssl("x509", "-req", "-in", str(request), *signed, *dates, "-extfile", str(extensions))
        return certificate, key


def context(authority: Path, certificate: Path | None = None, key: Path | None = None) -> ssl.SSLContext:
    """What a client trusts, and what it shows."""
    made = ssl.create_default_context(cafile=str(authority))
    made.check_hostname = False
    if certificate:
        made.load_cert_chain(str(certificate), str(key))
    return made
