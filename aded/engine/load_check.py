"""Checks on the loaded model that it verifies draft trees: a small draft in one forward pass against each path alone.

Attention code differs between model families: some ignore a custom mask, some derive positions from cache slots. This check
finds such silent errors without a list of families.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from aded.core.errors import AdedError
from aded.core.tree import DraftTree
from aded.engine.loading import loader
from aded.sampling.logits_pipeline import Rule
from aded.sampling.settings import SamplingSettings
from aded.verification.tree_walk import first_non_finite

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel

# Parents of small drafts. The committed path of the tree is not contiguous, so compaction is tested too.
TREE = (-1, 0, 0, 1, 1, 2, 4, 4, 6)
CHAIN = (-1, 0, 1, 2)
SINGLE = (-1,)
_COMMITTED_PATH = {TREE: [0, 1, 4, 7], CHAIN: [0, 1, 2], SINGLE: [0]}
TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.25, torch.float16: 0.25}
"""Allowed root-mean-square error, in standard deviations of the logits.

A model with 30 layers has 1e-6, 0.08 and 0.02 in these dtypes, and 1 with a wrong mask.
"""
PROMPT_LENGTH = 12
MAX_PROMPT_LENGTH = 160  # sliding windows shorter than this are exceeded by the prompt


def passes(target: TargetModel, parents: tuple[int, ...]) -> bool:
    """Whether the logits of the draft, and of a token after compaction, equal those of each path alone without a cache."""
    try:
        return _largest_error(target, parents) <= TOLERANCE[target.dtype]
    except (torch.OutOfMemoryError, AdedError):
        raise
    except Exception:  # any error means that the model does not support this mask or cache
        return False


@torch.inference_mode()
def _largest_error(target: TargetModel, parents: tuple[int, ...]) -> float:
    rng = np.random.default_rng(0)
    prompt = rng.integers(0, target.vocab_size, _prompt_length(target)).tolist()
    # siblings must differ: draw without replacement
    tokens = rng.choice(target.vocab_size, len(parents), replace=target.vocab_size < len(parents))
    tree = DraftTree(tokens, np.array(parents))
    session = target.session(len(prompt) + len(tree) + 1)
    session.prefill(prompt[: len(prompt) // 2])
    session.prefill(prompt[len(prompt) // 2 :])  # a second forward pass over a filled cache
    tree_logits = session.forward_tree(tree).logits.float()
    committed = _COMMITTED_PATH[parents]
    session.compact(committed)
    next_logits = session.forward_tree(DraftTree.root_only(int(tokens[0]))).logits.float()

    errors = []
    for leaf in tree.leaves:
        path = tree.path_to(leaf)
        expected = _reference_logits(target, prompt + tree.tokens[path].tolist())[-len(path) :]
        errors.append(_relative_rmse(tree_logits[path], expected))
    kept = prompt + tree.tokens[committed].tolist() + [int(tokens[0])]
    errors.append(_relative_rmse(next_logits, _reference_logits(target, kept)[-1:]))
    return max(errors)


def fixed_steps_pass(target: TargetModel) -> bool:
    """Whether fixed-shape steps (captured on a GPU) equal dynamic forward passes, before and after compaction."""
    try:
        return _largest_fixed_error(target) <= TOLERANCE[target.dtype]
    except torch.OutOfMemoryError:
        raise
    except Exception:  # some models do what a CUDA graph cannot capture
        return False


@torch.inference_mode()
def _largest_fixed_error(target: TargetModel) -> float:
    rng = np.random.default_rng(1)
    prompt = rng.integers(0, target.vocab_size, _prompt_length(target)).tolist()
    tree = DraftTree(rng.choice(target.vocab_size, len(TREE), replace=False), np.array(TREE))
    rule, errors = Rule(SamplingSettings()), []
    dynamic, fixed = target.session(len(prompt) + 64), target.session(len(prompt) + 64)
    dynamic.prefill(prompt)
    fixed.prefill(prompt[: len(prompt) // 2])
    fixed.prefill(prompt[len(prompt) // 2 :])
    for draft in (tree, DraftTree.root_only(int(tree.tokens[0]))):
        expected = dynamic.forward_tree(draft).logits.float()
        verdict, output = fixed.verify(draft, prompt, rule)
        errors.append(_relative_rmse(output.logits.float(), expected))
        dynamic.compact(verdict.path)
        fixed.compact(verdict.path)
    for session in (dynamic, fixed):
        session.close()
    return max(errors)


def _prompt_length(target: TargetModel) -> int:
    windows = [getattr(target.config, name, None) for name in ("sliding_window", "attention_chunk_size")]
    crossing = max([w + 5 for w in windows if isinstance(w, int) and w + 5 <= MAX_PROMPT_LENGTH], default=PROMPT_LENGTH)
    return max(2, min(max(PROMPT_LENGTH, crossing), target.context_limit - len(TREE) - 2))


def _reference_logits(target: TargetModel, ids: list[int]) -> torch.Tensor:
    """Logits ``[len(ids), vocab]`` of a stock forward pass without cache or mask."""
    output = target.forward(torch.tensor([ids], device=target.device), None, None, None)
    if first_non_finite(range(len(ids)), output.logits[0]) is not None:
        raise AdedError(f"{target.label}: the logits are {loader.non_finite(target.dtype)}")
    return output.logits[0].float()


def _relative_rmse(found: torch.Tensor, expected: torch.Tensor) -> float:
    spread = expected.std().clamp_min(1e-6)
    error = float((found - expected).square().mean().sqrt() / spread)
    return error if np.isfinite(error) else float("inf")
