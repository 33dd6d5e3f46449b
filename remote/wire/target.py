"""What a profile says about one container, as far as the agent needs it."""

from __future__ import annotations

import dataclasses
from typing import Optional

DEFAULT_LAYERS = (3, 31, 59)


@dataclasses.dataclass(frozen=True)
class Target:
    """One SGLang server and the place of its dumps.

    python: the interpreter of SGLang's environment. flags: SGLang's own command line flags, beyond those named here.
    layers: hidden states are captured BEFORE these layers (0-based), so the residual-stream output of layer n-1.
    eagle_layer_ids: of the draft that is to be served, where the profile names those instead of layers.
    """

    python: str
    model_path: str
    host: str = "0.0.0.0"  # noqa: S104 - what SGLang binds to is the operator's choice
    port: int = 8000
    tp: int = 1
    flags: tuple[str, ...] = ()
    env: dict[str, str] = dataclasses.field(default_factory=dict)
    dump_dir: str = "/dev/shm/sglang_hs"
    layers: tuple[int, ...] = DEFAULT_LAYERS
    eagle_layer_ids: Optional[tuple[int, ...]] = None
