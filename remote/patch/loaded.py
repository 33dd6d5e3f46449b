"""The fourth depth: which code running servers loaded, by what they wrote themselves and by when they started."""

from __future__ import annotations

import dataclasses
import os
import time
from typing import Any, Optional

from remote import processes
from remote.dumps.claims import live
from remote.patch.look import Look
from remote.processes import Process
from remote.wire.plan import Check, Verdict
from remote.wire.target import Target

RESTART = "Restart the server: hsconsole server stop, then start."
READ_LIMIT = 1 << 20  # bytes of one .loaded file


@dataclasses.dataclass(frozen=True)
class Claim:
    """What a live process says it loaded. model_files: their SHA-256 by path.

    problem: why it can't dump anything as it was started, empty when it can.
    """

    process: Process
    model_files: dict[str, str]
    dumper_digest: str
    problem: str = ""


def check(target: Target, look: Look) -> Check:
    """Compare what live servers of this installation loaded with what the files hold now."""
    found = (_claim(process, said) for process, said in live(target.dump_dir, READ_LIMIT))
    claims = [claim for claim in found if claim is not None]
    own = [claim for claim in claims if look.path in claim.model_files]
    if own:
        return _claimed(own, look)
    others = set(map(os.path.realpath, look.also_patched))
    shared = [claim for claim in claims if others & claim.model_files.keys()]
    if shared and look.patched:
        return _by_another(shared, look)
    strange = [claim for claim in claims if claim.model_files and not _of_package(claim, look)]
    if strange:
        return _elsewhere(strange, target)
    servers = _servers(target, look)
    if not servers:
        return Check("loaded", Verdict.UNKNOWN, "no server of this installation runs")
    return _silent(servers, target, look)


def _claimed(claims: list[Claim], look: Look) -> Check:
    loaded = look.sha256, look.dumper_digest
    wrong = [c for c in claims if (c.model_files[look.path], c.dumper_digest) != loaded]
    refusing = [c for c in claims if c.problem]
    if refusing and not wrong:
        found = f"{_pids([c.process for c in refusing])} loaded this file and dumps nothing: {refusing[0].problem}"
        return Check("loaded", Verdict.BAD, found, "Start the server as that says.")
    if not wrong:
        return Check("loaded", Verdict.OK, f"{_pids([c.process for c in claims])} loaded this file and this dumper")
    other = "a patched file that is not there any more" if not look.patched else "another file or dumper"
    return Check("loaded", Verdict.WARN, f"{_pids([c.process for c in wrong])} loaded {other}", RESTART)


def _by_another(claims: list[Claim], look: Look) -> Check:
    """A process imports every model file; until it builds its model it names the one that brought the dumper in."""
    changed = os.stat(look.path).st_mtime
    wrong = [c.process for c in claims if _started(c.process) < changed or c.dumper_digest != look.dumper_digest]
    if wrong:
        return Check("loaded", Verdict.WARN, f"{_pids(wrong)} loaded another file or dumper", RESTART)
    found = f"{_pids([c.process for c in claims])} started after this file was patched and loaded this dumper"
    return Check("loaded", Verdict.OK, found)


def _of_package(claim: Claim, look: Look) -> bool:
    package = os.path.join(os.path.realpath(look.package), "")
    return any(os.path.realpath(path).startswith(package) for path in claim.model_files)


def _elsewhere(claims: list[Claim], target: Target) -> Check:
    """Another sglang than the profile's interpreter imports: another environment, or one on its PYTHONPATH."""
    path = next(iter(claims[0].model_files))
    found = f"{_pids([c.process for c in claims])} dumps into {target.dump_dir} and loaded {path}, not this file"
    remedy = "Set container.python, and PYTHONPATH in server.env, to what the server runs with; or restart it."
    return Check("loaded", Verdict.WARN, found, remedy)


def _started(process: Process) -> float:
    return time.time() - process.age


def _silent(servers: list[Process], target: Target, look: Look) -> Check:
    if not look.patched:
        return Check("loaded", Verdict.OK, f"{_pids(servers)} runs unpatched code, as the file is")
    changed = os.stat(look.path).st_mtime
    older = [server for server in servers if _started(server) < changed]
    if older:
        return Check("loaded", Verdict.WARN, f"the server runs unpatched code ({_pids(older)})", RESTART)
    found = f"{_pids(servers)} started after the patch but names no dumper in {target.dump_dir}"
    return Check("loaded", Verdict.UNKNOWN, found, "It is still importing, or was started without that dump folder.")


def _pids(found: list[Process]) -> str:
    return "pid " + ", ".join(str(process.pid) for process in found)


def _claim(process: Process, said: dict[str, Any]) -> Optional[Claim]:
    """None for one that lacks what a dumper of this release says."""
    try:
        digest, hashes = said["dumper_digest"], dict(said["model_files"])
    except (KeyError, TypeError, ValueError):
        return None
    if not isinstance(digest, str):
        return None
    files = {path: told for path, told in hashes.items() if isinstance(told, str)}
    return Claim(process, files, digest, _problem(said))


def _problem(said: dict[str, Any]) -> str:
    """`problem` of a claim, see docs/format.md; dumpers before it had none."""
    told = said.get("problem")
    return f"{told.get('cause')}. {told.get('detail')}" if isinstance(told, dict) else ""


def _servers(target: Target, look: Look) -> list[Process]:
    """Live SGLang processes of this interpreter: started by its path, or with libraries of its site-packages."""
    found = [process for process in processes.table().values() if processes.is_sglang(process) and not process.gone]
    python = os.path.expanduser(target.python)
    site = look.environment.site
    return [p for p in found if p.argv[0] == python or (site and _maps(p.pid, site))]


def _maps(pid: int, folder: str) -> bool:
    try:
        with open(f"/proc/{pid}/maps", "rb") as maps:
            return os.fsencode(folder) + b"/" in maps.read()
    except OSError:
        return False
