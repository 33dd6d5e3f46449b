"""Process 1 of the Proxmox host: mounts, container and sshd, then reaps until it is killed. Run by bed.py.

Everything here is private to the host's own mount, PID, network, UTS and IPC namespaces, and ends with this process.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

LXC = Path("/var/lib/lxc")
HOST = "10.129.0.1"
CONTAINER = "10.129.0.129"
GUEST_CONFIG = """\
arch: amd64
cores: 2
features: nesting=1
hostname: sglang
memory: 24576
net0: name=eth0,bridge=vmbr0,gw={host},hwaddr=BC:24:11:00:01:29,ip={container}/24,type=veth
ostype: debian
rootfs: local:{vmid}/vm-{vmid}-disk-0.raw,size=8G
swap: 512
"""
LXC_CONFIG = """\
lxc.include = /usr/share/lxc/config/common.conf
lxc.uts.name = sglang
lxc.rootfs.path = dir:{root}
lxc.apparmor.profile = unconfined
lxc.tty.dir =
lxc.tty.max = 2
lxc.console.path = none
lxc.init.cmd = /sbin/init
lxc.cgroup.dir.container = {name}.container
lxc.cgroup.dir.monitor = {name}.monitor
lxc.cgroup.dir.monitor.pivot = {name}.pivot
lxc.mount.entry = shm dev/shm tmpfs rw,nosuid,nodev,size={shm},create=dir 0 0
lxc.net.0.type = veth
lxc.net.0.link = vmbr0
lxc.net.0.name = eth0
lxc.net.0.hwaddr = BC:24:11:00:01:29
lxc.net.0.flags = up
lxc.net.0.ipv4.address = {container}/24
lxc.net.0.ipv4.gateway = {host}
"""
# who may log in besides root, and what each may run as root
USERS = {"keeper": "ALL", "clerk": "/usr/sbin/pct", "visitor": ""}
SSHD_CONFIG = """\
ListenAddress {host}:22
HostKey {keys}/host
AuthorizedKeysFile {keys}/client.pub
PidFile none
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
UsePAM no
SetEnv HOME={home}
Subsystem sftp internal-sftp
"""


def run(*command: str) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def mount_private(folder: Path) -> None:
    """This network namespace's sysfs, with the machine's control groups; our own /etc/pve, /var/lib/lxc, pct."""
    groups = folder / "cgroup"
    groups.mkdir()
    run("mount", "--rbind", "/sys/fs/cgroup", str(groups))
    run("mount", "-t", "sysfs", "sysfs", "/sys")
    run("mount", "--rbind", str(groups), "/sys/fs/cgroup")
    for place in ("/run/lock", "/run/lxc", "/run/sshd", str(LXC), str(folder / "upper")):
        Path(place).mkdir(parents=True, exist_ok=True)
        run("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", place)
    program = folder / "sbin" / "pct"
    program.parent.mkdir()
    shutil.copy(Path(__file__).with_name("pct.py"), program)
    program.chmod(0o755)
    run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={program.parent}:/usr/sbin", "/usr/sbin")
    etc = folder / "etc"
    (etc / "pve" / "lxc").mkdir(parents=True)
    add_users(etc)
    run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={etc}:/etc", "/etc")


def add_users(etc: Path) -> None:
    (etc / "hosts").write_text("127.0.0.1 localhost pve\n")  # sudo looks its own host's name up
    (etc / "sudoers.d").mkdir()
    for name in ("passwd", "group", "shadow"):
        shutil.copy(f"/etc/{name}", etc / name)
    for number, (user, allowed) in enumerate(USERS.items(), 4000):
        for name, line in (
            ("passwd", f"{user}:x:{number}:{number}::/:/bin/sh\n"),
            ("group", f"{user}:x:{number}:\n"),
            ("shadow", f"{user}:*:19000:0:99999:7:::\n"),
        ):
            with (etc / name).open("a") as file:
                file.write(line)
        rule = etc / "sudoers.d" / user
        rule.write_text(f"{user} ALL=(root) NOPASSWD: {allowed}\n" if allowed else "")
        rule.chmod(0o440)


def make_container(folder: Path, name: str, vmid: str, shm: str, rootfs: str, mounts: list[str]) -> None:
    root = LXC / vmid / "rootfs"
    root.mkdir(parents=True)
    run("mount", "--bind", str(overlay(folder, rootfs, "root")), str(root))
    keys = folder / "keys"
    for source, place in (("container", "ssh_host_ed25519_key"), ("container.pub", "ssh_host_ed25519_key.pub")):
        shutil.copyfile(keys / source, root / "etc/ssh" / place)
    (root / "etc/ssh/ssh_host_ed25519_key").chmod(0o600)
    for home in (root / "root", *(root / "home").iterdir()):
        ssh = home / ".ssh"
        ssh.mkdir(mode=0o700, exist_ok=True)
        shutil.copyfile(keys / "client.pub", ssh / "authorized_keys")
        owner = home.stat()
        for path in (ssh, ssh / "authorized_keys"):
            os.chown(path, owner.st_uid, owner.st_gid)
    (root / "etc/hostname").write_text("sglang\n")
    words = {"root": root, "name": name, "shm": shm, "vmid": vmid, "host": HOST, "container": CONTAINER}
    bound = (
        f"lxc.mount.entry = {overlay(folder, path, str(number))} {path.lstrip('/')} none rbind,create=dir 0 0\n"
        for number, path in enumerate(mounts)
    )
    (LXC / vmid / "config").write_text(LXC_CONFIG.format(**words) + "".join(bound))
    (folder / "etc/pve/lxc" / f"{vmid}.conf").write_text(GUEST_CONFIG.format(**words))


def overlay(folder: Path, lower: str, name: str) -> Path:
    """`lower` as the container may write to it: what it writes stays here, in memory."""
    for part in ("data", "work"):
        (folder / "upper" / name / part).mkdir(parents=True)
    place = folder / f"mount-{name}"
    place.mkdir()
    upper = folder / "upper" / name
    layers = f"lowerdir={lower},upperdir={upper}/data,workdir={upper}/work"
    run("mount", "-t", "overlay", "overlay", "-o", layers, str(place))
    return place


def serve_ssh(folder: Path) -> None:
    home = folder / "home"  # not the machine's root, whose shell may greet
    home.mkdir()
    config = folder / "sshd_config"
    config.write_text(SSHD_CONFIG.format(host=HOST, keys=folder / "keys", home=home))
    run("/usr/sbin/sshd", "-f", str(config), "-E", str(folder / "sshd.log"))


def wait_for_sshd(address: str, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            with socket.create_connection((address, 22), 1.0) as peer:
                if peer.recv(4) == b"SSH-":
                    return
        except OSError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def main() -> None:
    told = json.load(sys.stdin)
    folder = Path(told["folder"])
    socket.sethostname("pve")
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "vmbr0", "type", "bridge")
    run("ip", "addr", "add", f"{HOST}/24", "dev", "vmbr0")
    run("ip", "link", "set", "vmbr0", "up")
    mount_private(folder)
    make_container(folder, told["name"], told["vmid"], told["shm"], told["rootfs"], told["mounts"])
    run("lxc-start", "-d", "-n", told["vmid"], "-l", "INFO", "-o", str(folder / "lxc.log"))
    serve_ssh(folder)
    wait_for_sshd(HOST)
    wait_for_sshd(CONTAINER)
    (folder / "ready").touch()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps what is given to us
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
