"""The survey for `init`: what is there is found, what is not is said, in bounded time."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote import interpreter, survey
from remote.wire.host import Interpreter
from tests.unit.server.conftest import StandIn


@pytest.fixture(autouse=True)
def no_other_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Interpreter("/venv/bin/python3", "3.11.2", "0.5.9", "/venv/sglang/__init__.py")]
    monkeypatch.setattr(interpreter, "with_sglang", lambda: found)


def test_models_are_found_in_the_usual_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, config in (
        ("models/kimi", '{"architectures": ["K"]}'),
        ("hub/models--org--name/snapshots/abc", '{"architectures": ["D"]}'),
        ("models/tokenizer", "{}"),
        ("models/damaged", "{"),
        ("models/.hidden", '{"architectures": ["K"]}'),
    ):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "config.json").write_text(config)
    (tmp_path / "models" / "loop").symlink_to(tmp_path)
    monkeypatch.setattr(survey, "MODEL_PLACES", (str(tmp_path / "models"), str(tmp_path / "hub"), "/no/such/place"))
    found = [path for path in survey.survey().models if path.startswith(str(tmp_path))]
    assert found == [str(tmp_path / "models/kimi"), str(tmp_path / "hub/models--org--name/snapshots/abc")]


def test_the_model_of_a_running_server_is_found(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "MODEL_PLACES", ())
    with stand_in.by_hand() as child:
        while stand_in.target.model_path not in survey.survey().models:
            assert child.poll() is None
        child.kill()


def test_named_pythons_are_told_of_even_without_sglang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "MODEL_PLACES", ())
    seen = survey.survey(("/no/such/python",))
    assert [found.path for found in seen.interpreters] == ["/no/such/python", "/venv/bin/python3"]
    assert seen.interpreters[0].problem
    assert seen.shm_size >= seen.shm_free > 0
    assert bool(seen.gpus) != bool(seen.gpu_problem)


def test_the_search_for_models_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        (tmp_path / str(number)).mkdir()
    monkeypatch.setattr(survey, "MODEL_PLACES", (str(tmp_path),))
    monkeypatch.setattr(survey, "MODEL_SECONDS", -1.0)
    assert len(survey.survey().models) <= 1
