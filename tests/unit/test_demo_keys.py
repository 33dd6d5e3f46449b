"""The demo's keys: an ssh-keygen that fails is told in its own words, and leaves no half of a key."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.demo import sshd
from console.errors import DemoError

PROGRAMS = {
    "says why": ('#!/bin/sh\necho "Saving key failed: disk full" >&2; exit 1\n', "Saving key failed: disk full"),
    "says nothing": ("#!/bin/sh\nexit 255\n", "exit status 255"),
    "makes nothing": ("#!/bin/sh\nexit 0\n", "made no key"),
    "is no program": ("\0", "can't be run"),
    "leaves half a key": ('#!/bin/sh\nfor last; do :; done; echo half > "$last"; echo full >&2; exit 1\n', "full"),
}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_an_ssh_keygen_that_fails(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, told = PROGRAMS[kind]
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "ssh-keygen"
    program.write_text(text)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    with pytest.raises(DemoError, match=told) as caught:
        sshd._make_key(tmp_path / "host_key")
    assert caught.value.exit_code == 9
    assert caught.value.remedy
    assert not (tmp_path / "host_key").exists()
