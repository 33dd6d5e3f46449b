"""The engine: an environment with SGLang for the CPU and a tiny model, built once in the user's cache folder."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import platformdirs

from console.demo import pip
from console.demo.endings import ending_is_an_interrupt
from console.demo.locks import exclusive
from console.demo.progress import OnProgress, Reporter
from console.errors import DemoError

DATA = Path(__file__).parent / "sglang_cpu"
MODEL_SCRIPT = Path(__file__).with_name("model.py")
NEEDED = 3_000_000_000  # bytes: 2.4 GB when done, and pip's own room
BUILD_PATIENCE = 1200.0  # seconds to wait for another build

# A machine without CUDA kernels needs these; what dumping needs, the product adds by itself.
ENVIRONMENT = {
    "SGLANG_USE_CPU_ENGINE": "1",
    "TORCHDYNAMO_DISABLE": "1",  # else the server is not healthy before inductor has compiled for minutes
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
}
# What a server imports: proves that the engine is whole, and compiles these modules, a tenth of all, once.
TRIAL = "import sglang.launch_server, sglang.srt.managers.scheduler, sglang.srt.models.deepseek_v2"


@dataclasses.dataclass(frozen=True)
class Engine:
    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    @property
    def model(self) -> Path:
        return self.folder / "model"

    @property
    def complete(self) -> bool:
        return (self.folder / ".complete").exists()


def cache_folder() -> Path:
    return Path(platformdirs.user_cache_dir("hsconsole"))


def engine() -> Engine:
    """Where this version's engine is, or will be."""
    return Engine(cache_folder() / f"engine-{_digest()}")


def build(on_progress: OnProgress) -> Engine:
    """The engine, ready to use; built when it isn't there. Takes minutes then, and 2.4 GB.

    A build that was broken off is begun again; two at once become one. Raises DemoError.
    """
    report = Reporter(on_progress)
    _make_cache_folder()
    made = engine()
    if made.complete:
        return made
    _check_system()
    lock = made.folder.with_suffix(".lock")
    with (
        ending_is_an_interrupt(),
        exclusive(lock, "building the engine", lambda who: report("waiting for the engine", who), BUILD_PATIENCE),
    ):
        if not made.complete:
            _build(made, report)
    return made


def _digest() -> str:
    """Changes with everything that the engine is made from."""
    digest = hashlib.sha256(f"{platform.python_version()} {sys.base_prefix} {platform.machine()}".encode())
    for path in [MODEL_SCRIPT, *sorted(DATA.rglob("*"))]:
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(path.relative_to(MODEL_SCRIPT.parent).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _make_cache_folder() -> None:
    place = cache_folder()
    try:
        place.mkdir(parents=True, exist_ok=True)
        if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise DemoError(
            f"{place} can't be made or written to: {error.strerror}",
            "Set XDG_CACHE_HOME to a folder that this user may write to.",
        ) from None


def _check_system() -> None:
    if sys.platform != "linux":
        raise DemoError("the demo runs SGLang itself, which needs Linux", "Use hsconsole with a profile here.")
    place = cache_folder()
    free = shutil.disk_usage(place).free
    if free < NEEDED:
        raise DemoError(
            f"{place} has {free / 1e9:.1f} GB free, the engine needs {NEEDED / 1e9:.0f} GB",
            "Free some, or set XDG_CACHE_HOME to a folder with more room.",
        )


def _build(made: Engine, report: Reporter) -> None:
    if made.folder.exists():
        report("removing a half-built engine", str(made.folder))
        shutil.rmtree(made.folder)
    report("making a virtual environment", str(made.folder / "venv"))
    _run([sys.executable, "-I", "-m", "venv", str(made.folder / "venv")], "On Debian: apt-get install python3-venv")
    _install(made, report)
    report("writing the model")
    _run([str(made.python), "-I", str(MODEL_SCRIPT), str(made.model)], "Start again.")
    report("trying to import SGLang")
    _run([str(made.python), "-I", "-c", TRIAL], "Report it: these packages worked together when they were pinned.")
    (made.folder / ".complete").touch()
    report("the engine is ready", str(made.folder))


def _install(made: Engine, report: Reporter) -> None:
    pinned = DATA / "requirements.txt"
    total = sum("==" in line for line in pinned.read_text().splitlines())
    found = 0

    def on_line(line: str) -> None:
        nonlocal found
        if line.startswith("Collecting "):
            found += 1
            report("downloading SGLang's packages", f"{min(found, total)} of {total}: {line.split()[1]}")
        elif pip.RETRYING in line:
            report(
                "downloading SGLang's packages",
                f"{min(found, total)} of {total}: an index doesn't answer, trying again",
            )
        elif line.startswith("Installing collected packages"):
            report("installing SGLang's packages", f"{total} packages, 2.4 GB: about a minute")

    pip.install(made.python, ["--no-compile", "-r", str(pinned)], on_line)
    report("installing SGLang")
    pip.install(
        made.python, ["--no-compile", "--no-deps", "-r", str(DATA / "requirements-no-deps.txt")], lambda _: None
    )
    shutil.copytree(
        DATA / "site", _site_packages(made), dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
    )


def _site_packages(made: Engine) -> Path:
    (found,) = (made.folder / "venv" / "lib").glob("python3.*/site-packages")
    return found


def _run(command: list[str], remedy: str) -> None:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env={**os.environ, **ENVIRONMENT},
    )
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-8:])
        raise DemoError(f"{command[0]} ended with status {done.returncode}; its last lines:\n{last}", remedy)
