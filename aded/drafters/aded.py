"""ADED: adaptive draft-verification decoding (arXiv 2407.12021) on the shared loop.

A tri-gram matrix stands in for the language model; a tree search over it proposes the draft; the text of the session
feeds the matrix back. ``AdedOptions.paper()`` follows the publication, with the faults of its code mended;
``AdedOptions.tuned()`` mixes the matrix with longer contexts of the session and searches for expected accepted tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, get_args

import numpy as np

from aded.core import limits
from aded.core.errors import AdedError
from aded.core.inspection import Answer, Explanation, MatrixRow, MatrixSize
from aded.core.tree import DraftTree
from aded.drafters.base import Context, Drafter, Knowledge, Outcome
from aded.engine.outputs import DrafterNeeds
from aded.ngram import tree_search
from aded.ngram.representative import answers, learned, overlay_size
from aded.ngram.session_overlay import TOLD, Overlay, within
from aded.ngram.trigram import TrigramMatrix

Preset = Literal["paper", "tuned"]
Search = Literal["mcts", "best-first", "greedy", "full"]

PUBLISHED_WINDOW = 16
"""Newest prompt tokens that the published update reads."""
MOST_ROWS = 12
"""Rows that are shown of a step."""
NO_SUCCESSOR = "no successor of this pair is known: plain step"


@dataclass(frozen=True)
class AdedOptions:
    """How `AdedDrafter` learns and searches.

    Attributes:
        preset: "paper" keeps the published update rule and search, "tuned" mixes longer contexts in.
        search: how a draft is found.
        c1, c2: exploration constants of the PUCT score (`aded.ngram.tree_search.Puct`).
        depth: tokens of a path below the root.
        simulations: of the tree search; 0 stands for 12 and three more for every eight nodes that a draft may have.
        successors: children of a node.
        feedback: learn the target's most probable tokens at every verified node, not only the text (tuned only).
        keep: remember what earlier texts of this drafter taught.

    Raises:
        AdedError: a value is out of range.
    """

    preset: Preset = "tuned"
    search: Search = "mcts"
    c1: float = 1.0
    c2: float = 8.0
    depth: int = 24
    simulations: int = 0
    successors: int = 12
    feedback: bool = True
    keep: bool = False

    def __post_init__(self) -> None:
        _one_of("preset", self.preset, get_args(Preset))
        _one_of("search", self.search, get_args(Search))
        for name, (low, high) in limits.ADED.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
                raise AdedError(f"{name} is {value!r}; give a number from {low} to {high}")
            if name not in ("c1", "c2") and not isinstance(value, int):
                raise AdedError(f"{name} is {value!r}; give a whole number")
        for name in ("feedback", "keep"):
            if not isinstance(getattr(self, name), bool):
                raise AdedError(f"{name} is {getattr(self, name)!r}; give true or false")

    @classmethod
    def paper(cls) -> AdedOptions:
        """As published: depth 4, 150 simulations, c1 = 32, c2 = 8, 12 successors."""
        return cls(preset="paper", c1=32.0, c2=8.0, depth=4, simulations=150, successors=12, feedback=False)

    @classmethod
    def tuned(cls) -> AdedOptions:
        """What drafts best when recorded text is replayed."""
        return cls()


class AdedDrafter(Drafter):
    """Drafts a tree from a tri-gram matrix that learns from the session's text.

    Args:
        matrix: the model's matrix, shared and never changed; None works from the session's text alone.
        vocab_size: token ids are below it.
        options: preset and search.
        seed: of the rollouts; two drafters with one seed draft alike.

    Raises:
        AdedError: the matrix is for another vocabulary.
    """

    def __init__(self, matrix: TrigramMatrix | None, vocab_size: int, options: AdedOptions | None = None, seed: int = 0) -> None:
        if matrix is not None and matrix.vocab_size != vocab_size:
            raise AdedError(
                f"the tri-gram matrix is for {matrix.vocab_size} ids, the model has {vocab_size}; build one for this model"
            )
        self.options = options or AdedOptions.tuned()
        self.vocab_size = vocab_size
        self.seed = seed
        self._has_base = matrix is not None
        self._base = matrix if matrix is not None else TrigramMatrix.empty(vocab_size)
        paper = self.options.preset == "paper"
        self._overlay = Overlay(published=True, slots=self.options.successors) if paper else Overlay()
        self._source = tree_search.Source(self._base, self._overlay)
        self._paper = paper
        self._hears = self.options.feedback and not paper
        self.needs = DrafterNeeds(top_k=TOLD if self._hears else 0, optional=True)
        self._warm_up()

    def start(self, prompt: Sequence[int]) -> None:
        """Forget the last decode, unless it is to be kept, and count the prompt's trigrams (paper: of its last 16 tokens)."""
        if not self.options.keep:
            self._overlay.clear()
        self._read(prompt)

    def propose(self, context: Context, budget: int) -> DraftTree:
        return self._search(context, budget)

    def observe(self, outcome: Outcome) -> None:
        """Count each emitted token once, as the successor of the tokens before it; then take in the target's answers.

        Answers are optional: where an outcome has none, as in recorded text, the emitted tokens alone are learned.
        """
        text, start = self._emitted(outcome)
        self._overlay.learn(self._base, text, start)
        if self._hears and outcome.top_tokens is not None and outcome.top_probabilities is not None:
            tokens = self._checked(outcome.top_tokens.ravel()).reshape(outcome.top_tokens.shape)
            probabilities = np.ascontiguousarray(outcome.top_probabilities, dtype=np.float32)
            self._overlay.tell(text[:start], outcome.tree, tokens, probabilities)

    def explain(self, context: Context, budget: int) -> Explanation:
        """Search again, with a record: same state, same seed, same draft."""
        tree = self._search(context, budget)
        if len(tree) == 1 and budget > 1:
            return Explanation(note=NO_SUCCESSOR)
        note = f"{len(tree)} of {budget} nodes: the search found no more" if len(tree) < budget and not self._paper else None
        if self.options.search != "mcts" or budget == 1:
            return Explanation(note=note)
        limits, puct = self._limits(budget), self._puct(budget)
        steps = tree_search.record_mcts(self._source, self._newest(context), limits, puct, self._seed_at(context))
        return Explanation(note, steps)

    def rows(self, outcome: Outcome) -> list[MatrixRow]:
        """The rows of pairs that ``observe`` changes, base and overlay together; at most 12.

        Those that a token was counted in come first, then those of rejected nodes that the target answered at. A row is
        drawn for its pair alone: longer contexts, which the tuned preset mixes in too, are left out.
        """
        text, start = self._emitted(outcome)
        pairs = {(int(text[at - 2]), int(text[at - 1])): None for at in range(max(start, 2), len(text))}
        if self._hears and outcome.top_tokens is not None:
            tokens, parents = outcome.tree.tokens, outcome.tree.parents
            pairs |= {(int(tokens[parents[node]]), int(tokens[node])): None for node in range(1, len(tokens))}
        return [self._row(pair) for pair in list(pairs)[:MOST_ROWS]]

    def size(self) -> MatrixSize:
        base_bytes = sum(array.nbytes for array in self._base.arrays)
        return MatrixSize(len(self._base), base_bytes, *overlay_size(self._overlay))

    def represent(self, context: Context) -> list[Answer]:
        return list(answers(self._base, self._overlay, self._newest(context)))

    def knowledge(self) -> Knowledge:
        return self._overlay.knowledge()

    def recall(self, knowledge: Knowledge) -> None:
        self._overlay.recall(knowledge)

    def settings(self) -> dict[str, object]:
        return {**asdict(self.options), "seed": self.seed, "base_matrix": self._has_base}

    def _read(self, prompt: Sequence[int]) -> None:
        text = self._checked(np.asarray(prompt, dtype=np.int64))
        self._overlay.learn(self._base, text[-PUBLISHED_WINDOW:] if self._paper else text, 0)

    def _search(self, context: Context, budget: int) -> DraftTree:
        assert budget >= 1, "a draft holds its root at least"
        newest = self._newest(context)
        if budget == 1:
            return DraftTree.root_only(int(newest[-1]))
        limits = self._limits(budget)
        if self.options.search == "mcts":
            return tree_search.mcts(self._source, newest, limits, self._puct(budget), self._seed_at(context))
        find = {"best-first": tree_search.best_first, "greedy": tree_search.greedy, "full": tree_search.full}[self.options.search]
        return find(self._source, newest, limits)

    def _limits(self, budget: int) -> tree_search.Limits:
        return tree_search.Limits(budget, self.options.depth, self.options.successors)

    def _puct(self, budget: int) -> tree_search.Puct:
        return tree_search.Puct(
            self.options.simulations or 12 + 3 * budget // 8, float(self.options.c1), float(self.options.c2), self._paper
        )

    def _seed_at(self, context: Context) -> int:
        """A seed of its own for every position, so that a step can be searched again."""
        return (self.seed * 0x9E3779B1 + len(context.tokens)) & 0x7FFFFFFFFFFFFFFF

    def _newest(self, context: Context) -> np.ndarray:
        return self._checked(np.asarray(context.tokens[-tree_search.NEWEST :]))

    def _emitted(self, outcome: Outcome) -> tuple[np.ndarray, int]:
        """The emitted tokens behind the newest committed ones, and where they begin."""
        before = self._newest(outcome.context)
        return np.concatenate([before, self._checked(np.asarray(outcome.emitted))]), len(before)

    def _checked(self, tokens: np.ndarray) -> np.ndarray:
        """Token ids as compiled code takes them, int32 ``[length]``.

        Raises:
            AdedError: an id is outside the vocabulary.
        """
        if not within(tokens, self.vocab_size):
            raise AdedError(f"token ids must lie from 0 to {self.vocab_size - 1}; tokenize with this model's tokenizer")
        return np.ascontiguousarray(tokens, dtype=np.int32)

    def _row(self, pair: tuple[int, int]) -> MatrixRow:
        context = np.array(pair, dtype=np.int32)
        tokens, probabilities = self._overlay.successors(self._base, context, self.options.successors)
        taught = learned(self._base, self._overlay, context, tokens, probabilities)
        return MatrixRow(pair, tuple(tokens.tolist()), tuple(probabilities.tolist()), tuple(taught.tolist()))

    def _warm_up(self) -> None:
        """Compile everything now, so that no timed step does."""
        text = np.zeros(3, dtype=np.int32)
        context = Context(text, 3)
        self._read([0, 0, 0])
        self.propose(context, 2)
        self.explain(context, 2)
        self._row((0, 0))
        self.represent(context)
        if self._hears:
            none = np.zeros((1, TOLD), dtype=np.int32)
            self._overlay.tell(text, DraftTree.root_only(0), none, none.astype(np.float32))
        self._overlay.clear()


def _one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise AdedError(f"{name} is {value!r}; choose one of {', '.join(known)}")
