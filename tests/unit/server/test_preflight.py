"""The preflight: model and weights, room, GPUs, patch, interpreter; each check good and bad."""

from __future__ import annotations

import dataclasses
import json
import struct
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from remote import interpreter
from remote.patch import operations as patch
from remote.server import model, preflight
from remote.telemetry import gpus, shm
from remote.wire.host import Interpreter
from remote.wire.patch import PatchState, PatchStatus
from remote.wire.plan import Check, Verdict
from remote.wire.target import Target
from remote.wire.telemetry import Gpu, GpuSnapshot, MigDevice, ShmSnapshot
from tests.unit.server.conftest import StandIn

KIMI = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "text_config": {"num_hidden_layers": 61, "hidden_size": 7168},
}


def safetensors(path: Path, payload: int, missing: int = 0) -> None:
    header = json.dumps({"__metadata__": {}, "w": {"dtype": "U8", "shape": [payload], "data_offsets": [0, payload]}})
    path.write_bytes(struct.pack("<Q", len(header)) + header.encode() + bytes(payload - missing))


ODD_OFFSETS: tuple[Any, ...] = (None, 5, [], [0], [0, "1"], [0, -1], [0, 1.5], [0, 1 << 200], {})
ODD_ENTRIES = (7, [], {}, *({"dtype": "U8", "shape": [1], "data_offsets": odd} for odd in ODD_OFFSETS))
ODD_HEADERS: tuple[Any, ...] = (None, [], 7, *({"w": entry} for entry in ODD_ENTRIES))


def header_alone(path: Path, header: object) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)


def sharded(folder: Path) -> Path:
    names = [f"model-{n}-of-3.safetensors" for n in (1, 2, 3)]
    (folder / model.INDEX).write_text(json.dumps({"weight_map": {f"w{i}": name for i, name in enumerate(names)}}))
    for name in names:
        safetensors(folder / name, 1000)
    return folder


@pytest.mark.parametrize(
    ("config", "layers", "verdict", "says"),
    [
        (KIMI, (3, 31, 59), Verdict.OK, "61 layers of 7168"),
        (KIMI, (3, 31, 61), Verdict.BAD, "layers 0 to 60; dump.layers asks for 61"),
        (KIMI, (-1,), Verdict.BAD, "asks for -1"),
        ({"architectures": ["X"]}, (3,), Verdict.UNKNOWN, "num_hidden_layers"),
        ({"num_hidden_layers": "many"}, (3,), Verdict.UNKNOWN, "num_hidden_layers"),
        ([], (3,), Verdict.BAD, "no config.json"),
        (None, (3,), Verdict.BAD, "no config.json"),
    ],
)
def test_the_model_and_its_layers(
    tmp_path: Path, config: object, layers: tuple[int, ...], verdict: Verdict, says: str
) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps(config))
    found = model.check(str(tmp_path), layers)
    assert found.verdict is verdict
    assert says in found.found


def test_a_name_of_the_hub_is_no_folder_and_said_so() -> None:
    assert model.check("moonshotai/Kimi-K2.5", (3,)).verdict is Verdict.WARN
    assert model.check("/no/such/folder", (3,)).verdict is Verdict.BAD


def test_whole_weights_are_ok(tmp_path: Path) -> None:
    found = model.check_weights(str(sharded(tmp_path)))
    assert (found.verdict, found.found.split(",")[0]) == (Verdict.OK, "3 files")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda path: path.unlink(), "is missing"),
        (lambda path: path.write_bytes(b""), "is empty"),
        (lambda path: path.write_bytes(b"\xff" * 100), "damaged header"),
        (lambda path: path.write_bytes(b"abc"), "damaged header"),
        *((lambda path, odd=odd: header_alone(path, odd), "damaged header") for odd in ODD_HEADERS),
        (lambda path: safetensors(path, 1000, missing=400), "bytes of"),
    ],
)
def test_weights_that_are_not_whole_are_named(tmp_path: Path, damage: object, says: str) -> None:
    assert callable(damage)
    damage(sharded(tmp_path) / "model-2-of-3.safetensors")
    found = model.check_weights(str(tmp_path))
    assert found.verdict is Verdict.BAD
    assert "model-2-of-3.safetensors" in found.found
    assert says in found.found


def test_no_weights_at_all(tmp_path: Path) -> None:
    assert model.check_weights(str(tmp_path)).verdict is Verdict.BAD


def check(target: Target, name: str) -> Check:
    return next(check for check in preflight.examine(target).checks if check.name == name)


