"""What can't be dumped right is refused: by the preflight before anything loads, and again by the dumper of a server
that was started without one."""

from __future__ import annotations

import base64
import json
import os
import struct
import subprocess
import zlib
from pathlib import Path

import msgspec
import pytest

from console.client import connect
from console.demo.engine import ENVIRONMENT, Engine
from console.demo.profile import FLAGS
from console.demo.stage import Stage
from console.errors import OperatorError
from console.operations import calls
from remote.server import release
from remote.server.conflicts import CONFLICTS
from remote.wire.plan import Verdict
from tests.engine.releases import Server, launched
from tests.engine.server import HERE, prompts, wait_for
from tests.engine.vision_model import IMAGE
from tests.schema import problems_in

# a value of each flag with which dumps would be wrong, where it takes one
VALUES = {
    "--chunked-prefill-size": None,  # chunks are joined on this release
    "--enable-dp-attention": None,  # right for this model and release
    "--attn-dp-size": None,
    "--speculative-algorithm": "EAGLE3",
    "--model-impl": "transformers",
    "--cuda-graph-backend-decode": "full",
    "--cuda-graph-backend-prefill": "breakable",
    "--cuda-graph-config": "{}",
    "--flashinfer-allreduce-fusion-backend": "auto",
    "--pp-size": "2",
    "--attn-cp-size": "2",
    "--dcp-size": "2",
    "--moe-dense-tp-size": "1",
    "--moe-a2a-backend": "deepep",
}
RANKS = ("--tp-size=2",)
ATTENTION = (*RANKS, "--dp-size=2", "--enable-dp-attention")
CHUNKS = "--chunked-prefill-size=2048"
TWO_CORES = {"SGLANG_CPU_OMP_THREADS_BIND": "0|1"}
# flags of a server, and the words with which its dumper refuses; those that every run can afford first
REFUSED = {
    "speculation": (("--speculative-algorithm=NGRAM",), "speculative decoding"),
    "truncation": (("--allow-auto-truncate",), "the server cuts long prompts"),
    "another implementation": (("--model-impl=transformers",), "another implementation of the model"),
    "mixed chunk": ((CHUNKS, "--enable-mixed-chunk"), "mixed chunks"),
    "two-batch overlap": ((*ATTENTION, "--enable-two-batch-overlap"), "two-batch overlap"),
    "context parallel": ((*RANKS, "--attn-cp-size=2"), "context parallelism"),
    "prefill context parallel": ((*RANKS, "--enable-prefill-cp", "--cp-strategy=zigzag"), "context parallelism"),
    "scattered attention": ((*RANKS, "--enable-attn-tp-input-scattered"), "scattered rows"),
    "dense layers apart": ((*RANKS, "--moe-dense-tp-size=1"), "passes that ranks share"),
    "experts apart": (("--moe-a2a-backend=deepep",), "experts that scatter tokens"),
}
OFTEN = ("speculation",)


def test_the_preflight_refuses_each_by_its_name(stage: Stage) -> None:
    """All at once, in the spelling of the installed release; and the start is refused with them."""
    (package,) = stage.engine.folder.glob("venv/lib/python3*/site-packages/sglang")
    known = release.known_flags(package) or frozenset()
    wanted = [
        conflict for conflict in CONFLICTS if conflict.name in known and VALUES.get(conflict.name, "") is not None
    ]
    flags = [f"{one.name}={VALUES[one.name]}" if one.name in VALUES else one.name for one in wanted]
    server = msgspec.structs.replace(stage.profile.server, flags=(*stage.profile.server.flags, *flags))
    profile = msgspec.structs.replace(stage.profile, server=server)
    agent = connect(profile)
    try:
        found = [check.found for check in calls.preflight(agent, profile).checks if check.verdict is Verdict.BAD]
        with pytest.raises(OperatorError):
            calls.plan(agent, "server.start")
        assert not calls.server_state(agent).processes
    finally:
        agent.close()
    for flag, conflict in zip(flags, wanted, strict=True):
        assert any(said.startswith(f"refused: {flag}") and conflict.reason in said for said in found), (flag, found)
    assert len(flags) > 20


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in OFTEN else pytest.mark.matrix) for name in REFUSED]
)
def test_the_dumper_refuses_before_the_weights_are_loaded(engine: Engine, tmp_path: Path, name: str) -> None:
    """In a server that nobody examined before: in its log, and in `.loaded`, where the console looks."""
    flags, cause = REFUSED[name]
    usual = ("--disable-radix-cache", *(() if CHUNKS in flags else ("--chunked-prefill-size=-1",)))
    with launched(engine, "0.5.23", tmp_path, *usual, *flags, env=TWO_CORES) as server:
        server.until_said(f"hsconsole dumper: REFUSED, nothing will be dumped: {cause}")
        assert "shards:" not in server.log.read_text().partition("REFUSED")[0]
        wait_for("cause", lambda: any(problem["cause"].startswith(cause) for problem in problems(server)))
        assert problems_in(server.folder) == []


