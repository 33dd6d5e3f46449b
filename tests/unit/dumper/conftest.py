"""Whatever a test here has the dumper write is held against docs/dump-v3.schema.json."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from remote.dumper import files, loaded, request, stats
from tests.schema import problems


@pytest.fixture(autouse=True)
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """Every JSON file that was written."""
    seen: list[Path] = []
    wrong: list[str] = []

    def note(path: Path, value: Any) -> None:
        seen.append(path)
        wrong.extend(problems(path, value, "files" in value))

    def of_request(folder: str, name: str, value: dict[str, Any], write: Any = request._write_json) -> None:
        note(Path(folder, name), value)
        write(folder, name, value)

    def beside(path: str, value: dict[str, Any], write: Any = files.replace_json) -> None:
        note(Path(path), value)
        write(path, value)

    monkeypatch.setattr(request, "_write_json", of_request)
    for module in (loaded, stats):
        monkeypatch.setattr(module, "replace_json", beside)
    yield seen
    assert not wrong
