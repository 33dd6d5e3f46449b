"""The container's root file system: Debian 12 with systemd and sshd, built once in the user's cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import platformdirs

from console.demo.locks import exclusive

SUITE = "bookworm"
PACKAGES = (
    *("systemd-sysv", "dbus", "openssh-server", "sudo"),
    *("python3", "psmisc", "iproute2", "procps", "lsof"),
    *("libgomp1", "libnuma1"),  # what torch and SGLang link to
)
PATIENCE = 600.0  # seconds for another build to end
SUDOER, PLAIN_USER = "keeper", "visitor"  # with sudo, and without


def cache_folder() -> Path:
    return Path(platformdirs.user_cache_dir("hsconsole-tests")) / "bed"


def rootfs() -> Path:
    """The folder of the root file system, built when it isn't there (about a minute). Never changed afterwards."""
    digest = hashlib.sha256(" ".join((SUITE, *PACKAGES, Path(__file__).read_text())).encode()).hexdigest()[:12]
    folder = cache_folder() / f"rootfs-{digest}"
    if folder.exists():
        return folder
    with exclusive(cache_folder() / "lock", "building the bed's container", lambda _: None, PATIENCE):
        if not folder.exists():
            _build(folder)
    return folder


def _build(folder: Path) -> None:
    aside = folder.with_name("building")
    if aside.exists():
        shutil.rmtree(aside)
    command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(aside)]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env={**os.environ, "TMPDIR": "/var/tmp"},  # apt's own user must be able to write there
    )
    if done.returncode:
        raise AssertionError(f"mmdebstrap failed:\n{done.stderr[-3000:]}")
    _furnish(aside)
    aside.rename(folder)


def _furnish(root: Path) -> None:
    """Users to log in as, and nothing that starts by itself but sshd."""
    for user in (SUDOER, PLAIN_USER):
        subprocess.run(["chroot", str(root), "useradd", "--create-home", "--shell", "/bin/bash", user], check=True)
        # sshd turns away a locked password even where keys are asked for
        subprocess.run(["chroot", str(root), "usermod", "--password", "*", user], check=True)
    sudoers = root / "etc" / "sudoers.d" / SUDOER
    sudoers.write_text(f"{SUDOER} ALL=(ALL) NOPASSWD: ALL\n")
    sudoers.chmod(0o440)
    (root / "etc" / "resolv.conf").unlink(missing_ok=True)
    (root / "etc" / "hosts").write_text("127.0.0.1 localhost sglang\n::1 localhost\n")
    for timer in (root / "etc" / "systemd" / "system" / "timers.target.wants").glob("*"):
        timer.unlink()
    for key in (root / "etc" / "ssh").glob("ssh_host_*"):
        with contextlib.suppress(OSError):
            key.unlink()
