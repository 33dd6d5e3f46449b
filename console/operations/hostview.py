"""What the Proxmox host sees of a container's port: who holds it from outside, and who can't be seen from inside.

By plain `sh` over the host's own ssh; no agent runs there. What was printed decides, never an exit status.
"""

from __future__ import annotations

import base64
import dataclasses
import importlib.resources
import ipaddress
import re
import secrets
import shlex
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from console.text import harmless
from remote.wire.masking import mask_argv

T = TypeVar("T")
Records = list[tuple[str, str]]

TITLE = "sglang::"
LATE = "(its command line or environment could not be read)"
SCRIPTS = importlib.resources.files("console.operations") / "sh"


@dataclasses.dataclass(frozen=True)
class HostProcess:
    """A process by the host's pid. inner: its pid in the container, None outside of it.

    age: seconds. started: seconds since the epoch by the host's clock.

    command: its name in brackets where there is none, or none that could be read.
    waits: the kernel function that a thread of it waits in (state D), empty when none does.
    frozen: files that thaw its control group and those above it, of each that is frozen. dump_dir: of its environment.
    """

    pid: int
    start_ticks: int
    inner: int | None
    state: str
    command: str
    name: str
    uid: int
    age: float
    cgroup: str
    holds: tuple[str, ...] = ()
    waits: str = ""
    frozen: tuple[str, ...] = ()
    dump_dir: str = ""
    started: float = 0.0

    @property
    def titled(self) -> bool:
        return self.command.startswith(TITLE) or self.name.startswith(TITLE)


@dataclasses.dataclass(frozen=True)
class HostFacts:
    """listeners: addresses of the port. processes: who holds them, and all `sglang::` of the container.

    init: the container's process 1 by the host's pid, None when it does not run. namespace: of the container's pids.
    frozen: files that thaw the container as a whole, where that is frozen.
    """

    init: int | None
    listeners: tuple[str, ...] = ()
    processes: tuple[HostProcess, ...] = ()
    namespace: str = ""
    frozen: tuple[str, ...] = ()


class Clock(NamedTuple):
    """Of the host, as it was looked at. ticks: of the kernel, a second. uptime, now: seconds, now since the epoch."""

    ticks: float
    uptime: float
    now: float


class Unreadable(Exception):
    """The host's answer is not one, or not whole."""


def look_command(vmid: int, port: int, mark: str) -> str:
    return command("look.sh", str(vmid), str(port), mark, looks=True)


def command(script: str, *arguments: str, looks: bool = False) -> str:
    """A script of ours as a shell takes it. looks: it describes processes."""
    text = (SCRIPTS / "process.sh").read_text() if looks else ""
    return shlex.join(["sh", "-c", text + (SCRIPTS / script).read_text(), "hsconsole", *arguments])


def new_mark() -> str:
    return f"hs-{secrets.token_hex(8)}"


def parse(output: str, mark: str) -> HostFacts:
    """What look.sh printed. Raises Unreadable, with the place, when it is cut or garbled."""
    return read(output, mark, _facts)


def read(output: str, mark: str, facts: Callable[[Records], T]) -> T:
    """`facts` of the records that a script printed, each a kind and the rest of its line. Raises Unreadable."""
    _, begun, rest = output.partition(f"{mark} begin\n")
    body, ended, _ = rest.partition(f"{mark} end")
    if not begun or not ended:
        where = "it never began" if not begun else f"it breaks off after {len(body.splitlines())} lines"
        raise Unreadable(f"the host's answer is not whole: {where}")
    records = [line.split(" ", 1) for line in body.splitlines() if line]
    try:
        return facts([(record[0], record[1] if len(record) > 1 else "") for record in records])
    except (ValueError, LookupError, ArithmeticError) as error:
        raise Unreadable(f"the host's answer is garbled: {error}") from None


def _facts(records: Records) -> HostFacts:
    values = dict(records)
    if not values["init"]:
        return HostFacts(None)
    sockets = {
        inode: _address(local) for local, _, inode in (rest.split() for kind, rest in records if kind == "listen")
    }
    holds: dict[int, set[str]] = {}
    for link, path in (rest.split() for kind, rest in records if kind == "hold"):
        holds.setdefault(int(path.split("/")[2]), set()).add(sockets[link[len("socket:[") : -1]])
    frozen = _frozen(records)
    kept = tuple(one for one in processes(records, holds) if one.holds or one.inner is not None)
    init = int(values["init"])
    return HostFacts(init, tuple(sockets.values()), kept, values.get("namespace", ""), frozen.get(init, ()))


def _frozen(records: Records) -> dict[int, tuple[str, ...]]:
    """By pid, the files that thaw its control group and those above."""
    found: dict[int, tuple[str, ...]] = {}
    for pid, packed in (rest.split() for kind, rest in records if kind == "frozen"):
        file = base64.b64decode(packed, validate=True).decode("utf-8", "surrogateescape")
        found[int(pid)] = (*found.get(int(pid), ()), file)
    return found


def processes(records: Records, holds: dict[int, set[str]]) -> list[HostProcess]:
    """Those described. holds: by pid, the addresses that it listens on."""
    frozen = _frozen(records)
    ticks, uptime, now = map(float, dict(records)["clock"].split())
    clock = Clock(ticks, uptime, now)
    late = {int(rest) for kind, rest in records if kind == "late"}
    found = (_process(rest, holds, frozen, clock) for kind, rest in records if kind == "proc")
    return [
        dataclasses.replace(one, command=f"{one.command} {LATE}") if one.pid in late else one
        for one in found
        if one is not None
    ]


def _process(
    rest: str, holds: dict[int, set[str]], frozen: dict[int, tuple[str, ...]], clock: Clock
) -> HostProcess | None:
    """None for one that ended while it was looked at."""
    pid, where, waits, packed = rest.split()
    stat, cmdline, status, cgroup, folder = (
        base64.b64decode(part).decode("utf-8", "replace") for part in packed.split(".")
    )
    if not stat or not status:
        return None
    name = stat[stat.index("(") + 1 : stat.rindex(")")]
    fields = stat[stat.rindex(")") + 2 :].split()
    age = max(0.0, clock.uptime - int(fields[19]) / clock.ticks)
    words = cmdline.rstrip("\0").split("\0")
    return HostProcess(
        pid=int(pid),
        start_ticks=int(fields[19]),
        inner=int(_field(status, "NSpid").split()[-1]) if where == "inside" else None,
        state=fields[0],
        command=harmless(" ".join(mask_argv(words)) or f"[{name}]"),
        name=name,
        uid=int(_field(status, "Uid").split()[0]),
        age=age,
        cgroup=_cgroup(cgroup),
        holds=tuple(sorted(holds.get(int(pid), ()))),
        waits="" if waits == "-" else harmless(waits),
        frozen=frozen.get(int(pid), ()),
        dump_dir=folder.rstrip("\n"),
        started=clock.now - age,
    )


def _field(status: str, name: str) -> str:
    match = re.search(rf"^{name}:\s*(.*)$", status, re.MULTILINE)
    return match[1] if match else ""


def _cgroup(text: str) -> str:
    lines = [line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2]
    return next((path for number, names, path in lines if number == "0" or "memory" in names.split(",")), "")


def _address(local: str) -> str:
    """An address of /proc/net/tcp, its words in the byte order of the machines SGLang runs on."""
    text, _, port = local.partition(":")
    words = [bytes.fromhex(text[i : i + 8])[::-1] for i in range(0, len(text), 8)]
    address = ipaddress.ip_address(b"".join(words))
    return f"[{address}]:{int(port, 16)}" if address.version == 6 else f"{address}:{int(port, 16)}"
