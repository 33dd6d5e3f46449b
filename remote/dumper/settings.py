"""What the environment of the server asks of the dumper."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

DEFAULT_LAYERS = (3, 31, 59)
DEFAULT_POOL = 4 << 30  # three passes of 16,384 tokens, 7168 wide: one written, one in the device, one begun


@dataclasses.dataclass(frozen=True)
class Settings:
    """pool: bytes of pinned memory for states that wait to be written. prenorm: save what the final norm gets, too.

    problem: why these settings can't be followed, empty when they can.
    """

    folder: str
    layers: tuple[int, ...] = DEFAULT_LAYERS
    pool: int = DEFAULT_POOL
    prenorm: bool = False
    problem: str = ""

    @property
    def finals(self) -> tuple[str, ...]:
        """Names of the tensors behind the last layer, in the order in which the model has them."""
        return ("final_prenorm", "final") if self.prenorm else ("final",)


def read(environ: Mapping[str, str]) -> Settings:
    prenorm = environ.get("SGLANG_HS_DUMP_PRENORM", "").strip() not in ("", "0")
    found = Settings(environ["SGLANG_HS_DUMP_DIR"], prenorm=prenorm)
    try:
        return dataclasses.replace(found, **_layers(environ), **_pool(environ))
    except _WrongError as error:
        return dataclasses.replace(found, layers=(), problem=str(error))


class _WrongError(Exception):
    """What is wrong with one setting."""


def _layers(environ: Mapping[str, str]) -> dict[str, Any]:
    text = environ.get("SGLANG_HS_DUMP_LAYERS", "").strip()
    if not text:
        return {}
    try:
        layers = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise _WrongError(f"SGLANG_HS_DUMP_LAYERS={text!r} is not a list of numbers such as 3,31,59") from None
    if min(layers) < 0 or len(set(layers)) < len(layers):
        raise _WrongError(f"SGLANG_HS_DUMP_LAYERS={text!r} names a layer twice or below 0")
    return {"layers": layers}


def _pool(environ: Mapping[str, str]) -> dict[str, Any]:
    text = environ.get("SGLANG_HS_DUMP_POOL_MIB", "").strip()
    if not text:
        return {}
    if not text.isdecimal() or not 64 <= int(text) <= 1 << 20:
        raise _WrongError(f"SGLANG_HS_DUMP_POOL_MIB={text!r} is no size in MiB, from 64 on")
    return {"pool": int(text) << 20}
