"""Base counts and session counts, compared with reference counts in dictionaries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from aded.core.errors import AdedError
from aded.core.tree import DraftTree
from aded.ngram import higher_orders, session_counts
from aded.ngram.session_counts import SessionCounts
from aded.ngram.trigram import TrigramMatrix, extend_key, find_row, unpack_row
from aded.retrieval.suffix_array import Datastore

VOCAB = 50


def corpus(seed: int = 0, length: int = 3000, vocab: int = VOCAB) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.minimum(rng.geometric(0.15, length) - 1, vocab - 1).astype(np.int32)


def built(ids: np.ndarray | None = None, **options) -> TrigramMatrix:
    known = {"separator": 0, "vocab_size": VOCAB, "fingerprint": "abc", **options}
    return TrigramMatrix.build(corpus() if ids is None else ids, **known)


def reference_counts(ids: list[int], separator: int) -> tuple[dict, dict]:
    """Successor counts of single tokens and of bigrams."""
    unigrams, bigrams = defaultdict(Counter), defaultdict(Counter)
    for at in range(1, len(ids)):
        if ids[at - 1] != separator:
            unigrams[-1, ids[at - 1]][ids[at]] += 1
            if at > 1 and ids[at - 2] != separator:
                bigrams[ids[at - 2], ids[at - 1]][ids[at]] += 1
    return unigrams, bigrams


def best(counts: Counter, keep: int) -> dict[int, float]:
    total = sum(counts.values())
    return {token: n / total for token, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:keep]}


@pytest.mark.parametrize("keep", [1, 3, 12])
def test_rows_are_the_most_frequent_successors_and_never_cross_a_separator(keep: int) -> None:
    ids = corpus()
    matrix = built(ids, max_successors=keep)
    unigrams, bigrams = reference_counts(ids.tolist(), 0)
    assert len(matrix) == len(unigrams) + len(bigrams)
    for context, counts in {**unigrams, **bigrams}.items():
        tokens, probabilities = matrix.row(*context)
        expected = best(counts, keep)
        assert tokens.tolist() == list(expected)
        np.testing.assert_allclose(probabilities, list(expected.values()), rtol=1e-6)


def test_unknown_contexts_have_no_successors() -> None:
    matrix = built(np.array([1, 2, 3, 0]))
    assert not len(matrix.row(7, 8)[0])
    assert not len(TrigramMatrix.empty(VOCAB).row(1, 2)[0])


def test_ids_above_sixteen_bits_are_distinct() -> None:
    ids = np.array([70_000, 151_000, 70_001, 70_000 - 65_536, 151_000 - 65_536, 5, 0])
    matrix = built(ids, vocab_size=151_936)
    assert matrix.row(70_000, 151_000)[0].tolist() == [70_001]
    assert matrix.row(70_000 - 65_536, 151_000 - 65_536)[0].tolist() == [5]


@pytest.mark.parametrize("ids", [[], [1], [1, 2, VOCAB], [1, -1, 2], [[1, 2], [3, 4]]])
def test_a_corpus_that_cannot_be_counted_is_refused(ids: list) -> None:
    with pytest.raises(AdedError, match="tokenize it with this model's tokenizer"):
        built(np.array(ids, dtype=np.int64))


def test_saving_and_loading_preserves_the_matrix(tmp_path: Path) -> None:
    matrix, path = built(), tmp_path / "m.safetensors"
    matrix.save(path)
    again = TrigramMatrix.load(path, fingerprint="abc", vocab_size=VOCAB)
    for name in ("contexts", "starts", "successors", "counts", "totals"):
        np.testing.assert_array_equal(getattr(matrix, name), getattr(again, name))
    assert again.summary() == matrix.summary()
    assert [p.name for p in tmp_path.iterdir()] == ["m.safetensors"]


@pytest.mark.parametrize("given", [{"fingerprint": "other"}, {"vocab_size": VOCAB + 1}])
def test_a_matrix_of_another_tokenizer_is_refused_with_the_remedy(tmp_path: Path, given: dict) -> None:
    built().save(tmp_path / "m")
    with pytest.raises(AdedError, match="another tokenizer; build one for this model") as caught:
        TrigramMatrix.load(tmp_path / "m", **given)
    assert "\n" not in str(caught.value)


def test_missing_foreign_and_newer_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AdedError, match="cannot read"):
        TrigramMatrix.load(tmp_path / "none")
    (tmp_path / "text").write_text("not a matrix at all")
    with pytest.raises(AdedError, match="damaged"):
        TrigramMatrix.load(tmp_path / "text")
    built().save(tmp_path / "m")
    data = (tmp_path / "m").read_bytes()
    (tmp_path / "newer").write_bytes(data.replace(b'"version":"1"', b'"version":"9"'))
    with pytest.raises(AdedError, match="version '9'"):
        TrigramMatrix.load(tmp_path / "newer")
    (tmp_path / "foreign").write_bytes(data.replace(b"aded-trigram", b"gguf-trigram"))
    with pytest.raises(AdedError, match="not a tri-gram matrix"):
        TrigramMatrix.load(tmp_path / "foreign")


def test_loading_a_damaged_file_is_refused_or_gives_a_consistent_matrix(tmp_path: Path) -> None:
    """A truncated or altered file is refused, or it is a consistent matrix whose rows can all be read."""
    path = tmp_path / "m"
    built(corpus(length=60)).save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(1)
    damaged = [whole[:cut] for cut in range(0, len(whole), 37)]
    for _ in range(300):
        bytes_ = bytearray(whole)
        for at in rng.integers(len(whole), size=rng.integers(1, 4)):
            bytes_[at] = rng.integers(256)
        damaged.append(bytes(bytes_))
    refused = []
    for data in damaged:
        path.write_bytes(data)
        try:
            matrix = TrigramMatrix.load(path)
        except AdedError as error:
            refused.append(str(error))
        else:
            for first, second in matrix.contexts.tolist():
                tokens, probabilities = matrix.row(first, second)
                assert len(tokens)
                assert (tokens < matrix.vocab_size).all()
                assert probabilities.sum() <= 1 + 1e-6
    assert len(refused) > len(damaged) // 2
    assert not [message for message in refused if "\n" in message]


@pytest.mark.parametrize(
    ("name", "alter"),
    [
        ("successors", lambda a: a.fill(VOCAB)),
        ("successors", lambda a: a.fill(-1)),
        ("contexts", lambda a: a.fill(3)),
        ("contexts", lambda a: a.fill(VOCAB)),
        ("contexts", lambda a: a[:, 1].fill(-1)),
        ("starts", lambda a: a.fill(0)),
        ("starts", lambda a: a.__setitem__(1, 1 << 30)),
        ("counts", lambda a: a.fill(0)),
        ("counts", lambda a: a.fill(65535)),
        ("totals", lambda a: a.fill(0)),
    ],
)
def test_inconsistent_arrays_are_refused(tmp_path: Path, name: str, alter) -> None:
    matrix = built()
    alter(getattr(matrix, name))
    matrix.save(tmp_path / "m")
    with pytest.raises(AdedError, match="damaged tri-gram matrix"):
        TrigramMatrix.load(tmp_path / "m")


def test_a_header_with_unreadable_numbers_is_refused(tmp_path: Path) -> None:
    built().save(tmp_path / "m")
    data = (tmp_path / "m").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header["__metadata__"]["vocab_size"] = "many"
    text = json.dumps(header).encode()
    (tmp_path / "m").write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])
    with pytest.raises(AdedError, match="damaged"):
        TrigramMatrix.load(tmp_path / "m")


def test_a_saved_matrix_is_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    program = (
        "import numpy as np, sys; from aded.ngram.trigram import TrigramMatrix; "
        "TrigramMatrix.build(np.arange(1000) * 7 % 50, separator=0, vocab_size=50, fingerprint='abc').save(sys.argv[1])"
    )
    for name, seed in (("a", "1"), ("b", "2")):
        subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / name)], check=True, env={**os.environ, "PYTHONHASHSEED": seed}
        )
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    loaded = TrigramMatrix.load(tmp_path / "a")
    loaded.save(tmp_path / "c")
    assert (tmp_path / "c").read_bytes() == (tmp_path / "a").read_bytes()
    tensors = safetensors.numpy.load_file(tmp_path / "a")  # the library reads what we write
    np.testing.assert_array_equal(tensors["successors"], loaded.successors)


def rows_of(matrix: TrigramMatrix) -> dict:
    """Maps each context to (total, successor counts)."""
    lengths, entries = np.diff(matrix.starts), iter(zip(matrix.successors.tolist(), matrix.counts.tolist()))
    return {
        tuple(context): (total, dict(next(entries) for _ in range(length)))
        for context, total, length in zip(matrix.contexts.tolist(), matrix.totals.tolist(), lengths.tolist())
    }


def test_merging_equals_counting_the_concatenated_texts() -> None:
    one, other = corpus(seed=1), corpus(seed=2)
    one[-1] = 0  # nothing is counted across the boundary
    parts = [built(ids, max_successors=256) for ids in (one, other)]
    merged = TrigramMatrix.merge(parts)
    found = rows_of(merged)
    assert found == rows_of(built(np.concatenate([one, other]), max_successors=256))
    for _, counts in found.values():
        assert list(counts.items()) == sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    assert merged.corpus_tokens == len(one) + len(other)
    assert merged.to_bytes() == TrigramMatrix.merge(parts[::-1]).to_bytes()


def test_merging_respects_max_successors_and_one_matrix_is_unchanged() -> None:
    parts = [built(corpus(seed=seed), max_successors=keep) for seed, keep in ((1, 2), (2, 3))]
    assert np.diff(TrigramMatrix.merge(parts).starts).max() == 3
    assert TrigramMatrix.merge(parts[:1]).to_bytes() == parts[0].to_bytes()


def test_matrices_of_different_tokenizers_are_not_merged() -> None:
    for other in ({"fingerprint": "abd"}, {"vocab_size": VOCAB + 1}):
        with pytest.raises(AdedError, match="different tokenizers"):
            TrigramMatrix.merge([built(), built(**other)])
    with pytest.raises(AdedError, match="no matrix"):
        TrigramMatrix.merge([])


@pytest.mark.parametrize("rows", [0, 1, 17, 10**6])
def test_pruning_keeps_the_most_frequent_contexts(rows: int) -> None:
    matrix = built()
    everything, kept = rows_of(matrix), rows_of(matrix.prune(rows=rows))
    order = sorted(everything, key=lambda context: (-everything[context][0], list(everything).index(context)))
    assert kept == {context: everything[context] for context in order[:rows]}


def test_pruned_rows_keep_their_most_frequent_successors_and_their_probabilities() -> None:
    matrix = built()
    pruned = matrix.prune(successors=2)
    for context in matrix.contexts.tolist():
        for before, after in zip(matrix.row(*context), pruned.row(*context)):
            np.testing.assert_array_equal(before[:2], after)


@pytest.mark.parametrize("size", [1000, 4000, 20_000, 10**9])
def test_pruning_to_a_size_fills_but_does_not_exceed_it(tmp_path: Path, size: int) -> None:
    matrix = built()
    matrix.prune(size=size).save(tmp_path / "m")
    loaded, written = TrigramMatrix.load(tmp_path / "m"), (tmp_path / "m").stat().st_size
    assert written <= size
    assert len(loaded) == len(matrix) or written > size - 300


@pytest.mark.parametrize("bound", [{"rows": -1}, {"successors": 0}, {"successors": 257}, {"size": 10}], ids=str)
def test_bounds_out_of_range_are_refused(bound: dict) -> None:
    with pytest.raises(AdedError, match=next(iter(bound))):
        built().prune(**bound)


def hashed(context: list[int]) -> int:
    key = np.int64(0)
    for token in reversed(context):
        key = extend_key(key, np.int64(token))
    return key


class ReferenceMixture:
    """The mixture rule in dictionaries, as documented."""

    def __init__(self, matrix: TrigramMatrix) -> None:
        self.matrix, self.rows, self.target_top, self.trust = matrix, {}, {}, {}

    def levels(self, text: list[int]) -> list[tuple]:
        """(kind of row, initial weight, successors) of every row that exists, shortest context first."""
        found = []
        for size, initial in ((1, session_counts.TRUST_UNIGRAM), (2, session_counts.TRUST_BIGRAM)):
            if len(text) >= size:
                context = (-1, text[-1]) if size == 1 else (text[-2], text[-1])
                tokens, probabilities = self.matrix.row(*context)
                if len(tokens):
                    at = np.flatnonzero((self.matrix.contexts == context).all(axis=1))[0]
                    n, top = int(self.matrix.totals[at]), float(probabilities[0])
                    evidence = sum(n > limit for limit in (1, 2, 5, 15, 63))
                    key = ("base", size, evidence, 0 if top > 0.8 else 1 if top > 0.4 else 2)
                    found.append((key, initial, dict(zip(tokens.tolist(), probabilities.tolist()))))
        for size in higher_orders.LENGTHS:
            row = find_row(self.matrix.higher_orders.row_index, hashed(text[-size:])) if len(text) >= size else -1
            if row >= 0:
                start, end, n = unpack_row(row)
                successors = {int(token): float(p) for token, p in self.matrix.higher_orders.entries[start:end]}
                evidence, top = sum(n > limit for limit in (1, 2, 5, 15, 63)), max(successors.values())
                key = ("base", size, evidence, 0 if top > 0.8 else 1 if top > 0.4 else 2)
                found.append((key, session_counts.TRUST_HIGHER, successors))
        for order in session_counts.ORDERS:
            context = tuple(text[-order:]) if len(text) >= order else None
            if successors := self.target_top.get(context):
                top = max(successors.values())
                found.append(
                    (
                        ("target", order, sum(top > p for p in (0.2, 0.4, 0.6, 0.8, 0.95))),
                        session_counts.TRUST_TARGET,
                        successors,
                    )
                )
            if row := self.rows.get(context):
                occurrences, weights = row
                key = ("session", order, sum(occurrences > limit for limit in (1, 2, 3, 7)), min(len(weights), 3))
                total = sum(weights.values())
                found.append((key, session_counts.TRUST_SESSION, {t: w / total for t, w in weights.items()}))
        return found

    def trust_of(self, key: tuple, initial: float) -> float:
        credit, uses = self.trust.get(key, (session_counts.TRUST_EVIDENCE * initial, session_counts.TRUST_EVIDENCE))
        return credit / uses

    def learn(self, text: list[int], at: int) -> None:
        p = session_counts.UNKNOWN_PROBABILITY
        for key, initial, row in self.levels(text[:at]):
            share = self.trust_of(key, initial)
            mixed = share * row.get(text[at], 0.0) + (1 - share) * p
            credit, uses = self.trust.get(key, (session_counts.TRUST_EVIDENCE * initial, session_counts.TRUST_EVIDENCE))
            self.trust[key] = (credit + share * row.get(text[at], 0.0) / mixed, uses + 1)
            p = mixed
        for order in session_counts.ORDERS:
            if at >= order:
                occurrences, weights = self.rows.get(tuple(text[at - order : at]), (0, {}))
                weights = {t: w * session_counts.DECAY for t, w in weights.items()}
                if text[at] not in weights and len(weights) == session_counts.SLOTS:
                    del weights[min(weights, key=weights.__getitem__)]
                weights[text[at]] = weights.get(text[at], 0.0) + 1
                self.rows[tuple(text[at - order : at])] = (occurrences + 1, weights)

    def store(self, path: list[int], target_top: dict[int, float]) -> None:
        """Store the target's top-k after ``path`` for its three shortest contexts, replacing an earlier one."""
        for order in (1, 2, 3):
            if len(path) >= order:
                self.target_top[tuple(path[-order:])] = target_top

    def successors(self, text: list[int]) -> Counter:
        rest, mixed = 1.0, Counter()
        for key, initial, row in reversed(self.levels(text)):
            share = rest * self.trust_of(key, initial)
            rest -= share
            for token, p in row.items():
                mixed[token] += share * p
            if rest < session_counts.MIN_REST:
                break
        return mixed


