"""The patch under the oldest and the newest Python at hand: the same bytes, the same states."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import remote
from remote.patch import seam
from remote.patch.recipes import DEEPSEEK
from tests.pythons import oldest_and_newest
from tests.unit.patch.conftest import Bench

SMOKE = """
import sys
from remote.patch import operations
from remote.wire.target import Target
target = Target(sys.argv[1], sys.argv[4])
say = lambda step: print(step.title)
print(operations.status(target).state.value)
assert operations.apply(target, operations.plan_apply(target).basis, say).ok
print(operations.status(target).state.value)
with open(sys.argv[2], "rb") as model, open(sys.argv[3], "wb") as copy:
    copy.write(model.read())
assert operations.revert(target, operations.plan_revert(target).basis, say).ok
print(operations.status(target).state.value)
"""


@pytest.mark.parametrize("python", oldest_and_newest(), ids=lambda python: python.parents[1].name)
@pytest.mark.parametrize("release", ["0.4.6", "0.5.23"])
def test_the_whole_cycle(bench: Callable[..., Bench], tmp_path: Path, python: Path, release: str) -> None:
    env = bench(release)
    raw = env.model.read_bytes()
    checkout = Path(remote.__file__).parents[1]
    said = subprocess.run(
        [
            str(python),
            "-c",
            SMOKE,
            env.target.python,
            str(env.model),
            str(tmp_path / "patched.py"),
            env.target.model_path,
        ],
        env={**os.environ, "PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    states = [line for line in said.stdout.splitlines() if line in ("clean", "applied")]
    assert states == ["clean", "applied", "clean"]
    assert (tmp_path / "patched.py").read_bytes() == seam.weave(raw, DEEPSEEK).content
    assert env.model.read_bytes() == raw
