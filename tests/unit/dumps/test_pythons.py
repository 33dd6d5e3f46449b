"""Dumps are read by the oldest and the newest Python at hand, and numpy is imported only to look at numbers."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.dumpfolder import dump, forerunner
from tests.pythons import oldest_and_newest

ROOT = Path(__file__).parents[3]
SCRIPT = """
import json, sys, threading
from remote.dumps import detail, watch
from remote.wire.codec import encode
folder = sys.argv[1]
cancelled, changes = threading.Event(), []
watch.watch(folder, 10, lambda change: (changes.append(change), cancelled.set()), cancelled)
assert "numpy" not in sys.modules
shown = [detail.show(folder, number) for number in (0, 1, 2)]
print(json.dumps(encode([watch.newest(folder, 10), changes[0], *shown])))
"""


@pytest.mark.parametrize("python", oldest_and_newest(), ids=lambda python: python.parents[1].name)
def test_dumps_are_read(python: Path, tmp_path: Path) -> None:
    dump(tmp_path, 0)
    forerunner(tmp_path, 1)
    os.truncate(forerunner(tmp_path, 2) / "aux_1.pt", 300)
    ran = subprocess.run(
        [python, "-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{SCRIPT}", tmp_path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    newest, change, *shown = json.loads(ran.stdout)
    for picture in (newest, change):
        assert [(row["number"], row["state"]) for row in picture["rows"]] == [
            (2, "corrupt"),
            (1, "complete"),
            (0, "complete"),
        ]
    for detail in shown[:2]:
        assert {check["verdict"] for check in detail["checks"]} <= {"ok", "unknown"}, detail["checks"]
    assert "aux_1.pt" in shown[2]["row"]["note"]
