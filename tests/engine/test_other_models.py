"""Models of other families in real servers: patched, dumped, and every tensor compared with transformers."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from console.config.profile import Dump
from console.demo.stage import Stage
from console.operations import calls
from tests.engine.server import HERE, LIMIT, Server, product, prompts, wait_for

LAYERS = (0, 1, 3)
FILES = {"llama": "llama.py", "qwen2": "qwen2.py", "qwen3": "qwen3.py", "qwen3_moe": "qwen2_moe.py"}
OTHER = "deepseek_v2.py"  # of the stage's own model
SHORT = "qwen3_moe"  # a server takes most of a minute; this one's class inherits the loop, and goes around it at times
MODELS = [pytest.param(name, marks=() if name == SHORT else pytest.mark.matrix) for name in FILES]


@pytest.fixture
def stage_of(stage: Stage, request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    """The stage with another model and a dump folder of its own."""
    name = request.param
    command = [stage.engine.python, HERE / "tiny_models.py", tmp_path, name]
    environment = {**os.environ, **stage.profile.server.env}
    subprocess.run(command, check=True, timeout=120, env=environment)
    server = msgspec.structs.replace(stage.profile.server, model_path=str(tmp_path / name))
    dump = Dump(folder=str(tmp_path / "dumps"), layers=LAYERS)
    return dataclasses.replace(stage, profile=msgspec.structs.replace(stage.profile, server=server, dump=dump))


@pytest.fixture
def server(stage: Stage, stage_of: Stage) -> Iterator[Server]:
    """The file of another family is patched too."""
    with product(stage) as other, product(stage_of) as made:
        other.act("patch.apply")
        yield made


@pytest.mark.parametrize("stage_of", MODELS, indirect=True)
def test_every_tensor_is_that_of_transformers(server: Server) -> None:
    model = Path(server.stage.profile.server.model_path)
    server.act("patch.apply")
    patched = calls.patch_status(server.agent)
    assert Path(patched.model_file or "").name == FILES[model.name]
    original = patched.original_sha256
    server.start()
    assert calls.patch_status(server.agent).depths[3].verdict.value == "ok", "the server says it loaded this file"
    claims = [json.loads(path.read_text())["model_files"] for path in server.folder.glob(".loaded/*.json")]
    assert {FILES[model.name], OTHER} in [{Path(path).name for path in claim} for claim in claims]
    sent = prompts(model.name, 24, 300)
    server.ask_all(sent, 12)
    wait_for("24 dumps", lambda: len(server.metas()) == 24)
    compared = server.compared()
    assert {found["rid"]: found["ids"] for found in compared.values()} == sent
    assert {name for found in compared.values() for name in found["errors"]} == {"aux_0", "aux_1", "aux_2", "final"}
    errors = [error for found in compared.values() for error in found["errors"].values()]
    assert all(error <= LIMIT for error in errors), errors  # each: NaN hides from max()
    assert not list(server.folder.glob("req_*/error"))
    server.act("server.stop")
    server.act("patch.revert")
    assert calls.patch_status(server.agent).file_sha256 == original
    print(f"{model.name}: largest relative error {max(errors):.1e}")
