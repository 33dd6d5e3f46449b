"""A configuration folder of the test's own, and no variables of the operator's."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

GOOD = """
[container]
host = "ct129"
python = "/opt/sglang/bin/python"

[server]
model_path = "/models/kimi"
"""

Save = Callable[..., Path]


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in list(os.environ):
        if variable.startswith("HSCONSOLE_"):
            monkeypatch.delenv(variable)
    monkeypatch.setenv("HSCONSOLE_CONFIG_DIR", str(tmp_path))
    folder = tmp_path / "profiles"
    folder.mkdir()
    return folder


@pytest.fixture
def save(profiles: Path) -> Save:
    """Save a profile's text under a name."""

    def write(text: str = GOOD, name: str = "kimi") -> Path:
        path = profiles / f"{name}.toml"
        path.write_text(text)
        return path

    return write
