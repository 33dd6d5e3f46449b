"""torch and the reader agree: what torch writes is read, and what the tests write is what torch would have written."""

from __future__ import annotations

import random
import subprocess
import zipfile
import zlib
from pathlib import Path

import pytest

from remote.dumper.archive import Tensor, TensorFile
from remote.dumps import tensorfile
from remote.dumps.archive import TensorProblem
from tests import torchfile

SAVE = """
import sys, torch
values = torch.arange(80).reshape(10, 8)
for dtype in ("bfloat16", "float16", "float32", "int64"):
    torch.save(values.to(getattr(torch, dtype)), f"{sys.argv[1]}/{dtype}.pt")
torch.save(torch.zeros(10, 7168, dtype=torch.bfloat16), f"{sys.argv[1]}/aux_0.pt")
torch.save(torch.zeros(160, 8, dtype=torch.bfloat16)[3:13], f"{sys.argv[1]}/view.pt")
torch.save(torch.zeros(10, 8).t(), f"{sys.argv[1]}/transposed.pt")
torch.save({"a": values}, f"{sys.argv[1]}/dict.pt")
torch.save(torch.nn.Parameter(values.float()), f"{sys.argv[1]}/parameter.pt")
torch.save(values, f"{sys.argv[1]}/legacy.pt", _use_new_zipfile_serialization=False)
"""
LOAD = """
import sys, torch
for dtype in ("bfloat16", "float16", "float32", "int64"):
    wanted = torch.arange(80).reshape(10, 8).to(getattr(torch, dtype))
    for layout in ("new", "old"):
        found = torch.load(f"{sys.argv[1]}/{layout}/{dtype}.pt", weights_only=True)
        assert found.dtype == wanted.dtype and torch.equal(found, wanted), (dtype, layout)
"""
SAME = """
import pathlib, sys, torch
for path in pathlib.Path(sys.argv[1]).glob("*.pt"):
    found = torch.load(path, weights_only=True)
    assert found.view(torch.uint8).numpy().tobytes() == path.with_suffix(".raw").read_bytes(), path
"""
TENSORS = {
    "bfloat16": ((10, 8), 0), "float16": ((10, 8), 0), "float32": ((10, 8), 0), "int64": ((10, 8), 0),
    "aux_0": ((10, 7168), 0), "view": ((10, 8), 24),
}  # fmt: skip


@pytest.fixture(scope="module")
def saved(engine_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    subprocess.run([engine_python, "-c", SAVE, folder], check=True, timeout=120)
    return folder


@pytest.mark.parametrize("name", TENSORS)
def test_the_tests_files_are_byte_for_byte_those_of_torch(
    saved: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape, offset = TENSORS[name]
    found = tensorfile.read(str(saved / f"{name}.pt"))
    with zipfile.ZipFile(saved / f"{name}.pt") as archive:
        monkeypatch.setattr(torchfile, "SERIAL", archive.read(f"{name}/.data/serialization_id").decode())
    torchfile.write(tmp_path / f"{name}.pt", b"".join(found.chunks(1 << 20)), shape, found.dtype, offset=offset)
    assert (tmp_path / f"{name}.pt").read_bytes() == (saved / f"{name}.pt").read_bytes()
    assert (found.shape, found.contiguous) == (shape, offset == 0)


def test_torch_reads_what_the_tests_write(saved: Path, tmp_path: Path, engine_python: Path) -> None:
    for dtype in torchfile.STORAGES:
        payload = b"".join(tensorfile.read(str(saved / f"{dtype}.pt")).chunks(1 << 20))
        for layout in ("new", "old"):
            (tmp_path / layout).mkdir(exist_ok=True)
            torchfile.write(tmp_path / layout / f"{dtype}.pt", payload, (10, 8), dtype, old=layout == "old")
    subprocess.run([engine_python, "-c", LOAD, tmp_path], check=True, timeout=120)


def test_of_a_damaged_file_torch_loads_what_was_looked_at(saved: Path, tmp_path: Path, engine_python: Path) -> None:
    """Each byte but those of the payload changed, in what torch writes and in what the dumper writes."""
    rows = Tensor("own", "float32", (4, 8), memoryview(bytes(range(128))))
    own = TensorFile(str(saved), rows)
    own.append(rows)
    own.finish()
    dice, taken = random.Random(7), 0
    for name in ("own", "float32"):
        good, whole = (saved / f"{name}.pt").read_bytes(), tensorfile.read(str(saved / f"{name}.pt"))
        for at in (*range(whole.offset), *range(whole.offset + whole.payload, whole.size)):
            path = tmp_path / f"{name}_{at}.pt"
            path.write_bytes(good[:at] + bytes([good[at] ^ 1 << dice.randrange(8)]) + good[at + 1 :])
            raw = looked_at(path)
            if raw is None:
                path.unlink()
            else:
                path.with_suffix(".raw").write_bytes(raw)
                taken += 1
    assert taken > 300, "padding, times and versions matter to nobody"
    subprocess.run([engine_python, "-c", SAME, tmp_path], check=True, timeout=120)


def looked_at(path: Path) -> bytes | None:
    """The payload, where nothing is found wrong with the file."""
    try:
        found = tensorfile.read(str(path))
        raw = b"".join(map(bytes, found.chunks(1 << 20)))
    except TensorProblem:
        return None
    return raw if found.contiguous and found.payload == found.wanted and found.crc == zlib.crc32(raw) else None


@pytest.mark.parametrize(
    ("name", "words"), [("dict", "something else"), ("parameter", "_rebuild_parameter"), ("legacy", "no zip directory")]
)
def test_what_is_no_plain_tensor_is_refused(saved: Path, name: str, words: str) -> None:
    with pytest.raises(TensorProblem, match=words):
        tensorfile.read(str(saved / f"{name}.pt"))


def test_a_transposed_tensor_is_seen(saved: Path) -> None:
    assert not tensorfile.read(str(saved / "transposed.pt")).contiguous
