"""The command that starts the server: the profile's flags as the release spells them and what dumping needs."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, Optional

from remote.server.flags import Flag, canonical, parse, spelled, translate
from remote.wire.masking import mask_argv, mask_env
from remote.wire.target import Target

# hsconsole's own questions, which would fill the log at one every two seconds
UNLOGGED = Flag("--uvicorn-access-log-exclude-prefixes", ("/health", "/v1/loads", "/get_load"))
# What a start with dumps adds, the newest spelling first; the first that the release knows is taken.
DUMP_NEEDS: tuple[tuple[str, ...], ...] = (
    ("--skip-server-warmup",),
    ("--disable-radix-cache",),
    ("--chunked-prefill-size=-1",),
    (
        "--cuda-graph-backend-decode=disabled --cuda-graph-backend-prefill=disabled",
        "--disable-cuda-graph --disable-piecewise-cuda-graph",
        "--disable-cuda-graph",
    ),
)
# with more than one rank; releases from 0.5.14 know it, older ones can't be kept from it
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


def _set(values: tuple[str, ...]) -> bool:
    return values[:1] not in (("none",), ("NONE",), ("None",))


def _many(values: tuple[str, ...]) -> bool:
    return values[:1] != ("1",)


def _not_disabled(values: tuple[str, ...]) -> bool:
    return values[:1] != ("disabled",)


class Conflict(NamedTuple):
    """A flag that makes dumps wrong. when: is it so with these values?"""

    name: str
    when: Callable[[tuple[str, ...]], bool]
    reason: str


GRAPHS = "inside a graph no Python runs, so nothing is dumped"
FUSION = "the tensors between layers are then one rank's partial sums"
STAGES = "each rank then has only some of the layers"
ROWS = "each rank then has only some of the rows"
CONFLICTS = (
    Conflict("--enable-mixed-chunk", _set, "appends decode rows to a prompt's rows"),
    Conflict("--chunked-prefill-size", lambda v: v[:1] not in (("-1",), ("0",)), "splits a long prompt into passes"),
    Conflict("--speculative-algorithm", _set, "verification passes look like prompts"),
    Conflict("--enable-two-batch-overlap", _set, "runs the layers outside the loop that is patched"),
    Conflict("--cuda-graph-backend-decode", _not_disabled, GRAPHS),
    Conflict("--cuda-graph-backend-prefill", _not_disabled, GRAPHS),
    Conflict("--cuda-graph-config", _set, "wins over the flags that turn graphs off; " + GRAPHS),
    Conflict("--enable-piecewise-cuda-graph", _set, GRAPHS),
    Conflict("--enforce-piecewise-cuda-graph", _set, GRAPHS),
    Conflict("--enable-breakable-cuda-graph", _set, GRAPHS),
    Conflict("--debug-cuda-graph", _set, GRAPHS),
    Conflict("--flashinfer-allreduce-fusion-backend", _set, FUSION),
    Conflict("--enable-flashinfer-allreduce-fusion", _set, FUSION),
    Conflict("--enable-aiter-allreduce-fusion", _set, FUSION),
    Conflict("--pp-size", _many, STAGES),
    Conflict("--enable-dp-attention", _set, ROWS),
    Conflict("--attn-dp-size", _many, ROWS),
    Conflict("--attn-cp-size", _many, ROWS),
    Conflict("--enable-prefill-cp", _set, ROWS),
    Conflict("--enable-attn-tp-input-scattered", _set, ROWS),
    Conflict("--moe-a2a-backend", _set, ROWS),
    Conflict("--allow-auto-truncate", _set, "cuts long prompts without a word: the ids dumped are then not those sent"),
)


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


def command_line(target: Target, known: Optional[Collection[str]]) -> CommandLine:
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
        problems = [(str(one), reason) for one in release for reason in [_conflict(one, named)] if reason]
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


def _conflict(flag: Flag, named: Iterable[Flag]) -> str:
    for own in named:
        if canonical(flag.name) == own.name and flag.values != own.values:
            return f"the profile's own key says {own}"
    for conflict in CONFLICTS:
        if conflict.name == canonical(flag.name) and conflict.when(flag.values):
            return conflict.reason
    return ""


DUMP_DIR = "SGLANG_HS_DUMP_DIR"
DUMP_LAYERS = "SGLANG_HS_DUMP_LAYERS"
QUIET_HEALTH = "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION"  # else each GET /health is a request of one token, and a dump


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
