"""A recovery's plan, made of what a hostile container tells: numbers become words of commands, text is only shown."""

from __future__ import annotations

import dataclasses
import random
import shlex
from pathlib import Path

import pytest

from console.config.profile import Container, Profile, Proxmox, Server
from console.errors import Refused, WireError
from console.operations import hostcommands, recovery_ways
from console.operations.hostview import HostFacts, HostProcess
from console.operations.recovery_gpus import GpuMemory
from console.operations.recovery_plan import build
from console.operations.recovery_ways import Seen
from console.operations.recovery_wish import PYTHONS, RESTART, Wish
from remote.wire.codec import decode, encode
from remote.wire.recovery import PortFacts
from remote.wire.server import Phase, ProcessInfo
from tests.unit.security.words import by_sh, hostile

SEEDS = range(40)
PROFILE = Profile(
    name="p",
    container=Container(host="ct", python="/p"),
    proxmox=Proxmox(host="pve", vmid=129),
    server=Server(model_path="/m"),
)


def seen_of(seed: int) -> Seen:
    chance = random.Random(seed)
    words = [word for word in hostile(seed) if len(word) < 300]

    def one() -> str:
        return chance.choice(words)

    def process(pid: int) -> ProcessInfo:
        holds = (one(),) if chance.random() < 0.5 else ()
        ours = chance.random() < 0.7
        return ProcessInfo(pid, pid * 7, one(), one(), one(), ours=ours, why=one(), holds=holds, cgroup=one())

    facts = PortFacts(
        1.0, 8000, Phase.ORPHANS, one(), tuple(map(process, range(50, 54))), bind_problem=one(), losses=(one(),),
        pythons=(process(60),), blocked=(process(61),), user=one(), as_root=chance.choice(("", one())), no_root=one(),
    )  # fmt: skip
    host = HostProcess(70, 71, None, "S", one(), one(), 0, 9.0, one(), (one(),), frozen=(f"/sys/{one()}",))
    known = GpuMemory({50: one()}, {70: one()}, (one(),), one())
    return Seen(facts, HostFacts(20, (one(),), (host,)), "pct", one(), one(), True, "sudo -n ", "", known)


@pytest.mark.parametrize("last", ["", PYTHONS, RESTART])
@pytest.mark.parametrize("seed", SEEDS)
def test_only_numbers_reach_a_shell(seed: int, last: str) -> None:
    try:
        plan = build(seen_of(seed), PROFILE, Wish(including_host=(70,), last=last))
    except Refused:
        return
    signalled = [line for ladder in (plan.basis["host"], plan.basis["pct"]) for line in ladder.values()]
    for line in signalled:
        words = shlex.split(line)
        at = words.index(hostcommands.SIGNAL)
        assert words[at + 1] == "hsconsole"
        assert words[at + 2] in ("TERM", "KILL", "0")
        assert all(word.replace(":", "").isdigit() for word in words[at + 3 :])
    for line in plan.basis["thaw"]:
        assert len(shlex.split(line)) == 2 + 6, "the file is one word, whatever its name"
    fixed = [line for line, _ in plan.basis["restart"]] + [plan.basis["sshd"]]
    for line in filter(None, fixed):
        assert line in (
            "sudo -n timeout 60 pct stop 129",
            "sudo -n timeout 60 pct start 129",
            f"sudo -n pct exec 129 --keep-env=0 -- {shlex.join(['sh', '-c', hostcommands.RESTART_SSHD])}",
        )


@pytest.mark.parametrize("field", ["pid", "start_ticks"])
def test_a_pid_that_is_no_number_is_refused(field: str) -> None:
    facts = dataclasses.replace(seen_of(1).facts or PortFacts(1.0, 8000, Phase.STOPPED, ""), pythons=())
    told = encode(facts)
    for wrong in ("1; touch pwned", "1", 1.5, None, [1], True):
        told["processes"][0][field] = wrong
        with pytest.raises(WireError):
            decode(PortFacts, told)


@pytest.mark.parametrize("seed", SEEDS)
def test_answers_of_a_host_are_of_four_kinds(seed: int) -> None:
    chance = random.Random(seed)
    words = list(hostile(seed))
    noise = "\n".join(chance.choice(words) for _ in range(20))
    output = f"{noise}\n50:350 sent\n{noise}\n51:357 failed {chance.choice(words)}\n{noise}"
    found = hostcommands.answers(output)
    assert found["50:350"] == "sent"
    assert found["51:357"].startswith("failed")
    assert set(found) == {"50:350", "51:357"}
    assert "\x1b" not in "".join(found.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_host_keys_that_are_none(seed: int) -> None:
    text = "\n".join(f"{one} {other}" for one, other in zip(hostile(seed), hostile(seed + 1), strict=True))
    for kind, key in recovery_ways._public_keys(text.encode("utf-8", "surrogateescape")):
        assert isinstance(kind, str)
        assert isinstance(key, bytes)


@pytest.mark.parametrize("seed", range(4))
def test_the_words_that_sudo_is_given(seed: int, tmp_path: Path) -> None:
    """As the agent shows them, of a Python and a folder of any name."""
    for word in hostile(seed):
        words = ["sudo", "-n", f"/{word}", "-I", f"/{word}/agent.pyz", "--as-root", "signal", "TERM", "53:900"]
        assert by_sh(shlex.join(words), tmp_path) == words
