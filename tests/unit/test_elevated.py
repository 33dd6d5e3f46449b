"""May this user act for root? Asked each time, for an answer may change, and never waited for long."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from remote import elevated


@pytest.fixture
def sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the only sudo there is does, by sh."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(sys, "argv", ["agent.pyz"])
    monkeypatch.setattr(elevated, "ASK_TIMEOUT", 60.0)  # however slow the machine
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path / "sudo"


def does(sudo: Path, text: str) -> None:
    sudo.write_text(f"#!/bin/sh\n{text}\n")
    sudo.chmod(0o755)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("echo We trust you; echo 'sudo: a password is required' >&2; exit 1", "sudo: a password is required"),
        ("exit 1", "sudo refuses"),
    ],
)
def test_why_not_until_it_may(sudo: Path, text: str, why: str) -> None:
    does(sudo, text)
    assert elevated.problem() == why
    does(sudo, "exit 0")
    assert elevated.problem() == ""


def test_one_that_hangs_is_not_waited_for(sudo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elevated, "ASK_TIMEOUT", 0.5)
    does(sudo, "exec sleep 60")
    assert "sudo gives no answer" in elevated.problem()
