"""Dumps against what was sent and what the witness saw in the server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from .server import Prompts


def metas(folder: Path) -> dict[str, tuple[Path, dict[str, Any]]]:
    """rid → directory and metadata of what is done. Raises AssertionError when a request is there twice."""
    found: dict[str, tuple[Path, dict[str, Any]]] = {}
    for done in folder.glob("req_*/done"):
        meta = json.loads((done.parent / "meta.json").read_text())
        assert meta["rid"] not in found, f"{meta['rid']} was dumped twice"
        found[meta["rid"]] = (done.parent, meta)
    return found


def wrong(folder: Path, sent: Prompts, witness: Path) -> dict[str, str]:
    """rid → what is wrong with its dump. Right: its ids, and every row of every tensor bit for bit as witnessed."""
    dumped, witnessed = metas(folder), _witnessed(witness)
    found = {rid: _wrong(*dumped[rid], ids, witnessed[rid]) if rid in dumped else "none" for rid, ids in sent.items()}
    return {rid: what for rid, what in found.items() if what}


def _witnessed(folder: Path) -> dict[str, torch.Tensor]:
    """rid → sums, [tensors, rows]."""
    sums: dict[str, torch.Tensor] = {}
    for path in folder.glob("*.pt"):
        noted = torch.load(path, weights_only=True)
        sums.update(zip(noted["rids"], noted["sums"].split(noted["lengths"], dim=1), strict=True))
    return sums


def _wrong(folder: Path, meta: dict[str, Any], ids: Any, sums: torch.Tensor) -> str:
    if meta["num_tokens"] != len(ids) or _load(folder, "input_ids").tolist() != list(ids):
        return f"{meta['num_tokens']} rows or other ids for {len(ids)} ids"
    names = [*(f"aux_{at}" for at in range(meta["num_aux_layers"])), "final"]
    for name, expected in zip(names, sums, strict=True):
        rows = (_row_sums(_load(folder, name)) != expected).sum().item()
        if rows:
            return f"{rows} rows of {name} are others than the witness saw"
    return ""


def _load(folder: Path, name: str) -> torch.Tensor:
    tensor: torch.Tensor = torch.load(folder / f"{name}.pt", weights_only=True)
    return tensor


def _row_sums(state: torch.Tensor) -> torch.Tensor:
    """The same as the witness takes in the server."""
    bits = state.view(torch.int16 if state.element_size() == 2 else torch.int32)
    if torch.cuda.is_available():
        bits = bits.cuda()
    wide = bits.to(torch.int64)
    sums: torch.Tensor = (wide * torch.arange(1, wide.shape[1] + 1, device=wide.device)).sum(dim=1).cpu()
    return sums


def differing(folder: Path, rank: int, rids: Prompts) -> dict[str, str]:
    """rid → how rank 0's dump differs from that of `rank`, for requests that a canary made both write."""
    first, other = metas(folder), metas(folder / ".ranks" / str(rank))
    found = {rid: _difference(first, other, rid) for rid in rids}
    return {rid: what for rid, what in found.items() if what}


def _difference(first: dict[str, Any], other: dict[str, Any], rid: str) -> str:
    if rid not in first or rid not in other:
        return "not written by both"
    sums = [{name: one["crc32"] for name, one in side[rid][1]["files"].items()} for side in (first, other)]
    unequal = [name for name in sums[0] if sums[0][name] != sums[1].get(name)]
    return f"unequal: {', '.join(unequal)}" if unequal else ""
