"""What crosses the wire comes out as it went in, and what does not fit is named by its place."""

from __future__ import annotations

import dataclasses
import json
import threading
from typing import Any

import pytest

from console.client import AgentClient
from console.heartbeat import Heartbeat
from remote.wire import frames
from remote.wire.codec import decode, encode
from remote.wire.dumps import DumpCounts, DumpRow, DumpsChange, DumpState
from remote.wire.errors import ErrorReport, OperatorError, WireError
from remote.wire.host import Pong
from remote.wire.patch import MarkedLine, PatchState, PatchStatus
from remote.wire.plan import Check, Plan, Step, Verdict
from remote.wire.server import LoadProgress, Phase, ProcessInfo, ServerState
from remote.wire.target import Target
from remote.wire.telemetry import Gpu, GpuSnapshot, ShmSnapshot

VALUES = [
    Target(python="/p", model_path="/m", env={"A": "1"}, flags=("--x", "--y=1"), layers=(1, 2)),
    Plan("patch.apply", "t", True, (Step("s", "c"),), ("l",), ("n",), {"sha": "x", "pids": [[1, 2]]}, "+a"),
    PatchStatus(
        PatchState.FOREIGN,
        "/p",
        "forerunner's",
        lines=(MarkedLine(26, "import json as _json_hs"),),
        depths=(Check("text", Verdict.BAD, "found", "do"),),
    ),
    ServerState(
        Phase.LOADING,
        "shards",
        1.5,
        8000,
        load=LoadProgress("shards", 34.0, 55, 163, 35.0),
        processes=(ProcessInfo(1, 2, "python"),),
    ),
    GpuSnapshot(1.0, (Gpu(0, "A", 1, None), Gpu(1, problem="lost"))),
    DumpsChange(1.0, True, (DumpRow(8, DumpState.COMPLETE, 2.0, 10, 5, (3, 31, 59), None),), (1,), DumpCounts(1)),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_round_trip(value: Any) -> None:
    assert decode(type(value), json.loads(json.dumps(encode(value)))) == value


def test_a_newer_half_may_say_more() -> None:
    data = encode(Check("n", Verdict.OK, "f")) | {"later": 1}
    assert decode(Check, data) == Check("n", Verdict.OK, "f")


def test_what_is_left_out_has_its_default() -> None:
    assert decode(Check, {"name": "n", "verdict": "ok", "found": "f"}).remedy == ""


def test_whole_numbers_are_fine_where_fractions_are_meant() -> None:
    assert decode(Gpu, {"index": 0, "power": 400}).power == 400.0


@pytest.mark.parametrize(
    ("kind", "data", "place"),
    [
        (Check, {"name": 1, "verdict": "ok", "found": ""}, "Check.name"),
        (Check, {"name": "n", "verdict": "fine", "found": ""}, "Check.verdict"),
        (Check, {"name": "n"}, "Check"),
        (Check, [], "Check"),
        (GpuSnapshot, {"at": 1.0, "gpus": [{"index": "0"}]}, "GpuSnapshot.gpus[0].index"),
        (GpuSnapshot, {"at": 1.0, "gpus": {}}, "GpuSnapshot.gpus"),
        (Gpu, {"index": True}, "Gpu.index"),
        (Target, {"python": "p", "model_path": "m", "env": {"A": 1}}, "Target.env.A"),
    ],
)
def test_what_does_not_fit_is_named(kind: type, data: Any, place: str) -> None:
    with pytest.raises(WireError) as caught:
        decode(kind, data)
    assert caught.value.what.startswith(place)


@pytest.mark.parametrize("line", [b"", b"[1]", b"hello\n", b'{"id": 1', b"\xff\xfe", b"12"])
def test_noise_is_no_frame(line: bytes) -> None:
    with pytest.raises(WireError):
        frames.parse(line)


def test_frames_are_one_ascii_line_whatever_they_hold() -> None:
    hostile = "read [/dev/shm] failed\n\x1b[31m\x00 " + b"\xff".decode("utf-8", "surrogateescape")
    line = frames.event(7, Check("n", Verdict.OK, hostile))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert line.isascii()
    assert frames.parse(line)["event"]["found"] == hostile


def test_an_error_keeps_its_words() -> None:
    class Full(OperatorError):
        id = "shm.full"
        title = "Shared memory is full"

    report = Full("/dev/shm has 0 bytes free", "Delete dumps").report()
    frame = frames.parse(frames.error(3, report))
    assert decode(ErrorReport, frame["error"]) == report
    assert dataclasses.asdict(report)["id"] == "shm.full"


NO_NUMBERS = ("NaN", "Infinity", "-Infinity", "1e999", "1e300", str(10**400), "true", '"1"', "null", "[]")


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_a_number_that_nobody_can_show_is_refused(text: str) -> None:
    """JSON, as Python reads it, has all of these."""
    with pytest.raises(WireError, match=r"Pong\.now: "):
        decode(Pong, {"now": json.loads(text)})
    with pytest.raises(WireError, match=r"ShmSnapshot\.size: "):
        decode(ShmSnapshot, {"at": 0, "path": "", "size": json.loads(text)})


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_a_heartbeat_that_is_none_ends_the_link(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not, without a word, the thread that asks for it."""
    client, lost = object.__new__(AgentClient), list[str]()
    client._over, client.heartbeat = threading.Event(), Heartbeat()
    monkeypatch.setattr(client, "call", lambda *_, **__: {"now": json.loads(text)}, raising=False)
    monkeypatch.setattr(client, "_lose", lost.append)
    client._beat()
    assert "Pong.now" in lost[0]
