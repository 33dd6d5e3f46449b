"""What a Python would import as sglang, asked of that Python itself. sglang is never imported: it takes ten seconds."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import glob
import json
import os
import secrets
import shutil
import signal
import stat
import subprocess
from collections.abc import Mapping
from typing import Any, Optional

from remote import processes
from remote.wire.host import Interpreter

FOLDER = "/"  # where it is asked, and where servers start: `-m` and `-c` look for modules in the current folder first
TIMEOUT = 15.0  # seconds
MOST_ASKED = 12
USUAL = ("~/*/bin/python3", "/opt/*/bin/python3", "~/*conda*/envs/*/bin/python3", "/opt/*conda*/envs/*/bin/python3")

# Runs in any Python 3.8+. The version is that of the distribution the package belongs to; a checkout found
# through PYTHONPATH has none and says its version itself. importlib.metadata takes longer to import than all the rest.
PROBE = r"""
import importlib.util, json, os, re, sys, sysconfig

def origin(name):
    try:
        spec = importlib.util.find_spec(name)
    except Exception as error:
        return None, type(error).__name__ + ": " + str(error)
    if spec is None:
        return None, "no module named " + name
    if not spec.origin:
        return None, "only a folder without __init__.py: " + ", ".join(map(str, spec.submodule_search_locations or []))
    return spec.origin, ""

def owns(dist, file):
    if os.path.realpath(str(dist.locate_file("sglang/__init__.py"))) == os.path.realpath(file):
        return True
    link = json.loads(dist.read_text("direct_url.json") or "{}")
    root = link.get("url", "").replace("file://", "", 1)
    return bool(root) and os.path.realpath(file).startswith(os.path.realpath(root) + os.sep)

def version(file):
    names = os.listdir(os.path.dirname(os.path.dirname(os.path.realpath(file))))
    beside = [name for name in names if re.fullmatch(r"sglang-[^-]+\.dist-info", name)]
    if len(beside) == 1:
        return beside[0][len("sglang-"):-len(".dist-info")]
    import importlib.metadata as metadata
    for dist in metadata.distributions(name="sglang"):
        try:
            if owns(dist, file):
                return dist.version
        except Exception:
            pass
    for name in ("_version.py", "version.py"):
        try:
            with open(os.path.join(os.path.dirname(file), name), encoding="utf-8", errors="replace") as source:
                found = re.search(r"__version__ *=.*?['\"]([^'\"]+)['\"]", source.read())
        except OSError:
            continue
        if found:
            return found.group(1)
    return None

file, problem = origin("sglang")
own = os.path.realpath(os.path.dirname(file)) if file else None
others = [
    folder
    for folder in (os.path.join(os.path.abspath(entry), "sglang") for entry in sys.path)
    if os.path.isfile(os.path.join(folder, "__init__.py")) and os.path.realpath(folder) != own
]
print(sys.argv[1] + json.dumps({
    "python_version": "%d.%d.%d" % sys.version_info[:3], "file": file, "problem": problem,
    "version": version(file) if file else None, "others": others,
    "dumper": origin("hsconsole_dumper")[0], "path": [os.path.abspath(entry) for entry in sys.path],
    "site": sysconfig.get_paths()["purelib"],
}))
"""


@dataclasses.dataclass(frozen=True)
class Environment:
    """An interpreter with what the patch needs of it beyond the wire's Interpreter.

    others: folders of further sglang packages on its path. dumper: what it would import as hsconsole_dumper.
    path: its sys.path. site: its site-packages.
    """

    interpreter: Interpreter
    others: tuple[str, ...] = ()
    dumper: Optional[str] = None
    path: tuple[str, ...] = ()
    site: str = ""


def inspect(python: str, env: Optional[Mapping[str, str]] = None) -> Interpreter:
    """Which sglang `python` would import with `env` added to the environment. `problem` says why none."""
    return environment(python, env).interpreter


def environment(python: str, env: Optional[Mapping[str, str]] = None) -> Environment:
    """Like inspect, with the rest of what was seen. Takes a fraction of a second, at most TIMEOUT."""
    path = os.path.expanduser(python)
    problem = _unusable(path)
    if problem:
        return Environment(Interpreter(python, problem=problem))
    answer, problem = _ask(path, {**os.environ, **(env or {})})
    if answer is None:
        return Environment(Interpreter(python, problem=problem))
    problem = f"has no usable sglang: {answer['problem']}" if answer["problem"] else ""
    interpreter = Interpreter(python, answer["python_version"], answer["version"], answer["file"], problem)
    return Environment(interpreter, tuple(answer["others"]), answer["dumper"], tuple(answer["path"]), answer["site"])


def _unusable(path: str) -> str:
    if not os.path.isabs(path):
        return "is not an absolute path"
    if not os.path.exists(path):
        return "there is no such file"
    if not os.path.isfile(path):
        return "is not a file"
    return "" if os.access(path, os.X_OK) else "is not executable"


def _ask(path: str, env: Mapping[str, str]) -> tuple[Optional[dict[str, Any]], str]:
    mark = secrets.token_hex(8)  # whatever else is printed at start-up is noise
    try:
        process = subprocess.Popen(
            [path, "-c", PROBE, mark],
            cwd=FOLDER,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # ValueError: a NUL in the environment
        return None, f"cannot be run: {error}"
    with process:
        try:
            out, err = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, f"gave no answer within {TIMEOUT:.0f} s"
    for line in out.decode("utf-8", "replace").splitlines():
        if line.startswith(mark):
            return json.loads(line[len(mark) :]), ""
    said = err.decode("utf-8", "replace").strip().splitlines()
    return (
        None,
        f"is not a Python 3.8 or later (exit status {process.returncode}{': ' + said[-1][:200] if said else ''})",
    )


def candidates() -> list[str]:
    """Pythons in the usual places, those of running SGLang servers first. Each environment once; none is run."""
    running = [p.argv[0] for p in processes.table().values() if processes.is_launcher(p) and _trusted(p.argv[0])]
    usual = [path for pattern in USUAL for path in sorted(glob.glob(os.path.expanduser(pattern)))]
    named = [shutil.which("python3") or "", "/usr/bin/python3"]
    found: dict[str, str] = {}
    for path in (*running, *usual, *named):
        if not _unusable(path):
            # the folder tells environments apart: a venv's python3 is a link to the system's
            found.setdefault(os.path.realpath(os.path.dirname(path)), path)
    return list(found.values())


def _trusted(path: str) -> bool:
    """Whether a Python that some process claims to run may be run by us.

    Nobody but this user and root may have put it there, nor what it loads: a pyvenv.cfg beside it or above, a .pth.
    """
    folder = os.path.dirname(path)
    try:
        folders = os.stat(folder), os.stat(os.path.dirname(folder))
        owners = {os.lstat(path).st_uid, os.stat(path).st_uid, *(one.st_uid for one in folders)}
    except OSError:
        return False
    return owners <= {0, os.geteuid()} and not any(one.st_mode & stat.S_IWOTH for one in folders)


def with_sglang() -> list[Interpreter]:
    """Those of `candidates()` that would import an sglang. At most MOST_ASKED are asked."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return [found for found in pool.map(inspect, candidates()[:MOST_ASKED]) if not found.problem]
