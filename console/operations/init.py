"""A new profile: the operator names the host, the rest is probed."""

from __future__ import annotations

import dataclasses
import ipaddress

from console.config import checks
from console.config.profile import Container, Dump, Profile, Proxmox, Server
from console.errors import ConfigError
from remote.wire.host import Interpreter, Survey

LOGIN = ("user", "port", "key", "ssh_config")
FALLBACK_PYTHON = "python3"


@dataclasses.dataclass(frozen=True)
class Answers:
    """What was asked. Empty or None: take what was probed."""

    host: str
    user: str | None = None
    port: int | None = None
    key: str | None = None
    ssh_config: str | None = None
    python: str = ""
    model_path: str = ""
    proxmox_host: str = ""
    vmid: int | None = None


def provisional(answers: Answers) -> Profile:
    """Enough of a profile to connect and look around."""
    container = _container(answers, answers.python or FALLBACK_PYTHON)
    return Profile(container=container, server=Server(model_path=answers.model_path or "/"), name="init")


def name_for(host: str) -> str:
    """A profile's name for `host`: the first part of a name, all of an address."""
    bare = host.rpartition("@")[2]
    try:
        ipaddress.ip_address(bare)
    except ValueError:
        return bare.partition(".")[0]
    return bare.replace(":", "-").strip("-")


def interpreters(survey: Survey) -> tuple[Interpreter, ...]:
    """The Pythons of the container that have SGLang."""
    found = (python for python in survey.interpreters if python.sglang_version and not python.problem)
    return tuple(python for python in found if checks.clean(python.path))


def models(survey: Survey) -> tuple[str, ...]:
    """The model folders of the container that a profile can name."""
    return tuple(path for path in survey.models if checks.clean(path))


def build(name: str, answers: Answers, survey: Survey) -> Profile:
    """The profile of what was asked and probed. Raises ConfigError, saying what is missing."""
    usable = interpreters(survey)
    python = answers.python or (usable[0].path if usable else "")
    if not python:
        looked = ", ".join(found.path for found in survey.interpreters) or "none at all"
        raise ConfigError(
            f"no Python with sglang was found on {survey.hostname} (looked at: {looked})",
            "Name it: hsconsole init --python /path/to/bin/python3",
        )
    model_path = answers.model_path or next(iter(models(survey)), "")
    if not model_path:
        raise ConfigError(f"no model folder was found on {survey.hostname}", "Name it: hsconsole init --model /path")
    proxmox = None
    if answers.proxmox_host and answers.vmid is not None:
        proxmox = Proxmox(host=answers.proxmox_host, vmid=answers.vmid)
    container = _container(answers, python)
    server = Server(model_path=model_path, tp=max(1, len(survey.gpus)))
    return Profile(container=container, server=server, dump=Dump(), proxmox=proxmox, name=name)


def _container(answers: Answers, python: str) -> Container:
    return Container(host=answers.host, python=python, **{name: getattr(answers, name) for name in LOGIN})
