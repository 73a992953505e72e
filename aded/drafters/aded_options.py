"""Settings of ADED; reading them needs neither a model nor torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from aded.core import limits

Preset = Literal["paper", "tuned"]
Search = Literal["mcts", "best-first", "greedy", "full"]


@dataclass(frozen=True)
class AdedOptions:
    """Settings of `AdedDrafter`.

    Attributes:
        preset: "paper" uses the update rule and the search of the paper; "tuned" also uses contexts longer than a bigram.
        search: algorithm that builds the draft tree.
        c1, c2: exploration constants of the PUCT score (`aded.ngram.tree_search.Puct`).
        depth: maximum depth of the draft tree below the root.
        simulations: number of MCTS simulations; 0 means ``12 + 3 * budget // 8``.
        successors: maximum number of children of a node.
        higher_orders: also use 4-grams and 5-grams counted from the datastore (tuned only).
        feedback: also learn the target's top-k tokens at every verified node (tuned only).
        coupling: if the target samples, draft the tokens that it will draw (`aded.ngram.coupling`).
        keep: keep the session counts from one decode to the next.

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
    higher_orders: bool = True
    feedback: bool = True
    coupling: bool = True
    keep: bool = False

    def __post_init__(self) -> None:
        limits.check_choice("preset", self.preset, get_args(Preset))
        limits.check_choice("search", self.search, get_args(Search))
        limits.check_numbers(limits.ADED, vars(self))
        limits.check_flags({name: getattr(self, name) for name in ("higher_orders", "feedback", "coupling", "keep")})

    @classmethod
    def paper(cls) -> AdedOptions:
        """The settings of the paper: depth 4, 150 simulations, c1 = 32, c2 = 8, 12 successors."""
        return cls(
            preset="paper",
            c1=32.0,
            c2=8.0,
            depth=4,
            simulations=150,
            successors=12,
            higher_orders=False,
            feedback=False,
            coupling=False,
        )

    @classmethod
    def tuned(cls) -> AdedOptions:
        """The settings that draft best on replayed texts."""
        return cls()
