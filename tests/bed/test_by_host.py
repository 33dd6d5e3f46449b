"""Through the Proxmox host where the container's sshd is dead, and each of `pct`'s errors. See docs/recovery.md."""

from __future__ import annotations

import msgspec
import pytest

from console.config.profile import Profile
from console.errors import LinkError, Refused
from console.operations import recovery_plan
from console.operations.recovery_wish import RESTART, Wish
from console.ssh import connection
from tests.bed.conftest import profile_of
from tests.bed.container import Ground
from tests.bed.machines import Bed
from tests.bed.recovering import agent_of, recovery


def test_h_the_containers_sshd_is_dead(profile: Profile, ground: Ground) -> None:
    ground.hold("orphans")
    ground.sh("systemctl stop ssh")
    done = recovery(profile)
    assert "pct exec 129 --keep-env=0 -- sh -c 'systemctl restart ssh" in done.planned
    assert done.ok, done.truth
    assert not ground.is_held()
    with agent_of(profile) as agent:
        assert agent is not None, "sshd listens again"


def test_h_and_no_systemd_that_would_start_it(profile: Profile, ground: Ground) -> None:
    """By hand then, with none of the pipes that `pct exec` would go on waiting for."""
    ground.sh("systemctl stop ssh; chmod a-x /usr/bin/systemctl")
    try:
        done = recovery(profile)
        with agent_of(profile) as agent:
            assert agent is not None, "sshd listens again"
    finally:
        ground.sh("chmod a+x /usr/bin/systemctl; kill $(pgrep -ox sshd); systemctl restart ssh")
    assert done.ok, done.truth


def test_h_and_no_host_to_go_through(bed: Bed, profile: Profile, ground: Ground) -> None:
    ground.sh("systemctl stop ssh")
    with pytest.raises(LinkError, match="names no Proxmox host"):
        recovery(msgspec.structs.replace(profile, proxmox=None))


def test_h_and_no_python_that_would_run_the_agent(profile: Profile, ground: Ground) -> None:
    """Then the host's own view is enough: its pids, its kill."""
    ground.hold("orphans")
    ground.sh("systemctl stop ssh; chmod a-x /usr/bin/python3*")
    try:
        done = recovery(profile)
    finally:
        ground.sh("chmod a+x /usr/bin/python3*")
    assert "Not seen from inside" in done.planned
    assert "host pid" in done.planned
    assert done.ok, done.truth
    assert not ground.is_held()


def test_h_as_a_user_of_the_host_with_sudo(
    bed: Bed, profile: Profile, ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the container's sshd is not dead, it hangs: its port is open, and nobody is accepted."""
    monkeypatch.setattr(connection, "HANDSHAKE", 4.0)
    ground.hold("orphans")
    ground.sh("kill -STOP $(systemctl show -P MainPID ssh); chmod a-x /usr/bin/python3*")
    try:
        done = recovery(profile_of(bed, proxmox_user="keeper"))
    finally:
        ground.sh("chmod a+x /usr/bin/python3*")
    assert "sudo -n sh -c" in done.ran, "by the host's own pids"
    assert "sudo -n pct exec 129 --keep-env=0 -- sh -c 'systemctl restart ssh" in done.ran
    assert done.ok, done.truth
    assert not ground.is_held()
    with agent_of(profile) as agent:
        assert agent is not None, "sshd answers again"


def test_h_as_a_user_of_the_host_who_may_run_only_pct(bed: Bed, profile: Profile, ground: Ground) -> None:
    ground.hold("orphans")
    ground.sh("systemctl stop ssh")
    clerk = profile_of(bed, proxmox_user="clerk")
    with pytest.raises(Refused, match="clerk may run `pct` as root on proxmox, and nothing else"):
        recovery(clerk, Wish(last=RESTART))
    done = recovery(clerk)
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


def test_pct_says_it_is_not_running(profile: Profile, ground: Ground) -> None:
    assert ground.bed.host("pct", "stop", "129").returncode == 0
    with pytest.raises(Refused, match="container 129 is not running") as refused:
        recovery(profile)
    assert "pct start 129" in refused.value.remedy
    done = recovery(profile, Wish(last=RESTART))
    assert [step.command for step in done.steps if step.command] == ["timeout 60 pct start 129"]
    assert done.ok, done.truth


def test_pct_says_it_is_locked(bed: Bed, profile: Profile, ground: Ground) -> None:
    """A lock hinders no recovery by `pct exec`, only a restart: which says so, and whose turn it is."""
    config = bed.folder / "etc/pve/lxc/129.conf"
    before = config.read_text()
    ground.hold("orphans")
    config.write_text(f"{before}lock: backup\n")
    try:
        restart = recovery(profile, Wish(last=RESTART))
        ground.sh("systemctl stop ssh")
        done = recovery(profile)
    finally:
        config.write_text(before)
    assert "CT is locked (backup)" in restart.truth
    assert "Another task of the Proxmox host has the container" in restart.truth
    assert done.ok, done.truth


def test_pct_waits_for_another_task(profile: Profile, ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery_plan, "STOP", 2.0)
    lock = "/run/lock/lxc/pve-config-129.lock"
    hold = f"mkdir -p /run/lock/lxc; setsid -f flock {lock} sleep 20 >/dev/null 2>&1 </dev/null; "
    hold += f"while flock -n {lock} true; do sleep 0.02; done"
    ground.bed.host("sh", "-c", hold)
    done = recovery(profile, Wish(last=RESTART))
    ground.bed.host("fuser", "-k", lock)
    assert "trying to acquire lock" in done.truth
    assert "Another task of the Proxmox host has the container" in done.truth
    assert not done.ok
