"""Which profile, from where, and what every mistake in one is answered with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from console.config import load
from console.config.profile import Profile
from console.errors import ConfigError
from tests.unit.config.conftest import GOOD, Save


def refused(name: str | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load.load(name)
    return str(caught.value)


def test_defaults_and_name(save: Save) -> None:
    save()
    profile = load.load("kimi")
    assert profile.name == "kimi"
    assert (profile.server.port, profile.server.tp, profile.read_only) == (8000, 1, False)
    assert profile.dump.folder == "/dev/shm/sglang_hs"
    assert profile.target.layers == (3, 31, 59)


def test_eagle_ids_are_the_layers_less_one(save: Save) -> None:
    save(GOOD + "[dump]\neagle_layer_ids = [2, 30, 58]\n")
    assert load.load("kimi").target.layers == (3, 31, 59)


def test_argument_wins_over_environment_and_the_only_one_needs_neither(
    save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(name="one")
    assert load.load().name == "one"
    save(name="two")
    assert "one, two" in refused()
    monkeypatch.setenv("HSCONSOLE_PROFILE", "two")
    assert load.load().name == "two"
    assert load.load("one").name == "one"


def test_no_profile_says_how_to_get_one(profiles: Path) -> None:
    assert str(profiles) in refused()
    assert "hsconsole init" in refused()


def test_a_wrong_name_lists_the_right_ones(save: Save) -> None:
    save(name="kimi-ct129")
    told = refused("kimi-ct128")
    assert "Did you mean kimi-ct129?" in told
    assert "kimi-ct128.toml" in told


@pytest.mark.parametrize("name", ["../kimi", "a/b", ".hidden", "", "a\nb", "-x"])
def test_names_never_leave_the_folder(save: Save, name: str) -> None:
    with pytest.raises(ConfigError):
        load.path_of(name)


def test_names_are_sorted_and_only_profiles(save: Save, profiles: Path) -> None:
    save(name="b")
    save(name="a")
    (profiles / "notes.txt").write_text("")
    (profiles / ".a.toml.tmp").write_text("")
    assert load.names() == ("a", "b")


def container(host: str = "'h'", python: str = "'/p'", more: str = "") -> str:
    return f"[container]\nhost = {host}\npython = {python}\n{more}\n[server]\nmodel_path = '/m'\n"


MISTAKES = {
    "unknown key": (container(more="prot=22"), ["container.prot", "did you mean port?"]),
    "unknown table": (GOOD + "[dumps]\nfolder='/x'", ["dumps", "did you mean dump?", "container, server, dump"]),
    "name is the file's": ("name='x'\n" + GOOD, ["name", "not known"]),
    "missing key": ("[container]\nhost='h'\n[server]\nmodel_path='/m'", ["container.python: found nothing;"]),
    "missing table": ("[container]\nhost='h'\npython='/p'", ["server: found nothing", "must be given"]),
    "text for number": (GOOD + "port = 'abc'", ["server.port", "'abc'", "a whole number"]),
    "number for text": (container("5"), ["container.host", "found 5", "text in quotes"]),
    "table for text": (GOOD + "[server.host]\na=1", ["server.host", "text in quotes"]),
    "value for table": ("dump = 3\n" + GOOD, ["dump", "found 3", "a table"]),
    "bool for number": (GOOD + "tp = true", ["server.tp", "True", "a whole number"]),
    "bad item": (GOOD + "[dump]\nlayers = [3, 'x']", ["dump.layers[1]", "'x'", "a whole number"]),
    "port too high": (GOOD + "port = 65536", ["server.port", "65536", "1 to 65535"]),
    "port zero": (GOOD + "port = 0", ["server.port", "found 0"]),
    "tp zero": (GOOD + "tp = 0", ["server.tp", "1 or more"]),
    "both layers": (GOOD + "[dump]\nlayers=[3]\neagle_layer_ids=[2]", ["dump", "both layers and eagle", "one of them"]),
    "layers fall": (GOOD + "[dump]\nlayers=[31, 3]", ["dump.layers", "[31, 3]", "each larger than the last"]),
    "layers repeat": (GOOD + "[dump]\nlayers=[3, 3]", ["dump.layers"]),
    "layer negative": (GOOD + "[dump]\nlayers=[-1, 3]", ["dump.layers", "from 0"]),
    "no layers": (GOOD + "[dump]\nlayers=[]", ["dump.layers"]),
    "eagle id below the embedding": (GOOD + "[dump]\neagle_layer_ids=[-2]", ["dump.eagle_layer_ids"]),
    "relative folder": (GOOD + "[dump]\nfolder='sglang_hs'", ["dump.folder", "absolute"]),
    "root as folder": (GOOD + "[dump]\nfolder='//'", ["dump.folder"]),
    "host is an option": (container("'-oProxyCommand=x'"), ["container.host", "no leading -"]),
    "host is a command": (container("'h;reboot'"), ["container.host"]),
    "user is a command": (container(more="user='$(x)'"), ["container.user"]),
    "relative python": (container(python="'venv/bin/python'"), ["container.python", "absolute"]),
    "python with a newline": (container(python='"/p\\nq"'), ["container.python"]),
    "vmid": (GOOD + "[proxmox]\nhost='pve'\nvmid=9", ["proxmox.vmid", "100 or more"]),
    "variable's name": (GOOD + "[server.env]\n'A B' = 'x'", ["server.env.A B", "names of"]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "told"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_named_with_file_key_and_what_is_allowed(save: Save, text: str, told: list[str]) -> None:
    path = save(text)
    message = refused("kimi")
    assert str(path) in message
    assert "allowed" in message
    for part in told:
        assert part in message


def test_all_problems_are_told_at_once(save: Save) -> None:
    save(GOOD + "port = 0\ntp = 0\n[dump]\nfolder = 'x'\n")
    message = refused("kimi")
    assert all(key in message for key in ("server.port", "server.tp", "dump.folder"))


def test_secrets_of_the_environment_are_not_shown(save: Save) -> None:
    save(GOOD + "[server.env]\nHF_TOKEN = 12345678\n")
    message = refused("kimi")
    assert "server.env.HF_TOKEN" in message
    assert "12345678" not in message


def test_toml_errors_have_their_line(save: Save) -> None:
    path = save("[container]\nhost = ct129\n")
    message = refused("kimi")
    assert str(path) in message
    assert "line 2" in message


def test_a_file_that_is_not_text(save: Save) -> None:
    save().write_bytes(b"[container]\nhost = '\xff'\n")
    assert "not UTF-8" in refused("kimi")


def test_a_folder_instead_of_a_file(profiles: Path) -> None:
    (profiles / "kimi.toml").mkdir()
    assert "can't be read" in refused("kimi")


OVERRIDES: dict[str, tuple[str, Callable[[Profile], object], object]] = {
    "HSCONSOLE_SERVER_PORT": ("8001", lambda p: p.server.port, 8001),
    "HSCONSOLE_SERVER_MODEL_PATH": ("/other", lambda p: p.server.model_path, "/other"),
    "HSCONSOLE_SERVER_FLAGS": ("--a 'b c'", lambda p: p.server.flags, ("--a", "b c")),
    "HSCONSOLE_SERVER_ENV": ('{ A = "1" }', lambda p: p.server.env, {"A": "1"}),
    "HSCONSOLE_CONTAINER_USER": ("root", lambda p: p.container.user, "root"),
    "HSCONSOLE_CONTAINER_HOST": ("123", lambda p: p.container.host, "123"),
    "HSCONSOLE_DUMP_LAYERS": ("3, 31", lambda p: p.dump.layers, (3, 31)),
    "HSCONSOLE_DUMP_FOLDER": ("/x", lambda p: p.dump.folder, "/x"),
    "HSCONSOLE_READ_ONLY": ("yes", lambda p: p.read_only, True),
}


@pytest.mark.parametrize("variable", OVERRIDES)
def test_the_environment_wins(save: Save, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    save()
    text, read, wanted = OVERRIDES[variable]
    monkeypatch.setenv(variable, text)
    assert read(load.load()) == wanted


def test_the_environment_can_add_a_table(save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    save()
    monkeypatch.setenv("HSCONSOLE_PROXMOX_HOST", "pve1")
    monkeypatch.setenv("HSCONSOLE_PROXMOX_VMID", "129")
    proxmox = load.load().proxmox
    assert proxmox is not None
    assert (proxmox.host, proxmox.vmid) == ("pve1", 129)


@pytest.mark.parametrize(
    ("variable", "text", "told"),
    [
        ("HSCONSOLE_SERVER_PORT", "eight", "a whole number"),
        ("HSCONSOLE_SERVER_PORT", "70000", "1 to 65535"),
        ("HSCONSOLE_SERVER_PRT", "8001", "Did you mean HSCONSOLE_SERVER_PORT?"),
        ("HSCONSOLE_READ_ONLY", "perhaps", "true or false"),
        ("HSCONSOLE_DUMP_LAYERS", "3,x", "3,31,59"),
        ("HSCONSOLE_SERVER_ENV", "A=1", "NAME"),
    ],
)
def test_a_wrong_variable_is_named(
    save: Save, monkeypatch: pytest.MonkeyPatch, variable: str, text: str, told: str
) -> None:
    save()
    monkeypatch.setenv(variable, text)
    message = refused("kimi")
    assert variable in message
    assert told in message


def test_secrets_in_flags_of_the_environment_are_not_shown(save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    save(GOOD)
    monkeypatch.setenv("HSCONSOLE_SERVER_FLAGS", "--api-key 'hunter2")
    with pytest.raises(ConfigError, match=r"HSCONSOLE_SERVER_FLAGS.*quotes") as caught:
        load.load()
    assert "hunter" not in str(caught.value)
