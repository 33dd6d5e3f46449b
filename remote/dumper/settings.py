"""What the environment of the server asks of the dumper."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

DEFAULT_LAYERS = (3, 31, 59)


@dataclasses.dataclass(frozen=True)
class Settings:
    """problem: why these settings can't be followed, empty when they can."""

    folder: str
    layers: tuple[int, ...] = DEFAULT_LAYERS
    problem: str = ""


def read(environ: Mapping[str, str]) -> Settings:
    folder = environ["SGLANG_HS_DUMP_DIR"]
    text = environ.get("SGLANG_HS_DUMP_LAYERS", "").strip()
    if not text:
        return Settings(folder)
    try:
        layers = tuple(int(part) for part in text.split(","))
    except ValueError:
        return Settings(folder, (), f"SGLANG_HS_DUMP_LAYERS={text!r} is not a list of numbers such as 3,31,59")
    if min(layers) < 0 or len(set(layers)) < len(layers):
        return Settings(folder, (), f"SGLANG_HS_DUMP_LAYERS={text!r} names a layer twice or below 0")
    return Settings(folder, layers)
