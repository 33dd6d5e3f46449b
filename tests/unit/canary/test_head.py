"""Rows of lm_head out of every layout of a model folder; whatever can't be read is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from remote.canary import head
from remote.canary.head import NoHead
from tests.unit.canary.models import model, safetensors

# exact in bfloat16 and float16
MATRIX = (np.arange(24, dtype="<f4").reshape(6, 4) - 12) / 4
OTHER = MATRIX + 100


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("name", ["lm_head.weight", "language_model.lm_head.weight"])
def test_rows_are_read(tmp_path: Path, dtype: str, name: str) -> None:
    model(tmp_path, {"model.layers.0.weight": OTHER, name: MATRIX, "z.weight": OTHER}, dtype)
    found = head.find(str(tmp_path))
    assert (found.name, found.vocabulary, found.hidden) == (name, 6, 4)
    rows = found.rows(np, (5, 0))
    assert np.array_equal(rows[5], MATRIX[5])
    assert np.array_equal(rows[0], MATRIX[0])


def test_the_index_names_the_shard(tmp_path: Path) -> None:
    model(tmp_path, {"a": OTHER})
    safetensors(tmp_path / "model-00002.safetensors", {"lm_head.weight": MATRIX})
    index = {"weight_map": {"a": "model.safetensors", "lm_head.weight": "model-00002.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert np.array_equal(head.find(str(tmp_path)).rows(np, (3,))[3], MATRIX[3])


TIED = [
    ({"tie_word_embeddings": True}, {"lm_head.weight": OTHER, "model.embed_tokens.weight": MATRIX}),
    ({}, {"model.embed_tokens.weight": MATRIX}),
    ({}, {"lm_head.weight": MATRIX, "model.embed_tokens.weight": OTHER}),
    ({"text_config": {"tie_word_embeddings": True}}, {"language_model.model.embed_tokens.weight": MATRIX}),
    ({"tie_word_embeddings": False}, {"lm_head.weight": MATRIX, "model.layers.61.embed_tokens.weight": OTHER}),
]


@pytest.mark.parametrize(("config", "weights"), TIED)
def test_tied_embeddings(tmp_path: Path, config: dict[str, Any], weights: dict[str, Any]) -> None:
    model(tmp_path, weights, **config)
    assert np.array_equal(head.find(str(tmp_path)).rows(np, (2,))[2], MATRIX[2])


REFUSED = [
    ({"lm_head.weight": MATRIX}, "F8_E4M3", {}, "is F8_E4M3"),
    ({"lm_head.qweight": MATRIX}, "F32", {}, "quantised"),
    ({"lm_head.weight": MATRIX, "lm_head.bias": MATRIX[0]}, "F32", {}, "bias"),
    ({"lm_head.weight": MATRIX}, "F32", {"final_logit_softcapping": 30.0}, "scaled"),
    ({"lm_head.weight": MATRIX}, "F32", {"logit_scale": 0.06}, "scaled"),
    ({"a": MATRIX}, "F32", {}, "no weight in"),
    ({"model.embed_tokens.weight": MATRIX}, "F32", {"tie_word_embeddings": False}, "no weight in"),
    ({"lm_head.weight": MATRIX[0]}, "F32", {}, "none for token 1"),
]


@pytest.mark.parametrize(("weights", "dtype", "config", "words"), REFUSED)
def test_what_is_refused(tmp_path: Path, weights: dict[str, Any], dtype: str, config: Any, words: str) -> None:
    model(tmp_path, weights, dtype, **config)
    with pytest.raises(NoHead, match=words):
        head.find(str(tmp_path)).rows(np, (1,))


def test_damaged_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(NoHead, match="no folder"):
        head.find("org/model")
    with pytest.raises(NoHead, match="no safetensors"):
        head.find(str(tmp_path))
    model(tmp_path, {"lm_head.weight": MATRIX})
    file = tmp_path / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-8])
    with pytest.raises(NoHead, match="cut short"):
        head.find(str(tmp_path)).rows(np, (5,))
    for damaged in (b"", whole[:20], b"\xff" * 64, b"\x02" + b"\0" * 7 + b"[]"):
        file.write_bytes(damaged)
        with pytest.raises(NoHead, match="no safetensors file"):
            head.find(str(tmp_path))
    file.write_bytes(whole)
    with pytest.raises(NoHead, match="none for token 6"):
        head.find(str(tmp_path)).rows(np, (6,))


def test_the_weight_of_the_final_norm(tmp_path: Path) -> None:
    model(tmp_path, {"language_model.model.norm.weight": MATRIX[1], "model.layers.0.norm.weight": MATRIX[2]}, "BF16")
    assert np.array_equal(head.norm_weight(np, str(tmp_path), 4), MATRIX[1])
    with pytest.raises(NoHead, match="4 values, a row 8"):
        head.norm_weight(np, str(tmp_path), 8)
