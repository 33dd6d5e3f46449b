"""A new profile: the operator names the host, the rest is probed."""

from __future__ import annotations

import dataclasses

from console.config.profile import Container, Dump, Profile, Proxmox, Server
from console.errors import ConfigError
from remote.wire.host import Interpreter, Survey

FALLBACK_PYTHON = "python3"


@dataclasses.dataclass(frozen=True)
class Answers:
    """What was asked. Empty or None: take what was probed."""

    host: str
    user: str | None = None
    port: int | None = None
    key: str | None = None
    python: str = ""
    model_path: str = ""
    proxmox_host: str = ""
    vmid: int | None = None


def provisional(answers: Answers) -> Profile:
    """Enough of a profile to connect and look around."""
    container = _container(answers, answers.python or FALLBACK_PYTHON)
    return Profile(container=container, server=Server(model_path=answers.model_path or "/"), name="init")


def interpreters(survey: Survey) -> tuple[Interpreter, ...]:
    """The Pythons of the container that have SGLang."""
    return tuple(found for found in survey.interpreters if found.sglang_version and not found.problem)


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
    model_path = answers.model_path or (survey.models[0] if survey.models else "")
    if not model_path:
        raise ConfigError(f"no model folder was found on {survey.hostname}", "Name it: hsconsole init --model /path")
    proxmox = None
    if answers.proxmox_host and answers.vmid is not None:
        proxmox = Proxmox(host=answers.proxmox_host, vmid=answers.vmid)
    container = _container(answers, python)
    server = Server(model_path=model_path, tp=max(1, len(survey.gpus)))
    return Profile(container=container, server=server, dump=Dump(), proxmox=proxmox, name=name)


def _container(answers: Answers, python: str) -> Container:
    return Container(host=answers.host, user=answers.user, port=answers.port, key=answers.key, python=python)
