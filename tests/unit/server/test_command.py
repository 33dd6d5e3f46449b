"""Flags: what a release knows, how it spells them, what dumping adds and refuses. Data in, data out."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote.dumper import attention
from remote.patch import recipes
from remote.server import command, release
from remote.server.conflicts import Installed
from remote.server.flags import Flag, parse, translate
from remote.wire.masking import mask_argv, mask_env
from remote.wire.target import Target


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


OLD = names(
    "--model-path --host --port --tp-size --disable-cuda-graph --disable-radix-cache --chunked-prefill-size"
    " --skip-server-warmup --enable-piecewise-cuda-graph --nsa-prefill-backend --cuda-graph-bs --enable-deepep-moe"
    " --enable-flashinfer-allreduce-fusion --enable-mixed-chunk --attention-backend --stream-output"
)
NEW = names(
    "--model-path --model --host --port --tp-size --disable-cuda-graph --disable-radix-cache --chunked-prefill-size"
    " --skip-server-warmup --cuda-graph-backend-decode --cuda-graph-backend-prefill --dsa-prefill-backend"
    " --cuda-graph-bs-decode --moe-a2a-backend --flashinfer-allreduce-fusion-backend --enable-mixed-chunk"
    " --attention-backend --incremental-streaming-output --enforce-disable-flashinfer-allreduce-fusion"
    " --uvicorn-access-log-exclude-prefixes --speculative-algorithm --enable-two-batch-overlap --api-key"
    " --pp-size --pipeline-parallel-size --attn-cp-size --attention-context-parallel-size"
    " --allow-auto-truncate --dp-size --enable-dp-attention --attn-dp-size --model-impl --enable-pdmux --dcp-size"
    " --enable-prefill-cp --enable-attn-tp-input-scattered --enable-layernorm-sp --moe-dense-tp-size"
    " --debug-cuda-graph --cuda-graph-config --enable-aiter-allreduce-fusion"
)
KNOWN = Installed("0.5.23", recipes.DEEPSEEK, tells_lengths=True)
BOTH = "--cuda-graph-backend-decode=disabled --cuda-graph-backend-prefill=disabled"
UNLOGGED = "--uvicorn-access-log-exclude-prefixes=/health /v1/loads /get_load"


def target(*flags: str, tp: int = 1, **env: str) -> Target:
    return Target("/venv/bin/python", "/models/m", port=8000, tp=tp, flags=flags, env=env)


ADD_ARGUMENT = """
class ServerArgs:
    port: int = 30000
    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model-path", "--model", type=str, help="see --not-a-flag")
        parser.add_argument("--port", type=int)
        parser.add_argument("-v", "--verbose", action="store_true")
"""
ANNOTATED = """
class ServerArgs:
    model_path: A[str, Arg(help="x", aliases=["--model"])]
    tp_size: Annotated[int, Arg(help="x", cli_name="--tensor-parallel-size", aliases=["--tp-size"])] = 1
    trust_remote_code: A[bool, "Whether " "to"] = False
    hidden: A[bool, Arg(no_cli=True)] = False
    unmarked: int = 0
    note: A[str, NS("x"), "help"] = ""