def test_one_page_in_good_order_and_in_time(stand_in: StandIn) -> None:
    began = time.thread_time()
    report = preflight.examine(stand_in.target)
    assert report.ok
    assert [check.name for check in report.checks] == [
        "interpreter", "patch", "flags", "dumping", "health", "server", "port", "model", "weights", "room", "gpus",
    ]  # fmt: skip
    assert all(check.remedy for check in report.checks if check.verdict is Verdict.BAD)
    assert time.thread_time() - began < 2


def test_s01_an_interpreter_without_sglang_is_named_with_one_that_has_it(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Interpreter("/venv/bin/python3", "3.11.2", "0.5.9", "/venv/sglang/__init__.py")
    monkeypatch.setattr(interpreter, "with_sglang", lambda: [other])
    found = check(dataclasses.replace(stand_in.target, env={}), "interpreter")
    assert found.verdict is Verdict.BAD
    assert sys.executable in found.found
    assert "/venv/bin/python3 (0.5.9)" in found.remedy


@pytest.mark.parametrize(
    ("state", "verdict"),
    [
        (PatchState.APPLIED, Verdict.OK),
        (PatchState.FOREIGN, Verdict.WARN),
        (PatchState.CLEAN, Verdict.BAD),
        (PatchState.OUTDATED, Verdict.BAD),
        (PatchState.DRIFTED, Verdict.BAD),
    ],
)
def test_the_patch_must_be_applied(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, state: PatchState, verdict: Verdict
) -> None:
    monkeypatch.setattr(patch, "status", lambda _: PatchStatus(state, "python", state.value))
    assert check(stand_in.target, "patch").verdict is verdict


def test_no_patch_is_offered_where_there_is_nothing_to_apply_it_to(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    depths = (Check("text", Verdict.UNKNOWN, "nothing to look at", "Set server.model_path."),)
    status = PatchStatus(PatchState.UNKNOWN_MODEL, "python", "no config.json", depths=depths)
    monkeypatch.setattr(patch, "status", lambda _: status)
    assert check(stand_in.target, "patch").remedy == "Set server.model_path."


@pytest.mark.parametrize(
    ("free", "headroom", "verdict", "says"),
    [
        (10 << 30, None, Verdict.OK, "free"),
        (10 << 30, 40 << 20, Verdict.OK, "left of the memory limit"),
        (10 << 20, None, Verdict.WARN, "room for 2 requests"),
        (1 << 20, None, Verdict.BAD, "room for 0 requests"),
    ],
)
def test_room_is_counted_in_requests(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, free: int, headroom: int | None, verdict: Verdict, says: str
) -> None:
    seen = ShmSnapshot(0.0, "/dev/shm", size=64 << 30, free=free, cgroup_headroom=headroom)
    monkeypatch.setattr(shm, "read", lambda _: seen)
    found = check(stand_in.target, "room")  # 8192 rows of 64 columns in 2 bytes, 4 tensors, and ids: 4.3 MB
    assert found.verdict is verdict
    assert says in found.found
    assert "dead" not in found.found + found.remedy


def test_room_that_dead_processes_hold_is_named(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = ShmSnapshot(0.0, "/dev/shm", size=64 << 30, free=1 << 20, stale=33_600_000_000, stale_files=14)
    monkeypatch.setattr(shm, "read", lambda _: seen)
    found = check(stand_in.target, "room")
    assert "33.6 GB more are held by 14 segments of dead processes" in found.found
    assert found.remedy.startswith("hsconsole shm clean removes what dead processes left")


def some(*used: int, lost: int = 0) -> GpuSnapshot:
    good = tuple(Gpu(i, "H200", memory_used=mib << 20, memory_total=1 << 37) for i, mib in enumerate(used))
    return GpuSnapshot(0.0, (*good, *(Gpu(len(used) + i, problem="Unknown Error") for i in range(lost))))


def one_gpu(**more: Any) -> GpuSnapshot:
    return GpuSnapshot(0.0, (Gpu(0, "H200", **more),))


@pytest.mark.parametrize(
    ("seen", "tp", "verdict", "says"),
    [
        (some(3, 3), 2, Verdict.OK, "2 free"),
        (some(3, 90_000), 2, Verdict.BAD, "GPU 1 (94.4 GB, no process of it is shown here)"),
        (one_gpu(memory_used=94 << 30, processes=0), 1, Verdict.BAD, "GPU 0 (101 GB)"),
        (one_gpu(absent=("memory: Not Supported",)), 1, Verdict.WARN, "0 free; GPU 0: memory in use is not known"),
        (one_gpu(memory_used=0, mig=(MigDevice(0), MigDevice(1))), 1, Verdict.WARN, "MIG splits it into 2"),
        (one_gpu(memory_used=0, mig=()), 1, Verdict.WARN, "MIG splits it into 0"),
        (some(3, 90_000), 1, Verdict.WARN, "GPU 1"),
        (some(3), 2, Verdict.BAD, "1 GPUs for tp 2"),
        (some(3, lost=1), 2, Verdict.BAD, "Unknown Error"),
        (some(3, lost=1), 1, Verdict.WARN, "Unknown Error"),
        (GpuSnapshot(0.0, problem=gpus.NO_LIBRARY), 1, Verdict.WARN, "no NVIDIA library"),
    ],
)
def test_gpus_must_be_free(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, seen: GpuSnapshot, tp: int, verdict: Verdict, says: str
) -> None:
    monkeypatch.setattr(gpus, "read", lambda: seen)
    found = check(dataclasses.replace(stand_in.target, tp=tp, flags=("--load-format dummy",)), "gpus")
    assert found.verdict is verdict
    assert says in found.found


def test_a_running_server_is_said(stand_in: StandIn) -> None:
    stand_in.says("200")
    with stand_in.by_hand() as child:
        while check(stand_in.target, "port").verdict is Verdict.OK:
            time.sleep(0.05)
        found = check(stand_in.target, "server")
        port = check(stand_in.target, "port")
        child.kill()
    assert (found.verdict, port.verdict) == (Verdict.BAD, Verdict.BAD)
    assert f"pid {child.pid}, not started by hsconsole" in found.found
    assert "this server's" in port.found


def test_variables_that_contradict_dumping_are_refused(stand_in: StandIn) -> None:
    env = {**stand_in.target.env, "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "true"}
    found = check(dataclasses.replace(stand_in.target, env=env), "dumping")
    assert found.verdict is Verdict.BAD
    assert "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION" in found.found


def declare(stand_in: StandIn, *fields: str) -> Path:
    """Have the stand-in's release know more flags. Its package."""
    package = stand_in.folder / "lib" / "sglang"
    with (package / "srt" / "server_args.py").open("a") as file:
        file.writelines(f"    {field}: A[str, 'x'] = None\n" for field in fields)
    return package


def test_what_the_release_and_the_model_allow_is_read_from_them(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = declare(stand_in, "dp_size", "enable_dp_attention", "enforce_disable_flashinfer_allreduce_fusion")
    config = {"architectures": ["DeepseekV3ForCausalLM"], "num_hidden_layers": 61, "hidden_size": 64}
    Path(stand_in.target.model_path, "config.json").write_text(json.dumps(config))
    python = dataclasses.replace(
        interpreter.inspect(stand_in.target.python, stand_in.target.env), sglang_version="0.5.9"
    )
    monkeypatch.setattr(interpreter, "inspect", lambda *_: python)
    flags = ("--chunked-prefill-size=2048", "--dp 2", "--enable-dp-attention")
    target = dataclasses.replace(stand_in.target, tp=2, flags=(*stand_in.target.flags, *flags))
    found = [one for one in preflight.examine(target).checks if one.name == "dumping"]
    assert ["--chunked-prefill-size" in found[0].found, "--enable-dp-attention" in found[1].found] == [True, True]
    assert {one.verdict for one in found} == {Verdict.BAD}
    (package / "srt" / "model_executor").mkdir()
    (package / "srt" / "model_executor" / "forward_batch_info.py").write_text("orig_seq_lens: int")
    monkeypatch.setattr(interpreter, "inspect", lambda *_: dataclasses.replace(python, sglang_version="0.5.23"))
    assert check(target, "dumping").verdict is Verdict.OK
    assert "as many parts as ranks" in check(dataclasses.replace(target, tp=4), "dumping").found


def test_a_release_that_fuses_by_itself_is_said(stand_in: StandIn) -> None:
    two = dataclasses.replace(stand_in.target, tp=2)
    assert "fusion" not in {one.name for one in preflight.examine(two).checks}
    declare(stand_in, "enable_flashinfer_allreduce_fusion")
    assert "the dumper completes them" in check(two, "fusion").found


def test_a_draft_that_this_release_captures_otherwise_is_refused(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:  # D08
    python = dataclasses.replace(interpreter.inspect(stand_in.target.python), sglang_version="0.5.14")
    monkeypatch.setattr(interpreter, "inspect", lambda *_: python)
    target = dataclasses.replace(stand_in.target, layers=(3, 31, 59), eagle_layer_ids=(2, 30, 58))
    found = check(target, "draft's layers")
    assert found.verdict is Verdict.BAD
    assert "with eagle ids [2, 30, 58] captures before [2, 30, 58]" in found.found
    named = dataclasses.replace(target, eagle_layer_ids=None)
    assert "draft's layers" not in {one.name for one in preflight.examine(named).checks}
