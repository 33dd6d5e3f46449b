"""Who holds GPU memory: what the host says and what the container has, put together by the GPUs' ids."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from console.config.profile import Container, Profile, Proxmox, Server
from console.errors import LinkError
from console.operations import gpuholders, hostgpus, proxmox
from console.operations.gpuholders import GpuHolders
from console.operations.hostgpus import Holder, HostGpu, HostGpus
from console.operations.hostview import HostProcess, Unreadable
from remote.wire.codec import encode
from remote.wire.plan import Check, Verdict
from remote.wire.telemetry import Gpu, GpuSnapshot, MigDevice

GIB = 1 << 30
ALONE = Profile(container=Container(host="ct129", python="python3"), server=Server(model_path="/m"))
WITH_HOST = msgspec.structs.replace(ALONE, proxmox=Proxmox(host="pve", vmid=129))
LINE_END = "\n"
MARK = "hs-0123456789abcdef"
RANK = HostProcess(4711, 5, 4242, "S", "sglang::scheduler_TP3", "sglang::schedul", 100000, 60.0, "/lxc/129/ns")
STRANGER = dataclasses.replace(RANK, pid=999, inner=None, command="python3 train.py", uid=0, cgroup="/user.slice")


def packed(text: str | bytes) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def smi(what: str, *rows: str) -> str:
    return f"smi {what} {packed(''.join(f'{row}{LINE_END}' for row in rows))}"


def process(pid: int, where: str, command: str, inner: int = 0) -> str:
    ids = f"Uid:\t0\t0\t0\t0\nNSpid:\t{pid}\t{inner}\n" if inner else f"Uid:\t0\t0\t0\t0\nNSpid:\t{pid}\n"
    stat = f"{pid} (x) S 1 " + " ".join(["0"] * 17) + " 777 0 0"
    parts = (stat, command.replace(" ", "\0"), ids, "0::/lxc/129/ns\n" if inner else "0::/\n", "")
    return f"proc {pid} {where} - {'.'.join(map(packed, parts))}"


def answer(*records: str) -> str:
    body = "\n".join(["user 0", "clock 100 1000.0 1796031234", "init 100", *records])
    return f"hello\n{MARK} begin\n{body}\n{MARK} end\n"


CARD = "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-c\nBus Location: \t 0000:c1:00.0\nDevice Minor: \t 3\n"


def test_nvidia_smi_of_the_host_is_read() -> None:
    seen = hostgpus.parse(
        answer(
            smi("gpus", "2, GPU-b, 3", "3, GPU-c, 72704"),
            smi("apps", "GPU-c, 4711, 72000", "GPU-c, 999, [N/A]", "GPU-c, 31, 5"),
            process(4711, "inside", "sglang::scheduler_TP3", 4242),
            process(999, "outside", "python3 train.py --api-key hush"),
        ),
        MARK,
    )
    assert seen.problem == ""
    idle, busy = seen.gpus
    assert (idle.uuid, idle.index, idle.holders) == ("GPU-b", 2, ())
    assert [(one.pid, one.used) for one in busy.holders] == [(4711, 72000 << 20), (999, None), (31, 5 << 20)]
    rank, stranger, ended = (one.process for one in busy.holders)
    assert rank is not None
    assert stranger is not None
    assert (rank.inner, rank.command, rank.start_ticks) == (4242, "sglang::scheduler_TP3", 777)
    assert stranger.inner is None
    assert "hush" not in stranger.command
    assert ended is None


def test_what_only_looks_like_numbers_is_none() -> None:
    seen = hostgpus.parse(answer(smi("gpus", "²,  GPU-b, 3"), smi("apps", "GPU-c, ³, 5", "GPU-c, 999, ¹")), MARK)
    assert seen.gpus == (HostGpu("GPU-c", None, (Holder(999, None, None),)),)


def test_without_nvidia_smi_it_is_the_open_devices() -> None:
    seen = hostgpus.parse(
        answer(
            f"card {packed(CARD)}",
            *("open /dev/nvidia3 /proc/4711/fd/9", "open /dev/nvidia-uvm /proc/4711/fd/8"),
            *("open /dev/nvidia3 /proc/999/fd/4", "open /dev/nvidia1 /proc/4711/fd/7"),
            process(4711, "inside", "sglang::scheduler_TP3", 4242),
            process(999, "outside", "nvtop"),
        ),
        MARK,
    )
    assert seen.problem == "the host has no nvidia-smi"
    (gpu,) = seen.gpus
    assert (gpu.uuid, gpu.index, gpu.holders) == ("GPU-c", None, ())
    assert [one.pid for one in gpu.opened_by] == [4711], "nvtop only watches: it has no /dev/nvidia-uvm"


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch", "says: Failed to initialize NVML"),
        ("", "says: nothing"),
        ("\x1b[2J\x00boom", "boom"),
    ],
)
def test_what_nvidia_smi_says_instead_is_the_problem(said: str, problem: str) -> None:
    seen = hostgpus.parse(answer(f"smi gpus {packed(said)}", f"smi apps {packed(said)}"), MARK)
    assert seen.gpus == ()
    assert problem in seen.problem
    assert "\x1b" not in seen.problem


@pytest.mark.parametrize("line", ["smi gpus !", "open /dev/nvidia0", "open x /proc/y/fd/1", "card A", "proc 1 inside"])
def test_a_garbled_answer_is_refused(line: str) -> None:
    with pytest.raises(Unreadable, match="garbled"):
        hostgpus.parse(answer(line), MARK)


def test_a_cut_answer_is_refused() -> None:
    whole = answer(smi("gpus", "0, GPU-a, 3"))
    for length in range(0, len(whole) - len(" end\n"), 5):
        with pytest.raises(Unreadable, match="not whole"):
            hostgpus.parse(whole[:length], MARK)


def test_rows_of_any_bytes_do_no_harm() -> None:
    rows = b"\xff\xfe, GPU\x1b, 9\n0, GPU-a, 3\n,,\n1,2\n" + b"x" * 5000
    seen = hostgpus.parse(answer(f"smi gpus {packed(rows)}"), MARK)
    assert [(gpu.uuid, gpu.index) for gpu in seen.gpus] == [("GPU-a", 0)]


def gpu(index: int = 3, uuid: str = "GPU-c", used: int | None = 71 * GIB, **more: Any) -> GpuSnapshot:
    return GpuSnapshot(0.0, (Gpu(index, "H200", used, 141 * GIB, uuid=uuid, **more),))


def host(*holders: Holder, opened: tuple[Holder, ...] = (), uuid: str = "GPU-c", problem: str = "") -> HostGpus:
    return HostGpus((HostGpu(uuid, 7, holders, opened),), problem)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (
            host(Holder(4711, 71 * GIB, RANK)),
            "GPU 3: 71.0 GiB held by pid 4711 sglang::scheduler_TP3 (container 4242) (71.0 GiB)",
        ),
        (
            host(Holder(999, None, STRANGER)),
            "GPU 3: 71.0 GiB held by a process outside of the container: pid 999 of uid 0, python3 train.py",
        ),
        (
            host(Holder(999, None, dataclasses.replace(STRANGER, cgroup="/lxc/130/ns/x"))),
            "held by a process of container 130: pid 999 of uid 0",
        ),
        (host(Holder(31, 5 << 30, None)), "held by pid 31 of the host, which has ended (5.0 GiB)"),
        (host(opened=(Holder(4711, None, RANK),)), "(container 4242), which has it open"),
        (host(), "held by nobody whom the host sees"),
        (host(uuid="GPU-z"), "held by somebody unknown: the host does not list this GPU"),
        (host(*(Holder(4711, None, RANK) for _ in range(9))), "; 3 more"),
    ],
)
def test_a_holder_in_words(found: HostGpus, says: str) -> None:
    (held,) = gpuholders.match(gpu(), found).held
    assert says in held.line


def test_a_mig_device_is_held_too() -> None:
    parts = (MigDevice(0, uuid="MIG-1", memory_used=9 * GIB),)
    found = gpuholders.match(gpu(mig=parts), host(Holder(4711, None, RANK), uuid="MIG-1"))
    assert "pid 4711" in found.held[0].line


def test_only_memory_in_use_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxmox, "ProxmoxHost", lambda _: pytest.fail("nobody is to be asked"))
    for seen in (gpu(used=3), gpu(used=None), GpuSnapshot(0.0, problem="none")):
        assert gpuholders.ask(WITH_HOST, seen) is None
    assert gpuholders.ask(ALONE, gpu()) is None


def test_a_host_that_can_not_be_asked_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Proxmox) -> None:
        raise LinkError("pve: connection refused", "")

    monkeypatch.setattr(proxmox, "ProxmoxHost", refuse)
    found = gpuholders.ask(WITH_HOST, gpu())
    assert found == GpuHolders(problem="the Proxmox host can't be asked: pve: connection refused")


class Agent:
    def __init__(self, seen: GpuSnapshot) -> None:
        self.seen = seen

    def call(
        self, name: str, *, timeout: float = 30.0, on_event: Callable[[Any], None] | None = None, **args: Any
    ) -> Any:
        assert name == "gpus"
        return encode(self.seen)


@pytest.mark.parametrize("name", ["gpus", "gpu memory"])
def test_a_check_that_finds_memory_in_use_is_explained(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(gpuholders, "ask", lambda _, seen: gpuholders.match(seen, host(Holder(999, None, STRANGER))))
    bad, good = Check(name, Verdict.BAD, "in use"), Check(name, Verdict.OK, "free")
    first, more = gpuholders.explain(Agent(gpu()), WITH_HOST, (bad,))
    assert first == bad
    assert (more.name, more.verdict) == ("gpu holders", Verdict.WARN)
    assert "outside of the container: pid 999" in more.found
    assert gpuholders.explain(Agent(gpu()), WITH_HOST, (good,)) == (good,)
    assert gpuholders.explain(Agent(gpu()), ALONE, (bad,)) == (bad,)
