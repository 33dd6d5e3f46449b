"""What a demo has running and changed, written down, so that it is put back even if the demo is killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from console.client import connect
from console.config.profile import Profile
from console.demo.sshd import Sshd
from console.errors import DemoError, OperatorError
from console.operations import calls
from remote.wire.patch import PatchState

ENDS_IN = 5.0  # seconds for a process to end when it is told to

Say = Callable[[str, str], None]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """sshd_start_ticks tells our sshd from a later process with its pid."""

    profile: Profile
    sshd_pid: int
    sshd_start_ticks: int


def write(path: Path, profile: Profile, sshd: Sshd) -> None:
    """Note down a demo that begins; from then on `put_back` finds what it leaves."""
    record = Record(profile=profile, sshd_pid=sshd.pid, sshd_start_ticks=start_ticks(sshd.pid) or 0)
    aside = path.with_suffix(".new")
    aside.write_bytes(msgspec.json.encode(record))
    aside.replace(path)


def heal(path: Path, sshd: Sshd, say: Say) -> None:
    """Put back what a demo that was killed has left: `path` is its record. Does nothing after a clean end."""
    try:
        record = msgspec.json.decode(path.read_bytes(), type=Record)
    except FileNotFoundError:
        return
    except msgspec.MsgspecError:
        raise DemoError(f"{path} is no record of a demo", "Stop what that demo left running, then delete it.") from None
    say("putting back what an earlier demo left", "")
    if record.sshd_start_ticks:
        _end(record.sshd_pid, record.sshd_start_ticks)
    old = record.profile
    login = msgspec.structs.replace(old.container, ssh_config=str(sshd.config))
    if Path(old.container.python).exists():  # else its engine is gone, and the server and the patch with it
        put_back(msgspec.structs.replace(old, container=login), say)
    path.unlink()


def _end(pid: int, ticks: int) -> None:
    """End that process, which is no child of ours. Raises DemoError when even SIGKILL does not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + ENDS_IN
        while start_ticks(pid) == ticks and time.monotonic() < deadline:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
            time.sleep(0.05)
    if start_ticks(pid) == ticks:
        raise DemoError(
            f"process {pid}, an earlier demo's sshd, does not end", f"Look at it: ps -o stat,wchan -p {pid}"
        )


def put_back(profile: Profile, say: Say) -> None:
    """Stop the server, revert the patch, remove the dumps: through the product's own operations.

    Raises DemoError when something could not be put back, after all the rest has been.
    """
    failed: list[str] = []
    try:
        agent = connect(profile)
        try:
            for action in NEEDED:
                failed += _undo(agent, profile, action, say)
        finally:
            agent.close()
    except OperatorError as error:
        failed.append(str(error))
    shutil.rmtree(profile.dump.folder, ignore_errors=True)
    if failed:
        raise DemoError("\n".join(failed), "`hsconsole demo` tries again to put it back when it starts.")


def _server_is_ours(agent: calls.Agent) -> bool:
    """After a restart of the machine the port may be another's by now."""
    return any(process.ours for process in calls.server_state(agent).processes)


def _patch_is_there(agent: calls.Agent) -> bool:
    return calls.patch_status(agent).state is not PatchState.CLEAN


NEEDED = {"server.stop": _server_is_ours, "patch.revert": _patch_is_there}


def _undo(agent: calls.Agent, profile: Profile, action: str, say: Say) -> list[str]:
    try:
        if not NEEDED[action](agent):
            return []
        plan = calls.plan(agent, action)
        say(plan.title, "")
        outcome = calls.run(agent, profile, plan, lambda step: say(step.title, step.detail))
    except OperatorError as error:
        return [str(error)]
    return [] if outcome.ok else [outcome.summary]


def start_ticks(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None when there is none, or only its exit status is left."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])
