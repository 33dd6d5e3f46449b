"""Who waits in the kernel, or is frozen: no signal ends the one, the other is thawed first. See docs/recovery.md."""

from __future__ import annotations

import pytest

from console.config.profile import Profile
from console.operations import recover, recovery_plan, recovery_ways
from console.operations.recovery_wish import RESTART, Wish
from console.ssh import connection
from tests.bed.container import FREEZERS, Ground
from tests.bed.recovering import agent_of, recovery


def test_d3_dead_main_thread_and_a_thread_in_the_kernel(profile: Profile, ground: Ground) -> None:
    ground.hang()
    pid = ground.hold("hung_thread")
    done = recovery(profile)
    assert not done.ok
    assert f"Waiting in the kernel: pid {pid} (request_wait_answer)" in done.truth
    assert "only a reboot of the Proxmox host clears it" in done.truth
    with agent_of(profile) as agent:
        again = recover.plan(agent, profile)
    assert any("`pct stop 129` would hang on it" in note for note in again.notes)
    ground.unhang()
    ground.wait_until_free()  # it ends with what it waited for


def test_f_waits_in_the_kernel(profile: Profile, ground: Ground) -> None:
    ground.hang()
    pid = ground.hold("hung")
    done = recovery(profile)
    assert not done.ok
    assert f"Waiting in the kernel: pid {pid}" in done.truth
    ground.unhang()
    ground.wait_until_free()


@pytest.mark.parametrize("version", FREEZERS)
def test_f2_frozen_control_group(profile: Profile, ground: Ground, version: int) -> None:
    """Seen by its state D, or, in the newer control groups, by nothing; there KILL ends it all the same."""
    group = ground.freeze(ground.hold("plain"), version)
    done = recovery(profile)
    assert version == 2 or f"hsconsole {group}/freezer.state THAWED" in done.ran
    assert done.ok, done.truth
    assert not ground.is_held()


@pytest.mark.parametrize("version", FREEZERS)
def test_f2_the_whole_container_is_frozen(
    profile: Profile, ground: Ground, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Nothing in it answers. It is thawed, and nobody in it is ended: a server goes on where it stood."""
    monkeypatch.setattr(connection, "HANDSHAKE", 4.0)
    monkeypatch.setattr(recovery_ways, "EXEC", 4.0)
    pid = ground.hold("plain")
    group = ground.freeze_all(version)
    done = recovery(profile)
    assert done.plan.title == "Thaw container 129, which is frozen as a whole"
    assert [step.command for step in done.steps if step.command] == [
        f'sh -c \'printf %s "$2" >"$1"\' hsconsole {group}/'
        + {1: "freezer.state THAWED", 2: "cgroup.freeze 0"}[version]
    ]
    assert done.ok, done.truth
    assert ground.exists(pid)
    assert done.outcome is not None
    assert "it runs again" in done.outcome.checks[0].found


def test_f3_the_container_does_not_stop(profile: Profile, ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery_plan, "STOP", 3.0)
    monkeypatch.setattr(connection, "HANDSHAKE", 4.0)
    monkeypatch.setattr(recovery_ways, "EXEC", 4.0)
    ground.hang(outside=True)
    pid = ground.hold("hung")
    ground.sh(f"kill -9 {pid}; until grep -q '^State:.D' /proc/{pid}/status; do sleep 0.05; done")
    done = recovery(profile, Wish(last=RESTART))
    assert done.plan.word == "restart 129"
    assert "`pct stop 129` would hang on it" in done.planned
    assert not done.ok
    assert "only a reboot of the Proxmox host ends that" in done.truth
    after = recovery(profile)  # neither ssh nor `pct exec` leads into it now: the host's view is left
    assert "Not seen from inside" in after.planned
    assert not after.ok
    assert "waits in the kernel" in after.truth
