"""Does this model verify trees? A small draft in one pass against its paths one by one, on the model in hand.

Stock attention code differs by family: some ignore a mask of ours, some count positions by slot. This finds every such
silent error, with no list of families.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from aded.core.errors import AdedError
from aded.core.tree import DraftTree
from aded.sampling.logits_pipeline import Rule
from aded.sampling.settings import SamplingSettings
from aded.sampling.tree_walk import first_non_finite

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel

# Parents of small drafts; the committed path of the tree is scattered, so that compaction is tested too.
TREE = (-1, 0, 0, 1, 1, 2, 4, 4, 6)
CHAIN = (-1, 0, 1, 2)
SINGLE = (-1,)
_KEEP = {TREE: [0, 1, 4, 7], CHAIN: [0, 1, 2], SINGLE: [0]}
TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.25, torch.float16: 0.25}
"""Root-mean-square difference allowed, in standard deviations of the logits.

A real model of 30 layers gives 1e-6, 0.08 and 0.02 in these dtypes, and 1 with a wrong mask.
"""
PROMPT_LENGTH = 12
LONGEST_PROMPT = 160  # sliding windows up to this are crossed by the test


def passes(target: TargetModel, parents: tuple[int, ...]) -> bool:
    """True where logits of the draft, and of a token after its commit, equal those of its paths run alone without a cache."""
    try:
        return _largest_error(target, parents) <= TOLERANCE[target.dtype]
    except (torch.OutOfMemoryError, AdedError):
        raise
    except Exception:  # whatever a family raises at a mask or a cache it does not take means: not this way
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
    rows = session.forward_tree(tree).logits.float()
    keep = _KEEP[parents]
    session.commit(keep)
    after = session.forward_tree(DraftTree.root_only(int(tokens[0]))).logits.float()

    errors = []
    for leaf in tree.leaves:
        path = tree.path_to(leaf)
        expected = _alone(target, prompt + tree.tokens[path].tolist())[-len(path) :]
        errors.append(_error(rows[path], expected))
    kept = prompt + tree.tokens[keep].tolist() + [int(tokens[0])]
    errors.append(_error(after, _alone(target, kept)[-1:]))
    return max(errors)


def fixed_steps_pass(target: TargetModel) -> bool:
    """True where steps of fixed shape (captured ones on a card) say what passes that grow say, before and after a commit."""
    try:
        return _largest_fixed_error(target) <= TOLERANCE[target.dtype]
    except torch.OutOfMemoryError:
        raise
    except Exception:  # a family may do what a graph cannot hold
        return False


@torch.inference_mode()
def _largest_fixed_error(target: TargetModel) -> float:
    rng = np.random.default_rng(1)
    prompt = rng.integers(0, target.vocab_size, _prompt_length(target)).tolist()
    tree = DraftTree(rng.choice(target.vocab_size, len(TREE), replace=False), np.array(TREE))
    rule, errors = Rule(SamplingSettings()), []
    grown, fixed = target.session(len(prompt) + 64), target.session(len(prompt) + 64)
    grown.prefill(prompt)
    fixed.prefill(prompt[: len(prompt) // 2])
    fixed.prefill(prompt[len(prompt) // 2 :])
    for draft in (tree, DraftTree.root_only(int(tree.tokens[0]))):
        expected = grown.forward_tree(draft).logits.float()
        verdict, output = fixed.verify(draft, prompt, rule)
        errors.append(_error(output.logits.float(), expected))
        grown.commit(verdict.path)
        fixed.commit(verdict.path)
    for session in (grown, fixed):
        session.close()
    return max(errors)


def _prompt_length(target: TargetModel) -> int:
    windows = [getattr(target.config, name, None) for name in ("sliding_window", "attention_chunk_size")]
    longest = max([w + 5 for w in windows if isinstance(w, int) and w + 5 <= LONGEST_PROMPT], default=PROMPT_LENGTH)
    return max(2, min(max(PROMPT_LENGTH, longest), target.context_limit - len(TREE) - 2))


def _alone(target: TargetModel, ids: list[int]) -> torch.Tensor:
    """Logits ``[len(ids), vocab]`` of a stock pass with neither cache nor mask."""
    output = target.run(torch.tensor([ids], device=target.device), None, None, None)
    if first_non_finite(range(len(ids)), output.logits[0]) is not None:
        raise AdedError(
            f"{target.label}: the logits are not finite (NaN or infinity); the weights are damaged or overflow in "
            f"{target.dtype}: get them again, or use --dtype float32"
        )
    return output.logits[0].float()


def _error(found: torch.Tensor, expected: torch.Tensor) -> float:
    spread = expected.std().clamp_min(1e-6)
    error = float((found - expected).square().mean().sqrt() / spread)
    return error if np.isfinite(error) else float("inf")
