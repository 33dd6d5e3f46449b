"""SGLang's command line flags, and the spelling that the installed release has for each."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple, Optional

from remote.server.release import expand


class Flag(NamedTuple):
    """One flag of a command line. Written `--name=value` or `--name value …`."""

    name: str
    values: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        if len(self.values) == 1 and self.values[0].startswith("-"):
            return [f"{self.name}={self.values[0]}"]  # argparse would take the value for a flag
        return [self.name, *self.values]

    def __str__(self) -> str:
        return "=".join((self.name, " ".join(self.values))) if self.values else self.name


def parse(words: Iterable[str]) -> tuple[list[Flag], list[str]]:
    """Flags of a profile, and the words that belong to none. Flag and value may be one string or two."""
    flags: list[Flag] = []
    strays: list[str] = []
    for word in (part for text in words for part in _parts(text)):
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            flags.append(Flag(name.replace("_", "-"), (value,) if equals else ()))
        elif flags:
            flags[-1] = Flag(flags[-1].name, (*flags[-1].values, word))
        else:
            strays.append(word)
    return flags, strays


def _parts(text: str) -> list[str]:
    """`--flag value` in one string is two words; a value keeps its spaces."""
    name, space, value = text.partition(" ")
    return [name, value.strip()] if text.startswith("--") and space and "=" not in name else [text]


# Spellings of the same thing in different releases, space-separated where one became several; a value after `=` belongs
# to the spelling, any other value is carried over. Read from the deprecations in server_args.py of 0.4.6 to 0.5.23.
SPELLINGS: tuple[tuple[str, ...], ...] = (
    ("--cuda-graph-backend-decode=disabled --cuda-graph-backend-prefill=disabled", "--disable-cuda-graph"),
    ("--cuda-graph-backend-decode=disabled", "--disable-decode-cuda-graph", "--disable-cuda-graph"),
    ("--cuda-graph-backend-prefill=disabled", "--disable-prefill-cuda-graph", "--disable-piecewise-cuda-graph"),
    ("--cuda-graph-backend-prefill=tc_piecewise", "--enforce-piecewise-cuda-graph", "--enable-piecewise-cuda-graph"),
    ("--cuda-graph-backend-prefill=breakable", "--enable-breakable-cuda-graph"),
    ("--cuda-graph-bs-decode", "--cuda-graph-bs"),
    ("--cuda-graph-max-bs-decode", "--cuda-graph-max-bs"),
    ("--cuda-graph-bs-prefill", "--piecewise-cuda-graph-tokens"),
    ("--cuda-graph-max-bs-prefill", "--piecewise-cuda-graph-max-tokens"),
    ("--cuda-graph-tc-compiler", "--piecewise-cuda-graph-compiler"),
    ("--dsa-prefill-backend", "--nsa-prefill-backend"),
    ("--dsa-decode-backend", "--nsa-decode-backend"),
    (
        "--enable-prefill-cp",
        "--enable-prefill-context-parallel",
        "--enable-dsa-prefill-context-parallel",
        "--enable-nsa-prefill-context-parallel",
    ),
    ("--flashinfer-allreduce-fusion-backend=auto", "--enable-flashinfer-allreduce-fusion"),
    ("--moe-a2a-backend=deepep", "--enable-deepep-moe"),
    ("--moe-runner-backend=triton_kernel", "--enable-triton-kernel-moe"),
    ("--moe-runner-backend=flashinfer_cutlass", "--enable-flashinfer-cutlass-moe"),
    ("--moe-runner-backend=flashinfer_trtllm", "--enable-flashinfer-trtllm-moe"),
    ("--moe-runner-backend=flashinfer_mxfp4", "--enable-flashinfer-mxfp4-moe"),
    ("--attention-backend=flashmla", "--enable-flashmla"),
    ("--attention-backend=flashinfer", "--enable-flashinfer-mla"),
    ("--incremental-streaming-output", "--stream-output"),
    ("--mamba-radix-cache-strategy", "--mamba-scheduler-strategy"),
    ("--pp-max-micro-batch-size", "--max-micro-batch-size"),
    ("--speculative-draft-window-size", "--speculative-dflash-draft-window-size"),
    ("--swa-full-tokens-ratio", "--hybrid-kvcache-ratio"),
    ("--model-path", "--model"),
    ("--tp-size", "--tensor-parallel-size", "--tp"),
    ("--dp-size", "--data-parallel-size", "--dp"),
    ("--attn-dp-size", "--attention-data-parallel-size"),
    ("--attn-cp-size", "--attention-context-parallel-size"),
    ("--dcp-size", "--decode-context-parallel-size"),
    ("--pp-size", "--pipeline-parallel-size", "--pp"),
    ("--ep-size", "--expert-parallel-size", "--ep"),
)
# Where a release knows no such flag, it does this anyway: it has no prefill graphs, or only when asked for.
IMPLIED = ("--cuda-graph-backend-prefill=disabled", "--disable-prefill-cuda-graph", "--disable-piecewise-cuda-graph")


def translate(flag: Flag, known: Collection[str]) -> Optional[list[Flag]]:
    """`flag` as a release that knows `known` spells it; empty when the release does so anyway; None when it can't."""
    name = expand(flag.name, known)
    if name is not None:
        return [Flag(name, flag.values)]
    for spellings in SPELLINGS:
        if flag.name not in spellings and str(flag) not in spellings:
            continue
        carried = flag.values if flag.name in spellings else ()
        for spelling in spellings:
            respelled = [Flag(one.name, one.values or carried) for one in spelled(spelling)]
            if all(one.name in known for one in respelled):
                return respelled
    return [] if str(flag) in IMPLIED else None


def canonical(name: str) -> str:
    """The newest spelling of a flag's name."""
    return next((spellings[0] for spellings in SPELLINGS if name in spellings and "=" not in spellings[0]), name)


def spelled(text: str) -> list[Flag]:
    """The flags of one entry of a table, `--a=1 --b`."""
    return [_one(word) for word in text.split()]


def _one(word: str) -> Flag:
    name, equals, value = word.partition("=")
    return Flag(name, (value,) if equals else ())
