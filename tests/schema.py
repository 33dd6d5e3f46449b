"""docs/dump-v3.schema.json, held against what is written in a dump folder."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

DOCS = Path(__file__).parents[1] / "docs"
SCHEMA: dict[str, Any] = json.loads((DOCS / "dump-v3.schema.json").read_text())


def problems(path: Path, value: Any, complete: bool = True) -> list[str]:
    """What is wrong with `value`, to be found at `path` in a dump folder. complete: whether `done` is beside it."""
    found = _validator(_kind(path, complete)).iter_errors(value)
    return [f"{path.parent.name}/{path.name}: {error.json_path}: {error.message}" for error in found]


def problems_in(folder: Path) -> list[str]:
    """What is wrong with all that a dumper left in `folder` and below it."""
    paths = [*folder.rglob("req_*/meta.json"), *folder.rglob("req_*/error")]
    paths += [*folder.rglob(".loaded/*.json"), *folder.rglob(".stats/*.json")]
    assert paths, f"nothing in {folder}"
    return [
        problem
        for path in paths
        for problem in problems(path, json.loads(path.read_text()), (path.parent / "done").exists())
    ]


def _kind(path: Path, complete: bool) -> str:
    if path.name == "meta.json":
        return "complete" if complete else "failed"
    return "error" if path.name == "error" else path.parent.name.removeprefix(".")


@functools.cache
def _validator(kind: str) -> Draft202012Validator:
    Draft202012Validator.check_schema(SCHEMA)
    return Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": SCHEMA["$defs"]})
