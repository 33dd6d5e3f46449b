"""The preflight tells when somebody else could put links where dumps go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from remote.server import dumpfolder
from remote.wire.plan import Verdict


def test_one_of_our_own(tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    assert dumpfolder.check(str(folder)) is None
    folder.mkdir(mode=0o755)
    assert dumpfolder.check(str(folder)) is None
    (tmp_path / "link").symlink_to(folder)
    assert dumpfolder.check(str(tmp_path / "link")) is None


@pytest.mark.parametrize("mode", [0o775, 0o777, 0o1777])
def test_others_can_write_to_it(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    found = dumpfolder.check(str(tmp_path))
    assert found is not None
    assert found.verdict is Verdict.WARN
    assert "written to by others" in found.found


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("kind", ["folder", "link"])
def test_it_belongs_to_another(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "dumps"
    if kind == "folder":
        place.mkdir()
    else:
        place.symlink_to(tmp_path)
    os.chown(place, 65534, 65534, follow_symlinks=False)
    found = dumpfolder.check(str(place))
    assert found is not None
    assert "belongs to" in found.found


@pytest.mark.parametrize(("below", "says"), [("", "can't be written to"), ("not/there/yet", "can't be made")])
def test_a_folder_that_the_server_could_not_write_to_is_bad(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: str, says: str
) -> None:
    monkeypatch.setattr(os, "access", lambda place, mode: False)  # root may write anywhere
    found = dumpfolder.check(str(tmp_path / below))
    assert found is not None
    assert found.verdict is Verdict.BAD
    assert says in found.found
    assert f"may not write to {tmp_path}" in found.found
