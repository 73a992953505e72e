"""One model on several processes or GPUs generates the same text as on one."""

import json
import os
import subprocess
import sys

import pytest
import torch
from conftest import ROOT
from fakes import VOCAB, tiny_model
from waiting import HANG

from aded.core.errors import AdedError
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.engine import distributed
from aded.engine.target_model import TargetModel


@pytest.fixture
def folder(real_tokenizer_folder):
    tiny_model("llama", vocab_size=VOCAB + 1).save_pretrained(real_tokenizer_folder)  # sharded: an even number
    return real_tokenizer_folder


def generate(folder, launcher, *options: str) -> dict:
    command = [*launcher, "-m", "aded", "generate", "--model", str(folder), "--prompt", "w5 w17 w40 w8 w5 w17", "--json"]
    command += ["--max-new-tokens", "40", "--dtype", "float32", *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=HANG, check=False)
    assert done.returncode == 0, said(done.stderr)
    return json.loads(done.stdout.strip().splitlines()[-1])


def said(stderr: str) -> str:
    """The error lines, without the launcher's report."""
    return "\n".join(line for line in stderr.splitlines() if "rror" in line)[:3000]


PYTHON = [sys.executable]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
SAMPLED = ["--temperature", "0.9", "--seed", "3"]


@pytest.mark.slow
def test_tensor_parallel_on_two_cpu_processes_equals_one(folder):
    model = TargetModel.load(str(folder), device="cpu", dtype="float32")
    for options, sampling in (([], {}), (SAMPLED, {"temperature": 0.9, "seed": 3})):
        alone = Decoder(model, "plain", GenerationSettings(max_new_tokens=40, **sampling)).run("w5 w17 w40 w8 w5 w17")
        shared = generate(folder, TORCHRUN, "--device", "cpu", "--tp", *options)
        assert shared["token_ids"] == alone.token_ids


def test_tensor_parallel_without_torchrun_names_the_remedy(monkeypatch):
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    with pytest.raises(AdedError, match="torchrun"):
        distributed.tensor_parallel_arguments()


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_two_gpus_generate_the_same_text_as_one(folder):
    for sampling in ([], SAMPLED):
        alone = generate(folder, PYTHON, "--device", "cuda", "--method", "plain", *sampling)
        placed = generate(folder, PYTHON, "--device-map", "auto", *sampling)
        shared = generate(folder, TORCHRUN, "--device", "cuda", "--tp", *sampling)
        assert placed["token_ids"] == alone["token_ids"]
        assert shared["token_ids"] == alone["token_ids"]
