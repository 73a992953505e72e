"""The paper preset against the published draft maker (package ``draftretriever`` 0.1.1) on the same matrix.

The package's search draws at random, from hash maps of random order, so two runs of it share 0.92 of their nodes only.
The paper preset shares 0.906 with it. What is between the two is the mended reward, which the package looks up under the
wrong index, where it is nearly always 1: with that constant in its place the preset shares 0.918.

The package's ``choices`` are set so high that its cutting rule, which throws the longest paths away first, never acts: its
drafts have at most 47 nodes anyway.
"""

from __future__ import annotations

import struct
from itertools import pairwise

import numpy as np
import pytest
from conftest import DATA

from aded.core.tree import DraftTree
from aded.data.records import read_records
from aded.drafters.aded_options import AdedOptions
from aded.drafters.base import Context, Drafter
from aded.drafters.methods.aded import AdedDrafter
from aded.evaluation.replay import replay
from aded.ngram.trigram import TrigramMatrix

draftretriever = pytest.importorskip("draftretriever")
VOCAB = 49152
UNCUT = 10_000

pytestmark = pytest.mark.skipif(not (DATA / "self_written.npy").exists(), reason="the corpus is not here")


@pytest.fixture(scope="module")
def matrix() -> TrigramMatrix:
    ids = np.load(DATA / "self_written.npy")[:400_000]
    return TrigramMatrix.build(ids, separator=0, vocab_size=VOCAB, fingerprint="test")


@pytest.fixture(scope="module")
def store(matrix: TrigramMatrix, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The matrix in the format of the package: bincode of a map from bigrams to maps from successors to probabilities."""
    bigrams = np.flatnonzero(matrix.contexts[:, 0] >= 0)
    parts = [struct.pack("<Q", len(bigrams))]
    for row in bigrams:
        first, second = matrix.contexts[row].tolist()
        tokens, probabilities = matrix.row(first, second)
        parts.append(struct.pack("<iiQ", first, second, len(tokens)))
        parts.append(b"".join(struct.pack("<if", t, p) for t, p in zip(tokens.tolist(), probabilities.tolist())))
    path = tmp_path_factory.mktemp("store") / "datastore.idx"
    path.write_bytes(b"".join(parts))
    return str(path)


class PublishedDrafter(Drafter):
    """The package as a drafter. It counts the given tokens at every search, so each new token is given once."""

    def __init__(self, path: str) -> None:
        self.path = path

    def start(self, prompt) -> None:
        self.reader = draftretriever.Reader(self.path)
        self.known = max(0, len(prompt) - 16)
        self.fresh = True

    def propose(self, context: Context, budget: int) -> DraftTree:
        window = context.tokens[self.known if self.fresh else self.known - 2 :]
        self.known, self.fresh = len(context.tokens), False
        return DraftTree.from_paths(context.root, draft_of(self.reader, window.tolist()), budget)


def draft_of(reader, window: list[int]) -> list[list[int]]:
    return [[token for token in path if token >= 0] for path in reader.search(window, choices=UNCUT)[0]]


def nodes_of(tree: DraftTree) -> set[tuple[int, ...]]:
    return {tuple(tree.tokens[tree.path_to(node)[1:]].tolist()) for node in range(1, len(tree))}


def prefixes_of(paths: list[list[int]]) -> set[tuple[int, ...]]:
    return {tuple(path[:end]) for path in paths for end in range(1, len(path) + 1)}


def shared_part(drafts: list[set], others: list[set]) -> float:
    """The share of the nodes that are in both drafts."""
    return sum(len(a & b) for a, b in zip(drafts, others)) / sum(len(a) for a in drafts)


def test_drafts_share_ninety_percent_of_their_nodes(matrix: TrigramMatrix, store: str) -> None:
    """Mean over eight runs of the package: standard deviation 0.0012, a false alarm in less than one of 10 000 runs."""
    drafter = AdedDrafter(matrix, VOCAB, AdedOptions.paper())
    bigrams = [
        record.output[end - 2 : end]
        for record in read_records(DATA / "recorded_greedy.jsonl")
        for end in range(2, len(record.output), 40)
    ]
    ours = []
    for bigram in bigrams:
        drafter.start([])
        ours.append(nodes_of(drafter.propose(Context(bigram, 2), 64)))
    readers = [draftretriever.Reader(store) for _ in range(8)]
    theirs = [[prefixes_of(draft_of(reader, bigram.tolist())) for bigram in bigrams] for reader in readers]
    shared = np.mean([shared_part(ours, run) for run in theirs])
    repeated = np.mean([shared_part(run, again) for run, again in pairwise(theirs)])
    print(f"\n{len(bigrams)} drafts: {shared:.4f} of the nodes shared, {repeated:.4f} between two runs of the package")
    assert shared >= 0.90
    assert shared >= repeated - 0.03


def test_as_many_tokens_are_accepted_per_step(matrix: TrigramMatrix, store: str) -> None:
    records = read_records(DATA / "recorded_greedy.jsonl")[::9]
    ours = replay(AdedDrafter(matrix, VOCAB, AdedOptions.paper()), records, 64).all
    theirs = replay(PublishedDrafter(store), records, 64).all
    print(f"\naccepted per step: {ours.accepted / ours.steps:.3f} here, {theirs.accepted / theirs.steps:.3f} in the package")
    assert ours.accepted / ours.steps == pytest.approx(theirs.accepted / theirs.steps, rel=0.03)
