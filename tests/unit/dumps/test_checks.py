"""Every check of a dump, each against the fault it is there for."""

from __future__ import annotations

import json
import os
import shutil
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from remote.dumper import archive as dumper
from remote.dumps import checks, content, detail, tensorfile
from remote.dumps.dump import Dump
from remote.dumps.verdict import Expected
from remote.wire import codec
from remote.wire.dumps import DumpDetail, DumpState
from remote.wire.errors import DumpError
from remote.wire.plan import Check, Verdict
from tests import torchfile
from tests.dumpfolder import RECORD, dump, forerunner, payload, record

IDS = tuple(range(1, 11))
NAMES = (
    "tokens", "hidden size", "layers", "files", "counter and time", "dtype", "checksums", "finite", "not constant",
    "layers differ", "ids",
)  # fmt: skip


def run(path: Path, expected: Expected | None = None) -> dict[str, Check]:
    return {check.name: check for check in checks.run(Dump(str(path), int(path.name[4:])), expected)}


def expect(**changed: Any) -> Expected:
    return Expected(**{"ids": IDS, "layers": (3, 31, 59), "rid": "rid-1", "since": time.time(), **changed})


def rewrite(path: Path, name: str, data: bytes, shape: tuple[int, ...], dtype: str = "bfloat16") -> None:
    """Another tensor in a dump that knows about it."""
    torchfile.write(path / f"{name}.pt", data, shape, dtype)
    meta = json.loads((path / "meta.json").read_text())
    if "files" in meta:
        meta["files"][f"{name}.pt"] = record(path / f"{name}.pt", data, list(shape), dtype)
    (path / "meta.json").write_text(json.dumps(meta))


def test_a_good_dump_passes_every_check(tmp_path: Path) -> None:
    found = run(dump(tmp_path, 1), expect())
    assert {check.verdict for check in found.values()} == {Verdict.OK}, found
    assert tuple(name for name in found if name != "request") == NAMES


def test_the_records_dump_passes_every_check(tmp_path: Path) -> None:  # D01
    path = forerunner(tmp_path, 8, columns=7168)
    (path / "meta.json").write_text(json.dumps(RECORD))
    found = run(path)
    assert {check.verdict for check in found.values()} == {Verdict.OK}, found
    assert tuple(found) == NAMES[:-1]  # it holds no ids
    files = detail.show(str(tmp_path), 8).files
    tensors = [file for file in files if file.name.endswith(".pt")]
    assert {(file.size, file.payload, file.expected) for file in tensors} == {(144_859, 143_360, 143_360)}


def test_a_merged_health_check_is_flagged(tmp_path: Path) -> None:  # D02
    found = run(forerunner(tmp_path, 1, tokens=11), expect())["tokens"]
    assert found.verdict is Verdict.BAD
    assert "11 rows for a prompt of 10 ids" in found.found
    assert "HEALTH_ENDPOINT_GENERATION=0" in found.remedy


def value(path: Path, name: str, row: int, bits: int, columns: int = 8) -> None:
    data = bytearray(payload(10, columns, 40))
    data[row * columns * 2 : row * columns * 2 + 2] = struct.pack("<H", bits)
    rewrite(path, name, bytes(data), (10, columns))


def constant(path: Path, name: str, row: int, one: bytes) -> None:
    data = bytearray(payload(10, 8, 41))
    data[row * 16 : row * 16 + 16] = one * 8
    rewrite(path, name, bytes(data), (10, 8))


def flip(path: Path) -> None:
    data = bytearray((path / "aux_1.pt").read_bytes())
    data[710] ^= 1
    (path / "aux_1.pt").write_bytes(data)


