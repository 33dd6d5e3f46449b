"""What TOML's types can't say about a profile's values: each rule finds its problem, or nothing."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator

from console.config.profile import Login, Profile
from remote.wire.masking import mask_text

UNSAFE_IN_LOGIN = re.compile(r"[\s\x00-\x1f\x7f'`\"$\\;&<>|(){},]")
# with direction marks, and what stands for bytes that are no text
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclasses.dataclass(frozen=True)
class Problem:
    """key: dotted. found: the value as TOML would write it, free of secrets. allowed: what would be right."""

    key: str
    found: str
    allowed: str

    def __str__(self) -> str:
        return f"{self.key}: found {self.found}; allowed: {self.allowed}"


def problems(profile: Profile) -> Iterator[Problem]:
    """Everything wrong with the values of `profile`."""
    yield from login_problems("container", profile.container)
    if profile.proxmox is not None:
        yield from login_problems("proxmox", profile.proxmox)
        yield from _unless(profile.proxmox.vmid >= 100, "proxmox.vmid", profile.proxmox.vmid, "100 or more")
    yield from _python(profile.container.python)
    yield from _server(profile)
    yield from _dump(profile)


def login_problems(section: str, login: Login) -> Iterator[Problem]:
    """What would let a host or user be read as something else by ssh or a shell."""
    for key, value in (("host", login.host), ("user", login.user)):
        if value is None:
            continue
        fine = bool(value) and not value.startswith("-") and not UNSAFE_IN_LOGIN.search(value)
        yield from _unless(
            fine, f"{section}.{key}", value, "a name without spaces, quotes or shell characters, no leading -"
        )
    if login.port is not None:
        yield from _port(f"{section}.port", login.port)
    for key, value in (("key", login.key), ("ssh_config", login.ssh_config)):
        if value is not None:
            yield from _unless(clean(value), f"{section}.{key}", value, "the path of a file")


def _python(python: str) -> Iterator[Problem]:
    fine = clean(python) and not python.startswith("-") and (python.startswith("/") or "/" not in python)
    yield from _unless(fine, "container.python", python, "an absolute path, or a program's name")


def _server(profile: Profile) -> Iterator[Problem]:
    server = profile.server
    yield from _unless(clean(server.model_path), "server.model_path", server.model_path, "a path or a model's name")
    yield from _unless(clean(server.host), "server.host", server.host, "an address to listen on")
    yield from _port("server.port", server.port)
    yield from _unless(server.tp >= 1, "server.tp", server.tp, "1 or more")
    for i, flag in enumerate(server.flags):
        yield from _unless("\0" not in flag, f"server.flags[{i}]", "text with NUL", "text without NUL")
    for name, value in server.env.items():
        yield from _unless(bool(VARIABLE.fullmatch(name)), f"server.env.{name}", name, "names of A-Z, a-z, 0-9 and _")
        yield from _unless("\0" not in value, f"server.env.{name}", "text with NUL", "text without NUL")


def _dump(profile: Profile) -> Iterator[Problem]:
    dump = profile.dump
    fine = clean(dump.folder) and dump.folder.startswith("/") and dump.folder.strip("/") != ""
    yield from _unless(fine, "dump.folder", dump.folder, "an absolute path, such as /dev/shm/sglang_hs")
    if dump.layers is not None and dump.eagle_layer_ids is not None:
        yield Problem("dump", "both layers and eagle_layer_ids", "one of them: eagle ids are the layers less 1 each")
    for key, layers, lowest in (("layers", dump.layers, 0), ("eagle_layer_ids", dump.eagle_layer_ids, -1)):
        if layers is None:
            continue
        rising = all(a < b for a, b in itertools.pairwise(layers))
        fine = bool(layers) and layers[0] >= lowest and rising
        yield from _unless(fine, f"dump.{key}", list(layers), f"whole numbers from {lowest}, each larger than the last")


def _port(key: str, port: int) -> Iterator[Problem]:
    yield from _unless(1 <= port <= 65535, key, port, "1 to 65535")


def clean(text: str) -> bool:
    """Whether a path or a name is there and free of characters that no operator would type."""
    return bool(text) and not CONTROL.search(text)


def _unless(fine: bool, key: str, found: object, allowed: str) -> Iterator[Problem]:
    if not fine:
        yield Problem(key, mask_text(repr(found)), allowed)
