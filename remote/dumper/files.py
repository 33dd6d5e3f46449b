"""Small files that others read while they change."""

from __future__ import annotations

import json
import os
from typing import Any

from . import log


def replace_json(path: str, value: dict[str, Any]) -> None:
    """Write `value` to `path` in one piece. A failure is logged: these files inform, no dump depends on them."""
    aside = f"{path}.new"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(aside, "wb") as file:
            file.write(json.dumps(value).encode("ascii"))
        os.replace(aside, path)
    except OSError as error:
        log.once(f"{path} could not be written", str(error.strerror))
