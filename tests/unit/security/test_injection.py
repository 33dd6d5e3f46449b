"""No value of a profile, and no name from the remote side, becomes a command, an option or another word."""

from __future__ import annotations

import base64
import contextlib
import json
import random
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from console.config import checks, load, write
from console.config.profile import Container, Dump, Profile, Proxmox, Server
from console.errors import ConfigError
from console.operations import hostcommands, hostview
from console.ssh import bootstrap, route
from console.ssh.pack import pack
from console.ssh.pct import PctConnection, pct_exec
from remote.server import command, spawn
from remote.wire.target import Target
from tests.unit.security.words import MARK, by_sh, hostile

SEEDS = range(4)
PROXMOX = Proxmox(host="pve", vmid=129)


def target_of(words: list[str], chance: random.Random) -> Target:
    def one() -> str:
        return chance.choice(words)

    return Target(
        python=one() or "python3",
        model_path=one(),
        host=one(),
        flags=("--chat-template", one(), f"--x={one()}", f"--y {one()}"),
        env={"A": one(), "LD_PRELOAD": one()},
        dump_dir="/" + one(),
        layers=(3,),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_start_shows_is_what_it_runs(seed: int, tmp_path: Path) -> None:
    words, chance = list(hostile(seed)), random.Random(seed)
    for _ in range(25):
        target = target_of(words, chance)
        argv = command.argv(target, command.command_line(target, None))
        env = command.environment(target)
        shown = command.shown(argv, env)
        expected = ["env", *(f"{name}={value}" for name, value in env.items()), *argv]
        assert shlex.split(shown) == expected
        assert by_sh(shown, tmp_path) == expected
        named = {"--model-path": target.model_path, "--host": target.host, "--chat-template": target.flags[1]}
        for name, value in named.items():  # a value never becomes a flag of its own
            if value.startswith("--") and name == "--chat-template":
                continue  # in `flags` the operator writes flags
            at = next(i for i, word in enumerate(argv) if word == name or word.startswith(f"{name}="))
            assert argv[at] == f"{name}={value}" if value.startswith("-") else argv[at + 1] == value


@pytest.mark.parametrize("seed", SEEDS)
def test_a_start_hands_exactly_these_words_to_the_program(seed: int, tmp_path: Path) -> None:
    log, words = tmp_path / "log", [word for word in hostile(seed) if len(word) < 500]
    program = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ['HOSTILE']]))"
    before = {MARK, *(path.name for path in Path("/").iterdir())}
    spawn.detached([sys.executable, "-c", program, *words], {"HOSTILE": words[seed]}, str(log), f"{log}.exit")
    deadline = time.monotonic() + 20
    while not log.read_bytes().endswith(b"\n"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert json.loads(log.read_text()) == [words, words[seed]]
    assert {path.name for path in Path("/").iterdir()} <= before
    assert not (Path("/") / MARK).exists()


@pytest.mark.parametrize("seed", SEEDS)
def test_profiles_come_back_as_they_were_written(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HSCONSOLE_CONFIG_DIR", str(tmp_path))
    words = [word for word in hostile(seed) if word]
    clean = [word for word in words if not checks.CONTROL.search(word)]
    chance = random.Random(seed)
    for _ in range(10):
        profile = Profile(
            name="hostile",
            container=Container(host="ct", python="/" + chance.choice(clean)),
            server=Server(
                model_path=chance.choice(clean),
                flags=tuple(chance.sample(words, 5)),
                env={"A": chance.choice(words), "B": chance.choice(words)},
            ),
            dump=Dump(folder="/x" + chance.choice(clean)),
        )
        write.write(profile, overwrite=True)
        assert load.load("hostile") == profile


@pytest.mark.parametrize("seed", SEEDS)
def test_nul_is_refused_everywhere(seed: int) -> None:
    for word in list(hostile(seed))[seed::10]:
        bad = word[:1] + "\0" + word[1:]
        profile = Profile(
            container=Container(host=bad, python=bad, user=bad, key=bad, ssh_config=bad),
            server=Server(model_path=bad, host=bad, flags=(bad,), env={"A": bad, bad: "x"}),
            dump=Dump(folder=bad),
            proxmox=Proxmox(host=bad, vmid=129, user=bad, key=bad),
        )
        assert len(list(checks.problems(profile))) == 14


@pytest.mark.parametrize("seed", SEEDS)
def test_no_host_or_user_reaches_a_shell_as_more_than_a_word(seed: int, tmp_path: Path) -> None:
    """What the check of a login lets through may stand in a ProxyCommand, as with OpenSSH."""
    let_through = 0
    for word in hostile(seed, 400):
        login = Container(host=word, user=word, python="python3")
        if list(checks.login_problems("container", login)):
            continue
        let_through += 1
        assert not word.startswith("-")
        expanded = route._expand("nc %h %p # %r", {"h": word, "p": "22", "r": word, "%": "%"})
        words = by_sh(expanded, tmp_path)
        assert len(words) <= 3  # fewer when it is a comment; never another command
    assert let_through


@pytest.mark.parametrize("seed", SEEDS)
def test_the_search_for_a_python_runs_none_of_its_arguments(seed: int, tmp_path: Path) -> None:
    """Also through pct, whose shell is a second one."""
    folder = tmp_path / "work"
    folder.mkdir()
    for word in random.Random(seed).sample(list(hostile(seed)), 4):
        find = bootstrap._sh(bootstrap.FIND, word, "NONCE", "digest", "10", json.dumps(["CACHE/hs"]))
        environment = {"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}
        done = subprocess.run(
            ["sh", "-c", find], cwd=folder, env=environment, input=pack().finder, capture_output=True, timeout=60
        )
        assert list(folder.iterdir()) == []
        if done.returncode == 3:
            continue  # no Python 3.9 in the usual places
        answer = json.loads(done.stdout.partition(b"NONCE ")[2])
        assert answer["python"] in ("python3", "/usr/bin/python3", "/usr/local/bin/python3")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_folder_that_the_remote_side_names_only_receives(seed: int, tmp_path: Path) -> None:
    for number, word in enumerate(w for w in random.Random(seed).sample(list(hostile(seed)), 12) if len(w) < 200):
        folder = tmp_path / str(number) / (word.replace("/", "_") or "_")
        if folder.name in (".", ".."):
            continue
        folder.mkdir(parents=True)
        aside, path = f"{folder}/.agent.part", f"{folder}/agent.pyz"
        done = subprocess.run(
            ["sh", "-c", bootstrap._sh(bootstrap.RECEIVE, aside, path)], input=b"data", cwd=folder.parent, timeout=20
        )
        assert done.returncode == 0
        assert [entry.name for entry in folder.iterdir()] == ["agent.pyz"]
        assert [entry.name for entry in folder.parent.iterdir()] == [folder.name]
        assert (folder / "agent.pyz").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("seed", SEEDS)
def test_the_agents_command_line(seed: int, tmp_path: Path) -> None:
    """As bootstrap.launch builds it, of a Python, a path and a note that the remote side told."""
    words = list(hostile(seed))
    for number in range(0, len(words) - 2, 7):
        given = ["exec", words[number], "-X", "utf8", words[number + 1], "--note", words[number + 2]]
        line = shlex.join(given)
        assert by_sh(line, tmp_path) == given


@pytest.mark.parametrize("seed", SEEDS)
def test_pct_exec_through_two_shells(seed: int, tmp_path: Path) -> None:
    programs, folder = tmp_path / "bin", tmp_path / "work"
    programs.mkdir()
    folder.mkdir()
    pct = programs / "pct"
    pct.write_text('#!/bin/sh\n[ "$1 $2 $3 $4" = "exec 129 --keep-env=0 --" ] || exit 9\nshift 4\nexec "$@"\n')
    pct.chmod(0o755)
    show = "for word; do printf '%s\\0' \"$word\"; done"
    words = [word for word in hostile(seed) if len(word) < 500]
    connection = PctConnection(PROXMOX)
    for line in (
        pct_exec(129, "sh", "-c", show, "x", *words),
        connection.words(shlex.join(["sh", "-c", show, "x", *words])),
    ):
        environment = {"PATH": f"{programs}:/usr/bin:/bin"}
        done = subprocess.run(["sh", "-c", line], cwd=folder, env=environment, capture_output=True, timeout=20)
        assert done.stdout.decode().split("\0")[:-1] == words
        assert list(folder.iterdir()) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_control_group_of_any_name_is_written_to_by_that_name(seed: int, tmp_path: Path) -> None:
    for number, word in enumerate(random.Random(seed).sample([w for w in hostile(seed) if len(w) < 200], 12)):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / ("cg-" + word.replace("/", "_"))
        line = shlex.join(hostcommands.thaw(str(path)))
        assert by_sh(line, tmp_path)[4:] == [str(path), "0"]
        subprocess.run(["sh", "-c", line], cwd=folder, check=True, timeout=20)
        assert [entry.name for entry in folder.iterdir()] == [path.name]
        assert path.read_text() == "0"


@pytest.mark.parametrize("seed", range(200))
def test_an_answer_of_the_host_is_facts_or_said_to_be_none(seed: int) -> None:
    """Raises nothing else, and shows no escapes."""
    chance = random.Random(seed)
    name, words = chance.choice(list(hostile(seed))), chance.choice(list(hostile(seed + 1)))
    stat = f"77 ({name}) S {' '.join(['1'] * 18)} 500 1"
    status = "Name:\tx\nUid:\t0\t0\nNSpid:\t77\t7\n"
    packed = ".".join(base64.b64encode(t.encode()).decode() for t in (stat, words + "\0--x", status, "0::/a", "/d"))
    rows = [
        "user 0",
        "clock 100 1000.0 1796031234",
        "init 70",
        "listen 0100007F:1F40 0 5",
        "hold socket:[5] /proc/77/fd/3",
    ]
    rows.append(f"proc 77 inside - {packed}")
    broken = list(rows)
    if seed % 2:
        at = chance.randrange(3, len(rows))
        broken[at] = broken[at][: chance.randrange(len(broken[at]))] + chance.choice(["", "\x1b[2J", "=", " x", "."])
    text = "m begin\n" + "\n".join(broken) + "\nm end\n"
    try:
        facts = hostview.parse(text, "m")
    except hostview.Unreadable:
        return
    for process in facts.processes:
        assert "\x1b" not in process.command
    if broken == rows:
        assert facts.processes[0].start_ticks == 500
        assert facts.processes[0].name == name


def test_ssh_takes_no_host_for_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ssh -G` is asked with `--` before the host, and never for one that begins with a dash."""
    asked: list[list[str]] = []
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/ssh")

    def run(argv: list[str], **more: object) -> subprocess.CompletedProcess[bytes]:
        asked.append(argv)
        return subprocess.CompletedProcess(argv, 0, b"hostname h\nuser u\nport 22\n", b"")

    monkeypatch.setattr(subprocess, "run", run)
    for word in hostile(9, 300):
        with contextlib.suppress(ConfigError):
            route.route(Container(host=word, user=word, python="p"))
    assert asked
    for argv in asked:
        assert argv[-2] == "--"
        assert not argv[-1].startswith("-")
        assert not argv[argv.index("-l") + 1].startswith("-")
