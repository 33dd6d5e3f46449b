"""What only root may do, through sudo; the whole of it is in tests/bed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from remote import elevated


def test_whether_sudo_lets_us_is_asked_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator may have put right meanwhile what it said; the agent lives as long as its link."""
    sudo = tmp_path / "sudo"
    sudo.touch(mode=0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(sys, "argv", ["/cache/agent.pyz"])
    for script, problem in (("echo a password is required >&2; exit 1", "a password is required"), ("exit 0", "")):
        sudo.write_text(f"#!/bin/sh\n{script}\n")
        assert elevated.problem() == problem
