"""known_hosts as OpenSSH reads and writes it: patterns, hashed names, ports, @revoked."""

from __future__ import annotations

import base64
import dataclasses
import fnmatch
import hashlib
import hmac
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from console.errors import ConfigError, HostKeyChanged
from remote.wire import folders

Files = tuple[Path, ...]


@dataclasses.dataclass(frozen=True)
class Entry:
    """One line. marker: "", "@revoked" or "@cert-authority"; key: the public key as it crosses the wire."""

    file: Path
    line: int
    marker: str
    names: tuple[str, ...]
    kind: str
    key: bytes

    def covers(self, name: str) -> bool:
        """Whether this line is about `name` (`host` or `[host]:port`)."""
        negated = any(pattern[0] == "!" and _matches(pattern[1:], name) for pattern in self.names if pattern)
        return not negated and any(_matches(pattern, name) for pattern in self.names)


def fingerprint(key: bytes) -> str:
    """As ssh-keygen shows it: `SHA256:` and unpadded base64."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def known_kinds(name: str, files: Files) -> tuple[str, ...]:
    """The key types on file for `name`: those to ask the host for first."""
    return tuple(dict.fromkeys(entry.kind for entry in _about(name, files) if not entry.marker))


def check(name: str, kind: str, key: bytes, files: Files) -> bool:
    """True when `key` is on file for `name`, False when nothing is. Raises HostKeyChanged when another one is."""
    entries = list(_about(name, files))
    without_port = re.fullmatch(r"\[(.*)\]:\d+", name)
    anywhere = list(_about(without_port[1], files)) if without_port else []  # what is said of the host on any port
    for entry in (*entries, *anywhere):
        if entry.marker == "@revoked" and entry.key == key:
            raise _changed(name, kind, key, entry, "which that line revokes")
    plain = [entry for entry in entries if not entry.marker]
    if any(entry.key == key for entry in plain):
        return True
    if not plain:  # like ssh, take the host's key on any port, but only if it is the same
        return any(entry.key == key and not entry.marker for entry in anywhere)
    entry = next((entry for entry in plain if entry.kind == kind), plain[0])
    raise _changed(name, kind, key, entry, f"but that line has the {entry.kind} key {fingerprint(entry.key)}")


def store(file: Path, name: str, kind: str, key: bytes, *, hashed: bool) -> None:
    """Append a line for `name`. Raises OSError."""
    folders.make(str(file.parent))
    line = f"{_hash(name) if hashed else name} {kind} {base64.b64encode(key).decode()}\n".encode()
    with os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "rb+") as handle:
        before = handle.read()
        handle.write(b"\n" + line if before and not before.endswith(b"\n") else line)


def _changed(name: str, kind: str, key: bytes, entry: Entry, found: str) -> HostKeyChanged:
    place = f"{entry.file}:{entry.line}"
    return HostKeyChanged(
        f"{name} shows the {kind} key {fingerprint(key)}, see {place}, {found}.",
        "Someone may be between you and the host, or it was installed anew. Only when you know that it was: "
        f"ssh-keygen -f {entry.file} -R '{name}'",
    )


def _about(name: str, files: Iterable[Path]) -> Iterator[Entry]:
    for file in files:
        for number, line in enumerate(_lines(file), 1):
            entry = _parse(file, number, line)
            if entry is not None and entry.covers(name):
                yield entry


def _lines(file: Path) -> list[str]:
    """Of a plain file: a device or a pipe would be read for ever. Raises ConfigError."""
    try:
        if file.is_file() or file.is_dir():
            return file.read_text(encoding="utf-8", errors="replace").split("\n")
        if not file.exists() or file.samefile(os.devnull):
            return []
    except OSError:
        return []  # like ssh: a file that can't be read knows nobody
    raise ConfigError(
        f"{file} can't hold host keys: it is no plain file", "Correct UserKnownHostsFile in ssh's config."
    )


def _parse(file: Path, number: int, line: str) -> Entry | None:
    words = line.split()
    marker = words.pop(0) if words and words[0].startswith("@") else ""
    if len(words) < 3 or words[0].startswith("#"):
        return None
    try:
        key = base64.b64decode(words[2], validate=True)
    except ValueError:
        return None
    return Entry(file, number, marker, tuple(words[0].split(",")), words[1], key)


def _matches(pattern: str, name: str) -> bool:
    if pattern.startswith("|1|"):
        salt = pattern.split("|")[2]
        return hmac.compare_digest(_hash(name, salt).encode(), pattern.encode())
    literal = pattern.replace("[", "[[]")  # only * and ? are wild here
    return fnmatch.fnmatchcase(name.lower(), literal.lower())


def _hash(name: str, salt: str = "") -> str:
    try:
        raw = base64.b64decode(salt) if salt else os.urandom(20)
    except ValueError:  # no base64, or not even ASCII
        return ""
    digest = hmac.new(raw, name.encode(), hashlib.sha1).digest()
    return f"|1|{base64.b64encode(raw).decode()}|{base64.b64encode(digest).decode()}"
