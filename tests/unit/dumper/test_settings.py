"""What the environment asks, what the server refuses, and which dumper this is."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from remote.dumper import attention, refusal, release, settings
from remote.dumper.identity import VERSION, digest_of, own_files
from remote.dumper.release import MISSING, option

DIR = {"SGLANG_HS_DUMP_DIR": "/dev/shm/hs"}


@pytest.mark.parametrize(
    ("text", "layers"), [(None, (3, 31, 59)), ("", (3, 31, 59)), ("1,2,3", (1, 2, 3)), (" 7 , 0 ", (7, 0))]
)
def test_layers(text: str | None, layers: tuple[int, ...]) -> None:
    found = settings.read(DIR if text is None else {**DIR, "SGLANG_HS_DUMP_LAYERS": text})
    assert (found.layers, found.problem) == (layers, "")


@pytest.mark.parametrize("text", ["1,x", "1,,2", "3,3", "-1", "1;2"])
def test_layers_that_are_none(text: str) -> None:
    assert repr(text) in settings.read({**DIR, "SGLANG_HS_DUMP_LAYERS": text}).problem


@pytest.mark.parametrize(
    ("text", "mib"),
    [("", 4096), ("64", 64), ("8192", 8192), ("63", None), ("-1", None), ("2G", None), ("²", None), ("9" * 9, None)],
)
def test_the_pool(text: str, mib: int | None) -> None:
    found = settings.read({**DIR, "SGLANG_HS_DUMP_POOL_MIB": text})
    assert (found.pool == mib << 20) if mib else "SGLANG_HS_DUMP_POOL_MIB" in found.problem


@pytest.mark.parametrize(("text", "finals"), [("", ("final",)), ("0", ("final",)), ("1", ("final_prenorm", "final"))])
def test_the_state_before_the_norm(text: str, finals: tuple[str, ...]) -> None:
    assert settings.read({**DIR, "SGLANG_HS_DUMP_PRENORM": text}).finals == finals


GRAPHS = SimpleNamespace(prefill=SimpleNamespace(backend="tc_piecewise"))
NO_GRAPHS = SimpleNamespace(prefill=SimpleNamespace(backend="disabled"))


@pytest.mark.parametrize(
    ("option", "right", "wrong", "words"),
    [
        ("pp_size", 1, 2, "--pp-size"),
        ("attn_cp_size", 1, 4, "--attn-cp-size"),
        ("enable_prefill_cp", False, True, "--enable-prefill-cp"),
        ("enable_prefill_context_parallel", False, True, "--enable-prefill-cp"),
        ("enable_dsa_prefill_context_parallel", False, True, "--enable-prefill-cp"),
        ("enable_nsa_prefill_context_parallel", False, True, "--enable-prefill-cp"),
        ("dcp_size", 1, 2, "--dcp-size"),
        ("enable_attn_tp_input_scattered", False, True, "--enable-attn-tp-input-scattered"),
        ("enable_layernorm_sp", False, True, "--enable-layernorm-sp"),
        ("moe_dense_tp_size", None, 1, "--moe-dense-tp-size"),
        ("enable_dp_attention", False, True, "--enable-dp-attention"),
        ("attn_dp_size", 1, 2, "--enable-dp-attention"),
        ("enable_deepep_moe", False, True, "--enable-deepep-moe"),
        ("model_impl", "auto", "transformers", "--model-impl"),
        ("model_impl", SimpleNamespace(value="sglang"), SimpleNamespace(value="mindspore"), "--model-impl"),
        ("moe_a2a_backend", "none", "deepep", "--moe-a2a-backend"),
        ("moe_a2a_backend", None, SimpleNamespace(value="deepep"), "--moe-a2a-backend"),
        ("enable_two_batch_overlap", False, True, "--enable-two-batch-overlap"),
        ("speculative_algorithm", None, "EAGLE3", "--speculative-algorithm"),
        ("speculative_algorithm", SimpleNamespace(value="NONE"), "EAGLE", "--speculative-algorithm"),
        ("enable_mixed_chunk", False, True, "--enable-mixed-chunk"),
        ("enable_pdmux", False, True, "--enable-pdmux"),
        ("enable_piecewise_cuda_graph", False, True, "--enable-piecewise-cuda-graph"),
        ("disable_piecewise_cuda_graph", True, False, "--disable-piecewise-cuda-graph"),
        ("cuda_graph_config", NO_GRAPHS, GRAPHS, "--cuda-graph-backend-prefill=disabled"),
        ("disable_radix_cache", True, False, "--disable-radix-cache"),
        ("allow_auto_truncate", False, True, "--allow-auto-truncate"),
    ],
)
def test_arguments_that_can_not_go_with_dumps(
    monkeypatch: pytest.MonkeyPatch, option: str, right: Any, wrong: Any, words: str
) -> None:
    arguments: dict[str, Any] = {}
    monkeypatch.setattr(release, "option", lambda name: arguments.get(name, MISSING))
    assert refusal.of_options() is None, "a release that has none of them"
    arguments[option] = right
    assert refusal.of_options() is None
    arguments[option] = wrong
    problem = refusal.of_options()
    assert problem is not None
    assert words in problem.detail


def test_what_is_in_effect_counts_wherever_a_release_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.5.23 has it in parts of parts, and beside it the arguments as they were given."""
    graph = SimpleNamespace(cuda_graph_config=GRAPHS)
    context = SimpleNamespace(
        get_exec=lambda: SimpleNamespace(_subs={"graph": graph}, graph=graph),
        get_server_args=lambda: SimpleNamespace(cuda_graph_config=None, disable_radix_cache=True),
    )
    monkeypatch.setitem(sys.modules, "sglang.srt.runtime_context", context)
    problem = refusal.of_options()
    assert problem is not None
    assert "--cuda-graph-backend-prefill=disabled" in problem.detail
    graph.cuda_graph_config = NO_GRAPHS
    assert refusal.of_options() is None