def store_in_both(session: SessionCounts, reference: ReferenceMixture, text: np.ndarray, rng: np.random.Generator) -> None:
    """One random draft after ``text``, with the target's top-k at most of its nodes."""
    n = 12
    parents = np.array([-1, *(int(rng.integers(0, i)) for i in range(1, n))], dtype=np.int32)
    tree = DraftTree(np.array([text[-1], *rng.integers(0, 12, n - 1)], dtype=np.int32), parents)
    tokens = np.stack([rng.permutation(VOCAB)[:5] for _ in range(n)]).astype(np.int32)
    probabilities = -np.sort(-rng.dirichlet(np.full(6, 0.3), n), axis=1)[:, :5].astype(np.float32)
    probabilities[rng.random(n) < 0.2] = 0  # nodes without a top-k
    session.observe_top_k(text[-8:], tree, tokens, probabilities)
    paths = [text[-8:].tolist()]
    for node in range(n):
        if node:
            paths.append([*paths[parents[node]], int(tree.tokens[node])])
        target_top = {int(t): float(p) for t, p in zip(tokens[node], probabilities[node]) if p > 0}
        if target_top:
            reference.store(paths[node], target_top)


def test_the_mixture_equals_the_reference() -> None:
    text, ids = corpus(seed=5, length=400), np.append(np.tile(corpus(seed=5, length=60), 3), 0)
    store = Datastore.build(ids, separator=0, vocab_size=VOCAB, fingerprint="abc")
    matrix = replace(built(), higher_orders=higher_orders.count(store.tokens, store.suffixes, 0))
    session, reference, rng = SessionCounts(), ReferenceMixture(matrix), np.random.default_rng(7)
    text[200:300] = text[100:200]  # a repeated passage
    for at in range(len(text)):
        if at:
            reference.learn(text.tolist(), at)
        session.learn(matrix, text[: at + 1], at)
        if at % 3 == 2:
            store_in_both(session, reference, text[: at + 1], rng)
        tokens, probabilities = session.successors(matrix, text[: at + 1], 1000)
        expected = reference.successors(text[: at + 1].tolist())
        assert set(tokens.tolist()) == set(expected)
        np.testing.assert_allclose(probabilities, [expected[t] for t in tokens.tolist()], rtol=1e-4)
        assert (np.diff(probabilities) <= 0).all()
        assert probabilities.sum() <= 1 + 1e-9


