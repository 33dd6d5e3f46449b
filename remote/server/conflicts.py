"""Flags that make dumps wrong or missing: always, or with the release and model at hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple, Optional

from remote.patch.recipes import ATTENTION_FIRST, ATTENTION_LAST, ModelFile, attention_seen_right
from remote.server.flags import Flag, canonical

Values = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Installed:
    """What is known of the installed release and of the model, as far as dumping depends on it.

    runs: the file that runs the model's layers; None where no recipe is for it. tells_lengths: passes carry the whole
    length of each prompt, so that chunks of it can be joined. sharing: ranks that compute the same request.
    """

    version: Optional[str] = None
    runs: Optional[ModelFile] = None
    tells_lengths: bool = False
    sharing: int = 1


UNKNOWN = Installed()


class Conflict(NamedTuple):
    """A flag that makes dumps wrong. when: is it so with these values? unless: is it right here?"""

    name: str
    when: Callable[[Values], bool]
    reason: str
    unless: Callable[[Installed], bool] = lambda _: False


def reason_against(flag: Flag, installed: Installed) -> str:
    """Why dumps would be wrong with `flag`, in the spelling of any release; empty when they are right."""
    for conflict in CONFLICTS:
        if conflict.name == canonical(flag.name) and conflict.when(flag.values) and not conflict.unless(installed):
            return conflict.reason
    return ""


def _set(values: Values) -> bool:
    return values[:1] not in (("none",), ("NONE",), ("None",))


def _many(values: Values) -> bool:
    return values[:1] != ("1",)


def _not_disabled(values: Values) -> bool:
    return values[:1] != ("disabled",)


def _on(values: Values) -> bool:
    return values[:1] not in (("-1",), ("0",))


def _not_sglangs(values: Values) -> bool:
    return values[:1] not in (("auto",), ("sglang",))


def _seen_right(installed: Installed) -> bool:
    return installed.sharing == 1 and attention_seen_right(installed.runs, installed.version)


GRAPHS = "inside a graph no Python runs, so nothing is dumped"
FUSION = "the tensors between layers are then one rank's partial sums"
STAGES = "each rank then has only some of the layers"
ROWS = "each rank then has only some of the rows"
CHUNKS = "splits a long prompt into passes, and this release does not tell which belong together"
ATTENTION = (
    f"is known to be right for DeepSeek models in SGLang {ATTENTION_FIRST} to {ATTENTION_LAST} alone, "
    "with as many parts as ranks"
)
CONFLICTS = (
    Conflict("--config", lambda _: True, "names a file whose flags nobody checks: put them into server.flags"),
    Conflict("--enable-mixed-chunk", _set, "appends decode rows to a prompt's rows"),
    Conflict("--chunked-prefill-size", _on, CHUNKS, unless=lambda installed: installed.tells_lengths),
    Conflict("--speculative-algorithm", _set, "verification passes look like prompts"),
    Conflict("--enable-two-batch-overlap", _set, "runs the layers outside the loop that is patched"),
    Conflict("--enable-pdmux", _set, "runs the layers outside the loop that is patched"),
    Conflict("--model-impl", _not_sglangs, "runs another implementation than the file that is patched"),
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
    Conflict("--enable-dp-attention", _set, ATTENTION, unless=_seen_right),
    Conflict("--attn-dp-size", _many, ATTENTION, unless=_seen_right),
    Conflict("--attn-cp-size", _many, ROWS),
    Conflict("--dcp-size", _many, "is not known to be right"),
    Conflict("--enable-prefill-cp", _set, ROWS),
    Conflict("--enable-attn-tp-input-scattered", _set, ROWS),
    Conflict("--enable-layernorm-sp", _set, ROWS),
    Conflict("--moe-dense-tp-size", _set, ROWS),
    Conflict("--moe-a2a-backend", _set, ROWS),
    Conflict("--enable-deepep-moe", _set, ROWS),
    Conflict("--allow-auto-truncate", _set, "cuts long prompts without a word: the ids dumped are then not those sent"),
)
