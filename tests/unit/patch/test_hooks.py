"""What the woven lines do when a model runs: small models of each family's shape, numbers in place of tensors."""

from __future__ import annotations

import contextlib
import sys
import types
from typing import Any

import pytest

from remote.patch import seam
from remote.patch.recipes import DEEPSEEK, LLAMA, QWEN2_MOE

SUMMED = """
import math
class DeepseekV2Model:
    def forward(self, input_ids, positions, forward_batch):
        hidden_states = 1.0
        residual = None
        for i in range(len(self.layers)):
            layer = self.layers[i]
            {results} = layer(positions, hidden_states, residual)
        if not self.last:
            return {{"hidden_states": hidden_states}}
        else:
            hidden_states = self.norm(hidden_states + residual)
        aux = []
        if len(aux) == 0:
            return hidden_states
        return hidden_states, aux
"""
SNAPSHOT = """
import residual_batch
class DeepseekV2Model:
    def forward(self, input_ids, positions, forward_batch):
        hidden_states = 1.0
        for i in range(len(self.layers)):
            with self.context:
                layer = self.layers[i]
                (hidden_states, topk_indices) = layer(positions, hidden_states, forward_batch)
        if not self.last:
            return {"hidden_states": hidden_states}
        hidden_states = residual_batch.final_norm(hidden_states, self.norm)
        return hidden_states
"""
DIRECT = """
import residual_batch
class LlamaModel:
    def forward(self, input_ids, positions, forward_batch):
        hidden_states = 1.0
        aux = []
        for i in range(len(self.layers)):
            hidden_states = self.layers[i](positions, hidden_states, forward_batch, capture=aux if i else None)
        if not self.last:
            return {"hidden_states": hidden_states}
        hidden_states = residual_batch.final_norm(hidden_states, self.norm)
        return (hidden_states, aux) if aux else hidden_states
"""
BRANCH = """
import math
class Qwen2MoeModel:
    def forward(self, input_ids, positions, forward_batch):
        hidden_states = 1.0
        residual = None
        if forward_batch == "overlap":
            hidden_states, residual = 1.0, 3.0
        else:
            for i in range(len(self.layers)):
                with self.context:
                    layer = self.layers[i]
                    hidden_states, residual = layer(positions, hidden_states, residual)
        if not self.last:
            return {"hidden_states": hidden_states}
        else:
            hidden_states = self.norm(hidden_states + residual)
        return hidden_states
"""
MODELS = {
    "pair": (DEEPSEEK, SUMMED.format(results="hidden_states, residual")),
    "triple": (DEEPSEEK, SUMMED.format(results="hidden_states, residual, topk_indices")),
    "snapshot": (DEEPSEEK, SNAPSHOT),
    "direct": (LLAMA, DIRECT),
    "branch": (QWEN2_MOE, BRANCH),
}
SUMS, SNAPSHOTS = {0: 1.0, 2: 3.0}, {0: 100.0, 2: 102.0}
EXPECTED = {"pair": SUMS, "triple": SUMS, "snapshot": SNAPSHOTS, "direct": SNAPSHOTS, "branch": SUMS}


class Seen:
    """The dumper's place: notes what it is called with."""

    layers = frozenset((0, 2))

    def __init__(self) -> None:
        self.begun: list[tuple[Any, ...]] = []
        self.captured: dict[int, float] = {}
        self.final: list[float] = []
        self.wanted = True

    def begin(self, *args: Any) -> Seen | None:
        self.begun.append(args[1:])
        return self if self.wanted else None

    def stream(self, hidden_states: float, residual: float | None) -> float:
        return hidden_states if residual is None else hidden_states + residual

    def capture(self, layer: int, state: Any) -> None:
        self.captured[layer] = state()

    def finish(self, hidden_states: float) -> None:
        self.final.append(hidden_states)


def _model(kind: str, *, last: bool = True) -> Any:
    """Each layer adds 1 to the residual stream."""
    namespace: dict[str, Any] = {}
    file, source = MODELS[kind]
    exec(compile(seam.weave(source.encode(), file).content, "model.py", "exec"), namespace)
    model = namespace[file.model_class]()
    layers = {
        "pair": lambda p, h, r: (1.0, h + (r or 0.0)),
        "triple": lambda p, h, r: (1.0, h + (r or 0.0), None),
        "snapshot": lambda p, h, b: (h + 1.0, None),
        "direct": lambda p, h, b, capture: h + 1.0,
        "branch": lambda p, h, r: (1.0, h + (r or 0.0)),
    }
    model.layers = [layers[kind]] * 3
    model.norm = lambda states: states * 10
    model.last = last
    model.context = contextlib.nullcontext()
    return model


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    spy = Seen()
    dumper = types.ModuleType("hsconsole_dumper")
    dumper.__dict__["begin"] = spy.begin
    stream = types.ModuleType("residual_batch")
    stream.__dict__["snapshot"] = lambda hidden, batch: hidden + 99.0
    stream.__dict__["final_norm"] = lambda hidden, norm: norm(hidden)
    monkeypatch.setitem(sys.modules, "hsconsole_dumper", dumper)
    monkeypatch.setitem(sys.modules, "residual_batch", stream)
    monkeypatch.setenv("SGLANG_HS_DUMP_DIR", "/nowhere")
    return spy


@pytest.mark.parametrize("kind", MODELS)
def test_the_residual_stream_is_captured_before_wanted_layers_and_the_normed_end(kind: str, seen: Seen) -> None:
    end = _model(kind).forward([1], [0], "batch")
    assert seen.begun == [([1], [0], "batch")]
    assert seen.captured == EXPECTED[kind]
    assert seen.final == [end] == [40.0]


@pytest.mark.parametrize("kind", MODELS)
def test_a_pass_that_is_not_wanted_is_left_alone(kind: str, seen: Seen) -> None:
    seen.wanted = False
    assert _model(kind).forward([1], [0], "batch") == 40.0
    assert (seen.captured, seen.final) == ({}, [])


@pytest.mark.parametrize("kind", MODELS)
def test_an_inner_pipeline_stage_captures_and_never_finishes(kind: str, seen: Seen) -> None:
    assert "hidden_states" in _model(kind, last=False).forward([1], [0], "batch")
    assert (sorted(seen.captured), seen.final) == ([0, 2], [])


@pytest.mark.parametrize("kind", MODELS)
def test_without_the_variable_the_dumper_is_not_even_imported(
    kind: str, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SGLANG_HS_DUMP_DIR")
    monkeypatch.setitem(sys.modules, "hsconsole_dumper", None)  # an import would raise
    assert _model(kind).forward([1], [0], "batch") == 40.0
    assert seen.begun == []


def test_a_pass_that_goes_around_the_layer_loop_captures_nothing_and_lives(seen: Seen) -> None:
    assert _model("branch").forward([1], [0], "overlap") == 40.0
    assert (seen.captured, seen.final) == ({}, [40.0])
