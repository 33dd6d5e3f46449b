"""GPUs and the ages of what is shown: what is old is marked, what can't be told is said."""

from __future__ import annotations

import dataclasses

import pytest

from console.operations import gpuholders
from console.operations.gpuholders import GpuHolders, Held
from remote.wire.telemetry import Gpu, GpuSnapshot, MigDevice
from tests.ui import scenes
from tests.ui.scenes import GIB, Stage
from tests.ui.stagehand import app_of, link_of, on_stage, settled, until, words

NO_ANSWER = "The NVIDIA driver gives no answer."


def one_gpu(**more: object) -> GpuSnapshot:
    known = Gpu(0, "NVIDIA H200", 90 * GIB, 141 * GIB, 7, 312.0, 61, 1)
    return GpuSnapshot(scenes.NOW, (dataclasses.replace(known, **more),))  # type: ignore[arg-type]


async def test_each_value_has_its_own_age_on_a_live_link() -> None:
    stage = Stage(scenes.ready)
    async with on_stage(stage) as pilot:
        stage.clock.now += 9
        link_of(stage).say(server=scenes.READY, gpus=scenes.gpus(8))
        await settled(pilot)
        assert "as of" not in words(pilot)
        stage.clock.now += 6
        await settled(pilot)
        assert words(pilot).count("as of 15 s ago") == 1, "/dev/shm alone said nothing for so long"
        stage.clock.now += 10
        link_of(stage).say(shm=scenes.SHM)
        await settled(pilot)
        assert words(pilot).count("as of 16 s ago") == 2, "now it is the two others"


async def test_a_driver_that_gives_no_answer_leaves_old_values_marked() -> None:
    stage = Stage(scenes.ready)
    async with on_stage(stage) as pilot:
        late = dataclasses.replace(scenes.gpus(8), problem=NO_ANSWER, age=6.0)
        link_of(stage).say(server=scenes.READY, shm=scenes.SHM, gpus=late)
        await settled(pilot)
        assert words(pilot).count("as of 6 s ago") == 1
        assert f"✗ {NO_ANSWER}" in words(pilot)
        assert "83.1/95.6 GiB" in words(pilot)
        stage.clock.now += 5
        await settled(pilot)
        assert "as of 11 s ago" in words(pilot), "it goes on growing old"
        link_of(stage).say(gpus=scenes.gpus(8))
        await settled(pilot)
        assert "as of" not in words(pilot)


async def test_that_there_is_no_library_gets_no_older() -> None:
    stage = Stage(scenes.no_gpu)
    async with on_stage(stage) as pilot:
        stage.clock.now += 50
        link_of(stage).say(server=scenes.READY, shm=scenes.SHM)
        await settled(pilot)
        assert "as of" not in words(pilot)


@pytest.mark.parametrize("count", [0, 1, 2, 16])
@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_any_number_of_gpus_fits(count: int, size: tuple[int, int]) -> None:
    async with on_stage(Stage(lambda link: scenes.ready(link, count)), size) as pilot:
        shown = words(pilot)
        assert all(f"{97 - index} %" in shown for index in range(count))
        assert "log" in shown, "there is room left for the rest"


async def test_unified_memory_is_said() -> None:
    stage = Stage(scenes.ready)
    async with on_stage(stage) as pilot:
        link_of(stage).say(gpus=one_gpu(memory_used=None, memory_total=None, absent=("memory: Not Supported",)))
        await settled(pilot)
        assert "not supported" in words(pilot)
        assert "0/0" not in words(pilot)


async def test_mig_devices_stand_below_their_gpu() -> None:
    parts = (
        MigDevice(0, "NVIDIA H200 MIG 3g.71gb", 40 * GIB, 70 * GIB, 1),
        MigDevice(1, "NVIDIA H200 MIG 1g.18gb", problem="Insufficient Permissions"),
    )
    stage = Stage(scenes.ready)
    async with on_stage(stage, (200, 50)) as pilot:
        link_of(stage).say(gpus=one_gpu(mig=parts, utilization=None))
        await settled(pilot)
        lines = words(pilot).splitlines()
        (row,) = (number for number, text in enumerate(lines) if "H200" in text)
        assert "↳ 3g.71gb" in lines[row + 1]
        assert "40.0/70.0 GiB" in lines[row + 1]
        assert "↳ ✗ Insufficient Permissions" in lines[row + 2]


async def test_a_fault_of_a_look_that_nobody_asked_for_ends_no_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpuholders, "ask", lambda *_: 1 / 0)
    stage = Stage(scenes.stopped)
    async with on_stage(stage) as pilot:
        link_of(stage).say(gpus=scenes.gpus(8))
        await until(pilot, lambda: "ZeroDivisionError" in words(pilot))


