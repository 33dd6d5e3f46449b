"""Each test that the documentation names as proof exists, with the case that it names."""

from __future__ import annotations

import dataclasses
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOOKS = "tests/engine/test_dumper.py", "test_hooks"


@dataclasses.dataclass
class Name:
    """A test as a table names it: a file; maybe a function in it; maybe a case of that."""

    file: str
    function: str = ""
    case: str = ""

    def __str__(self) -> str:
        return f"{self.file}::{self.function}[{self.case}]"


def named(document: str) -> list[Name]:
    """What the last column of the tables headed 'test' or 'tests' names, in order."""
    found: list[Name] = []
    lines = (ROOT / "docs" / document).read_text().splitlines()
    inside = False
    for line in lines:
        cells = line.split("|")
        last = cells[-2].strip() if len(cells) > 2 else ""
        inside = len(cells) > 2 and (inside or last in ("test", "tests"))
        if inside:
            found += _names(last)
    return found


def _names(cell: str) -> Iterator[Name]:
    at = Name("tests/bed/test_scenarios.py")
    for text in re.findall(r"`([^`]+)`", cell):
        place, _, rest = text.partition("::")
        function, _, case = rest.rstrip("]").partition("[")
        if place == "dumper_cases":
            at = Name(*HOOKS, function)
        elif place.endswith(".py"):
            at = Name(_file(place), function, case)
        elif text.startswith("…::"):
            at = Name(*HOOKS, function) if at.function == HOOKS[1] else Name(at.file, function, case)
        elif text.startswith("…["):
            at = Name(at.file, at.function, text[2:-1])
        elif text.startswith("test_"):
            at = Name(at.file, text)
        elif text != "…":
            at = Name(at.file, at.function, text)  # further cases, in brackets behind their test
        yield at


def _file(name: str) -> str:
    """Below the root. name: as much of the path's end as tells it from others."""
    found = [path for path in (ROOT / "tests").rglob(Path(name).name) if str(path).endswith(f"/{name}")]
    assert len(found) == 1, f"{name} is {len(found)} files"
    return str(found[0].relative_to(ROOT))


@functools.cache
def collected(files: frozenset[str]) -> frozenset[str]:
    """The ids of all tests in these files."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--collect-only",
        "-m",
        "",
        "-p",
        "no:cacheprovider",
        *sorted(files),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return frozenset(done.stdout.splitlines())


@pytest.mark.parametrize(("document", "least"), [("trust.md", 40), ("recovery.md", 25)])
def test_every_test_that_is_named_exists(document: str, least: int) -> None:
    names = named(document)
    assert len(names) >= least, "the tables are read"
    there = collected(frozenset(name.file for name in names))
    missing = [str(name) for name in names if not any(_is(test, name) for test in there)]
    assert missing == []


def _is(test: str, name: Name) -> bool:
    file, _, rest = test.partition("::")
    function, _, case = rest.removesuffix("]").partition("[")
    if file != name.file or (name.function and function != name.function):
        return False
    return not name.case or name.case in (case, *case.split("-"))


@pytest.mark.parametrize(
    ("cell", "wanted"),
    [
        ("`test_a`", ["tests/bed/test_scenarios.py::test_a[]"]),
        ("`dumper_cases::one`, `…::two`", ["one", "two"]),
        ("`test_canary.py::caught[a b]`, `…[c]`", ["test_canary.py::caught[a b]", "test_canary.py::caught[c]"]),
        ("`test_verify.py::found` (`nan`, `zero_row`, …)", ["::found[]", "::found[nan]", "::found[zero_row]"]),
        ("`dumps/test_request.py`", ["tests/unit/dumps/test_request.py::[]"]),
        ("as 7", []),
    ],
)
def test_how_names_are_read(cell: str, wanted: list[str]) -> None:
    found = list(map(str, _names(cell)))
    assert len(found) == len(wanted)
    assert all(want in name for want, name in zip(wanted, found, strict=True))