"""


@pytest.mark.parametrize(
    ("source", "flags"),
    [
        (ADD_ARGUMENT, {"--model-path", "--model", "--port", "--verbose"}),
        (
            ANNOTATED,
            {"--model-path", "--model", "--tensor-parallel-size", "--tp-size", "--trust-remote-code", "--note"},
        ),
        ("def broken(:", None),
        ("x = 1", None),
    ],
)
def test_flags_are_read_without_importing(tmp_path: Path, source: str, flags: set[str] | None) -> None:
    (tmp_path / "srt").mkdir()
    (tmp_path / "srt" / "server_args.py").write_text(source)
    known = release.known_flags(tmp_path)
    assert (None if known is None else set(known)) == flags


def test_flags_declared_in_field_files_are_read_too(tmp_path: Path) -> None:
    fields = tmp_path / "srt" / "arg_groups" / "fields"
    fields.mkdir(parents=True)
    (tmp_path / "srt" / "server_args.py").write_text("parser.add_argument('--config')")
    (fields / "memory.py").write_text("class Memory:\n    page_size: A[int, 'x'] = 1\n")
    assert release.known_flags(tmp_path) == frozenset({"--config", "--page-size"})
    assert release.known_flags(tmp_path / "nothing") is None


def test_a_profile_writes_flags_in_any_form() -> None:
    flags, strays = parse(("stray", "--a", "1", "--b=x y", "--c 2 ", "--d_e", "--f", "-1", "--g=--h"))
    assert flags == [
        Flag("--a", ("1",)),
        Flag("--b", ("x y",)),
        Flag("--c", ("2",)),
        Flag("--d-e"),
        Flag("--f", ("-1",)),
        Flag("--g", ("--h",)),
    ]
    assert strays == ["stray"]
    assert [word for flag in flags for word in flag.words][-2:] == ["--f=-1", "--g=--h"]


@pytest.mark.parametrize(
    ("flag", "known", "spelled"),
    [
        ("--disable-cuda-graph", OLD, "--disable-cuda-graph"),
        ("--disable-cuda-graph", NEW - {"--disable-cuda-graph"}, BOTH),
        ("--cuda-graph-backend-decode=disabled", OLD, "--disable-cuda-graph"),
        ("--cuda-graph-backend-prefill=disabled", OLD, ""),
        ("--disable-piecewise-cuda-graph", NEW, "--cuda-graph-backend-prefill=disabled"),
        ("--cuda-graph-backend-prefill=tc_piecewise", OLD, "--enable-piecewise-cuda-graph"),
        ("--nsa-prefill-backend=trtllm", NEW, "--dsa-prefill-backend=trtllm"),
        ("--dsa-prefill-backend=trtllm", OLD, "--nsa-prefill-backend=trtllm"),
        ("--cuda-graph-bs=8", NEW, "--cuda-graph-bs-decode=8"),
        ("--enable-flashinfer-allreduce-fusion", NEW, "--flashinfer-allreduce-fusion-backend=auto"),
        ("--enable-deepep-moe", NEW, "--moe-a2a-backend=deepep"),
        ("--moe-a2a-backend=deepep", OLD, "--enable-deepep-moe"),
        ("--stream-output", NEW, "--incremental-streaming-output"),
        ("--attention-backend=fa3", OLD, "--attention-backend=fa3"),
        ("--tp=8", OLD, "--tp-size=8"),
        ("--chunked-prefill=-1", OLD, "--chunked-prefill-size=-1"),  # argparse takes a unique beginning
        ("--moe-a2a-backend=mori", OLD, None),
        ("--no-such-flag", NEW, None),
    ],
)  # fmt: skip
def test_each_release_gets_its_own_spelling(flag: str, known: frozenset[str], spelled: str | None) -> None:
    found = translate(parse([flag])[0][0], known)
    assert (None if found is None else " ".join(map(str, found))) == spelled


def test_dumping_adds_what_it_needs_in_the_spelling_of_the_release() -> None:
    old = command.command_line(target(), OLD)
    assert list(map(str, old.added)) == [
        "--skip-server-warmup", "--disable-radix-cache", "--chunked-prefill-size=-1", "--disable-cuda-graph",
    ]  # fmt: skip
    new = command.command_line(target(tp=8), NEW)
    assert list(map(str, new.added)) == [
        "--skip-server-warmup", "--disable-radix-cache", "--chunked-prefill-size=-1", *BOTH.split(),
        "--enforce-disable-flashinfer-allreduce-fusion", UNLOGGED,
    ]  # fmt: skip
    given = command.command_line(target("--disable-radix-cache", "--chunked-prefill-size=-1"), OLD)
    assert list(map(str, given.added)) == ["--skip-server-warmup", "--disable-cuda-graph"]
    unread = command.command_line(target("--whatever"), None)
    assert not unread.unknown
    assert "--disable-radix-cache" in unread.words


WRONG = [  # beside each, the dumper refuses the same at its start: test_settings.py
    ("--enable-mixed-chunk", "decode rows"),
    ("--speculative-algorithm=EAGLE3", "verification"),
    ("--enable-two-batch-overlap", "outside the loop"),
    ("--enable-pdmux", "outside the loop"),
    ("--model-impl=transformers", "another implementation"),
    ("--cuda-graph-backend-prefill=tc_piecewise", "no Python"),
    ("--cuda-graph-backend-decode=full", "no Python"),
    ("--cuda-graph-config={}", "no Python"),
    ("--debug-cuda-graph", "no Python"),
    ("--enable-flashinfer-allreduce-fusion", "partial sums"),
    ("--enable-aiter-allreduce-fusion", "partial sums"),
    ("--pipeline-parallel-size=2", "some of the layers"),
    ("--attention-context-parallel-size=2", "some of the rows"),
    ("--decode-context-parallel-size=2", "not known to be right"),
    ("--enable-nsa-prefill-context-parallel", "some of the rows"),
    ("--enable-attn-tp-input-scattered", "some of the rows"),
    ("--enable-layernorm-sp", "some of the rows"),
    ("--moe-dense-tp-size=1", "some of the rows"),
    ("--moe-a2a-backend=deepep", "some of the rows"),
    ("--enable-deepep-moe", "some of the rows"),
    ("--allow-auto-truncate", "not those sent"),
    ("--port=9000", "own key says --port=8000"),
    ("--model=/other", "own key says --model-path=/models/m"),
    ("--tp=4", "own key says --tp-size=1"),
]


@pytest.mark.parametrize(("flag", "why"), WRONG)
def test_flags_that_make_dumps_wrong_are_refused(flag: str, why: str) -> None:
    line = command.command_line(target(flag), NEW, KNOWN)
    assert len(line.conflicts) == 1
    assert why in line.conflicts[0][1]


@pytest.mark.parametrize("flag", ["--config=/flags.yaml", "--config /flags.yaml", "--conf=/flags.yaml"])
def test_flags_that_nobody_can_check_are_refused(flag: str) -> None:
    line = command.command_line(target(flag), NEW | {"--config"}, KNOWN)
    assert "names a file" in line.conflicts[0][1]


@pytest.mark.parametrize(
    ("flag", "known"),
    [
        ("--enable-piecewise-cuda-graph", OLD),
        ("--enable-deepep-moe", OLD),
        ("--enable-flashinfer-allreduce-fusion", OLD),
        ("--enforce-piecewise-cuda-graph", OLD | {"--enforce-piecewise-cuda-graph"}),
        ("--enable-breakable-cuda-graph", OLD | {"--enable-breakable-cuda-graph"}),
    ],
)
def test_so_are_those_of_older_releases(flag: str, known: frozenset[str]) -> None:
    assert len(command.command_line(target(flag), known, KNOWN).conflicts) == 1


@pytest.mark.parametrize("size", ["2048", "8192"])
def test_an_operators_size_of_chunks_is_taken_where_they_are_joined(size: str) -> None:
    flag = f"--chunked-prefill-size={size}"
    joined = command.command_line(target(flag), NEW, KNOWN)
    assert not joined.conflicts
    assert [str(one) for one in (*joined.flags, *joined.added) if "chunked" in one.name] == [flag]
    alone = command.command_line(target(flag), OLD, Installed("0.4.6", recipes.DEEPSEEK, tells_lengths=False))
    assert "does not tell" in alone.conflicts[0][1]


@pytest.mark.parametrize(("lengths", "told"), [("orig_seq_lens: Optional[Tensor]", True), ("", False), (None, False)])
def test_whether_a_release_tells_where_prompts_end(tmp_path: Path, lengths: str | None, told: bool) -> None:
    (tmp_path / "srt" / "model_executor").mkdir(parents=True)
    if lengths is not None:
        (tmp_path / "srt" / "model_executor" / "forward_batch_info.py").write_text(lengths)
    assert release.tells_prompt_lengths(tmp_path) is told


@pytest.mark.parametrize("flags", [("--dp 2", "--enable-dp-attention"), ("--attention-data-parallel-size=2",)])
def test_data_parallel_attention_goes_where_it_was_seen_right(flags: tuple[str, ...]) -> None:
    wanted = target(*flags, tp=2)
    assert not command.command_line(wanted, NEW, KNOWN).conflicts
    for version, runs in (
        ("0.5.19", recipes.DEEPSEEK),
        ("0.5.24", recipes.DEEPSEEK),
        (None, recipes.DEEPSEEK),
        ("0.5.23", recipes.QWEN3_MOE),
        ("0.5.23", None),
    ):
        (found,) = command.command_line(wanted, NEW, Installed(version, runs, tells_lengths=True)).conflicts
        assert "DeepSeek models in SGLang 0.5.20 to 0.5.23" in found[1]
    shared = Installed("0.5.23", recipes.DEEPSEEK, tells_lengths=True, sharing=2)
    (found,) = command.command_line(wanted, NEW, shared).conflicts
    assert "as many parts as ranks" in found[1]


def test_the_dumper_and_the_preflight_have_one_rule_for_it() -> None:
    for version in ("0.5.19", "0.5.20", "0.5.20.post1", "0.5.22", "0.5.23", "0.5.24", "0.6.0", "", None):
        for file in recipes.MODEL_FILES:
            right = attention.proved(version, file.model_class)
            assert recipes.attention_seen_right(file, version) is right, (version, file)


@pytest.mark.parametrize(
    ("known", "ranks", "fuses"), [(OLD, 2, True), (OLD, 1, False), (NEW, 2, False), (names("--port"), 2, False)]
)
def test_a_release_that_fuses_by_itself_is_known(known: frozenset[str], ranks: int, fuses: bool) -> None:
    assert command.fuses_by_itself(known, ranks) is fuses


@pytest.mark.parametrize(
    ("flags", "ranks"),
    [
        ((), 8),
        (("--dp-size=2",), 8),  # replicas
        (("--dp 2", "--enable-dp-attention"), 4),
        (("--data-parallel-size=8", "--enable_dp_attention"), 1),
        (("--attention-data-parallel-size", "2"), 4),
        (("--attn-dp-size=x",), 8),
        (("--attn-dp-size=0",), 8),
        (("--attn-dp-size=99",), 1),
    ],
)
def test_how_many_ranks_compute_a_request(flags: tuple[str, ...], ranks: int) -> None:
    assert command.ranks_of_a_request(target(*flags, tp=8)) == ranks


def test_replicas_need_nothing() -> None:
    assert not command.command_line(target("--dp 2"), NEW).conflicts


@pytest.mark.parametrize("flag", ["--port=8000", "--tp=1", "--chunked-prefill-size=-1", "--speculative-algorithm=NONE"])
def test_the_same_said_twice_is_no_conflict(flag: str) -> None:
    line = command.command_line(target(flag), NEW)
    assert not line.conflicts
    assert line.words.count("--port") == 1


def test_the_environment_says_where_and_what_to_dump_and_wins() -> None:
    wanted = target(A="1", SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION="1", SGLANG_HS_DUMP_DIR="/dev/shm/sglang_hs")
    env = command.environment(wanted)
    assert env["A"] == "1"
    assert env["SGLANG_HS_DUMP_DIR"] == "/dev/shm/sglang_hs"
    assert env["SGLANG_HS_DUMP_LAYERS"] == "3,31,59"
    assert env["SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION"] == "0"
    assert command.env_conflicts(wanted) == ["SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION"]


def test_no_secret_is_shown() -> None:
    argv = [
        "python",
        "--api-key",
        "hunter2",
        "--admin-api-key=hunter3",
        "--max-total-tokens",
        "4096",
        "HF_TOKEN=hunter4",
    ]
    shown = command.shown(argv, {"HF_TOKEN": "hunter5", "my_secret": "hunter6", "PLAIN": "a b"})
    assert "hunter" not in shown
    assert "'PLAIN=a b'" in shown
    assert "--max-total-tokens 4096" in shown
    assert mask_env({"KEYBOARD": "x"}) == {"KEYBOARD": "•••"}
    assert mask_argv(["--ssl-keyfile-password", "--x"]) == ["--ssl-keyfile-password", "•••"]


@pytest.mark.parametrize(
    ("source", "quiet"),
    [
        ('@app.get("/health")\nasync def health(): ...\n@app.get("/health_generate")\n', True),
        ('@app.get("/health")\n@app.get("/health_generate")\nasync def health(): ...\n', False),
        ('@app.get("/health")\n@app.get("/health_generate")\nSGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION', True),
        (None, False),
    ],
)
def test_whether_health_makes_dumps_is_read_from_the_source(tmp_path: Path, source: str | None, quiet: bool) -> None:
    (tmp_path / "srt" / "entrypoints").mkdir(parents=True)
    if source is not None:
        (tmp_path / "srt" / "entrypoints" / "http_server.py").write_text(source)
    assert release.health_can_be_quiet(tmp_path) is quiet


def test_a_login_in_a_url_is_hidden() -> None:
    assert mask_env({"HTTPS_PROXY": "http://me:pw@proxy:1"}) == {"HTTPS_PROXY": "http://•••@proxy:1"}
    assert mask_argv(["--mirror=https://me:pw@host/x", "a@b"]) == ["--mirror=https://•••@host/x", "a@b"]


def test_a_secret_by_the_beginning_of_its_flag_is_not_told() -> None:
    line = command.command_line(target("--api-k", "hunter2"), NEW)
    assert line.translated == (("--api-k", "--api-key"),)
    assert "--api-key" in line.words
