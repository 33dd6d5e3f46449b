"""Whose console it is, and when."""

from __future__ import annotations

from console.config.profile import Container, Dump, Profile, Proxmox, Server
from remote.wire.plan import Verdict

NOW = 1_800_000_000.0


GIB = 1024**3


LOG = "/root/.local/state/hsconsole/server-8000.log"


HOSTILE = "read [/dev/shm] failed [/foo] \x1b[31mred\x1b[0m \x1b]0;title\x07 nul\x00 \udcff\u202e [@click=app.quit]x[/]"


PROFILE = Profile(
    name="kimi",
    container=Container(host="ct129", python="/root/ml-env/bin/python3", user="root"),
    server=Server(model_path="/models/Kimi-K2.5", tp=8),
    dump=Dump(),
    proxmox=Proxmox(host="pve1", vmid=129),
)


READ_ONLY = Profile(
    name="kimi", container=PROFILE.container, server=PROFILE.server, proxmox=PROFILE.proxmox, read_only=True
)


DEMO = Profile(
    name="demo",
    container=Container(host="127.0.0.1", python="/root/.cache/hsconsole/demo/bin/python", user="root", port=2222),
    server=Server(model_path="/root/.cache/hsconsole/demo/dsv3", port=30000, flags=("--device=cpu",)),
    stood_in=("no GPU", "no Proxmox host", "a tiny random model"),
)


OK, WARN, BAD, UNKNOWN = Verdict.OK, Verdict.WARN, Verdict.BAD, Verdict.UNKNOWN
