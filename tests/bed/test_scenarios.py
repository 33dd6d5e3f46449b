"""Each way a port stays held: who is found, what clears it, and what is said when nothing can. See docs/recovery.md."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Iterator

import msgspec
import pytest

from console.config.profile import Profile
from console.errors import ChangedSincePlan, LinkError, Refused
from console.operations import hostcommands, recover, recovery_plan, recovery_ways
from console.operations.recovery_plan import PYTHONS, RESTART, Wish
from console.ssh import connection
from tests.bed.conftest import profile_of
from tests.bed.container import FREEZERS, PORT, Ground
from tests.bed.machines import Bed
from tests.bed.recovering import Recovery, agent_of, recovery
from tests.bed.rootfs import PLAIN_USER, SUDOER

MOST_SECONDS = 10.0


@pytest.fixture(autouse=True)
def _timed(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    for seconds in TIMES.pop(request.node.name, []):
        print(f"{request.node.name}: {seconds:.1f} s from the call to the end of the second look")


TIMES: dict[str, list[float]] = {}


def clear(request: pytest.FixtureRequest, profile: Profile, wish: Wish | None = None) -> Recovery:
    done = recovery(profile, wish)
    TIMES.setdefault(request.node.name, []).append(done.seconds)
    return done


def test_a_ignores_sigterm(request: pytest.FixtureRequest, profile: Profile, ground: Ground) -> None:
    pid = ground.hold("stubborn")
    done = clear(request, profile)
    assert f"pid {pid} of root" in done.planned
    assert "holds 0.0.0.0:8000 – ours" in done.planned
    assert f"kill -TERM {pid}" in done.ran
    assert f"kill -KILL {pid}" in done.ran
    assert done.ok
    assert not ground.is_held()


def test_b_orphans_hold_the_port(request: pytest.FixtureRequest, profile: Profile, ground: Ground) -> None:
    ground.hold("orphans")
    done = clear(request, profile)
    assert "sglang::scheduler_TP0" in done.planned
    assert "sglang::detokenizer" in done.planned
    assert done.ok
    assert not ground.is_held()
    assert done.seconds < MOST_SECONDS


def test_b_orphans_of_a_server_started_by_hand(profile: Profile, ground: Ground) -> None:
    ground.hold("orphans", ours=False)
    done = recovery(profile)
    assert "titled sglang:: and its server is gone" in done.planned
    assert done.ok


def test_b2_orphans_without_the_port(request: pytest.FixtureRequest, profile: Profile, ground: Ground) -> None:
    ground.hold("spawned")
    assert not ground.is_held()
    done = clear(request, profile)
    assert "sglang::scheduler_TP0" in done.planned
    assert "holds" not in done.planned
    assert done.ok
    assert ground.sh("pgrep -fa '^sglang::' || true") == ""


def test_c_of_another_user_as_root(request: pytest.FixtureRequest, profile: Profile, ground: Ground) -> None:
    pid = ground.hold("stubborn", user=PLAIN_USER)
    done = clear(request, profile)
    assert f"pid {pid} of {PLAIN_USER}" in done.planned
    assert done.ok


def test_c_without_root_says_what_is_missing(bed: Bed, profile: Profile, ground: Ground) -> None:
    pid = ground.hold("plain", module="ipykernel_launcher", ours=False)
    alone = msgspec.structs.replace(profile_of(bed, user=PLAIN_USER), proxmox=None)
    with pytest.raises(Refused) as refused:
        recovery(alone)
    assert "by a process that can't be seen from here" in refused.value.what
    assert f"{PLAIN_USER} is not root, and sudo: a password is required" in refused.value.remedy
    assert ground.exists(pid)


def test_c_with_sudo(request: pytest.FixtureRequest, bed: Bed, profile: Profile, ground: Ground) -> None:
    pid = ground.hold("stubborn")
    done = clear(request, msgspec.structs.replace(profile_of(bed, user=SUDOER), proxmox=None))
    assert f"pid {pid} of root" in done.planned
    assert "dump folder in its environment" in done.planned, "root's environment is read by sudo too"
    assert done.ok, done.truth
    assert not ground.is_held()


def test_c_without_root_through_the_host(
    request: pytest.FixtureRequest, bed: Bed, profile: Profile, ground: Ground
) -> None:
    """Orphans of root's: seen by their titles, not to be signalled by this user, ended by `pct exec`."""
    ground.hold("orphans")
    done = clear(request, profile_of(bed, user=PLAIN_USER))
    assert "pct exec 129 --keep-env=0 -- sh -c" in done.planned
    assert "as root by the Proxmox host" in done.ran
    assert done.ok, done.truth
    assert not ground.is_held()