@pytest.mark.parametrize(
    ("version", "model", "right"),
    [
        ("0.5.23", "DeepseekV2Model", True),
        ("0.5.20.post1", "DeepseekV2Model", True),
        ("0.5.19", "DeepseekV2Model", False),
        ("0.5.24", "DeepseekV2Model", False),
        ("0.6.0", "DeepseekV2Model", False),
        ("unknown", "DeepseekV2Model", False),
        ("0.5.23", "Qwen3MoeModel", False),
    ],
)
def test_data_parallel_attention_goes_where_it_was_seen_right(
    monkeypatch: pytest.MonkeyPatch, version: str, model: str, right: bool
) -> None:
    assert attention.proved(version, model) is right
    monkeypatch.setattr(release, "version", lambda: version)
    monkeypatch.setattr(release, "attention_size", lambda: 1)
    monkeypatch.setattr(release, "option", lambda name: {"attn_dp_size": 2}.get(name, MISSING))
    instance = type(model, (SimpleNamespace,), {})(layers=range(61))
    problem = refusal.of_options() or refusal.of_model(instance, (3, 31, 59))
    assert (problem is None) is right
    assert right or "--enable-dp-attention" in problem.detail  # type: ignore[union-attr]
    if right:
        monkeypatch.setattr(release, "attention_size", lambda: 2)
        shared = refusal.of_model(instance, (3, 31, 59))
        assert shared is not None
        assert "--dp-size as large as --tp-size" in shared.detail


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"layers": range(61)}, None),
        ({"layers": range(4)}, "layers 0 to 3"),
        ({"layers": range(61), "pp_group": SimpleNamespace(world_size=2)}, "--pp-size"),
        ({"layers": range(61), "pp_group": SimpleNamespace(world_size=1)}, None),
    ],
)
def test_models(model: dict[str, Any], words: str | None) -> None:
    problem = refusal.of_model(SimpleNamespace(**model), (3, 31, 59))
    assert (problem is None) if words is None else problem is not None and words in problem.detail


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ({"orig_seq_lens": None}, None),
        ({"orig_seq_lens": None, "can_run_tbo": False, "global_num_tokens_cpu": None}, None),
        ({}, "--chunked-prefill-size -1"),
        ({"can_run_tbo": True}, "--enable-two-batch-overlap"),
        ({"global_num_tokens_cpu": [5, 0]}, "--moe-dense-tp-size"),
        ({"forward_mode": SimpleNamespace(name="MIXED")}, "--enable-mixed-chunk"),
        ({"orig_seq_lens": None, "contains_mm_inputs": lambda: False, "mm_input_embeds": None}, None),
        ({"orig_seq_lens": None, "contains_mm_inputs": lambda: True}, "Send text alone"),
        ({"orig_seq_lens": None, "contains_mm_inputs": lambda: False, "mm_input_embeds": object()}, "Send text alone"),
        ({"orig_seq_lens": None, "input_embeds": object()}, "Send text alone"),
        ({"orig_seq_lens": None, "replace_embeds": object()}, "Send text alone"),
    ],
)
def test_passes(batch: dict[str, Any], words: str | None) -> None:
    problem = refusal.of_pass(SimpleNamespace(**{"forward_mode": SimpleNamespace(name="EXTEND"), **batch}), False)
    assert (problem is None) if words is None else problem is not None and words in problem.detail


@pytest.mark.parametrize(("told", "words"), [({"is_extend_in_batch": True}, None), ({}, "did not gather")])
def test_passes_of_data_parallel_attention(told: dict[str, Any], words: str | None) -> None:
    mode = SimpleNamespace(name="EXTEND")
    batch = SimpleNamespace(forward_mode=mode, orig_seq_lens=None, global_num_tokens_cpu=[5, 0], **told)
    problem = refusal.of_pass(batch, True)
    assert (problem is None) if words is None else problem is not None and words in problem.detail


@pytest.mark.parametrize("mode", ["TARGET_VERIFY", "DRAFT_EXTEND", "SPLIT_PREFILL", "ONE_OF_TOMORROW"])
def test_modes_are_refused_by_name(mode: str) -> None:
    assert mode in refusal.of_mode(mode)


def test_an_option_that_no_release_has() -> None:
    assert option("no_such_option") is MISSING


def test_the_digest_is_over_names_and_contents() -> None:
    one = digest_of({"a.py": b"1", "b.py": b"2"})
    assert one == digest_of({"b.py": b"2", "a.py": b"1"})
    assert one not in (digest_of({"a.py": b"12", "b.py": b""}), digest_of({"a.py": b"1"}), digest_of({"c.py": b"1"}))


def test_the_package_knows_its_own_files() -> None:
    package = Path(__file__).parents[3] / "remote" / "dumper"
    assert set(own_files(str(package))) == {path.name for path in package.glob("*.py")}


def test_all_of_hsconsole_has_one_version() -> None:
    import console
    import remote

    assert VERSION == remote.__version__ == console.__version__
