"""A certificate authority for one test cluster, made with openssl, and what it signs."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DAYS = "2"


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """Signs for servers on 127.0.0.1 and for people and programs, who are what their certificate says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True)
        self.pair = self._named("ca")
        usage = ("basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign")
        self._make(self.pair, "/CN=test-cluster", usage)

    @property
    def certificate(self) -> Path:
        return self.pair.certificate

    def server(self, name: str, *names: str) -> Pair:
        """For a server on 127.0.0.1 that is also known by `names` (``DNS:x`` or ``IP:x``)."""
        known = ",".join(("IP:127.0.0.1", "DNS:localhost", *names))
        return self._signed(name, f"/CN={name}", (f"subjectAltName={known}", "extendedKeyUsage=serverAuth"))

    def client(self, user: str, groups: Sequence[str] = ()) -> Pair:
        """For `user`, a member of `groups`."""
        subject = "".join(f"/O={group}" for group in groups) + f"/CN={user}"
        return self._signed(user.replace(":", "-"), subject, ("extendedKeyUsage=clientAuth",))

    def account_key(self) -> Path:
        """The key that signs the tokens of service accounts."""
        key = self.folder / "accounts.key"
        _openssl("genrsa", "-out", str(key), "2048")
        return key

    def _named(self, name: str) -> Pair:
        return Pair(self.folder / f"{name}.crt", self.folder / f"{name}.key")

    def _signed(self, name: str, subject: str, extensions: Sequence[str]) -> Pair:
        pair = self._named(name)
        if not pair.certificate.exists():
            signer = ("-CA", str(self.pair.certificate), "-CAkey", str(self.pair.key))
            self._make(pair, subject, ("basicConstraints=critical,CA:FALSE", *extensions), signer)
        return pair

    def _make(self, pair: Pair, subject: str, extensions: Sequence[str], signer: Sequence[str] = ()) -> None:
        added = [word for extension in extensions for word in ("-addext", extension)]
        kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        files = ("-keyout", str(pair.key), "-out", str(pair.certificate))
        _openssl("req", "-x509", *kind, *files, "-subj", subject, "-days", DAYS, *added, *signer)


def _openssl(*words: str) -> None:
    done = subprocess.run(["openssl", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"openssl {words[0]}: {done.stderr}"
