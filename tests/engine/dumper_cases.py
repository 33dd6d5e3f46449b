"""The cases of cases/: `python dumper_cases.py ROOT`, run by the engine's Python.

Prints one JSON object, case → "" or the traceback of its failure. Each case has a dump folder of its own.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, sys.argv[1])

from tests.engine.cases import CASES


def outcome(function: Callable[[], None]) -> str:
    try:
        function()
    except Exception:
        return traceback.format_exc()
    return ""


if __name__ == "__main__":
    for file in sorted((Path(__file__).parent / "cases").glob("[a-z]*.py")):
        importlib.import_module(f"tests.engine.cases.{file.stem}")
    with torch.inference_mode():
        print(json.dumps({function.__name__: outcome(function) for function in CASES}))
