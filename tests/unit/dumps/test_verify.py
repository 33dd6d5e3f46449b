"""Many dumps verified at once: each fault by the level that claims it, and nothing passes that was not looked at."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from remote.dumps import calibration, content, detail, verify, worker
from remote.dumps.dump import Dump
from remote.wire.codec import decode, encode
from remote.wire.dumps import Level, Verified, VerifyProgress, VerifyResult, VerifySummary
from remote.wire.errors import DumpError
from remote.wire.plan import Verdict
from tests import dumpfaults
from tests.dumpfaults import FAULTS, LEVELS
from tests.dumpfolder import dump, forerunner

COLUMNS = 32
LENGTHS = {"aux_0": 4.0, "aux_1": 6.0, "aux_2": 9.0, "final": 30.0}  # of rows, per root of columns


def written(folder: Path, number: int, tokens: int = 40) -> Path:
    """A dump of a prompt of its own, float32, with rows of about the lengths above and a long first one."""
    dice = np.random.default_rng(number)
    ids = [int(one) for one in dice.integers(0, 5000, tokens)]
    path = dump(folder, number, ids=ids, columns=COLUMNS, dtype="float32")
    for name, length in LENGTHS.items():
        rows = dice.standard_normal((tokens, COLUMNS)) * length * np.exp(0.05 * dice.standard_normal((tokens, 1)))
        rows[0] *= 20 if name != "final" else 1
        dumpfaults.save(path, name, rows.astype("<f4"), "float32")
    return path


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where norms are kept: none yet."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    for number in range(12):
        written(folder, number)
    return folder


@pytest.fixture
def folder(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "dumps"))


def run(
    folder: Path, level: str = "content", numbers: list[int] | None = None
) -> tuple[VerifySummary, dict[int, VerifyResult]]:
    found: dict[int, VerifyResult] = {}

    def emit(progress: VerifyProgress) -> None:
        sent = decode(VerifyProgress, json.loads(json.dumps(encode(progress))))
        found.update({result.number: result for result in sent.results})
        assert len(found) == sent.done <= sent.total

    names = verify.names_of(str(folder), numbers)
    return verify.verify(str(folder), "/model", names, Level(level), emit, threading.Event()), found


@pytest.mark.parametrize("level", ["structure", "content"])
def test_good_dumps_are_ok(folder: Path, level: str) -> None:
    summary, found = run(folder, level)
    assert summary.ok, found
    assert summary.counts == {"ok": 12}
    assert set(found) == set(range(12))
    assert summary.bytes == sum(file.stat().st_size for file in folder.glob("req_*/*"))


SHALLOW = {fault.__name__: fault for fault, level in FAULTS.items() if level != "meaning"}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, VerifyResult]]:
    """level → fault → what it said of a dump with this fault, among as many good ones."""
    folder = tmp_path_factory.mktemp("faulty")
    faults = dict(enumerate(SHALLOW.values()))
    for number in range(3 * len(faults)):
        path = written(folder, number)
        if number in faults:
            faults[number](path)
    found = {level: run(folder, level)[1] for level in LEVELS[:2]}
    for results in found.values():
        good = {result.verdict for number, result in results.items() if number not in faults}
        assert good == {Verified.OK}
    return {
        level: {fault.__name__: results[number] for number, fault in faults.items()} for level, results in found.items()
    }


@pytest.mark.parametrize("name", SHALLOW)
def test_each_fault_is_found_by_the_level_that_claims_it(faulty: dict[str, dict[str, VerifyResult]], name: str) -> None:
    claimed = LEVELS.index(FAULTS[SHALLOW[name]])
    for at, level in enumerate(LEVELS[:2]):
        result = faulty[level][name]
        assert (result.verdict in (Verified.BAD, Verified.WARN)) == (at >= claimed), result
        assert all(check.found and check.remedy for check in result.checks if check.verdict is Verdict.BAD), result


def test_a_dump_that_was_taken_away_is_gone_and_no_fault(folder: Path) -> None:  # D10
    shutil.rmtree(folder / "req_3")
    summary, found = run(folder, "content", [2, 3, 4])
    assert (found[3].verdict, found[3].checks) == (Verified.GONE, ())
    assert summary.counts == {"unverified": 2, "gone": 1}, "two dumps teach no norms"


COUNTERS = {
    "claimed and taken away": (b"%020d\n" % 78, 77, "gone", True),
    "never claimed": (b"%020d\n" % 77, 77, "unverified", False),
    "no counter": (None, 77, "gone", True),
    "no number": (b"x" * 21, 77, "gone", True),
    "larger than a counter": (b"1" * 100, 77, "gone", True),
}


@pytest.mark.parametrize("case", COUNTERS)
def test_a_number_that_no_dump_ever_had_is_not_taken_for_one_that_is_gone(case: str, tmp_path: Path) -> None:
    kept, number, verdict, ok = COUNTERS[case]
    if kept is not None:
        (tmp_path / ".counter").write_bytes(kept)
    summary, results = run(tmp_path, "structure", [number])
    assert (summary.counts, summary.ok) == ({verdict: 1}, ok)
    told = "there is no request 77 yet; the newest is req_76"
    assert [check.found for check in results[number].checks] == ([] if ok else [told])


SHOWN = {
    "claimed": (b"%020d\n" % 78, "req_77 is not there: taken away since, or never written"),
    "never claimed": (b"%020d\n" % 77, "there is no request 77 yet; the newest is req_76"),
    "nothing was claimed": (b"%020d\n" % 0, "there is no request 77 yet: nothing was dumped so far"),
    "no counter": (None, "req_77 is not there"),  # those above req_3 may have been taken away
    "no number": (b"x" * 21, "req_77 is not there"),
}


@pytest.mark.parametrize("case", SHOWN)
def test_what_is_not_there_is_told_by_what_is_known_of_its_number(case: str, tmp_path: Path) -> None:
    kept, note = SHOWN[case]
    if kept is not None:
        (tmp_path / ".counter").write_bytes(kept)
    (tmp_path / "req_3").mkdir()
    assert detail.show(str(tmp_path), 77).row.note == note
    assert detail.show(str(tmp_path / "none"), 77).row.note == "req_77 is not there"


def test_a_folder_that_is_not_there_yet_says_who_makes_it(tmp_path: Path) -> None:
    with pytest.raises(DumpError, match="yet, so no dump") as raised:
        verify.names_of(str(tmp_path / "none"), [8])
    assert "hsconsole server start" in raised.value.remedy


def test_dumps_deleted_while_they_are_verified_are_ok_or_gone(folder: Path) -> None:
    for number in range(12, 300):
        shutil.copytree(folder / f"req_{number % 12}", folder / f"req_{number}")
        dumpfaults.change(folder / f"req_{number}", counter=number)
    names = verify.names_of(str(folder), None)
    shutil.rmtree(folder / "req_299")
    consumer = threading.Thread(target=consume, args=(folder, names[:299]))
    consumer.start()
    summary = verify.verify(str(folder), "/model", names, Level.STRUCTURE, lambda _: None, threading.Event())
    consumer.join()
    assert summary.ok
    assert set(summary.counts) <= {"ok", "gone", "writing"}, "without its done a dump looks as if it was being written"
    assert sum(summary.counts.values()) == 300


def consume(folder: Path, names: list[str]) -> None:
    for name in reversed(names):
        shutil.rmtree(folder / name)


def test_states_that_are_no_finished_dump(folder: Path) -> None:
    dump(folder, 20, done=False)
    dump(folder, 21, done=False)
    old = time.time() - 3600
    for path in (folder / "req_21", *(folder / "req_21").iterdir()):
        os.utime(path, (old, old))
    error = dump(folder, 22, done=False)
    (error / "error").write_text(json.dumps({"cause": "no room", "detail": "/dev/shm is full"}))
    (folder / "req_23").touch()
    dump(folder, 24, name=".req_24.999999999", done=False)
    summary, found = run(folder, "structure")
    told = {number: result.verdict.value for number, result in found.items() if number >= 20}
    assert told == {20: "writing", 21: "bad", 22: "error", 23: "bad", 24: "bad"}
    assert "no room: /dev/shm is full" in found[22].checks[0].found
    assert not summary.ok


def test_without_numpy_content_is_not_verified(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(blocked(folder)))
    monkeypatch.setattr(content, "numpy", lambda: None)
    summary, found = run(folder)
    assert summary.counts == {"unverified": 12}
    assert not summary.ok
    assert "numpy is missing" in found[0].checks[0].found
    assert run(folder, "structure")[0].ok, "which needs the standard library alone"


def blocked(folder: Path) -> Path:
    """A place from which `import numpy` fails."""
    place = folder.parent / "blocked"
    place.mkdir()
    (place / "numpy.py").write_text("raise ImportError('none here')")
    return place


def test_too_few_dumps_teach_no_norms(tmp_path: Path) -> None:
    for number in range(7):
        written(tmp_path, number)
    summary, found = run(tmp_path)
    assert summary.counts == {"unverified": 7}
    assert [check.name for check in found[0].checks] == ["norms"]


def test_the_same_prompt_again_teaches_nothing(tmp_path: Path) -> None:
    for number in range(20):
        shutil.copytree(written(tmp_path, 100) if number == 0 else tmp_path / "req_0", tmp_path / f"req_{number}")
        dumpfaults.change(tmp_path / f"req_{number}", counter=number)
    shutil.rmtree(tmp_path / "req_100")
    assert run(tmp_path)[0].counts == {"unverified": 20}


def test_bad_dumps_among_those_learned_from_change_nothing(folder: Path) -> None:
    for number in (1, 4, 7):
        dumpfaults.swapped_layers(folder / f"req_{number}")
    _, found = run(folder)
    assert {number for number, result in found.items() if result.verdict is not Verified.OK} == {1, 4, 7}


def test_norms_are_kept_and_tell_when_every_dump_changed(tmp_path: Path, state: Path) -> None:
    for number in range(calibration.KEPT_FROM):
        written(tmp_path, number)
    assert run(tmp_path)[0].ok
    (kept,) = (state / "hsconsole").glob("norms-*.json")
    for path in tmp_path.glob("req_*"):
        dumpfaults.swapped_layers(path)
    summary, _ = run(tmp_path)
    assert summary.counts == {"bad": calibration.KEPT_FROM}
    assert str(kept) in summary.norms
    assert not list((state / "hsconsole").glob(".norms*")), "nothing half written stays"
    kept.write_text("{")
    assert run(tmp_path)[0].ok, "a damaged file teaches nothing: learned anew"


def test_norms_of_other_layers_are_learned_beside_those_that_are_kept(tmp_path: Path, state: Path) -> None:
    for number in range(calibration.KEPT_FROM):
        written(tmp_path, number)
    assert run(tmp_path)[0].ok
    (kept,) = (state / "hsconsole").glob("norms-*.json")
    before = json.loads(kept.read_text())["tensors"]
    for path in tmp_path.glob("req_*"):
        dumpfaults.change(path, captured_at_layers=[2, 30, 58], eagle_layer_ids=[1, 29, 57])
    summary, found = run(tmp_path, numbers=list(range(7)))
    assert summary.counts == {"unverified": 7}, "too few to learn the new layers from"
    assert "before layer 2" in found[0].checks[0].found
    assert run(tmp_path)[0].ok
    after = json.loads(kept.read_text())["tensors"]
    assert {key: after[key] for key in before} == before
    assert {f"before layer {layer}, {COLUMNS} columns" for layer in (2, 30, 58)} == after.keys() - before.keys()


def test_layers_that_few_dumps_have_teach_nothing(folder: Path) -> None:
    dumpfaults.change(folder / "req_5", captured_at_layers=[2, 30, 58], eagle_layer_ids=[1, 29, 57])
    summary, found = run(folder)
    assert summary.counts == {"ok": 11, "unverified": 1}
    assert found[5].checks[0].name == "norms"


def test_norms_that_can_not_be_kept_leave_nothing_behind(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(calibration.KEPT_FROM):
        written(tmp_path, number, 4)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert run(tmp_path)[0].ok
    assert not list((state / "hsconsole").iterdir())


def test_a_worker_that_was_ended_meanwhile_says_nothing_more(folder: Path) -> None:
    made = worker.Worker(str(folder), Level.STRUCTURE, None)
    results = made.verify(["req_0", "req_1"])
    assert next(results).verdict is Verified.OK
    made.end()
    assert not list(results)
    assert not list(made.verify(["req_2"]))


def test_a_worker_that_dies_leaves_nothing_verified_that_it_did_not_verify(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12, 64):
        written(folder, number, 4)
    first: list[worker.Worker] = []

    def dying(*args: Any) -> worker.Worker:
        made = worker.Worker(*args)
        if not first:
            first.append(made)
            made._process.send_signal(signal.SIGKILL)
        return made

    monkeypatch.setattr(verify, "Worker", dying)
    summary, found = run(folder, "structure")
    assert len(found) == 64
    assert summary.counts["unverified"] == 16
    assert not summary.ok


def test_a_worker_ends_before_the_server_where_memory_runs_out(folder: Path) -> None:
    one = worker.Worker(str(folder), Level.STRUCTURE, None)
    try:
        assert [result.verdict for result in one.verify(["req_1"])] == [Verified.OK]
        assert Path(f"/proc/{one._process.pid}/oom_score_adj").read_text().strip() == "1000"
    finally:
        one.end()


def test_a_worker_that_can_not_start_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> Any:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(verify, "Worker", none)
    with pytest.raises(DumpError, match="temporarily"):
        run(folder)


def test_cancelling_ends_at_once_and_says_so(folder: Path) -> None:
    cancelled = threading.Event()
    names = verify.names_of(str(folder), None) * 1000
    summary = verify.verify(str(folder), "/model", names, Level.STRUCTURE, lambda _: cancelled.set(), cancelled)
    assert summary.stopped
    assert not summary.ok
    assert 0 <= sum(summary.counts.values()) < len(names) / 10


def test_no_process_is_left(folder: Path) -> None:
    run(folder)
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    assert not [pid for pid in children if b"remote.dumps.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_a_folder_that_can_not_be_listed(tmp_path: Path) -> None:
    with pytest.raises(DumpError, match="no-such"):
        verify.names_of(str(tmp_path / "no-such"), None)


def test_the_forerunners_dumps_are_verified_too(tmp_path: Path) -> None:
    for number in range(3):
        forerunner(tmp_path, number)
    assert run(tmp_path, "structure")[0].counts == {"ok": 3}


def test_a_row_that_overflows_float32_is_finite(tmp_path: Path) -> None:
    path = written(tmp_path, 1)
    rows = dumpfaults.load(path, "aux_0")
    rows[3] *= np.float32(1e25)
    dumpfaults.save(path, "aux_0", rows)
    found = Dump(str(path), 1).content("aux_0.pt")
    assert found.not_finite == ""
    assert found.squares is not None
    assert np.isfinite(found.squares).all()
