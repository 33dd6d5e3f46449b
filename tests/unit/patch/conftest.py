"""Model files of real releases, and a real environment of its own for each test to patch."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import platformdirs
import pytest

from remote.patch import operations
from remote.wire.patch import PatchStatus
from remote.wire.plan import Outcome, StepResult
from remote.wire.target import Target

RELEASES = {
    "0.4.6": "deepseek 0.4.6-0.5.9",
    "0.5.9": "deepseek 0.4.6-0.5.9",
    "0.5.14": "deepseek 0.5.10-0.5.20",
    "0.5.20": "deepseek 0.5.10-0.5.20",
    "0.5.23": "deepseek 0.5.21-0.5.23",
}
MODEL = "sglang/srt/models/deepseek_v2.py"
CACHE = platformdirs.user_cache_path("hsconsole-tests") / "sglang"
WHEEL = ("--only-binary=:all:", "--implementation=cp", "--python-version=3.11", "--platform=manylinux_2_34_x86_64")


def model_file(release: str) -> bytes:
    """deepseek_v2.py of a release, from its wheel on PyPI; kept in the user's cache folder."""
    kept = CACHE / release / "deepseek_v2.py"
    if not kept.exists():
        folder = kept.parent
        folder.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), *WHEEL]
        subprocess.run([*pip, f"sglang=={release}"], check=True, timeout=280)
        (wheel,) = folder.glob("sglang-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            aside = folder / f"{os.getpid()}.part"
            aside.write_bytes(archive.read(MODEL))
            aside.rename(kept)
        wheel.unlink()
    return kept.read_bytes()


@dataclasses.dataclass(frozen=True)
class Bench:
    """A virtual environment with a skeleton of sglang: the real model file, and an __init__ that no one may run."""

    folder: Path
    site: Path
    target: Target

    @property
    def model(self) -> Path:
        return self.site / MODEL

    @property
    def dumper(self) -> Path:
        return self.site / "hsconsole_dumper"

    def install(self, release: str, content: bytes | None = None) -> bytes:
        """Put a release in, over whatever was there, as pip would. Returns the model file's content."""
        raw = model_file(release) if content is None else content
        for old in self.site.glob("sglang-*.dist-info"):
            for file in old.iterdir():
                file.unlink()
            old.rmdir()
        put_sglang(self.site, release, raw)
        info = self.site / f"sglang-{release}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: sglang\nVersion: {release}\n")
        digest = base64.urlsafe_b64encode(hashlib.sha256(raw).digest()).decode().rstrip("=")
        (info / "RECORD").write_text(f"{MODEL},sha256={digest},{len(raw)}\n")
        return raw

    def status(self) -> PatchStatus:
        return operations.status(self.target)

    def apply(self) -> Outcome:
        steps: list[StepResult] = []
        outcome = operations.apply(self.target, operations.plan_apply(self.target).basis, steps.append)
        assert all(step.ok for step in steps)
        return outcome

    def revert(self) -> Outcome:
        return operations.revert(self.target, operations.plan_revert(self.target).basis, lambda step: None)


def put_sglang(site: Path, release: str, model: bytes) -> None:
    path = site / MODEL
    path.parent.mkdir(parents=True, exist_ok=True)
    (site / "sglang/__init__.py").write_text("raise RuntimeError('sglang was imported')\n")
    (site / "sglang/version.py").write_text(f'__version__ = "{release}"\n')
    if path.exists():
        path.unlink()
    path.write_bytes(model)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state/hsconsole"


@pytest.fixture
def bench(tmp_path: Path, state: Path) -> Callable[..., Bench]:
    """Makes a Bench with a release in it, or with other content for the model file."""

    def make(release: str = "0.5.23", content: bytes | None = None, name: str = "env") -> Bench:
        folder = tmp_path / name
        venv.create(folder, symlinks=True, with_pip=False)
        (site,) = folder.glob("lib/python3*/site-packages")
        target = Target(str(folder / "bin/python3"), "/models/none", dump_dir=str(tmp_path / "dumps"))
        made = Bench(folder, site, target)
        made.install(release, content)
        return made

    return make