async def test_who_holds_the_gpus_is_asked_of_the_host_while_no_server_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[GpuSnapshot] = []

    def ask(_: object, seen: GpuSnapshot) -> GpuHolders:
        asked.append(seen)
        return GpuHolders(
            (Held(3, 71 * GIB, ("a process outside of the container: pid 9 of uid 0, [bold]train\x1b[2J",)),)
        )

    monkeypatch.setattr(gpuholders, "ask", ask)
    stage = Stage(scenes.stopped)
    async with on_stage(stage) as pilot:
        assert not asked, "GPUs at rest are nobody's"
        link_of(stage).say(gpus=scenes.gpus(8))
        await until(pilot, lambda: app_of(pilot).picture.gpu_holders is not None)
        await settled(pilot)
        assert "seen from the Proxmox host, now:" in words(pilot)
        assert "GPU 3: 71.0 GiB held by a process outside of the container: pid 9" in words(pilot)
        assert "uid 0, [bold]train" in words(pilot)
        app_of(pilot)._take()
        await settled(pilot)
        assert len(asked) == 1, "once a minute, not once a second"
        link_of(stage).say(server=scenes.READY)
        await settled(pilot)
        assert "Proxmox host" not in words(pilot), "the server is the answer"


async def test_memory_is_told_by_owner_and_cleaned_by_its_key() -> None:
    stage = Stage(scenes.left_over)
    async with on_stage(stage) as pilot:
        await settled(pilot)
        assert "other: NCCL 31.3 · SGLang 0.17" in words(pilot)
        assert "+612 MB/s −574 MB/s: full in" in words(pilot)
        assert "! 16.8 GB left by dead processes: m" in words(pilot)
        await pilot.press("m")
        await until(pilot, lambda: "Go ahead: shm.clean" in words(pilot))
        assert "$ unlink /dev/shm/nccl-0Q5xSw" in words(pilot)
        await pilot.press("right", "enter")
        await until(pilot, lambda: "3 segments removed." in words(pilot))
        assert link_of(stage).asked[-3:].count("run shm.clean") == 1


@pytest.mark.parametrize(
    ("shm", "says"),
    [
        ({"filling": None, "emptying": None}, "no rate yet"),
        ({"filling": 0.0, "emptying": 50_000.0}, "steady"),
        ({"filling": 0.0, "emptying": 2e9}, "−2.0 GB/s"),
        ({"filling": 1e9, "emptying": 2e9}, "+1.0 GB/s −2.0 GB/s"),
        ({"filling": 1e9, "emptying": 0.0}, "+1.0 GB/s: full in 5 min"),
        ({"stale": 12_288, "stale_files": 3}, "no rate yet"),
        ({"unsure": 2 << 30, "doubt": "this user may not look"}, "? 2.1 GB maybe left by dead processes: this"),
    ],
)
async def test_how_memory_fills(shm: dict[str, object], says: str) -> None:
    stage = Stage(scenes.ready)
    async with on_stage(stage) as pilot:
        link_of(stage).say(shm=dataclasses.replace(scenes.SHM, **shm))  # type: ignore[arg-type]
        await until(pilot, lambda: says in words(pilot))
        assert ("full in" in words(pilot)) is ("full in" in says), "what empties is never said to be full in a while"
        assert ("by dead processes" in words(pilot)) is ("unsure" in shm), "a few kilobytes are not worth a line"


async def test_a_rate_of_long_ago_says_so() -> None:
    stage = Stage(scenes.ready)
    async with on_stage(stage) as pilot:
        link_of(stage).say(server=dataclasses.replace(scenes.READY, prefill_at=stage.clock.wall() - 5))
        await settled(pilot)
        assert "prefill 7.3 k tok/s · running" in words(pilot)
        stage.clock.now += 7200
        link_of(stage).say(server=dataclasses.replace(scenes.READY, prefill_at=stage.clock.wall() - 7205))
        await settled(pilot)
        assert "prefill 7.3 k tok/s 2 h ago · running" in words(pilot)
        link_of(stage).say(server=dataclasses.replace(scenes.READY, prefill_at=stage.clock.wall() + 7200))
        await settled(pilot)
        assert "prefill 7.3 k tok/s · running" in words(pilot), "the container's clock was set back"


@pytest.mark.parametrize("width", [80, 100, 120, 160])
async def test_a_wider_screen_shows_no_less_of_a_gpu(width: int) -> None:
    async with on_stage(Stage(scenes.left_over), size=(width, 30)) as pilot:
        for told in ("83.1/95.6 GiB", "97 %", "! 16.8 GB left by dead processes: m"):
            assert told in words(pilot)
