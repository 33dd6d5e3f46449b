"""Everything between this laptop and a good dump, looked at in order: what fails first explains what follows."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from typing import Protocol

from console.config.profile import Profile, Proxmox
from console.errors import OperatorError
from console.operations import calls, proxmox
from console.operations.counts import told
from remote.wire.codec import decode
from remote.wire.host import Hello, Pong
from remote.wire.plan import Check, Verdict
from remote.wire.server import Phase

RUNS = (Phase.STARTING, Phase.LOADING, Phase.READY)
CLOCK_SKEW = 5.0  # seconds; more than a round trip can explain


class Examined(calls.Agent, Protocol):
    """An agent that also keeps its first words."""

    hello: Hello


def examine(profile: Profile, connect: Callable[[Profile], Examined], on_check: Callable[[Check], None]) -> bool:
    """Look at everything `profile` needs, telling `on_check` as it goes. True when nothing is bad.

    connect: opens the link; the caller closes it.
    """
    seen: list[Check] = []

    def tell(check: Check) -> None:
        seen.append(check)
        on_check(check)

    tell(Check("profile", Verdict.OK, f"{profile.name} is complete and understood"))
    tell(_ssh_program())
    try:
        agent = connect(profile)
    except OperatorError as error:
        tell(_failed("link", error))
    else:
        _container(profile, agent, tell)
    if profile.proxmox is not None:
        tell(_proxmox(profile.proxmox))
    return all(check.verdict is not Verdict.BAD for check in seen)


def _container(profile: Profile, agent: Examined, tell: Callable[[Check], None]) -> None:
    hello = agent.hello
    tell(Check("link", Verdict.OK, f"{hello.user}@{hello.hostname}, agent {hello.version} as pid {hello.pid}"))
    tell(_python(profile, hello))
    questions: tuple[tuple[str, Callable[[], tuple[Check, ...]]], ...] = (
        ("clock", lambda: (_clock(agent),)),
        ("preflight", lambda: _preflight(profile, agent)),
        ("patch", lambda: calls.patch_status(agent).depths),
        ("requests", lambda: _requests(agent)),
        ("gpus", lambda: () if profile.on_cpu else _gpus(agent)),
        ("dumps", lambda: _dumps(agent)),
    )
    for name, ask in questions:
        try:
            for check in ask():
                tell(check)
        except OperatorError as error:
            tell(_failed(name, error))


def _preflight(profile: Profile, agent: calls.Agent) -> tuple[Check, ...]:
    """A server that runs stands in the way of another start, not of a good dump."""
    checks = calls.preflight(agent, profile).checks
    state = calls.server_state(agent)
    if state.phase not in RUNS:
        return checks
    runs = Check("server", Verdict.OK, f"{state.phase.value} on port {state.port}, pid {state.pid}")
    held = ("port",) if profile.on_cpu else ("port", "gpus")  # by that server; the GPUs have a question of their own
    return tuple(runs if check.name == "server" else check for check in checks if check.name not in held)


def _failed(name: str, error: OperatorError) -> Check:
    return Check(name, Verdict.BAD, f"{error.title}: {error.what}", error.remedy)


def _ssh_program() -> Check:
    found = shutil.which("ssh")
    if found:
        return Check("ssh", Verdict.OK, f"{found} reads ~/.ssh/config")
    return Check("ssh", Verdict.WARN, "no ssh program: ~/.ssh/config is not read", "Install OpenSSH's client.")


def _python(profile: Profile, hello: Hello) -> Check:
    verdict = Verdict.WARN if hello.notes else Verdict.OK
    found = "; ".join((f"the agent runs on {hello.python} ({hello.python_version})", *hello.notes))
    return Check("python", verdict, found, f"Set container.python; it is {profile.container.python}.")


def _clock(agent: Examined) -> Check:
    before = time.time()
    theirs = decode(Pong, agent.call("ping")).now
    skew = theirs - (before + time.time()) / 2
    if abs(skew) <= CLOCK_SKEW:
        return Check("clock", Verdict.OK, f"the container's clock is within {CLOCK_SKEW:.0f} s of ours")
    found = f"the container's clock is {skew:+.0f} s from ours; ages shown here allow for it"
    return Check("clock", Verdict.WARN, found, "Set the time on one of them (timedatectl).")


def _requests(agent: calls.Agent) -> tuple[Check, ...]:
    """Only of a server that says it is ready."""
    return (calls.server_probe(agent),) if calls.server_state(agent).phase is Phase.READY else ()


def _gpus(agent: calls.Agent) -> tuple[Check, ...]:
    found = calls.gpus(agent)
    if found.problem:
        return (Check("gpus", Verdict.WARN, found.problem, found.remedy),)
    lost = [f"GPU {gpu.index}: {gpu.problem}" for gpu in found.gpus if gpu.problem]
    verdict = Verdict.BAD if lost else Verdict.OK
    said = filter(None, (f"{len(found.gpus) - len(lost)} answer", *lost, found.note))
    return (Check("gpus", verdict, "; ".join(said), found.remedy),)


def _dumps(agent: calls.Agent) -> tuple[Check, ...]:
    found = calls.dumps(agent, 1)
    return (Check("dumps", Verdict.WARN if found.problem else Verdict.OK, found.problem or told(found.counts)),)


def _proxmox(host: Proxmox) -> Check:
    try:
        status = proxmox.container_status(host)
    except OperatorError as error:
        return _failed("proxmox", error)
    verdict = Verdict.OK if status == "running" else Verdict.BAD
    return Check("proxmox", verdict, f"container {host.vmid} on {host.host} is {status}")
