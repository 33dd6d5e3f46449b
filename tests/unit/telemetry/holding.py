"""Holds a file of a folder in one way until its input ends. Run as `python holding.py WAY PATH`; says `ready`."""

from __future__ import annotations

import ctypes
import mmap
import os
import pathlib
import platform
import sys
import threading

SYS_EXIT = {"x86_64": 60, "aarch64": 93}
kept: list[object] = []


def opened(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def mapped(path: str) -> None:
    """By its map alone, as a SharedMemory that was given away."""
    handle = opened(path)
    os.ftruncate(handle, 4096)
    kept.append(mmap.mmap(handle, 4096))
    os.close(handle)


def main(way: str, path: str) -> None:
    if way == "opened":
        opened(path)
    elif way == "mapped":
        mapped(path)
    elif way == "semaphore":  # as glibc's sem_open makes one: mapped under another name than it has in the end
        mapped(path + ".made")
        os.link(path + ".made", path)
        pathlib.Path(path + ".made").unlink()
    elif way == "dead_leader":  # its main thread has ended: /proc/PID/fd and maps show nothing
        opened(path)
        threading.Thread(target=sys.stdin.read).start()
    print("ready", flush=True)
    if way == "dead_leader":
        ctypes.CDLL(None).syscall(SYS_EXIT[platform.machine()], 0)
    sys.stdin.read()


main(*sys.argv[1:])
