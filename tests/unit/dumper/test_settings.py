"""What the environment asks, what the server refuses, and which dumper this is."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from remote.dumper import refusal, settings
from remote.dumper.identity import VERSION, digest_of, own_files
from remote.dumper.release import MISSING, option

DIR = {"SGLANG_HS_DUMP_DIR": "/dev/shm/hs"}


@pytest.mark.parametrize(
    ("text", "layers"), [(None, (3, 31, 59)), ("", (3, 31, 59)), ("1,2,3", (1, 2, 3)), (" 7 , 0 ", (7, 0))]
)
def test_layers(text: str | None, layers: tuple[int, ...]) -> None:
    found = settings.read(DIR if text is None else {**DIR, "SGLANG_HS_DUMP_LAYERS": text})
    assert (found.layers, found.problem) == (layers, "")


@pytest.mark.parametrize("text", ["1,x", "1,,2", "3,3", "-1", "1;2"])
def test_layers_that_are_none(text: str) -> None:
    assert repr(text) in settings.read({**DIR, "SGLANG_HS_DUMP_LAYERS": text}).problem


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"layers": range(61)}, None),
        ({"layers": range(4)}, "layers 0 to 3"),
        ({"layers": range(61), "pp_group": SimpleNamespace(world_size=2)}, "--pp-size"),
        ({"layers": range(61), "pp_group": SimpleNamespace(world_size=1)}, None),
    ],
)
def test_servers(model: dict[str, Any], words: str | None) -> None:
    problem = refusal.of_server(SimpleNamespace(**model), (3, 31, 59))
    assert (problem is None) if words is None else problem is not None and words in problem.detail


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ({}, None),
        ({"can_run_tbo": False, "global_num_tokens_cpu": None}, None),
        ({"can_run_tbo": True}, "--enable-two-batch-overlap"),
        ({"global_num_tokens_cpu": [5, 0]}, "--enable-dp-attention"),
    ],
)
def test_passes(batch: dict[str, Any], words: str | None) -> None:
    problem = refusal.of_pass(SimpleNamespace(**batch))
    assert (problem is None) if words is None else problem is not None and words in problem.detail


@pytest.mark.parametrize("mode", ["MIXED", "TARGET_VERIFY", "DRAFT_EXTEND", "SPLIT_PREFILL", "ONE_OF_TOMORROW"])
def test_modes_are_refused_by_name(mode: str) -> None:
    assert mode in refusal.of_mode(mode)


def test_an_option_that_no_release_has() -> None:
    assert option("no_such_option") is MISSING


def test_the_digest_is_over_names_and_contents() -> None:
    one = digest_of({"a.py": b"1", "b.py": b"2"})
    assert one == digest_of({"b.py": b"2", "a.py": b"1"})
    assert one not in (digest_of({"a.py": b"12", "b.py": b""}), digest_of({"a.py": b"1"}), digest_of({"c.py": b"1"}))


def test_the_package_knows_its_own_files() -> None:
    package = Path(__file__).parents[3] / "remote" / "dumper"
    assert set(own_files(str(package))) == {path.name for path in package.glob("*.py")}


def test_all_of_hsconsole_has_one_version() -> None:
    import console
    import remote

    assert VERSION == remote.__version__ == console.__version__