def test_d_a_zombie_holds_nothing(profile: Profile, ground: Ground) -> None:
    ground.hold("zombie", module="ipykernel_launcher", ours=False)
    done = recovery(profile)
    assert not done.plan.needed
    assert "is a zombie: it holds nothing, and goes when its parent notices" in done.planned


def test_d2_dead_main_thread(request: pytest.FixtureRequest, profile: Profile, ground: Ground) -> None:
    pid = ground.hold("dead_leader")
    assert ground.sh("ss -ltnpH 'sport = :8000' | grep -c pid= || true") == "0", "ss does not see who holds it"
    done = clear(request, profile)
    assert f"pid {pid} of root" in done.planned
    assert "by its thread" in done.planned
    assert done.ok
    assert not ground.is_held()


def test_d3_dead_main_thread_and_a_thread_in_the_kernel(
    request: pytest.FixtureRequest, profile: Profile, ground: Ground
) -> None:
    ground.hang()
    pid = ground.hold("hung_thread")
    done = clear(request, profile)
    assert not done.ok
    assert f"Waiting in the kernel: pid {pid} (request_wait_answer)" in done.truth
    assert "only a reboot of the Proxmox host clears it" in done.truth
    again = recovery(profile)
    assert "`pct stop 129` would hang on it" in again.planned
    ground.unhang()
    time.sleep(0.3)
    assert not ground.is_held(), "it ends with what it waited for"


def test_e_outside_of_the_container(request: pytest.FixtureRequest, profile: Profile, ground: Ground) -> None:
    pid = ground.hold_outside()
    with pytest.raises(Refused) as refused:
        recovery(profile)
    assert f"host pid {pid} of uid 0" in refused.value.what
    assert "outside of the container" in refused.value.what
    assert f"--including-host {pid}" in refused.value.remedy
    assert ground.exists_on_host(pid)
    done = clear(request, profile, Wish(including_host=(pid,)))
    assert done.ok
    assert not ground.is_held()


def test_e2_the_hosts_own_port_is_left_alone(profile: Profile, ground: Ground) -> None:
    host_pid = ground.hold_on_host()
    ground.hold("orphans")
    done = recovery(profile)
    assert str(host_pid) not in done.planned
    assert done.ok
    assert ground.exists_on_host(host_pid)
    with pytest.raises(Refused, match="does not hold the container's port"):
        recovery(profile, Wish(including_host=(host_pid,)))


def test_f_waits_in_the_kernel(request: pytest.FixtureRequest, profile: Profile, ground: Ground) -> None:
    ground.hang()
    pid = ground.hold("hung")
    done = clear(request, profile)
    assert not done.ok
    assert f"Waiting in the kernel: pid {pid}" in done.truth
    ground.unhang()
    time.sleep(0.3)
    assert not ground.is_held()


@pytest.mark.parametrize("version", FREEZERS)
def test_f2_frozen_control_group(
    request: pytest.FixtureRequest, profile: Profile, ground: Ground, version: int
) -> None:
    """Seen by its state D, or, in the newer control groups, by nothing; there KILL ends it all the same."""
    group = ground.freeze(ground.hold("plain"), version)
    done = clear(request, profile)
    assert version == 2 or f"hsconsole {group}/freezer.state THAWED" in done.ran
    assert done.ok, done.truth
    assert not ground.is_held()


