"""The command that starts the server: the profile's flags as the release spells them and what dumping needs."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Collection, Iterable, Mapping
from typing import Optional

from remote.server.conflicts import UNKNOWN, Installed, reason_against
from remote.server.flags import Flag, canonical, parse, spelled, translate
from remote.wire.masking import mask_argv, mask_env
from remote.wire.target import Target

# hsconsole's own questions, which would fill the log at one every two seconds
UNLOGGED = Flag("--uvicorn-access-log-exclude-prefixes", ("/health", "/v1/loads", "/get_load"))
# What a start with dumps adds, the newest spelling first; the first that the release knows is taken.
DUMP_NEEDS: tuple[tuple[str, ...], ...] = (
    ("--skip-server-warmup",),
    ("--disable-radix-cache",),
    # chunks are joined where the release tells which belong together; a prompt that is one pass needs no joining, and
    # leaves no half when it is aborted. SGLang then sets memory aside for --max-prefill-tokens, 16,384 by itself.
    ("--chunked-prefill-size=-1",),
    (
        "--cuda-graph-backend-decode=disabled --cuda-graph-backend-prefill=disabled",
        "--disable-cuda-graph --disable-piecewise-cuda-graph",
        "--disable-cuda-graph",
    ),
)
# with more than one rank; releases from 0.5.12 know it, older ones can't be kept from it: see `fuses_by_itself`
DUMP_NEEDS_RANKS = ("--enforce-disable-flashinfer-allreduce-fusion",)


def dump_needs(known: Collection[str], ranks: int) -> list[Flag]:
    """The flags without which dumps would be wrong or missing, as this release spells them, and a readable log."""
    needs: list[Flag] = []
    for spellings in (*DUMP_NEEDS, *([DUMP_NEEDS_RANKS] if ranks > 1 else [])):
        for spelling in spellings:
            wanted = spelled(spelling)
            if all(flag.name in known for flag in wanted):
                needs.extend(wanted)
                break
    return [*needs, UNLOGGED] if UNLOGGED.name in known else needs


def fuses_by_itself(known: Collection[str], ranks: int) -> bool:
    """Whether this release may fuse all-reduces although nobody asked, on H100 and newer, and can't be kept from it."""
    able = "--enable-flashinfer-allreduce-fusion" in known
    return ranks > 1 and able and not any(name in known for name in DUMP_NEEDS_RANKS)


def ranks_of_a_request(target: Target) -> int:
    """How many ranks compute the same rows: all, but with data-parallel attention a part of them."""
    given = {canonical(flag.name): flag.values for flag in parse(target.flags)[0]}
    parts = given.get("--attn-dp-size") or (given.get("--dp-size") if "--enable-dp-attention" in given else None)
    size = int(parts[0]) if parts and parts[0].isdecimal() else 1
    return max(1, target.tp // max(1, size))


@dataclasses.dataclass(frozen=True)
class CommandLine:
    """The flags of a start, and what is wrong with the profile's.

    added: for dumping. unknown: no flags of this release. strays: words that belong to no flag.
    conflicts: (flag, why it can't be). translated: (the profile's spelling, the release's).
    known: the flags that this was checked against.
    """

    flags: tuple[Flag, ...]
    added: tuple[Flag, ...]
    unknown: tuple[str, ...]
    strays: tuple[str, ...]
    conflicts: tuple[tuple[str, str], ...]
    translated: tuple[tuple[str, str], ...]
    known: frozenset[str] = frozenset()

    @property
    def words(self) -> list[str]:
        return [word for flag in (*self.flags, *self.added) for word in flag.words]


def command_line(target: Target, known: Optional[Collection[str]], installed: Installed = UNKNOWN) -> CommandLine:
    """The flags to start `target` with. known: those of the release; None where they can't be read: taken on trust."""
    given, strays = parse(target.flags)
    trusted = known if known is not None else _trusted(given)
    named = _named(target)
    flags, unknown = list(named), []
    conflicts: list[tuple[str, str]] = []
    translated: list[tuple[str, str]] = []
    for flag in given:
        release = translate(flag, trusted)
        if release is None:
            unknown.append(flag.name)
            continue
        if release != [flag]:
            translated.append(_told(flag, release))
        problems = [(str(one), reason) for one in release for reason in [_conflict(one, named, installed)] if reason]
        conflicts.extend(problems)
        flags.extend(one for one in release if canonical(one.name) not in {own.name for own in named})
    present = {flag.name for flag in flags}
    added = tuple(need for need in dump_needs(trusted, target.tp) if need.name not in present)
    return CommandLine(
        tuple(flags), added, tuple(unknown), tuple(strays), tuple(conflicts), tuple(translated), frozenset(trusted)
    )


def _told(flag: Flag, release: list[Flag]) -> tuple[str, str]:
    """A translation in words. The release's spelling tells a secret: the profile's may be a beginning, `--api-k`."""
    if any(mask_argv(one.words) != one.words for one in release):
        return flag.name, " ".join(one.name for one in release)
    return str(flag), " ".join(map(str, release)) or "nothing, this release does so anyway"


def _trusted(given: Iterable[Flag]) -> set[str]:
    newest = (flag.name for spellings in DUMP_NEEDS for flag in spelled(spellings[0]))
    return {*newest, *(flag.name for flag in given)}


def _named(target: Target) -> tuple[Flag, ...]:
    """What the profile has keys of its own for."""
    return (
        Flag("--model-path", (target.model_path,)),
        Flag("--host", (target.host,)),
        Flag("--port", (str(target.port),)),
        Flag("--tp-size", (str(target.tp),)),
    )


def _conflict(flag: Flag, named: Iterable[Flag], installed: Installed) -> str:
    for own in named:
        if canonical(flag.name) == own.name and flag.values != own.values:
            return f"the profile's own key says {own}"
    return reason_against(flag, installed)


DUMP_DIR = "SGLANG_HS_DUMP_DIR"
DUMP_LAYERS = "SGLANG_HS_DUMP_LAYERS"
QUIET_HEALTH = "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION"  # else each GET /health is a request of one token, and a dump

DUMP_ENV = (DUMP_DIR, DUMP_LAYERS, QUIET_HEALTH)


def environment(target: Target) -> dict[str, str]:
    """What is set for the server beyond the agent's own environment. What dumping needs wins; see `env_conflicts`."""
    return {**target.env, **_dump_env(target)}


def _dump_env(target: Target) -> dict[str, str]:
    layers = ",".join(map(str, target.layers))
    return {DUMP_DIR: target.dump_dir, DUMP_LAYERS: layers, QUIET_HEALTH: "0"}


def env_conflicts(target: Target) -> list[str]:
    """Variables of the profile that say otherwise than dumping needs."""
    wanted = _dump_env(target)
    return [name for name, value in target.env.items() if wanted.get(name, value) != value]


def argv(target: Target, line: CommandLine) -> list[str]:
    return [os.path.expanduser(target.python), "-m", "sglang.launch_server", *line.words]


def shown(words: Iterable[str], env: Mapping[str, str]) -> str:
    """The command as a shell takes it, secrets masked."""
    assignments = [f"{name}={value}" for name, value in mask_env(env).items()]
    return shlex.join([*(["env", *assignments] if assignments else []), *mask_argv(list(words))])
