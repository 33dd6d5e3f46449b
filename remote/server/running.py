"""The command of a server that runs, read from its process: as a target, so that it can be started the same again."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
from collections.abc import Collection
from typing import Optional

from remote import processes
from remote.processes import Process
from remote.server import command, find
from remote.server.flags import Flag, canonical, parse
from remote.wire.masking import mask_argv, mask_env
from remote.wire.target import Target

# Of a server that hsconsole did not start, these variables make it what it is; its shell's others do not.
MATTERS = re.compile(r"^(SGLANG|SGL|CUDA|NCCL|NVIDIA|HF|HUGGINGFACE|TRANSFORMERS|TORCH|TRITON|FLASHINFER)_|"
                     r"^(PYTHONPATH|LD_LIBRARY_PATH|OMP_NUM_THREADS)$|^TORCHDYNAMO_")  # fmt: skip
OWN_KEYS = ("--model-path", "--host", "--port", "--tp-size")


def target(found: find.Found, profile: Target) -> Optional[Target]:
    """`profile` with the interpreter, flags and environment that the running server has.

    None where none runs, or another user's: what that one calls an interpreter is nothing to run as root.
    """
    parent = found.parent
    environ = processes.environ(parent.pid) if parent is not None else {}
    if parent is None or not environ or processes.user(parent.pid) != processes.user(os.getpid()):
        return None
    try:
        python = _python(parent, environ)
    except OSError:
        return None  # it has just ended
    flags, _ = parse(_arguments(parent))
    layers = _layers(environ, profile)
    own = {canonical(flag.name): flag for flag in flags if canonical(flag.name) in OWN_KEYS}
    return dataclasses.replace(
        profile,
        python=python,
        model_path=_value(own.get("--model-path"), profile.model_path),
        host=_value(own.get("--host"), "127.0.0.1"),
        tp=_number(_value(own.get("--tp-size"), "1")) or 1,
        flags=tuple(word for flag in flags if canonical(flag.name) not in OWN_KEYS for word in _words(flag)),
        env=_environment(found, environ, profile),
        dump_dir=environ.get(command.DUMP_DIR, profile.dump_dir),
        layers=layers,
        eagle_layer_ids=profile.eagle_layer_ids if layers == profile.layers else None,  # those of other layers
    )


def differences(now: Target, other: Target, known: Collection[str]) -> tuple[str, ...]:
    """What a start of `other` has otherwise than one of `now`, secrets masked. known: the release's flags."""
    told = [
        f"{name} {getattr(other, name)} instead of {getattr(now, name)}"
        for name in ("python", "model_path", "host", "tp", "dump_dir", "layers")
        if getattr(now, name) != getattr(other, name)
    ]
    here, there = _flags(now, known), _flags(other, known)
    told += [f"without {_shown(flag)}" for flag in here if flag not in there]
    told += [f"with {_shown(flag)}" for flag in there if flag not in here]
    mine, theirs = mask_env(now.env), mask_env(other.env)
    for name in sorted({*mine, *theirs}):
        if now.env.get(name) != other.env.get(name):
            told.append(f"with {name}={theirs[name]}" if name in theirs else f"without {name}")
    return tuple(told)


def _arguments(parent: Process) -> list[str]:
    words = list(parent.argv)
    starts = next((n for n, word in enumerate(words) if word.startswith("--") and n > 0), len(words))
    return words[starts:]


def _python(parent: Process, environ: dict[str, str]) -> str:
    """The interpreter as it was called: its path tells the environment, which what it links to does not."""
    name = parent.argv[0]
    if os.path.isabs(name):
        return name
    if os.sep in name:
        return os.path.normpath(os.path.join(os.readlink(f"/proc/{parent.pid}/cwd"), name))
    return shutil.which(name, path=environ.get("PATH")) or name


def _environment(found: find.Found, environ: dict[str, str], profile: Target) -> dict[str, str]:
    """Without what `command.environment` sets itself."""
    if found.ours and found.record:
        names = set(found.record.env)
    else:
        names = {name for name in environ if MATTERS.match(name) or name in profile.env}
    return {name: value for name, value in environ.items() if name in names and name not in command.DUMP_ENV}


def _layers(environ: dict[str, str], profile: Target) -> tuple[int, ...]:
    numbers = [_number(word) for word in environ.get(command.DUMP_LAYERS, "").split(",")]
    return tuple(n for n in numbers if n is not None) if None not in numbers else profile.layers


def _number(word: str) -> Optional[int]:
    return int(word) if word.isdecimal() and len(word) < 10 else None


def _value(flag: Optional[Flag], default: str) -> str:
    return flag.values[0] if flag is not None and flag.values else default


def _words(flag: Flag) -> list[str]:
    """In one word where it has one value, so that no value is taken for a flag."""
    return [f"{flag.name}={flag.values[0]}"] if len(flag.values) == 1 else [flag.name, *flag.values]


def _flags(of: Target, known: Collection[str]) -> list[Flag]:
    line = command.command_line(of, known)
    return [flag for flag in (*line.flags, *line.added) if canonical(flag.name) not in OWN_KEYS]


def _shown(flag: Flag) -> str:
    return " ".join(mask_argv(flag.words))