def halve(path: Path) -> None:
    os.truncate(path / "aux_1.pt", (path / "aux_1.pt").stat().st_size // 2)


def equal(path: Path) -> None:
    rewrite(path, "aux_1", payload(10, 8, 0), (10, 8))


def integers(path: Path) -> None:
    for name in ("aux_0", "aux_1", "aux_2", "final"):
        rewrite(path, name, payload(10, 32, 0), (10, 8), "int64")
    meta = json.loads((path / "meta.json").read_text())
    (path / "meta.json").write_text(json.dumps({**meta, **({"dtype": "int64"} if "dtype" in meta else {})}))


Fault = tuple[str, Callable[[Path], Any], str, str]
FAULTS: list[Fault] = [
    ("a file cut in half (D03)", halve, "files", "aux_1.pt"),
    ("a view of more (D06)", lambda p: torchfile.write(p / "aux_0.pt", payload(160, 8, 0), (10, 8)), "files",
     "aux_0.pt: holds more than its rows: 2,560 bytes, 160 needed"),
    ("NaN in row 7 (D07)", lambda p: value(p, "aux_2", 7, 0x7FC0), "finite", "aux_2.pt: row 7 has NaN in 1 of 8"),
    ("Inf in row 9 (D07)", lambda p: value(p, "final", 9, 0xFF80), "finite", "final.pt: row 9 has Inf in 1 of 8"),
    ("a zero row (D07)", lambda p: constant(p, "aux_0", 4, b"\0\x80"), "not constant", "aux_0.pt: row 4 is all zero"),
    ("a constant row", lambda p: constant(p, "aux_0", 3, b"\1\x3f"), "not constant", "row 3 is one value throughout"),
    ("equal layers (D07)", equal, "layers differ", "aux_1.pt equals aux_0.pt"),
    ("float32 beside bfloat16 (D07)", lambda p: rewrite(p, "final", os.urandom(320), (10, 8), "float32"), "dtype",
     "final.pt is float32, not bfloat16"),
    ("no hidden states", lambda p: integers(p), "dtype", "no hidden states are int64"),
    ("a flipped bit", flip, "checksums", "aux_1.pt is not what was written"),
    ("a row too few", lambda p: rewrite(p, "aux_2", payload(9, 8, 2), (9, 8)), "tokens", "aux_2.pt has 9 rows"),
    ("other columns", lambda p: rewrite(p, "aux_2", payload(10, 4, 2), (10, 4)), "hidden size", "aux_2.pt has the"),
    ("one dimension", lambda p: rewrite(p, "aux_2", payload(10, 8, 2), (80,)), "hidden size", "aux_2.pt has the"),
    ("transposed", lambda p: torchfile.write(p / "aux_0.pt", payload(10, 8, 0), (10, 8), stride=(1, 10)), "files",
     "not its rows in order"),
    ("a layer file too many", lambda p: shutil.copy(p / "aux_0.pt", p / "aux_3.pt"), "layers", "4 aux files"),
    ("an unknown file", lambda p: shutil.copy(p / "aux_0.pt", p / "norm.pt"), "files", "norm.pt: meta.json knows"),
    ("a missing file", lambda p: (p / "aux_2.pt").unlink(), "files", "aux_2.pt: missing"),
    ("a directory as a file", lambda p: ((p / "final.pt").unlink(), (p / "final.pt").mkdir()), "files", "final.pt"),  # type: ignore[func-returns-value]
    ("no done", lambda p: (p / "done").unlink(), "files", "done is missing"),
    ("a done with content", lambda p: (p / "done").write_text("x"), "files", "done is not empty"),
]  # fmt: skip
META_FAULTS: list[tuple[dict[str, Any], str, str]] = [
    ({"counter": 7}, "counter and time", "counter 7 in req_1"),
    ({"captured_at_layers": [31, 3, 59]}, "layers", "ascending"),
    ({"captured_at_layers": [3, 31]}, "layers", "3 aux files, num_aux_layers 3, 2 layer ids"),
    ({"num_tokens": 11}, "tokens", "has 10 rows, meta.json says 11"),
    ({"hidden_size": 16}, "hidden size", "shape [10, 8]"),
    ({"num_tokens": None}, "tokens", "does not say"),
]
NEW_META_FAULTS: list[tuple[dict[str, Any], str, str]] = [
    ({"eagle_layer_ids": [3, 31, 59]}, "layers", "not one below"),
    ({"first_position": 4, "last_position": 13}, "tokens", "positions 4 to 13"),
    ({"ids_sha256": "00"}, "ids", "does not match ids_sha256"),
    ({"dtype": "float16"}, "dtype", "aux_0.pt is bfloat16, not float16"),
    ({"final_norm": "pre"}, "files", "final_norm can't be"),
    ({"final_norm": None}, "files", "lacks final_norm"),
    ({"files": {}}, "files", "no record of aux_0.pt"),
]


@pytest.mark.parametrize("make", [dump, forerunner])
@pytest.mark.parametrize(("damage", "check", "words"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_every_fault_is_flagged_by_its_check(
    tmp_path: Path, make: Callable[..., Path], damage: Callable[[Path], Any], check: str, words: str
) -> None:
    path = make(tmp_path, 1)
    damage(path)
    found = run(path)[check]
    assert found.verdict is Verdict.BAD, found
    assert words in found.found
    assert found.remedy


@pytest.mark.parametrize(
    ("make", "changed", "check", "words"),
    [*((make, *fault) for make in (dump, forerunner) for fault in META_FAULTS), *((dump, *f) for f in NEW_META_FAULTS)],
)
def test_metadata_that_lies_is_flagged(
    tmp_path: Path, make: Callable[..., Path], changed: dict[str, Any], check: str, words: str
) -> None:
    found = run(make(tmp_path, 1, **changed))[check]
    assert found.verdict is Verdict.BAD, found
    assert words in found.found


def test_a_clock_that_was_set_back_makes_no_dump_bad(tmp_path: Path) -> None:
    found = run(dump(tmp_path, 1, timestamp=time.time() + 7200))
    assert {check.name for check in found.values() if check.verdict is not Verdict.OK} == {"counter and time"}
    assert found["counter and time"].verdict is Verdict.WARN
    assert "in the future" in found["counter and time"].found


def test_a_dump_is_no_link_to_one(tmp_path: Path) -> None:
    (tmp_path / "req_1").symlink_to(dump(tmp_path / "elsewhere", 1))
    with pytest.raises(OSError, match="req_1"):
        Dump(str(tmp_path / "req_1"), 1)
    with pytest.raises(DumpError, match="no directory"):
        detail.show(str(tmp_path), 1)


def test_rows_that_no_prompt_has_are_not_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "_MOST_ROWS", 9)
    found = run(dump(tmp_path, 1))["finite"]
    assert found.verdict is Verdict.UNKNOWN
    assert "10 rows are no prompt's" in found.found


@pytest.mark.parametrize(
    ("changed", "check", "words"),
    [
        ({"ids": (1, 2, 3, 4, 5, 6, 7, 8, 9, 99)}, "ids", "not the ones that were sent"),
        ({"ids": (*IDS, 11, 12)}, "tokens", "10 rows for a prompt of 12 ids"),
        ({"layers": (2, 30, 58)}, "layers", "the profile wants [2, 30, 58]"),
        ({"rid": "other"}, "request", "'other' was sent"),
        ({"since": time.time() + 3600}, "counter and time", "older than the request"),
    ],
)
def test_a_dump_of_another_request_is_flagged(tmp_path: Path, changed: Any, check: str, words: str) -> None:
    found = run(dump(tmp_path, 1), expect(**changed))[check]
    assert found.verdict is Verdict.BAD
    assert words in found.found


# what a client that sends text, or more than the server takes, gets without being told
OTHER_IDS: dict[str, tuple[int, ...]] = {
    "a BOS in front": (0, *IDS),
    "no BOS": IDS[1:],
    "another template": (*IDS[:4], 77, 78, *IDS[6:]),
    "cut at the end": IDS[:6],
    "cut at the beginning": IDS[4:],
}


@pytest.mark.parametrize("ids", OTHER_IDS.values(), ids=OTHER_IDS)
def test_ids_that_are_not_those_sent_are_flagged(tmp_path: Path, ids: tuple[int, ...]) -> None:
    path = dump(tmp_path, 1, ids=ids)
    assert not [check for check in run(path).values() if check.verdict is not Verdict.OK], "right by itself"
    wrong = {name for name, check in run(path, expect()).items() if check.verdict is Verdict.BAD}
    assert wrong == ({"ids"} if len(ids) == len(IDS) else {"ids", "tokens"})


@pytest.mark.parametrize(
    ("dtype", "good", "nan"), [("float16", "<e", 0x7E00), ("float32", "<f", 0x7FC00000), ("bfloat16", "<H", 0x7FC0)]
)
def test_numbers_of_every_dtype_are_looked_at(tmp_path: Path, dtype: str, good: str, nan: int) -> None:
    size = struct.calcsize(good)
    data = bytearray(b"".join(struct.pack(good, 1 + i) for i in range(80)))
    torchfile.write(tmp_path / "x.pt", bytes(data), (10, 8), dtype)
    found = content.scan(tensorfile.read(str(tmp_path / "x.pt")))
    assert (found.not_finite, found.constant) == ("", "")
    data[8 * size * 5 : 8 * size * 5 + size] = nan.to_bytes(size, "little")
    torchfile.write(tmp_path / "x.pt", bytes(data), (10, 8), dtype)
    assert content.scan(tensorfile.read(str(tmp_path / "x.pt"))).not_finite == "row 5 has NaN in 1 of 8 values"


def test_rows_are_named_across_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "CHUNK", 50)  # three rows of 16 bytes
    path = dump(tmp_path, 1)
    data = bytearray(payload(10, 8, 40))
    for row in (7, 8, 9):
        data[row * 16 : row * 16 + 4] = struct.pack("<2H", 0x7FC0, 0x7F80)
    rewrite(path, "aux_2", bytes(data), (10, 8))
    assert run(path)["finite"].found == "aux_2.pt: row 7 has NaN and Inf in 2 of 8 values, and 2 more rows"


def test_without_numpy_the_numbers_are_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    found = run(dump(tmp_path, 1))
    for name in ("finite", "not constant"):
        assert (found[name].verdict, found[name].found) == (Verdict.UNKNOWN, f"numpy is missing in {sys.executable}")
    assert found["checksums"].verdict is found["layers differ"].verdict is Verdict.OK


def test_no_check_ever_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dump, "content", lambda self, name: 1 // 0)
    found = run(dump(tmp_path, 1))
    assert tuple(found) == NAMES
    assert found["finite"].verdict is Verdict.UNKNOWN
    assert "ZeroDivisionError" in found["finite"].found


@pytest.mark.parametrize("make", [dump, forerunner])
def test_garbage_in_any_file_never_raises(tmp_path: Path, make: Callable[..., Path]) -> None:
    path = make(tmp_path, 1)
    for name in sorted(entry.name for entry in path.iterdir()):
        good = (path / name).read_bytes()
        for bad in (b"", b"\0" * 300, good[: len(good) // 3], good * 3, b"{}", b"PK\5\6" + bytes(18)):
            (path / name).write_bytes(bad)
            shown = detail.show(str(tmp_path), 1)
            assert codec.decode(DumpDetail, json.loads(json.dumps(codec.encode(shown)))) == shown
        (path / name).write_bytes(good)


def test_files_that_vanish_while_they_are_read(tmp_path: Path) -> None:
    path = dump(tmp_path, 1)
    opened = Dump(str(path), 1)
    shutil.rmtree(path)
    found = {check.name: check for check in checks.run(opened)}
    assert found["finite"].verdict is Verdict.UNKNOWN
    assert "aux_0.pt was taken away" in found["finite"].found


def test_files_of_the_dumper_are_read(tmp_path: Path) -> None:
    data = payload(10, 8, 0)
    tensor = dumper.Tensor("aux_0", "bfloat16", (10, 8), memoryview(data))
    file = dumper.TensorFile(str(tmp_path), tensor)
    file.append(tensor)
    written = file.finish()
    found = tensorfile.read(str(tmp_path / "aux_0.pt"))
    assert (found.size, found.crc, found.shape) == (written.size, written.crc32, (10, 8))
    assert b"".join(found.chunks(1000)) == data


def test_the_state_before_the_norm_is_a_tensor_like_the_others(tmp_path: Path) -> None:
    path = dump(tmp_path, 1)
    rewrite(path, "final_prenorm", payload(10, 8, 9), (10, 8))
    assert {check.verdict for check in run(path, expect()).values()} == {Verdict.OK}
    rewrite(path, "final_prenorm", payload(10, 8, 0), (10, 8))
    assert "final_prenorm.pt equals aux_0.pt" in run(path)["layers differ"].found


def test_show_tells_everything(tmp_path: Path) -> None:
    dump(tmp_path, 5)
    shown = detail.show(str(tmp_path), 5)
    assert shown.row.state is DumpState.COMPLETE
    assert shown.path == str(tmp_path / "req_5")
    assert shown.meta["rid"] == "rid-5"
    assert [(file.name, file.expected, file.payload, file.shape, file.problem) for file in shown.files] == [
        *((f"aux_{i}.pt", 160, 160, (10, 8), "") for i in range(3)),
        ("final.pt", 160, 160, (10, 8), ""),
        ("input_ids.pt", 80, 80, (10,), ""),
        ("done", None, None, (), ""),
        ("meta.json", None, None, (), ""),
    ]
    assert tuple(check.name for check in shown.checks) == NAMES


def test_show_names_what_is_missing(tmp_path: Path) -> None:
    (dump(tmp_path, 5) / "aux_2.pt").unlink()
    shown = detail.show(str(tmp_path), 5)
    assert shown.row.state is DumpState.CORRUPT
    assert [file.name for file in shown.files if file.problem == "missing"] == ["aux_2.pt"]


def test_show_of_what_is_gone_or_no_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # D10
    assert detail.show(str(tmp_path), 9).row.state is DumpState.GONE
    (tmp_path / "req_7").write_text("a file")
    with pytest.raises(DumpError, match="req_7"):
        detail.show(str(tmp_path), 7)
    dump(tmp_path, 8)

    def consumed(opened: Dump) -> Iterator[Check]:
        shutil.rmtree(opened.path)
        return iter(())

    monkeypatch.setattr(checks, "run", consumed)
    shown = detail.show(str(tmp_path), 8)
    assert (shown.row.state, shown.checks) == (DumpState.GONE, ())


def test_show_of_one_being_written(tmp_path: Path) -> None:
    dump(tmp_path, 3, name=f".req_3.{os.getpid()}", done=False)
    shown = detail.show(str(tmp_path), 3)
    assert (shown.row.state, shown.checks) == (DumpState.WRITING, ())
    assert shown.path.endswith(f".req_3.{os.getpid()}")
