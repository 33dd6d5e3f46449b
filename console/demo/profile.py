"""The demo's profile: like any other, and honest about what it stands in for."""

from __future__ import annotations

import os

from console.config.profile import Container, Dump, Profile, Server
from console.demo.engine import ENVIRONMENT, Engine
from console.demo.sshd import ALIAS, Sshd, free_port

NAME = "demo"

STOOD_IN = ("no GPU", "no Proxmox host", "a tiny random model")

FLAGS = (
    "--device=cpu",
    "--dtype=float32",  # exact: dumps can be compared with transformers to six digits
    "--attention-backend=torch_native",
    "--sampling-backend=pytorch",
    "--grammar-backend=none",
    "--skip-tokenizer-init",
    "--disable-overlap-schedule",
    "--max-total-tokens=16384",
    "--mem-fraction-static=0.2",
)
LAYERS = (1, 2, 3)


def container(engine: Engine, sshd: Sshd) -> Container:
    return Container(host=ALIAS, python=str(engine.python), ssh_config=str(sshd.config))


def profile(engine: Engine, sshd: Sshd) -> Profile:
    """The profile of one demo: its own port and its own dump folder."""
    return Profile(
        name=NAME,
        container=container(engine, sshd),
        server=Server(
            model_path=str(engine.model), host="127.0.0.1", port=free_port(), flags=FLAGS, env=dict(ENVIRONMENT)
        ),
        dump=Dump(folder=f"/dev/shm/hsconsole-demo-{os.getpid()}", layers=LAYERS),
        stood_in=STOOD_IN,
    )
