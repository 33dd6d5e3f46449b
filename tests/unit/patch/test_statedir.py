"""Where records go when the usual place can't be had."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from remote import statedir


def test_the_order_of_places(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path / "home"), "XDG_STATE_HOME": str(tmp_path / "xdg")}
    assert statedir.candidates(env) == [
        str(tmp_path / "xdg/hsconsole"),
        str(tmp_path / "home/.local/state/hsconsole"),
        f"/var/tmp/hsconsole-{os.getuid()}",
    ]
    assert statedir.state_dir(env) == str(tmp_path / "xdg/hsconsole")
    assert (tmp_path / "xdg/hsconsole").stat().st_mode & 0o777 == 0o700


def test_a_home_that_cannot_be_written_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert statedir.state_dir({"HOME": str(tmp_path / "file")}) == f"/var/tmp/hsconsole-{os.getuid()}"


def test_a_relative_xdg_folder_is_passed_over(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "XDG_STATE_HOME": "state"}
    assert statedir.state_dir(env) == str(tmp_path / ".local/state/hsconsole")


def test_a_folder_that_others_may_write_to_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loose = tmp_path / "loose"
    loose.mkdir()
    loose.chmod(0o777)
    (tmp_path / "file").write_text("")
    places = [str(loose), str(tmp_path / "file/below")]
    monkeypatch.setattr(statedir, "candidates", lambda env: places)
    with pytest.raises(statedir.StateDirError) as error:
        statedir.state_dir({})
    assert f"{loose}: others may write to it" in error.value.what
    assert "Not a directory" in error.value.what


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give folders away")
def test_a_folder_of_somebody_else_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(tmp_path, 12345, 12345)
    monkeypatch.setattr(statedir, "candidates", lambda env: [str(tmp_path)])
    with pytest.raises(statedir.StateDirError, match="belongs to user 12345"):
        statedir.state_dir({})


def test_what_is_kept_is_replaced_whole_and_private(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    for value in ({"a": 1}, ["b"]):
        statedir.write_json(str(path), value)
        assert json.loads(path.read_text()) == value
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(TypeError):
        statedir.write_json(str(path), object())
    assert json.loads(path.read_text()) == ["b"]
    assert [each.name for each in tmp_path.iterdir()] == ["kept.json"]
