"""Each way a port stays held: who is found, what clears it, and what is said when nothing can. See docs/recovery.md."""

from __future__ import annotations

import msgspec
import pytest

from console.config.profile import Profile
from console.errors import Refused
from console.operations.recovery_wish import Wish
from tests.bed.conftest import profile_of
from tests.bed.container import PORT, Ground
from tests.bed.machines import Bed
from tests.bed.recovering import recovery
from tests.bed.rootfs import PLAIN_USER, SUDOER

MOST_SECONDS = 10.0


def test_a_ignores_sigterm(profile: Profile, ground: Ground) -> None:
    pid = ground.hold("stubborn")
    done = recovery(profile)
    assert f"pid {pid} of root" in done.planned
    assert "holds 0.0.0.0:8000 – ours" in done.planned
    assert f"kill -TERM {pid}" in done.ran
    assert f"kill -KILL {pid}" in done.ran
    assert done.ok
    assert not ground.is_held()


def test_b_orphans_hold_the_port(profile: Profile, ground: Ground) -> None:
    ground.hold("orphans")
    done = recovery(profile)
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


def test_b2_orphans_without_the_port(profile: Profile, ground: Ground) -> None:
    ground.hold("spawned")
    assert not ground.is_held()
    done = recovery(profile)
    assert "sglang::scheduler_TP0" in done.planned
    assert "holds" not in done.planned
    assert done.ok
    assert ground.sh("pgrep -fa '^sglang::' || true") == ""


def test_c_of_another_user_as_root(profile: Profile, ground: Ground) -> None:
    pid = ground.hold("stubborn", user=PLAIN_USER)
    done = recovery(profile)
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


def test_c_with_sudo(bed: Bed, profile: Profile, ground: Ground) -> None:
    pid = ground.hold("stubborn")
    done = recovery(msgspec.structs.replace(profile_of(bed, user=SUDOER), proxmox=None))
    assert f"pid {pid} of root" in done.planned
    assert "dump folder in its environment" in done.planned, "root's environment is read by sudo too"
    assert done.ok, done.truth
    assert not ground.is_held()


def test_c_without_root_through_the_host(bed: Bed, profile: Profile, ground: Ground) -> None:
    """Orphans of root's: seen by their titles, not to be signalled by this user, ended by `pct exec`."""
    ground.hold("orphans")
    done = recovery(profile_of(bed, user=PLAIN_USER))
    assert "pct exec 129 --keep-env=0 -- sh -c" in done.planned
    assert "as root by the Proxmox host" in done.ran
    assert done.ok, done.truth
    assert not ground.is_held()


def test_d_a_zombie_holds_nothing(profile: Profile, ground: Ground) -> None:
    ground.hold("zombie", module="ipykernel_launcher", ours=False)
    done = recovery(profile)
    assert not done.plan.needed
    assert "is a zombie: it holds nothing, and goes when its parent notices" in done.planned


def test_d2_dead_main_thread(profile: Profile, ground: Ground) -> None:
    pid = ground.hold("dead_leader")
    assert ground.sh("ss -ltnpH 'sport = :8000' | grep -c pid= || true") == "0", "ss does not see who holds it"
    done = recovery(profile)
    assert f"pid {pid} of root" in done.planned
    assert "by its thread" in done.planned
    assert done.ok
    assert not ground.is_held()


def test_e_outside_of_the_container(profile: Profile, ground: Ground) -> None:
    pid = ground.hold_outside()
    with pytest.raises(Refused) as refused:
        recovery(profile)
    assert f"host pid {pid} of uid 0" in refused.value.what
    assert "outside of the container" in refused.value.what
    assert f"--including-host {pid}" in refused.value.remedy
    assert ground.exists_on_host(pid)
    done = recovery(profile, Wish(including_host=(pid,)))
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


def test_g_time_wait(profile: Profile, ground: Ground) -> None:
    ground.hold("time_wait")
    done = recovery(profile)
    assert not done.plan.needed
    assert "linger (TIME_WAIT) for up to a minute; they hinder no start" in done.planned


@pytest.mark.parametrize(("way", "host"), [("six", "::"), ("six", "0.0.0.0"), ("both", "0.0.0.0")])
def test_p01_ipv6_only(profile: Profile, ground: Ground, way: str, host: str) -> None:
    """Whatever address the server is to have: also where it would hinder IPv6 alone, and where IPv4 by the way."""
    pid = ground.hold(way)
    done = recovery(msgspec.structs.replace(profile, server=msgspec.structs.replace(profile.server, host=host)))
    assert f"pid {pid}" in done.planned
    assert "holds [::]:8000" in done.planned
    assert done.ok
    assert not ground.is_held()


def test_p02_a_notebook_kernel_is_ended_only_by_name(profile: Profile, ground: Ground) -> None:
    pid = ground.hold("plain", user=PLAIN_USER, module="ipykernel_launcher", ours=False)
    with pytest.raises(Refused) as refused:
        recovery(profile)
    assert f"pid {pid} of {PLAIN_USER}" in refused.value.what
    assert "ipykernel_launcher" in refused.value.what
    assert ground.exists(pid)
    done = recovery(profile, Wish(including=(pid,)))
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