@pytest.mark.matrix
def test_the_dumper_refuses_graphs_before_the_weights_are_loaded(engine: Engine, tmp_path: Path) -> None:
    """By a release that keeps them without a GPU; 0.5.23 turns them off there whatever it is told."""
    flags = ("--disable-radix-cache", "--chunked-prefill-size=-1", "--enforce-piecewise-cuda-graph")
    without = ("--disable-cuda-graph", "--disable-piecewise-cuda-graph")
    with launched(engine, "0.5.12.post1", tmp_path, *flags, without=without) as server:
        server.until_said("hsconsole dumper: REFUSED, nothing will be dumped: CUDA graphs of prefill")
        assert "shards:" not in server.log.read_text().partition("REFUSED")[0]


IN_EFFECT = """
import sys
sys.path.insert(0, sys.argv[1])
from remote.dumper import release
from sglang.srt import runtime_context, server_args
runtime_context.publish(server_args.prepare_server_args(sys.argv[2:]), role="scheduler")
print(release.option("cuda_graph_config").prefill.backend)
"""


@pytest.mark.matrix
def test_graphs_are_asked_for_where_the_newest_release_says_what_is_in_effect(engine: Engine) -> None:
    """The argument itself is None there; without a GPU they are off."""
    command: list[str | Path] = [engine.python, "-c", IN_EFFECT, HERE.parents[1], "--model-path", engine.model, *FLAGS]
    environment = {**os.environ, **ENVIRONMENT}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.stdout.split()[-1:] == ["disabled"], done.stderr


def problems(server: Server) -> list[dict[str, str]]:
    """What the processes of a server say of why they dump nothing."""
    claims = [json.loads(path.read_text())["problem"] for path in server.folder.glob(".loaded/*.json")]
    return [problem for problem in claims if problem]


def test_prompts_of_embeddings_are_errors_and_those_of_ids_are_not(engine: Engine, tmp_path: Path) -> None:
    """What the model takes in place of ids has none, and SGLang makes some up. It takes them in bfloat16 alone."""
    flags = ("--disable-radix-cache", "--chunked-prefill-size=-1", "--dtype=bfloat16")
    with launched(engine, "0.5.23", tmp_path, *flags, without=("--dtype=float32",)) as server:
        server.until_ready()
        for rid in ("embedded", "embedded too"):
            server.generate(rid, input_embeds=[[0.01 * (at + column) for column in range(128)] for at in range(5)])
        sent = prompts("ids", 4, 60)
        server.ask_all(sent)
        metas = {meta["rid"]: meta for meta in server.ended(6)}
        assert {rid for rid, meta in metas.items() if not meta["error"]} == set(sent)
        causes = {metas[rid]["error"]["cause"] for rid in ("embedded", "embedded too")}
        assert causes == {"prompts of images, other media or embeddings can not be dumped"}


def png(width: int, height: int) -> bytes:
    """All of one colour."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = (b"\0" + bytes((200, 30, 30)) * width) * height
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@pytest.mark.matrix
def test_prompts_of_images_are_errors_and_those_of_text_are_not(engine: Engine, tmp_path: Path) -> None:
    """A model that sees, whose text goes through the patched file of Llama."""
    for script, words in (("vision_model.py", [tmp_path / "sees"]), ("tiny_models.py", [tmp_path, "llama"])):
        environment = {**os.environ, **ENVIRONMENT}
        subprocess.run([engine.python, HERE / script, *words], check=True, timeout=120, env=environment)
    seeing = ("--mm-attention-backend=sdpa", f"--model-path={tmp_path / 'sees'}")
    flags = ("--disable-radix-cache", "--chunked-prefill-size=-1", *seeing)
    with launched(
        engine, "0.5.23", tmp_path, *flags, without=("--skip-tokenizer-init",), model=tmp_path / "llama"
    ) as server:
        server.until_ready()
        image = f"data:image/png;base64,{base64.b64encode(png(56, 56)).decode()}"
        seen = server.generate("image", text=f"t5 {IMAGE} t6", image_data=image)
        assert seen["meta_info"]["prompt_tokens"] > 3, "its patches are rows"
        sent = prompts("ids", 4, 60)
        server.ask_all({rid: [number % 500 for number in ids] for rid, ids in sent.items()})
        metas = {meta["rid"]: meta for meta in server.ended(5)}
        assert {rid for rid, meta in metas.items() if not meta["error"]} == set(sent)
        assert metas["image"]["error"]["cause"] == "prompts of images, other media or embeddings can not be dumped"
