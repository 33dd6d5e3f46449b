"""A FUSE file system whose only file never answers a read, whoever reads it waits in state D: hungfs.py FOLDER.

Spoken over /dev/fuse by hand. The waiting ends when this program does.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from pathlib import Path

# struct fuse_in_header: length, opcode, unique, node, uid, gid, pid, padding
HEADER = struct.Struct("<IIQQIIII")
LOOKUP, FORGET, GETATTR, OPEN, READ, INIT, INTERRUPT, BATCH_FORGET = 1, 2, 3, 14, 15, 26, 36, 42
ENOENT, ENOSYS = 2, 38
ROOT, FILE = 1, 2
UNANSWERED = (READ, FORGET, INTERRUPT, BATCH_FORGET)


def attributes(node: int) -> bytes:
    mode = 0o40755 if node == ROOT else 0o100644
    return struct.pack("<6Q10I", node, 4096, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(opcode: int, node: int, body: bytes) -> bytes | int:
    """The body of an answer, or an errno."""
    if opcode == INIT:
        return struct.pack("<4I2H2I2HI", 7, 31, 65536, 0, 12, 9, 65536, 1, 0, 0, 0) + bytes(24)
    if opcode == LOOKUP:
        entry = struct.pack("<4Q2I", FILE, 0, 1, 1, 0, 0) + attributes(FILE)
        return entry if body.startswith(b"file\0") else ENOENT
    if opcode == GETATTR:
        return struct.pack("<Q2I", 1, 0, 0) + attributes(node)
    if opcode == OPEN:
        return struct.pack("<Q2I", 1, 1, 0)  # direct: no page cache, each read comes here
    return ENOSYS


def main(folder: str) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    if not Path("/dev/fuse").exists():
        os.mknod("/dev/fuse", 0o20600, os.makedev(10, 229))
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"hungfs", folder.encode(), b"fuse", 0, options):
        raise OSError(ctypes.get_errno(), "mount")
    print("ready", flush=True)
    while True:
        request = os.read(device, 1 << 20)
        _, opcode, unique, node, *_ = HEADER.unpack_from(request)
        if opcode in UNANSWERED:
            continue
        reply = answer(opcode, node, request[HEADER.size :])
        body, error = (b"", reply) if isinstance(reply, int) else (reply, 0)
        os.write(device, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)


if __name__ == "__main__":
    main(sys.argv[1])
