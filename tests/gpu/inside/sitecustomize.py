"""Put first on the server's PYTHONPATH: a witness beside the dumper, with hooks of torch's own on the model.

What it does in a pass of prefill is read from the file HS_WITNESS/mode:
  check  note the request ids and a sum over every row of every state, taken on the device: HS_WITNESS/<n>.pt
  naive  save the states as the first inline patches did, in the forward, one directory a pass: HS_WITNESS/req_N
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

_FOLDER = Path(os.environ["HS_WITNESS"])
_LAYERS = [int(part) for part in os.environ["HS_WITNESS_LAYERS"].split(",")]
_MODEL = "sglang.srt.models.deepseek_v2"


class _Witness:
    def __init__(self) -> None:
        self.mode = ""
        self.states: list[Any] = []
        self.count = 0

    def begin(self, _: Any, args: tuple[Any, ...], more: dict[str, Any]) -> None:
        import torch

        self.mode, self.states = "", []
        if _batch(args, more).forward_mode.is_extend() and torch.distributed.get_rank() == 0:
            self.mode = (_FOLDER / "mode").read_text().strip()

    def layer(self, _: Any, args: tuple[Any, ...], more: dict[str, Any]) -> None:
        if self.mode:
            hidden: Any = more.get("hidden_states", args[1] if len(args) > 1 else None)
            residual = more.get("residual", args[3] if len(args) > 3 else None)
            self.keep(hidden.clone() if residual is None else hidden + residual)

    def keep(self, state: Any) -> None:
        self.states.append(_sums(state) if self.mode == "check" else state)

    def end(self, _: Any, args: tuple[Any, ...], more: dict[str, Any], result: Any) -> None:
        if self.mode:
            self.keep(result)
            if self.mode == "check":
                self.note(_batch(args, more))
            else:
                self.save()
            self.count += 1

    def note(self, batch: Any) -> None:
        import torch

        lengths = [int(length) for length in batch.extend_seq_lens_cpu]
        new = _FOLDER / f"{self.count}.new"
        torch.save({"rids": batch.rids, "lengths": lengths, "sums": torch.stack(self.states).cpu()}, new)
        new.rename(_FOLDER / f"{self.count}.pt")

    def save(self) -> None:
        import torch

        folder = _FOLDER / f"req_{self.count}"
        folder.mkdir()
        *aux, final = self.states
        for at, state in enumerate(aux):
            torch.save(state.cpu(), folder / f"aux_{at}.pt")
        torch.save(final.cpu(), folder / "final.pt")
        meta = {
            "num_tokens": final.shape[0], "hidden_size": final.shape[1], "num_aux_layers": len(aux),
            "captured_at_layers": _LAYERS, "counter": self.count, "timestamp": time.time(),
        }  # fmt: skip
        (folder / "meta.json").write_text(json.dumps(meta))
        (folder / "done").touch()


def _batch(args: tuple[Any, ...], more: dict[str, Any]) -> Any:
    return more.get("forward_batch", args[2] if len(args) > 2 else None)


def _sums(state: Any) -> Any:
    """One number a row that a single flipped bit changes; exact, whatever computes it."""
    import torch

    bits = state.contiguous().view(torch.int16 if state.element_size() == 2 else torch.int32).to(torch.int64)
    return (bits * torch.arange(1, bits.shape[1] + 1, device=bits.device)).sum(dim=1)


def _watch(module: Any) -> None:
    witness = _Witness()
    build = module.DeepseekV2Model.__init__

    def built(self: Any, *args: Any, **more: Any) -> None:
        build(self, *args, **more)
        self.register_forward_pre_hook(witness.begin, with_kwargs=True)
        self.register_forward_hook(witness.end, with_kwargs=True)
        for layer in _LAYERS:
            self.layers[layer].register_forward_pre_hook(witness.layer, with_kwargs=True)

    module.DeepseekV2Model.__init__ = built


class _Finder:
    """Has the model's module watched as soon as it is imported."""

    def find_spec(self, name: str, *_: Any) -> Any:
        if name != _MODEL:
            return None
        sys.meta_path.remove(self)
        spec: Any = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def run_watched(module: Any) -> None:
            run(module)
            _watch(module)

        spec.loader.exec_module = run_watched
        return spec


sys.meta_path.insert(0, _Finder())