def test_learning_in_chunks_equals_learning_at_once() -> None:
    matrix, text = built(), corpus(seed=6, length=300)
    whole, pieces = SessionCounts(), SessionCounts()
    whole.learn(matrix, text, 0)
    for start in range(0, 300, 7):
        before = max(0, start - whole.max_context)
        pieces.learn(matrix, text[before : start + 7], start - before)
    for a, b in zip(whole.arrays[:6], pieces.arrays[:6]):
        np.testing.assert_array_equal(a[whole.arrays[0] >= 0] if len(a) == len(whole.arrays[0]) else a,
                                      b[whole.arrays[0] >= 0] if len(b) == len(whole.arrays[0]) else b)  # fmt: skip


def test_the_published_rule_adds_to_the_base_up_to_the_maximum_weight() -> None:
    matrix, session = built(np.array([1, 2, 3, 0, 1, 2, 4, 0, 1, 2, 3, 0])), SessionCounts(published=True, slots=12)
    text = np.array([1, 2, 4, 9], dtype=np.int32)
    session.learn(matrix, text, 0)
    tokens, weights = session.successors(matrix, np.array([1, 2], dtype=np.int32), 12)
    assert dict(zip(tokens.tolist(), weights)) == pytest.approx({3: 2 / 3, 4: 1 / 3 + 0.04})
    assert session.successors(matrix, np.array([2, 4], dtype=np.int32), 12)[1] == pytest.approx([1.0, 0.04])  # 0 ended a sequence
    for _ in range(100):
        session.learn(matrix, text[:3], 2)
    assert session.successors(matrix, np.array([1, 2], dtype=np.int32), 1)[1] == pytest.approx([3.0])


