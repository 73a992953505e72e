"""The page's sampling with other settings: it repeats every recorded run, and agrees with the engine for other settings."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import TESTS
from fakes import VOCAB, OracleDrafter, alone, cost, near, tiny_target
from waiting import HANG

from aded.core import trace
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.draft_models.chain_runner import ChainRunner
from aded.draft_models.tree_runner import TreeRunner
from aded.drafters.methods.specinfer import SpecInferDrafter
from aded.drafters.methods.speculative import SpeculativeDrafter
from aded.sampling.logits_pipeline import Rule
from aded.sampling.rng import key_of, uniform
from aded.sampling.settings import SamplingSettings

PROMPT = [5, 9, 14, 3, 20]
RUNS: list[tuple[str, dict[str, Any]]] = [
    ("plain", {}),
    ("oracle", {}),
    ("aded", {"temperature": 0.8}),
    ("oracle", {"temperature": 1.3, "top_k": 50, "top_p": 0.9}),
    ("oracle", {"temperature": 0.7, "min_p": 0.1, "repetition_penalty": 1.2}),
    ("speculative", {"temperature": 0.8}),
    ("speculative", {"temperature": 1.1, "top_k": 12}),
    ("speculative", {"temperature": 0.9, "top_p": 0.7}),
    ("specinfer", {"temperature": 0.8}),
    ("specinfer", {"temperature": 1.2, "min_p": 0.05}),
]
SEEDS = (0, 1, 2**53 - 1)
OTHER_SETTINGS = [
    {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": 0.0}
    for temperature in (0.0, 0.3, 0.9, 1.0, 1.4, 2.0)
    for top_k, top_p in ((0, 1.0), (5, 1.0), (0, 0.6), (30, 0.95))
]


def drafter(name: str, target: Any) -> Any:
    if name == "oracle":
        return OracleDrafter(alone(target, PROMPT, 60))
    if name == "speculative":
        return SpeculativeDrafter(ChainRunner(near(target, 0.8), VOCAB), cost(1.0), lambda greedy: 0.1, "rejection", 4)
    if name == "specinfer":
        runners = [TreeRunner(near(target, factor), VOCAB) for factor in (0.8, 1.15)]
        return SpecInferDrafter(runners, cost(1.0), lambda greedy: 0.05, replacement=False, branching=(3, 2, 1))
    return name


def distributions(target: Any, race: trace.Race) -> list[dict[str, Any]]:
    """The engine's distribution and token at some choices of plain decoding, with other settings and another seed."""
    (run, *_), ids, cases = race.lanes, list(PROMPT), []
    for step in run.steps[:6]:
        with torch.inference_mode():
            logits = target.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]
        for settings in OTHER_SETTINGS:
            rule = Rule(SamplingSettings(**settings, seed=run.header.seed + 1))
            p, token = rule.probabilities(logits, ids).tolist(), rule.choose(logits, ids)[0]
            p = [float(i == token) for i in range(VOCAB)] if rule.settings.greedy else p
            case = {"run": 0, "step": step.index, "choice": 0, "settings": settings, "seed": rule.settings.seed}
            cases.append({**case, "probabilities": p, "drawn": token})
        ids += step.emitted
    return cases


def numbers() -> list[dict[str, Any]]:
    """Random numbers of the engine; integers of 64 bits as text."""
    places = [(seed, position, token) for seed in (0, 7, 2**40 + 3, 2**63 - 1) for position in (1, 4096) for token in (0, 49151)]
    return [
        {"seed": str(s), "position": p, "token": t, "key": str(key_of(s, p)), "u": uniform(key_of(s, p), t)} for s, p, t in places
    ]


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_every_recorded_choice_is_repeated_and_other_settings_give_the_distributions_of_the_engine(tmp_path: Path):
    target = tiny_target()
    runs = [
        Decoder(target, drafter(name, target), GenerationSettings(max_new_tokens=30, budget=16, seed=seed, **sampling)).run(
            PROMPT
        )
        for name, sampling in RUNS
        for seed in (SEEDS if sampling else SEEDS[:1])
    ]
    trials = [
        trial for run in runs for step in run.steps for choice in step.choices if (r := choice.rejection) for trial in r.trials
    ]
    assert {trial.accepted for trial in trials} == {True, False}
    race = trace.Race(runs)
    trace.save(race, tmp_path / "race.json")
    cases = {"numbers": numbers(), "distributions": distributions(target, race)}
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    files = [TESTS / "js" / "resample.js", tmp_path / "race.json", tmp_path / "cases.json"]
    done = subprocess.run(["node", *map(str, files)], capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr[-3000:]
