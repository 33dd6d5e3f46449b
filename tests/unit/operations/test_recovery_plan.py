"""From facts to plans: whom a recovery ends, whom it leaves alone, and what it says when it may not or can't."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest

from console.config.profile import Container, Profile, Proxmox, Server
from console.errors import Refused
from console.operations.hostgpus import Holder, HostGpu, HostGpus
from console.operations.hostview import HostFacts, HostProcess
from console.operations.recovery_gpus import GpuMemory, by_process
from console.operations.recovery_plan import build
from console.operations.recovery_ways import Seen
from console.operations.recovery_wish import PYTHONS, RESTART, Wish
from remote.wire.plan import Plan
from remote.wire.recovery import PortFacts
from remote.wire.server import Phase, ProcessInfo
from remote.wire.telemetry import Gpu, GpuSnapshot

PROFILE = Profile(
    name="kimi",
    container=Container(host="ct129", python="/opt/env/bin/python"),
    proxmox=Proxmox(host="pve1", vmid=129),
    server=Server(model_path="/models/m"),
)
ALONE = msgspec.structs.replace(PROFILE, proxmox=None)
HELD = ("0.0.0.0:8000",)
OURS = ProcessInfo(
    53, 900, "sglang::scheduler_TP0", "root", "S", 1796040191.0, 75.0, ours=True, why="by record", holds=HELD
)
KERNEL = ProcessInfo(77, 901, "python3 -m ipykernel_launcher", "ann", "S", age=9.0, why="no SGLang process", holds=HELD)
OTHER = ProcessInfo(88, 902, "python3 other.py", "ann", "S")
OUTSIDE = HostProcess(4242, 903, None, "S", "python3 x.py", "python3", 0, 9.0, "/", HELD)
HOST_OURS = HostProcess(
    4343, 904, 53, "S", "sglang::scheduler_TP0", "sglang::schedul", 0, 9.0, "/", HELD, dump_dir=PROFILE.dump.folder
)


def facts(*processes: ProcessInfo, **more: Any) -> PortFacts:
    values = {"phase": Phase.PORT_HELD, "bind_problem": "Address already in use", "user": "root", **more}
    return PortFacts(at=1.0, port=8000, detail="", processes=processes, **values)


FREE = facts(phase=Phase.STOPPED, bind_problem="")


def text(plan: Plan) -> str:
    return "\n".join((plan.title, *(f"{s.title} {s.command}" for s in plan.steps), *plan.losses, *plan.notes))


def test_ours_are_listed_with_their_ground_and_signalled() -> None:
    plan = build(Seen(facts(OURS)), PROFILE, Wish())
    assert plan.steps[0].title == (
        "pid 53 of root, 1:15 old (since 2026-11-30 12:03:11 UTC), state S: sglang::scheduler_TP0; "
        "holds 0.0.0.0:8000 – ours: by record"
    )
    assert [step.command for step in plan.steps[1:]] == ["kill -TERM 53", "kill -KILL 53", ""]
    assert plan.basis["processes"] == [[53, 900]]
    assert not plan.word


def test_whose_service_a_process_is() -> None:
    """Which may start it again."""
    stranger = dataclasses.replace(OURS, pid=60, ours=False, why="", cgroup="/system.slice/jupyter.service")
    (note,) = [one for one in build(Seen(facts(OURS, stranger)), PROFILE, Wish()).notes if "pid 60" in one]
    assert "sglang::scheduler_TP0 [/system.slice/jupyter.service]" in note
    assert "[" not in build(Seen(facts(dataclasses.replace(OURS, cgroup="/"))), PROFILE, Wish()).steps[0].title


def test_what_each_holds_of_the_gpus() -> None:
    told = GpuMemory({53: "71.0 GiB on GPU 3"}, {4343: "71.0 GiB on GPU 3"}, ("71.0 GiB on GPU 3",))
    title = build(Seen(facts(OURS), memory=told), PROFILE, Wish()).steps[0].title
    assert title.endswith("; holds 0.0.0.0:8000; holds 71.0 GiB on GPU 3 – ours: by record")
    unknown = GpuMemory(in_use=("71.0 GiB on GPU 3",), problem="the profile names no Proxmox host")
    plan = build(Seen(facts(OURS), memory=unknown), ALONE, Wish())
    known = "GPU memory in use: 71.0 GiB on GPU 3; by which process is not known: the profile names no Proxmox host"
    assert known in plan.notes


def test_gpus_are_told_by_the_containers_numbers_and_pids() -> None:
    """The host numbers both otherwise; another container's GPU is nobody's business here."""
    process = dataclasses.replace(HOST_OURS, pid=4343, inner=53)
    other = dataclasses.replace(HOST_OURS, pid=999, inner=None)
    host = HostGpus(
        (
            HostGpu("GPU-a", 5, (Holder(4343, 71 << 30, process), Holder(999, None, other))),
            HostGpu("GPU-b", 6, (Holder(4343, 2 << 30, process),)),
            HostGpu("GPU-z", 0, (Holder(1, 1 << 30, None),)),
        )
    )
    seen = GpuSnapshot(0.0, (Gpu(3, memory_used=73 << 30, uuid="GPU-a"), Gpu(0, memory_used=2 << 30, uuid="GPU-b")))
    told = by_process(seen, host)
    assert told.inside == {53: "71.0 GiB on GPU 3, 2.0 GiB on GPU 0"}
    assert told.outside == {4343: "71.0 GiB on GPU 3, 2.0 GiB on GPU 0", 999: "memory on GPU 3"}
    assert told.in_use == ("73.0 GiB on GPU 3", "2.0 GiB on GPU 0")
    assert not told.problem


def test_strangers_are_left_alone_and_known() -> None:
    plan = build(Seen(facts(OURS, KERNEL)), PROFILE, Wish())
    assert plan.basis["processes"] == [[53, 900]]
    assert plan.basis["known"] == [[53, 900], [77, 901]]
    assert "Left alone, not ours (no SGLang process): pid 77 of ann" in text(plan)


def test_a_stranger_alone_is_refused_and_named() -> None:
    with pytest.raises(Refused) as refused:
        build(Seen(facts(KERNEL)), PROFILE, Wish())
    assert "pid 77 of ann" in refused.value.what
    assert "hsconsole server recover --including 77" in refused.value.remedy


def test_a_stranger_that_is_named() -> None:
    plan = build(Seen(facts(KERNEL)), PROFILE, Wish(including=(77,)))
    assert "NOT ours (no SGLang process), named by you" in text(plan)
    assert "What pid 77 is doing: it is not ours." in plan.losses


@pytest.mark.parametrize("wish", [Wish(including=(99,)), Wish(including_host=(99,))])
def test_only_what_stands_in_the_way_may_be_named(wish: Wish) -> None:
    with pytest.raises(Refused, match="does not hold"):
        build(Seen(facts(OURS)), PROFILE, wish)


@pytest.mark.parametrize("phase", [Phase.READY, Phase.LOADING, Phase.STARTING])
def test_a_server_that_works_is_no_case_for_recovery(phase: Phase) -> None:
    well = facts(dataclasses.replace(OURS, holds=() if phase is Phase.LOADING else HELD), phase=phase)
    plan = build(Seen(well), PROFILE, Wish())
    assert not plan.needed
    assert "hsconsole server stop" in text(plan)


def test_nothing_to_do() -> None:
    dead = ProcessInfo(60, 1, "[sglang::schedul]", state="Z")
    plan = build(Seen(dataclasses.replace(FREE, lingering=2, dead=(dead,))), PROFILE, Wish())
    assert not plan.needed
    assert plan.steps == ()
    assert "2 ended connections linger" in text(plan)
    assert "pid 60 ([sglang::schedul]) is a zombie: it holds nothing" in text(plan)


def test_outside_of_the_container_is_ended_only_by_name() -> None:
    seen = Seen(facts(unseen=HELD), HostFacts(20, HELD, (OUTSIDE,)))
    with pytest.raises(Refused, match="host pid 4242 of uid 0") as refused:
        build(seen, PROFILE, Wish())
    assert "--including-host 4242" in refused.value.remedy
    plan = build(seen, PROFILE, Wish(including_host=(4242,)))
    assert [step.command for step in plan.steps[1:3]] == [plan.basis["host"]["TERM"], plan.basis["host"]["KILL"]]
    assert plan.basis["host"]["KILL"].endswith(" hsconsole KILL 4242:903")


def test_unseen_without_a_host_to_ask() -> None:
    with pytest.raises(Refused, match="can't be seen from here") as refused:
        build(Seen(facts(unseen=HELD)), ALONE, Wish())
    assert "[proxmox]" in refused.value.remedy


def test_unseen_without_root_says_what_is_missing() -> None:
    with pytest.raises(Refused) as refused:
        build(Seen(facts(unseen=HELD, user="ann", no_root="there is no sudo")), ALONE, Wish())
    assert "ann is not root, and there is no sudo" in refused.value.remedy


def test_by_the_hosts_view_alone() -> None:
    seen = Seen(None, HostFacts(20, HELD, (HOST_OURS, OUTSIDE)), "host", no_inside="no way in", sshd_dead=True)
    plan = build(seen, PROFILE, Wish())
    assert plan.basis["host"]["TERM"].endswith(" TERM 4343:904"), "ours by its environment; the other one is not"
    assert "pid 53 in the container" in text(plan)
    assert "Not seen from inside: no way in" in plan.notes
    assert "pct exec 129 --keep-env=0 -- sh -c" in text(plan)


def test_what_the_host_shows_twice_is_ended_once() -> None:
    plan = build(Seen(facts(OURS), HostFacts(20, HELD, (HOST_OURS,))), PROFILE, Wish())
    assert plan.basis["processes"] == [[53, 900]]
    assert plan.basis["host"] == {}


def test_a_frozen_one_is_thawed_first() -> None:
    frozen = dataclasses.replace(HOST_OURS, frozen=("/sys/fs/cgroup/x/cgroup.freeze",))
    plan = build(Seen(facts(OURS), HostFacts(20, HELD, (frozen,))), PROFILE, Wish())
    assert [step.command for step in plan.steps if "Thaw" in step.title] == plan.basis["thaw"]
    assert plan.basis["thaw"][0].endswith(" hsconsole /sys/fs/cgroup/x/cgroup.freeze 0")


def test_without_root_the_host_kills() -> None:
    mine = dataclasses.replace(OURS, pid=54, user="ann")
    by_ann = facts(OURS, mine, user="ann", no_root="there is no sudo")
    plan = build(Seen(by_ann, prefix="sudo -n "), PROFILE, Wish())
    assert plan.basis["pct"]["KILL"].startswith("sudo -n pct exec 129 --keep-env=0 -- sh -c ")
    assert plan.basis["pct"]["KILL"].endswith(" KILL 53:900")
    assert plan.basis["processes"] == [[54, 900]], "what is ann's own takes nobody else"


def test_without_root_by_sudo() -> None:
    """The words that sudo is given are shown as they are."""
    plan = build(Seen(facts(OURS, user="ann", as_root="sudo -n /py -I /a.pyz --as-root")), PROFILE, Wish())
    assert plan.basis["processes"] == []
    assert plan.basis["pct"] == {}
    assert plan.steps[1].command == "sudo -n /py -I /a.pyz --as-root signal TERM 53:900"


def test_without_root_and_no_way_it_says_what_is_missing() -> None:
    beyond = facts(OURS, user="ann", no_root="sudo: a password is required")
    with pytest.raises(Refused) as refused:
        build(Seen(beyond, no_host="the line is dead"), PROFILE, Wish())
    assert "ann may not signal what is in the way, and sudo: a password is required: pid 53" in refused.value.what
    assert "the line is dead" in refused.value.remedy
    mine = dataclasses.replace(OURS, pid=54, user="ann")
    plan = build(Seen(dataclasses.replace(beyond, processes=(OURS, mine))), ALONE, Wish())
    assert plan.basis["processes"] == [[54, 900]]
    assert "Stays, as ann may not signal it, and sudo: a password is required: pid 53 of root" in text(plan)


def test_a_container_that_is_frozen_as_a_whole_is_thawed_and_nobody_is_ended() -> None:
    files = ("/sys/fs/cgroup/lxc/129/cgroup.freeze",)
    frozen = dataclasses.replace(HOST_OURS, frozen=files)
    seen = Seen(None, HostFacts(20, HELD, (frozen,), frozen=files), "host", no_inside="no word", prefix="")
    plan = build(seen, PROFILE, Wish())
    assert plan.title == "Thaw container 129, which is frozen as a whole"
    assert len(plan.basis["thaw"]) == 1
    assert plan.basis["host"] == {}
    assert plan.losses == ()


def test_a_stopped_container_is_no_free_port() -> None:
    seen = Seen(None, HostFacts(None), "host", no_inside="container '129' not running!", prefix="")
    with pytest.raises(Refused, match="container 129 is not running") as refused:
        build(seen, PROFILE, Wish())
    assert "pct start 129" in refused.value.remedy
    plan = build(seen, PROFILE, Wish(last=RESTART))
    assert [step.command for step in plan.steps if step.command] == ["timeout 60 pct start 129"]


def test_who_may_run_only_pct_can_not_restart_it() -> None:
    with pytest.raises(Refused, match="ann may run `pct` as root") as refused:
        build(Seen(facts(OURS), prefix="sudo -n ", limits="ann may run `pct` as root"), PROFILE, Wish(last=RESTART))
    assert "proxmox.user" in refused.value.remedy


def test_every_python_takes_a_typed_word() -> None:
    plan = build(Seen(facts(OURS, pythons=(OURS, OTHER))), PROFILE, Wish(last=PYTHONS))
    assert plan.word == "kill every python"
    assert plan.basis["processes"] == [[53, 900], [88, 902]]
    assert "NOT ours (a Python process)" in text(plan)


def test_a_restart_takes_a_typed_word_and_warns_of_a_hang() -> None:
    blocked = dataclasses.replace(OURS, state="D")
    plan = build(Seen(facts(blocked, blocked=(blocked,))), PROFILE, Wish(last=RESTART))
    assert plan.word == "restart 129"
    assert "Everything that runs in container 129, and all of its /dev/shm." in plan.losses
    assert "no signal ends that, and `pct stop 129` would hang on it" in text(plan)


def test_hostile_names_are_harmless() -> None:
    hostile = dataclasses.replace(OURS, command="\x1b[2J[/red]\x00evil")
    assert "\x1b" not in text(build(Seen(facts(hostile)), PROFILE, Wish()))
