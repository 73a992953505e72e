"""How well a matrix represents its model, compared with slow sums and with the model run token by token."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from fakes import VOCAB, tiny_target

from aded.cli import main
from aded.core.errors import AdedError
from aded.data.records import Record
from aded.engine.target_model import TargetModel
from aded.evaluation import representative_fidelity
from aded.evaluation.bench import tables
from aded.ngram import representative
from aded.ngram.trigram import TrigramMatrix


@pytest.fixture(scope="module")
def target() -> TargetModel:
    return tiny_target("llama")


def matrix_of(target: TargetModel, ids: list[int]) -> TrigramMatrix:
    return TrigramMatrix.build(np.array(ids), separator=0, vocab_size=target.vocab_size, fingerprint=target.fingerprint)


def quiet(message: str, fraction: float | None = None) -> None:
    pass


def test_a_text_may_fill_the_context_and_a_longer_one_is_refused_before_the_first_is_compared(target: TargetModel) -> None:
    ids = np.arange(256, dtype=np.int32) % 90 + 3
    rows = representative_fidelity.compare(target, matrix_of(target, ids.tolist()), [Record(ids[:250], ids[250:])], quiet)
    assert rows[0]["positions"] == 6
    messages: list[str] = []
    records = [Record(ids[:2], ids[2:4]), Record(ids[:1], ids)]
    with pytest.raises(AdedError, match="text 2 has 257 tokens and the context of llama 256"):
        representative_fidelity.compare(
            target, matrix_of(target, [5, 6]), records, lambda message, fraction=None: messages.append(message)
        )
    assert messages == []


def test_distributions_are_those_of_the_model_at_every_position(target: TargetModel) -> None:
    text = np.random.default_rng(0).integers(3, VOCAB, 150).astype(np.int32)
    found = list(representative_fidelity.distributions(target, text, 5))
    assert len(found) == 145
    with torch.inference_mode():
        logits = target.model(input_ids=torch.tensor(text[None].astype(np.int64)), use_cache=False).logits[0]
    expected = logits.float().softmax(-1).numpy()[4:-1]
    np.testing.assert_allclose(np.stack(found), expected, atol=1e-4)


def test_agreement_is_total_variation_and_overlap() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        target = rng.dirichlet(np.full(40, 0.1))
        count = int(rng.integers(0, 15))
        tokens = rng.permutation(40)[:count]
        probabilities = -np.sort(-rng.dirichlet(np.ones(count + 1))[:count])
        distance, shared = representative.agreement(tokens, probabilities, representative.TargetDistribution(target))
        drawn = dict(zip(tokens.tolist(), probabilities.tolist()))
        lacking = 1 - sum(drawn.values())  # on a token that the target never writes
        assert distance == pytest.approx((sum(abs(target[t] - drawn.get(t, 0.0)) for t in range(40)) + lacking) / 2)
        best = sorted(range(40), key=lambda t: -target[t])
        for k, share in zip((1, 4, 12), shared):
            assert share == pytest.approx(len(set(best[:k]) & set(tokens[:k].tolist())) / k)


def test_a_perfect_matrix_agrees_and_an_empty_one_does_not(target: TargetModel) -> None:
    record = Record(np.array([5, 6, 7], np.int32), np.random.default_rng(2).integers(3, VOCAB, 40).astype(np.int32))
    rows = representative_fidelity.compare(target, TrigramMatrix.empty(target.vocab_size), [record], quiet)
    base = next(row for row in rows if (row["representative"], row["where"]) == ("base", "all"))
    assert (base["unseen"], base["total_variation"], base["top_12"]) == (1.0, 1.0, 0.0)
    target_at = list(representative_fidelity.distributions(target, np.concatenate([record.prompt, record.output]), 3))
    found = representative.TargetDistribution(target_at[0])
    distance, shared = representative.agreement(np.argsort(-target_at[0]), np.sort(target_at[0])[::-1], found)
    assert distance < 1e-5 and shared == (1.0, 1.0, 1.0)


def test_unseen_bigrams_are_those_without_a_successor_yet(target: TargetModel) -> None:
    prompt, output = [5, 6, 7, 5, 6], [7, 5, 8, 9, 8, 9, 8]
    corpus_bigrams = {(8, 9)}
    matrix = matrix_of(target, [8, 9, 4, 0])
    rows = representative_fidelity.compare(
        target, matrix, [Record(np.array(prompt, np.int32), np.array(output, np.int32))], quiet
    )
    text = prompt + output
    base = session = 0
    for at in range(len(prompt), len(text)):
        bigram = (text[at - 2], text[at - 1])
        seen = {(text[i - 2], text[i - 1]) for i in range(2, at)}
        base += bigram not in corpus_bigrams
        session += bigram not in corpus_bigrams | seen
    found = {row["representative"]: row for row in rows if row["where"] == "all"}
    assert found["base"]["unseen"] == pytest.approx(base / len(output))
    assert found["session"]["unseen"] == pytest.approx(session / len(output))


def test_positions_are_split_and_the_session_learns_what_repeats(target: TargetModel) -> None:
    output = np.tile(np.random.default_rng(3).integers(3, VOCAB, 10), 8).astype(np.int32)
    rows = representative_fidelity.compare(target, TrigramMatrix.empty(target.vocab_size), [Record(output[:3], output)], quiet)
    session = {row["where"]: row for row in rows if row["representative"] == "session"}
    assert list(session) == ["all", "tokens 1 to 32", "tokens 33 to 64", "tokens 65 to 128"]
    assert [session[name]["positions"] for name in session] == [80, 32, 32, 16]
    assert session["tokens 65 to 128"]["unseen"] == 0.0
    assert session["tokens 65 to 128"]["top_4"] > session["tokens 1 to 32"]["top_4"]
    assert tables.table(tables.FIDELITY, rows).count("\n") == len(rows) + 1


def test_a_kept_session_agrees_better_on_every_next_prompt(target: TargetModel) -> None:
    output = np.random.default_rng(4).integers(3, VOCAB, 30).astype(np.int32)
    records = [Record(output[:3], output)] * 3
    rows = representative_fidelity.compare(target, TrigramMatrix.empty(target.vocab_size), records, quiet, keep=True)
    session = {row["where"]: row for row in rows if row["representative"] == "overlay"}
    assert list(session) == ["all", "tokens 1 to 32", "prompt 1", "prompts 2 to 4"]
    assert session["prompts 2 to 4"]["unseen"] == 0.0 < session["prompt 1"]["unseen"]
    assert session["prompts 2 to 4"]["total_variation"] < session["prompt 1"]["total_variation"]


def test_the_command_compares_on_questions_and_on_records(target: TargetModel, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(TargetModel, "load", classmethod(lambda cls, *a, **k: target))
    matrix_of(target, [5, 6, 7, 0, 5, 6, 8]).save(tmp_path / "m")
    (tmp_path / "q.jsonl").write_text(json.dumps({"question_id": 1, "category": "x", "turns": ["hello there"]}) + "\n")
    (tmp_path / "r.jsonl").write_text(json.dumps({"prompt_ids": [5, 6], "output_ids": [7, 8, 9]}) + "\n")
    for source, most, count in (("--questions", ["--max-new-tokens", "12"], 12), ("--recorded", [], 3)):
        file = tmp_path / f"{source[2]}.jsonl"
        arguments = ["matrix", "compare", str(tmp_path / "m"), source, str(file), *most, "--json"]
        assert main.main([*arguments, "--out", str(tmp_path / "out")]) == 0
        rows = json.loads(capsys.readouterr().out)["rows"]
        table = (tmp_path / "out" / "table.md").read_text()
        assert "| LLM representative | where |" in table
        assert table.count("| base counts |") >= 2 and table.count("| session counts |") >= 2
        assert json.loads((tmp_path / "out" / "results.json").read_text())["command"].startswith("python -m aded")
        assert rows[0]["representative"] == "base" and 1 <= rows[0]["positions"] <= count
    TrigramMatrix.build(np.array([1, 2]), separator=0, vocab_size=VOCAB, fingerprint="another").save(tmp_path / "foreign")
    assert main.main(["matrix", "compare", str(tmp_path / "foreign"), "--recorded", str(tmp_path / "r.jsonl")]) == 2
    assert "another tokenizer" in capsys.readouterr().err


def test_nothing_to_compare_and_foreign_ids_are_refused(target: TargetModel) -> None:
    matrix, none = TrigramMatrix.empty(target.vocab_size), np.zeros(0, np.int32)
    with pytest.raises(AdedError, match="no output"):
        representative_fidelity.compare(target, matrix, [Record(np.array([5], np.int32), none)], quiet)
    with pytest.raises(AdedError, match="token ids"):
        representative_fidelity.compare(target, matrix, [Record(np.array([5], np.int32), np.array([10**6], np.int32))], quiet)