def test_f2_the_whole_container_is_frozen(
    request: pytest.FixtureRequest, profile: Profile, ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing in it answers. It is thawed, and nobody in it is ended: a server goes on where it stood."""
    monkeypatch.setattr(connection, "HANDSHAKE", 2.0)
    monkeypatch.setattr(recovery_ways, "EXEC", 2.0)
    pid = ground.hold("plain")
    ground.freeze_all()
    done = clear(request, profile)
    assert done.plan.title == "Thaw container 129, which is frozen as a whole"
    assert "kill" not in done.planned
    assert done.ok, done.truth
    assert ground.exists(pid)
    assert done.outcome is not None
    assert "it runs again" in done.outcome.checks[0].found


def test_f3_the_container_does_not_stop(
    request: pytest.FixtureRequest, profile: Profile, ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery_plan, "STOP", 3.0)
    ground.hang(outside=True)
    ground.hold("hung")
    assert not recovery(profile).ok
    done = clear(request, profile, Wish(last=RESTART))
    assert done.plan.word == "restart 129"
    assert "`pct stop 129` would hang on it" in done.planned
    assert not done.ok
    assert "only a reboot of the Proxmox host ends that" in done.truth
    after = recovery(profile)  # neither ssh nor `pct exec` leads into it now: the host's view is left
    assert "Not seen from inside" in after.planned
    assert not after.ok
    assert "waits in the kernel" in after.truth


def test_g_time_wait(profile: Profile, ground: Ground) -> None:
    ground.hold("time_wait")
    done = recovery(profile)
    assert not done.plan.needed
    assert "linger (TIME_WAIT) for up to a minute; they hinder no start" in done.planned


def test_h_the_containers_sshd_is_dead(request: pytest.FixtureRequest, profile: Profile, ground: Ground) -> None:
    ground.hold("orphans")
    ground.sh("systemctl stop ssh")
    done = clear(request, profile)
    assert "pct exec 129 --keep-env=0 -- sh -c 'systemctl restart ssh" in done.planned
    assert done.ok, done.truth
    assert not ground.is_held()
    with agent_of(profile) as agent:
        assert agent is not None, "sshd listens again"


def test_h_and_no_host_to_go_through(bed: Bed, profile: Profile, ground: Ground) -> None:
    ground.sh("systemctl stop ssh")
    with pytest.raises(LinkError, match="names no Proxmox host"):
        recovery(msgspec.structs.replace(profile, proxmox=None))


def test_h_and_no_python_that_would_run_the_agent(
    request: pytest.FixtureRequest, profile: Profile, ground: Ground
) -> None:
    """Then the host's own view is enough: its pids, its kill."""
    ground.hold("orphans")
    ground.sh("systemctl stop ssh; chmod a-x /usr/bin/python3*")
    try:
        done = clear(request, profile)
    finally:
        ground.sh("chmod a+x /usr/bin/python3*")
    assert "Not seen from inside" in done.planned
    assert "host pid" in done.planned
    assert done.ok, done.truth
    assert not ground.is_held()


def test_h_as_a_user_of_the_host_with_sudo(
    request: pytest.FixtureRequest, bed: Bed, profile: Profile, ground: Ground
) -> None:
    ground.hold("orphans")
    ground.sh("systemctl stop ssh; chmod a-x /usr/bin/python3*")
    try:
        done = clear(request, profile_of(bed, proxmox_user="keeper"))
    finally:
        ground.sh("chmod a+x /usr/bin/python3*")
    assert "sudo -n sh -c" in done.ran, "by the host's own pids"
    assert "sudo -n pct exec 129 --keep-env=0 -- sh -c 'systemctl restart ssh" in done.ran
    assert done.ok, done.truth
    assert not ground.is_held()


def test_h_as_a_user_of_the_host_who_may_run_only_pct(
    request: pytest.FixtureRequest, bed: Bed, profile: Profile, ground: Ground
) -> None:
    ground.hold("orphans")
    ground.sh("systemctl stop ssh")
    clerk = profile_of(bed, proxmox_user="clerk")
    with pytest.raises(Refused, match="clerk may run `pct` as root on proxmox, and nothing else"):
        recovery(clerk, Wish(last=RESTART))
    done = clear(request, clerk)
    assert "Not seen from the Proxmox host: clerk may run `pct` as root on proxmox, and nothing else" in done.planned
    assert "sudo -n pct exec 129 --keep-env=0 -- sh -c 'systemctl restart ssh" in done.ran
    assert done.ok, done.truth
    assert not ground.is_held()


def test_h_as_a_user_of_the_host_without_sudo(bed: Bed, profile: Profile, ground: Ground) -> None:
    ground.hold("orphans")
    ground.sh("systemctl stop ssh")
    with pytest.raises(LinkError) as refused:
        recovery(profile_of(bed, proxmox_user="visitor"))
    assert "visitor@10.129.0.1:22 is not root there, and `sudo -n` does not make it: sudo:" in refused.value.what
    assert "visitor ALL=(root) NOPASSWD: ALL" in refused.value.remedy
    assert ground.is_held()


def test_pct_knows_no_such_container(bed: Bed, profile: Profile, ground: Ground) -> None:
    ground.sh("systemctl stop ssh")
    assert profile.proxmox is not None
    wrong = msgspec.structs.replace(profile, proxmox=msgspec.structs.replace(profile.proxmox, vmid=130))
    with pytest.raises((LinkError, Refused)) as refused:
        recovery(wrong)
    assert "Configuration file 'nodes/pve/lxc/130.conf' does not exist" in refused.value.what


def test_pct_leads_to_another_container(bed: Bed, profile: Profile, ground: Ground) -> None:
    """Told by the ssh host keys in it: nothing is looked at there, let alone ended."""
    ground.hold("orphans")
    key = "/etc/ssh/ssh_host_ed25519_key.pub"
    ground.sh(f"systemctl stop ssh; cp {key} /root/key; cat >{key}", (bed.folder / "keys/host.pub").read_text())
    try:
        with pytest.raises(Refused, match="container 129 on proxmox is not container: its ssh host key") as refused:
            recovery(profile)
    finally:
        ground.sh(f"mv /root/key {key}")
    assert "Correct proxmox.vmid" in refused.value.remedy
    assert ground.is_held()


def test_pct_says_it_is_not_running(request: pytest.FixtureRequest, profile: Profile, ground: Ground) -> None:
    assert ground.bed.host("pct", "stop", "129").returncode == 0
    with pytest.raises(Refused, match="container 129 is not running") as refused:
        recovery(profile)
    assert "pct start 129" in refused.value.remedy
    done = clear(request, profile, Wish(last=RESTART))
    assert [step.command for step in done.steps if step.command] == ["timeout 60 pct start 129"]
    assert done.ok, done.truth


def test_pct_says_it_is_locked(request: pytest.FixtureRequest, bed: Bed, profile: Profile, ground: Ground) -> None:
    """A lock hinders no recovery by `pct exec`, only a restart: which says so, and whose turn it is."""
    config = bed.folder / "etc/pve/lxc/129.conf"
    before = config.read_text()
    ground.hold("orphans")
    config.write_text(f"{before}lock: backup\n")
    try:
        restart = clear(request, profile, Wish(last=RESTART))
        ground.sh("systemctl stop ssh")
        done = clear(request, profile)
    finally:
        config.write_text(before)
    assert "CT is locked (backup)" in restart.truth
    assert "Another task of the Proxmox host has the container" in restart.truth
    assert done.ok, done.truth


def test_pct_waits_for_another_task(
    request: pytest.FixtureRequest, profile: Profile, ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery_plan, "STOP", 2.0)
    lock = "/run/lock/lxc/pve-config-129.lock"
    hold = f"mkdir -p /run/lock/lxc; setsid -f flock {lock} sleep 20 >/dev/null 2>&1 </dev/null; sleep 0.3"
    ground.bed.host("sh", "-c", hold)
    done = clear(request, profile, Wish(last=RESTART))
    ground.bed.host("fuser", "-k", lock)
    assert "trying to acquire lock" in done.truth
    assert "Another task of the Proxmox host has the container" in done.truth
    assert not done.ok


def test_p01_ipv6_only(request: pytest.FixtureRequest, profile: Profile, ground: Ground) -> None:
    pid = ground.hold("six")
    done = clear(request, msgspec.structs.replace(profile, server=msgspec.structs.replace(profile.server, host="::")))
    assert f"pid {pid}" in done.planned
    assert "holds [::]:8000" in done.planned
    assert done.ok
    assert not ground.is_held()


def test_p02_a_notebook_kernel_is_ended_only_by_name(
    request: pytest.FixtureRequest, profile: Profile, ground: Ground
) -> None:
    pid = ground.hold("plain", user=PLAIN_USER, module="ipykernel_launcher", ours=False)
    with pytest.raises(Refused) as refused:
        recovery(profile)
    assert f"pid {pid} of {PLAIN_USER}" in refused.value.what
    assert "ipykernel_launcher" in refused.value.what
    assert ground.exists(pid)
    done = clear(request, profile, Wish(including=(pid,)))
    assert "NOT ours" in done.planned
    assert done.ok
    assert not ground.exists(pid)


def test_p02_stays_when_our_orphans_go(profile: Profile, ground: Ground) -> None:
    stranger = ground.hold("plain", module="ipykernel_launcher", ours=False)
    ground.hold("spawned", port=PORT + 1)
    done = recovery(profile)
    assert "Left alone, not ours" in done.planned
    assert not done.ok
    assert f"hsconsole server recover --including {stranger}" in done.truth
    assert ground.exists(stranger)
    assert ground.sh("pgrep -fa '^sglang::' || true") == ""


def test_only_what_stands_in_the_way_can_be_included(profile: Profile, ground: Ground) -> None:
    with pytest.raises(Refused, match="does not hold port 8000"):
        recovery(profile, Wish(including=(1,)))


def test_last_resort_every_python(request: pytest.FixtureRequest, profile: Profile, ground: Ground) -> None:
    """Each is shown before; one that comes after that is not ended."""
    other = ground.hold("plain", module="ipykernel_launcher", user=PLAIN_USER, ours=False, port=PORT + 1)
    ground.hold("orphans")
    with agent_of(profile) as agent:
        plan = recover.plan(agent, profile, Wish(last=PYTHONS))
        newcomer = ground.hold("plain", module="ipykernel_launcher", ours=False, port=PORT + 2)
        outcome = recover.run(agent, profile, plan, lambda step: None)
    assert plan.word == "kill every python"
    (line,) = [step.title for step in plan.steps if f"pid {other} " in step.title]
    assert re.match(rf"pid {other} of {PLAIN_USER}, [\d.]+ s old, state S: python3 -m ipykernel_launcher", line)
    assert "NOT ours (a Python process), named by you" in line
    assert f"What pid {other} is doing: it is not ours." in plan.losses
    assert outcome.ok, outcome
    assert not ground.exists(other)
    assert ground.exists(newcomer)


def test_last_resort_restart(request: pytest.FixtureRequest, profile: Profile, ground: Ground) -> None:
    before = ground.init_pid
    ground.hold("orphans")
    done = clear(request, profile, Wish(last=RESTART))
    assert done.ok, done.truth
    assert ground.init_pid != before
    ground.sh("until ss -ltnH | grep -q :22; do sleep 0.1; done")
    assert not ground.is_held()


def test_somebody_new_since_the_plan(profile: Profile, ground: Ground) -> None:
    ground.hold("orphans")
    with agent_of(profile) as agent:
        plan = recover.plan(agent, profile)
        newcomer = ground.hold("plain", module="ipykernel_launcher", ours=False, port=PORT + 1)
        six = ground.hold("six", module="ipykernel_launcher", ours=False)
        with pytest.raises(ChangedSincePlan, match=f"pid {six}"):
            recover.run(agent, profile, plan, lambda step: None)
    assert ground.is_held(), "nothing was ended"
    assert ground.exists(newcomer)


def test_a_pid_that_is_anothers_by_now(profile: Profile, ground: Ground) -> None:
    ground.hold("orphans")
    bystander = ground.hold("plain", module="ipykernel_launcher", ours=False, port=PORT + 1)
    with agent_of(profile) as agent:
        plan = recover.plan(agent, profile)
        basis = {**plan.basis, "processes": [*plan.basis["processes"], [bystander, 1]]}
        there = [[ground.on_host(bystander), 1]]
        host = {name: hostcommands.line("", hostcommands.signal(name, there)) for name in ("TERM", "KILL", "0")}
        outcome = recover.run(agent, profile, dataclasses.replace(plan, basis={**basis, "host": host}), lambda s: None)
    assert outcome.ok
    assert ground.exists(bystander), "its start time is not the one of the plan"


def test_nothing_to_recover(profile: Profile, ground: Ground) -> None:
    done = recovery(profile)
    assert not done.plan.needed
    assert done.plan.title == "Port 8000 is free and nothing of a dead server is left"


def test_read_only_profiles_are_refused(profile: Profile, ground: Ground) -> None:
    ground.hold("orphans")
    with pytest.raises(Refused, match="read-only"):
        recovery(msgspec.structs.replace(profile, read_only=True))
    assert ground.is_held()
