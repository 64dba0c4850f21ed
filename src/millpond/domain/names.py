"""Names that people choose, and ids that millpond makes.

Ids are ``<prefix><lower-case base32 of a UUIDv7>``, in the extended-hex alphabet (0-9a-v, RFC 4648 §7), so that as text
they sort by creation time: jobs of the same second keep their order.  Time and randomness are inputs.
"""

from __future__ import annotations

import base64
import re

from millpond.domain.errors import InvalidInput

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\Z")
_ENV = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
_USER = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.@-]{0,126}[A-Za-z0-9])?\Z")
_ID = re.compile(r"[a-z][0-9a-v]{26}\Z")

RESERVED_ENV_PREFIXES = ("MILLPOND_", "LD_", "BASH_FUNC_")
RESERVED_ENV = frozenset({"GCONV_PATH", "GETCONF_DIR", "GLIBC_TUNABLES", "LOCPATH", "NLSPATH"})
"""Set by the platform, or read by the C library of the programs that set a job up with the engine's own rights: what
glibc takes from programs that change their user (ld.so(8)) must not reach those either."""


def model_matches(wanted: str, model: str) -> bool:
    """Whether `wanted` names `model`: equal, or its beginning up to a hyphen, case aside."""
    wanted, model = wanted.lower(), model.lower()
    return model == wanted or model.startswith(wanted + "-")


def label_parse(text: str, what: str) -> str:
    """A DNS label: tenants, projects, jobs and nodes are named so on every engine."""
    if not _LABEL.match(text):
        raise InvalidInput(
            f"{text[:80]!r} is not a valid {what} name",
            hint="use 1 to 63 lower-case letters, digits and hyphens, beginning and ending with a letter or digit",
        )
    return text


def user_parse(text: str) -> str:
    """A user name or e-mail address."""
    if not _USER.match(text):
        raise InvalidInput(f"{text[:80]!r} is not a valid user name", hint="use letters, digits and . _ - @")
    return text


def env_name_parse(text: str) -> str:
    """A name of an environment variable that a job may set."""
    if not _ENV.match(text):
        raise InvalidInput(
            f"{text[:80]!r} is not a valid environment variable name",
            hint="use letters, digits and _, not beginning with a digit",
        )
    if text.startswith(RESERVED_ENV_PREFIXES) or text in RESERVED_ENV:
        hint = "names that begin with MILLPOND_ or LD_ are set by the platform"
        if text in RESERVED_ENV:
            hint = "it steers the C library of the programs that set the job up; set it in the commands: export ..."
        raise InvalidInput(f"{text!r} is reserved", hint=hint)
    return text


def id_make(prefix: str, milliseconds: int, random: bytes) -> str:
    """An id from a Unix time in milliseconds and 10 random bytes (UUIDv7, RFC 9562)."""
    raw = bytearray(milliseconds.to_bytes(6, "big") + random[:10])
    raw[6] = 0x70 | (raw[6] & 0x0F)
    raw[8] = 0x80 | (raw[8] & 0x3F)
    return prefix + base64.b32hexencode(bytes(raw)).decode().rstrip("=").lower()


def id_valid(text: str, prefix: str) -> bool:
    return text.startswith(prefix) and _ID.match(text) is not None


def attempt_id(job: str, number: int) -> str:
    """The id of the `number`-th attempt (1-based) of a job."""
    return f"{job}-{number}"


def attempt_split(attempt: str) -> tuple[str, int]:
    """The job id and number of an attempt id."""
    job, _, number = attempt.rpartition("-")
    if not job or not number.isdecimal():
        raise InvalidInput(f"{attempt[:80]!r} is not an attempt id", hint="it looks like <job id>-1")
    return job, int(number)


def natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key that puts n2 before n10."""
    parts = re.split(r"(\d+)", text)
    return tuple((1, int(part), part) if index % 2 else (0, 0, part) for index, part in enumerate(parts))
