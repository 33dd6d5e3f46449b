"""What the profile calls a Python, or the agent that it runs, says anything at all: an error with words, in bounds."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from console import channel
from console import client as clients
from console.errors import LinkError, LinkLost, OperatorError
from remote.wire.codec import encode
from remote.wire.host import Hello
from tests.link.conftest import profile_of
from tests.link.sshd import SshConfig, Sshd

Connect = Callable[[str, str], clients.AgentClient]

# A Python that is one when it is looked at; $4 is the finder's nonce, $5 the agent's.
FINDER = {
    "nothing": "exit 0",
    "noise": "head -c 3000000 /dev/urandom; head -c 3000000 /dev/urandom >&2",
    "another shape": """echo "$5 {\\"python\\": [1], \\"places\\": 5}" """,
    "no object": 'echo "$5 7"',
    "no JSON": 'echo "$5 {]"',
    "deep": """echo "$5 $(head -c 200000 /dev/zero | tr '\\0' '[')" """,
}
AGENT = {
    "an error": (r"printf '\033[31mno way' >&2; exit 9", "status 9.*no way"),
    "a line without an end": ("tr '\\0' a </dev/zero", "bytes without a line"),
    "another hello": ("""echo "$5 {\\"hello\\": {\\"version\\": 3}}"; sleep 9""", "expected str"),
    "no hello": ("""echo "$5 []"; sleep 9""", "not a frame"),
}


@pytest.fixture
def connect(sshd: Sshd, config: SshConfig, tmp_path: Path) -> Connect:
    """An agent on a Python that does `script` where its command line has `when`, and else is this one."""
    config.host("ct", sshd)

    def made(when: str, script: str) -> clients.AgentClient:
        python = tmp_path / "python"
        python.write_text(f'#!/bin/bash\ncase "$*" in {when}) {script};; *) exec {sys.executable} "$@";; esac\n')
        python.chmod(0o755)
        return clients.connect(profile_of("ct", config, python=str(python)))

    return made


@pytest.mark.parametrize("says", FINDER)
def test_the_finder(connect: Connect, says: str) -> None:
    with pytest.raises(LinkError, match="no usable Python"):
        connect('"-IS - "*', FINDER[says])


@pytest.mark.parametrize("says", AGENT)
def test_the_agent(connect: Connect, says: str) -> None:
    script, told = AGENT[says]
    with pytest.raises(OperatorError, match=f"(?s){told}"):
        connect("*agent-*", script)


def test_a_frame_without_end(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever sends it can't fill this machine's memory."""
    monkeypatch.setattr(channel, "LONGEST", 1 << 20)
    hello = json.dumps({"hello": encode(Hello("", "", 1, "", "", "", "", 1.0))})
    with pytest.raises((LinkLost, LinkError), match="bytes without a line"):
        connect("*agent-*", f"echo \"$5 \"'{hello}'; tr '\\0' a </dev/zero")
