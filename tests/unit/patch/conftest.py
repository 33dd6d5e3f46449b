"""Model files of real releases, and a real environment of its own for each test to patch."""

from __future__ import annotations

import base64
import dataclasses
import fcntl
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import platformdirs
import pytest

from remote.patch import operations
from remote.patch.recipes import DEEPSEEK, MODEL_FILES, ModelFile
from remote.wire.patch import PatchStatus
from remote.wire.plan import Outcome, StepResult
from remote.wire.target import Target

RELEASES = {
    "0.4.6": "deepseek 0.4.6-0.5.9",
    "0.4.9.post6": "deepseek 0.4.6-0.5.9",
    "0.5.2": "deepseek 0.4.6-0.5.9",
    "0.5.5.post3": "deepseek 0.4.6-0.5.9",
    "0.5.9": "deepseek 0.4.6-0.5.9",
    "0.5.10.post1": "deepseek 0.5.10-0.5.20",
    "0.5.12.post1": "deepseek 0.5.10-0.5.20",
    "0.5.14": "deepseek 0.5.10-0.5.20",
    "0.5.17": "deepseek 0.5.10-0.5.20",
    "0.5.20": "deepseek 0.5.10-0.5.20",
    "0.5.21": "deepseek 0.5.21-0.5.23",
    "0.5.23": "deepseek 0.5.21-0.5.23",
}
MODEL = "sglang/srt/models/deepseek_v2.py"
CACHE = platformdirs.user_cache_path("hsconsole-tests") / "sglang"
WHEEL = ("--only-binary=:all:", "--implementation=cp", "--python-version=3.11", "--platform=manylinux_2_34_x86_64")


def model_file(release: str, file: ModelFile = DEEPSEEK) -> bytes:
    """A model file of a release, from its wheel on PyPI; kept in the user's cache folder."""
    kept = CACHE / release / Path(file.path).name
    if not kept.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with (CACHE / f"{release}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
            if not kept.exists():
                _download(release)
    return kept.read_bytes()


def _download(release: str) -> None:
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, *WHEEL]
        subprocess.run([*pip, f"sglang=={release}"], check=True, timeout=280)
        (wheel,) = Path(folder).glob("sglang-*.whl")
        (CACHE / release).mkdir(exist_ok=True)
        with zipfile.ZipFile(wheel) as archive:
            for file in MODEL_FILES:
                aside = Path(folder) / "part"
                aside.write_bytes(archive.read(f"sglang/{file.path}"))
                aside.rename(CACHE / release / Path(file.path).name)


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

    def install(self, release: str, content: bytes | None = None) -> None:
        """Put a release in, over whatever was there, as pip would. content: of deepseek_v2.py, in place of its own."""
        for old in self.site.glob("sglang-*.dist-info"):
            shutil.rmtree(old)
        models = {file.path: model_file(release, file) for file in MODEL_FILES} if content is None else {}
        put_sglang(self.site, release, models or {DEEPSEEK.path: content or b""})
        info = self.site / f"sglang-{release}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: sglang\nVersion: {release}\n")
        record = [f"sglang/{path},sha256={_digest(raw)},{len(raw)}\n" for path, raw in models.items()]
        (info / "RECORD").write_text("".join(record))

    def of(self, architecture: str) -> Bench:
        """The same environment, for a model of another architecture."""
        target = dataclasses.replace(self.target, model_path=str(self.folder / architecture))
        put_config(Path(target.model_path), architecture)
        return dataclasses.replace(self, target=target)

    def status(self) -> PatchStatus:
        return operations.status(self.target)

    def apply(self) -> Outcome:
        steps: list[StepResult] = []
        outcome = operations.apply(self.target, operations.plan_apply(self.target).basis, steps.append)
        assert all(step.ok for step in steps)
        return outcome

    def revert(self) -> Outcome:
        return operations.revert(self.target, operations.plan_revert(self.target).basis, lambda step: None)


def _digest(raw: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(raw).digest()).decode().rstrip("=")


def put_sglang(site: Path, release: str, models: Mapping[str, bytes]) -> None:
    for path, raw in models.items():
        place = site / "sglang" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.write_bytes(raw)
    (site / "sglang").mkdir(parents=True, exist_ok=True)
    (site / "sglang/__init__.py").write_text("raise RuntimeError('sglang was imported')\n")
    (site / "sglang/version.py").write_text(f'__version__ = "{release}"\n')


def put_config(model: Path, architecture: str) -> None:
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text(json.dumps({"architectures": [architecture]}))


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
        put_config(folder / "model", "DeepseekV3ForCausalLM")
        target = Target(str(folder / "bin/python3"), str(folder / "model"), dump_dir=str(tmp_path / "dumps"))
        made = Bench(folder, site, target)
        made.install(release, content)
        return made

    return make