def test_published_rows_have_a_bounded_number_of_successors() -> None:
    matrix, session = built(np.array([1, 2, 3, 0])), SessionCounts(published=True, slots=4)
    for token in range(5, 40):
        session.learn(matrix, np.array([1, 2, token], dtype=np.int32), 2)
    tokens, _ = session.successors(matrix, np.array([1, 2], dtype=np.int32), 64)
    assert len(tokens) == 4
    assert 3 in tokens
    assert 39 in tokens


def test_memory_is_bounded_and_recent_text_is_kept() -> None:
    session, matrix = SessionCounts(rows=64), TrigramMatrix.empty(1000)
    text = np.random.default_rng(0).integers(0, 1000, 5000).astype(np.int32)
    size = sum(a.nbytes for a in session.arrays[:7])
    session.learn(matrix, text, 0)
    assert sum(a.nbytes for a in session.arrays[:7]) == size
    assert text[-1] in session.successors(matrix, text[-4:-1], 12)[0]


def test_rows_of_the_target_top_are_bounded_and_evicted_before_recent_text() -> None:
    session, matrix, rng = SessionCounts(rows=1024), TrigramMatrix.empty(1000), np.random.default_rng(0)
    text = rng.integers(0, 1000, 60).astype(np.int32)
    session.learn(matrix, text, 0)
    expected = [session.successors(matrix, text[at - 3 : at], 1)[0][0] for at in range(3, 60)]
    size = sum(a.nbytes for a in (*session.arrays[:7], session.arrays[8]))
    for _ in range(500):
        tree = DraftTree(np.array([text[-1], *rng.integers(0, 1000, 15)], np.int32), np.arange(-1, 15, dtype=np.int32))
        session.observe_top_k(
            text[-8:], tree, rng.integers(0, 1000, (16, 8)).astype(np.int32), np.full((16, 8), 0.125, np.float32)
        )
    assert sum(a.nbytes for a in (*session.arrays[:7], session.arrays[8])) == size
    known = [session.successors(matrix, text[at - 3 : at], 1)[0][0] for at in range(3, 60)]
    assert known[:-2] == expected[:-2] == text[3:58].tolist()


def test_cleared_session_counts_have_no_successors() -> None:
    session, matrix = SessionCounts(), TrigramMatrix.empty(VOCAB)
    session.learn(matrix, corpus(), 0)
    store_in_both(session, ReferenceMixture(matrix), corpus()[:5], np.random.default_rng(0))
    session.clear()
    assert not len(session.successors(matrix, corpus()[:5], 12)[0])


def test_sessions_share_the_base_but_not_their_counts() -> None:
    matrix, one, other = built(), SessionCounts(), SessionCounts()
    before = [a.copy() for a in matrix.arrays]
    expected = other.successors(matrix, np.array([1, 2], dtype=np.int32), 12)
    one.learn(matrix, corpus(seed=9), 0)
    np.testing.assert_array_equal(other.successors(matrix, np.array([1, 2], dtype=np.int32), 12), expected)
    for a, b in zip(before, matrix.arrays):
        np.testing.assert_array_equal(a, b)
