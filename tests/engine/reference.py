"""Dumps of a tiny model against transformers in fp32: `python reference.py MODEL FOLDER`, run by the engine's Python.

Prints one JSON object, req_N → {"ids", "rid", "errors": {tensor: largest relative error of its rows}}.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import torch
from transformers import AutoModelForCausalLM


def outputs_of(model: Any, ids: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor]:
    """The residual stream before every layer and behind the last, and the output of the final norm; [tokens, hidden]
    each."""
    before: list[torch.Tensor] = []
    hooks = [
        module.register_forward_pre_hook(
            lambda _, args, kwargs: before.append((args[0] if args else kwargs["hidden_states"])[0].clone()),
            with_kwargs=True,
        )
        for module in (*model.model.layers, model.model.norm)
    ]
    with torch.no_grad():
        final = model.model(ids[None]).last_hidden_state[0]
    for hook in hooks:
        hook.remove()
    return before, final


def relative_error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    if found.shape != wanted.shape:
        return float("inf")
    return float(((found.float() - wanted).norm(dim=-1) / wanted.norm(dim=-1)).max())


def compare(model: Any, request: pathlib.Path) -> dict[str, Any]:
    meta = json.loads((request / "meta.json").read_text())
    ids = torch.load(request / "input_ids.pt", weights_only=True)
    before, final = outputs_of(model, ids)
    wanted = {f"aux_{at}": before[layer] for at, layer in enumerate(meta["captured_at_layers"])} | {"final": final}
    if (request / "final_prenorm.pt").exists():
        wanted["final_prenorm"] = before[-1]
    errors = {
        name: relative_error(torch.load(request / f"{name}.pt", weights_only=True), tensor)
        for name, tensor in wanted.items()
    }
    return {"ids": ids.tolist(), "rid": meta["rid"], "errors": errors}


def main(model_path: str, folder: str) -> None:
    model = AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32)
    requests = sorted(pathlib.Path(folder).glob("req_*/done"))
    print(json.dumps({done.parent.name: compare(model, done.parent) for done in requests}))


if __name__ == "__main__":
    main(*sys.argv[1:])
