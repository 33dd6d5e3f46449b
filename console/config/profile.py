"""What a profile is. Read by `load`, written by `init`; the TOML keys are the field names."""

from __future__ import annotations

import itertools
from typing import Protocol

import msgspec

from remote.wire.target import DEFAULT_LAYERS, Target


class Login(Protocol):
    """What a profile says about one host to log in to. ssh_config: read instead of ~/.ssh/config."""

    @property
    def host(self) -> str: ...
    @property
    def user(self) -> str | None: ...
    @property
    def port(self) -> int | None: ...
    @property
    def key(self) -> str | None: ...
    @property
    def ssh_config(self) -> str | None: ...


class Container(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """host: a name from ~/.ssh/config or an address; user, port and key win over ~/.ssh/config where given.

    python: the interpreter of SGLang's environment in the container.
    """

    host: str
    python: str
    user: str | None = None
    port: int | None = None
    key: str | None = None
    ssh_config: str | None = None


class Proxmox(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The host that `pct exec VMID` runs on, for what the container can't do itself."""

    host: str
    vmid: int
    user: str | None = None
    port: int | None = None
    key: str | None = None
    ssh_config: str | None = None


class Server(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """flags: SGLang's own, one string each, in any release's spelling: translated to the installed one."""

    model_path: str
    host: str = "0.0.0.0"  # noqa: S104 - SGLang's own choice is the operator's to make
    port: int = 8000
    tp: int = 1
    flags: tuple[str, ...] = ()
    env: dict[str, str] = {}


class Dump(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """layers: captured before these (0-based). eagle_layer_ids: the same by their outputs, one less each; give one."""

    folder: str = "/dev/shm/sglang_hs"
    layers: tuple[int, ...] | None = None
    eagle_layer_ids: tuple[int, ...] | None = None

    @property
    def capture_before(self) -> tuple[int, ...]:
        if self.eagle_layer_ids is not None:
            return tuple(layer + 1 for layer in self.eagle_layer_ids)
        return DEFAULT_LAYERS if self.layers is None else self.layers


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """read_only: refuse every action. name: the file's, not a key. stood_in: what a demo can't have for real."""

    container: Container
    server: Server
    dump: Dump = Dump()
    proxmox: Proxmox | None = None
    read_only: bool = False
    name: str = ""
    stood_in: tuple[str, ...] = ()

    @property
    def on_cpu(self) -> bool:
        """Whether SGLang is told to compute on the CPU: no GPU is missed then."""
        words = " ".join(self.server.flags).replace("=", " ").split()
        return ("--device", "cpu") in itertools.pairwise(words)

    @property
    def target(self) -> Target:
        server = self.server
        return Target(
            python=self.container.python,
            model_path=server.model_path,
            host=server.host,
            port=server.port,
            tp=server.tp,
            flags=server.flags,
            env=dict(server.env),
            dump_dir=self.dump.folder,
            layers=self.dump.capture_before,
            eagle_layer_ids=self.dump.eagle_layer_ids,
        )
