"""meta.json as nobody should write it: told in a line, and small enough to be sent on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from remote.dumps import detail, examine, rows
from remote.wire import frames
from remote.wire.dumps import DumpState, Level, Verified
from tests.dumpfolder import dump

MANY = json.dumps({str(number): 1 for number in range(5_000)})
RECORD = '{"bytes": %s, "payload": 1, "crc32": 1, "shape": %s, "dtype": "%s"}'
HOSTILE = {
    **{f"{depth} deep": ("timestamp", "[" * depth + "]" * depth) for depth in (20, 300, 600, 900, 980, 990, 9000)},
    "an object 900 deep": ("unknown", '{"a":' * 900 + "1" + "}" * 900),
    "an infinity": ("unknown", "1e400"),
    "NaN": ("timestamp", "NaN"),
    "far in the future": ("timestamp", "1e308"),
    "a negative counter": ("counter", "-5"),
    "a counter of 4,000 digits": ("counter", "9" * 4000),
    "layers that are words": ("captured_at_layers", '["3"]'),
    "a long dtype": ("dtype", f'"{"x" * 900_000}"'),
    "a dtype that is a list": ("dtype", '["bfloat16"]'),
    "very many files": ("files", MANY),
    "a long file name": ("files", '{"%s": 1}' % ("y" * 900_000)),
    "a record of 4,000 digits": ("files", '{"final.pt": %s}' % (RECORD % ("9" * 4000, "[1]", "x"))),
    "a negative size": ("files", '{"final.pt": %s}' % (RECORD % ("-1", "[1]", "x"))),
    "a long shape": ("files", '{"final.pt": %s}' % (RECORD % ("1", [1] * 100_000, "x"))),
    "a shape that is a word": ("files", '{"final.pt": %s}' % (RECORD % ("1", '"ab"', "x"))),
    "a record with a long dtype": ("files", '{"final.pt": %s}' % (RECORD % ("1", "[1]", "x" * 900_000))),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile(tmp_path: Path, case: str) -> None:
    key, value = HOSTILE[case]
    path = dump(tmp_path, 1) / "meta.json"
    meta = json.loads(path.read_text())
    meta.pop(key, None)
    path.write_text(f'{json.dumps(meta)[:-1]}, "{key}": {value}}}')
    row = rows.examine(str(tmp_path), "req_1")
    assert row is not None
    assert row.state is DumpState.CORRUPT
    assert "meta.json" in row.note
    found = examine.examine(str(tmp_path), "req_1", Level.CONTENT, None)
    assert found.verdict is Verified.BAD
    assert max(map(len, (frames.event(1, row), frames.event(1, found)))) < 20_000
    frame = frames.ok(1, detail.show(str(tmp_path), 1))
    json.loads(frame, parse_constant=lambda word: pytest.fail(word))
