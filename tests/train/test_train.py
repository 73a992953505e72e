"""Training: the loss falls, an interrupted run gives the same file, and invalid input is refused with a remedy."""

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fakes import VOCAB, tiny_model, tiny_target
from feature_head_fakes import FEATURES, OBJECTIVES
from safetensors import safe_open
from torch.nn import functional

from aded.cli import main, train
from aded.core.errors import AdedError
from aded.data.conversations import answered
from aded.draft_models import feature_heads, medusa_heads
from aded.draft_models.draft_model import load as load_draft
from aded.engine.loading.weights import quiet
from aded.train import dataset, loop
from aded.train.draft import DraftObjective
from aded.train.feature_cache import TargetStates
from aded.train.medusa import HeadObjective
from aded.train.objective import last_hidden, ranks_of

KINDS = ("medusa", "eagle", "mtp", "glide", "draft")
FALL = {
    "medusa": ("loss", 0.8),
    "eagle": ("loss", 0.9),
    "mtp": ("loss", 0.8),
    "glide": ("loss", 0.9),
    "draft": ("divergence", 0.8),
}
"""A metric of each kind, and the ratio below which it falls; the loss of EAGLE and GliDe includes the entropy of the target."""


@pytest.fixture
def text(tmp_path):
    """Token ids that are easy to predict: a cycle of eight with occasional errors."""
    rng, ids = np.random.default_rng(0), [5]
    for _ in range(5999):
        ids.append(5 + 11 * int(((ids[-1] - 5) // 11 + 1 + (rng.random() < 0.05)) % 8))
    path = tmp_path / "text.npy"
    np.save(path, np.array(ids, dtype=np.uint16))
    return str(path)


def options_of(kind, text, out, *more):
    arguments = ["train", kind, "--corpus", text, "--out", str(out), "--length", "16", "--batch", "8", "--tokens", "5120"]
    if kind == "draft":
        arguments += ["--layers", "1", "--text-weight", "0"]
    if kind in OBJECTIVES:
        arguments += ["--unroll", "3", "--vocabulary", "32"]
    arguments += ["--learning-rate", "3e-2" if kind == "medusa" else "3e-3", "--save-every", "15"]
    return main.build_parser().parse_args([*arguments, *more])


def run(kind, text, out, *more, progress=quiet):
    return train.train(tiny_target(), options_of(kind, text, out, *more), out, progress)


def objective_of(kind, target, text):
    if kind in OBJECTIVES:
        return OBJECTIVES[kind](target, text, 32, FEATURES[kind], steps=3)
    return HeadObjective(target) if kind == "medusa" else DraftObjective(target, 1)


def trained_figures(kind, path):
    with safe_open(str(path), "pt") as file:
        return json.loads(file.metadata()["figures"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_few_steps_make_a_checkpoint_a_model_card_and_better_predictions(kind, text, tmp_path):
    target = tiny_target()
    rows = dataset.pack(dataset.read([text], target, 0, 0, quiet), 16)
    objective = objective_of(kind, target, rows.training)
    before = objective.evaluate(rows.evaluation_batches())
    path = run(kind, text, tmp_path / "out")
    after = trained_figures(kind, path)
    name, ratio = FALL[kind]
    assert np.mean(after[name]) < ratio * np.mean(before[name])
    if kind not in ("eagle", "glide"):  # they learn the target's distribution, and the target did not write this text
        right = [np.array(figures["accuracy"])[..., :3].sum() for figures in (before, after)]
        assert right[1] > right[0]
        assert after["acceptance_length"] >= before["acceptance_length"]
    card = next((tmp_path / "out").glob("*.md")).read_text()
    assert "python -m aded" in card
    assert "training loss" in card
    assert not (tmp_path / "out" / loop.CHECKPOINT).exists()
    assert "| step | training loss | acceptance length |" in card
    loaders = {"medusa": medusa_heads.load, "draft": load_draft}
    loaders.get(kind, lambda path, target: feature_heads.load(path, target, kind))(path, target)


@pytest.mark.parametrize(
    "kind", ["medusa", "eagle", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("mtp", "glide", "draft"))]
)
def test_an_interrupted_run_resumes_to_the_same_bytes(kind, text, tmp_path):
    class Stopped(Exception):
        pass

    def stop(message, fraction=None):
        if message.startswith("training: step 67"):  # in the second epoch
            raise Stopped

    more = ("--tokens", "12800")
    once = run(kind, text, tmp_path / "once", *more).read_bytes()
    with pytest.raises(Stopped):
        run(kind, text, tmp_path / "twice", *more, progress=stop)
    assert (tmp_path / "twice" / loop.CHECKPOINT).exists()
    messages = []
    again = run(kind, text, tmp_path / "twice", *more, progress=lambda message, fraction=None: messages.append(message))
    assert messages[0].startswith("training: step 61 ")  # from the checkpoint, not from the start
    assert again.read_bytes() == once


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_trains_a_saved_model(kind, text, tmp_path, real_tokenizer_folder, capsys):
    tiny_model("llama").save_pretrained(real_tokenizer_folder)
    arguments = ["train", kind, "--model", str(real_tokenizer_folder), "--corpus", text, "--out", str(tmp_path / "out")]
    assert main.main([*arguments, "--length", "16", "--batch", "4", "--tokens", "128", "--device", "cpu"]) == 0
    assert "MB; its model card is" in capsys.readouterr().out


HALF = {"bfloat16": ("eagle", "glide"), "float16": ("medusa", "mtp", "draft")}
"""The kinds that are trained with each type in every run of the tests."""


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        pytest.param(kind, dtype, marks=() if kind in usual else pytest.mark.slow)
        for dtype, usual in HALF.items()
        for kind in KINDS
    ],
)
def test_a_half_precision_target_trains_on_the_cpu(kind, dtype, text, tmp_path):
    target = tiny_target(dtype=getattr(torch, dtype))
    rows = dataset.pack(dataset.read([text], target, 0, 0, quiet), 16)
    before = objective_of(kind, target, rows.training).evaluate(rows.evaluation_batches())
    out = tmp_path / "out"
    path = train.train(target, options_of(kind, text, out, "--tokens", "1920"), out, quiet)
    name, ratio = FALL[kind]
    assert np.mean(trained_figures(kind, path)[name]) < ratio * np.mean(before[name])


def test_gradients_in_pieces_are_those_of_the_whole(monkeypatch):
    """Compared with one product over all positions at once."""
    target, ids = tiny_target(), torch.randint(3, VOCAB, (3, 12), generator=torch.Generator().manual_seed(0))
    objective = HeadObjective(target, heads=2, blocks=2, decay=0.8)
    torch.nn.init.normal_(objective.trained.weight, std=0.1)
    monkeypatch.setattr("aded.train.objective.CHUNK_ROWS", 7)
    loss = objective.backward(dataset.Batch.of(dataset.Text.plain(ids.numpy())))
    found = objective.trained.weight.grad.clone()
    objective.trained.zero_grad()
    hidden = last_hidden(target.model, ids)
    logits = target.model.lm_head(objective.trained(hidden.flatten(0, 1))).view(2, 3, 12, VOCAB)
    whole = sum(
        0.8**k * functional.cross_entropy(logits[k, :, : -2 - k].flatten(0, 1), ids[:, 2 + k :].flatten()) for k in range(2)
    )
    whole.backward()
    assert float(loss) == pytest.approx(float(whole.detach()), rel=1e-5)
    assert torch.allclose(found, objective.trained.weight.grad, atol=1e-6)


@pytest.mark.parametrize("memory_share", [1.0, 0.0])
def test_every_row_is_processed_by_the_target_once_if_memory_suffices(memory_share, monkeypatch):
    target, passed = tiny_target(), []
    rows = dataset.pack(dataset.Text.plain(np.arange(16 * 13) % VOCAB), 16, share=0.5)
    monkeypatch.setattr("aded.train.feature_cache.MEMORY_SHARE", memory_share)
    target.model.base_model.register_forward_pre_hook(
        lambda m, a, given: passed.append(len(given["input_ids"])), with_kwargs=True
    )
    states = TargetStates(target, rows.training.ids.shape)
    batches = [rows.batch(step, 4) for step in range(7)]
    found = [states.of(batch) for batch in batches]
    assert sum(passed) == (len(rows.training.ids) if memory_share else 4 * 7)
    for batch, some in zip(batches, found):
        assert torch.allclose(some, last_hidden(target.model, batch.ids).flatten(0, 1)[batch.positions], atol=1e-6)


def test_ranks_count_the_tokens_before():
    logits = torch.tensor([[1.0, 3.0, 2.0], [0.0, -1.0, 5.0]])
    assert ranks_of(logits, torch.tensor([0, 2])).tolist() == [2, 0]


def test_every_row_is_used_once_per_epoch_and_held_out_rows_never():
    text = dataset.Text.plain(np.arange(16 * 100))
    rows = dataset.pack(text, 16, share=0.3)
    seen = torch.cat([rows.batch(step, 7).ids for step in range(14)])[: len(rows.training.ids)]
    assert sorted(seen[:, 0].tolist()) == sorted(rows.training.ids[:, 0].tolist())
    assert not set(rows.held_out.ids[:, 0].tolist()) & set(seen[:, 0].tolist())
    again = dataset.pack(text, 16, share=0.3).batch(3, 7)
    assert again.ids.tolist() == rows.batch(3, 7).ids.tolist()
    assert again.positions.tolist() == rows.batch(3, 7).positions.tolist()


OPENING, CLOSING, SEPARATOR = (7, 8, 9), (10, 11), 0


def conversation(question, answer):
    """Token ids, and which of them belong to the answer."""
    before = [*OPENING, *question, *CLOSING]
    return [*before, *answer], [False] * len(before) + [True] * len(answer)


def test_only_answers_of_conversations_count():
    """Compared with the parts of each conversation: separated, joined, with cut markers, and text without markers."""
    parts = [
        conversation([20, 21], [30, 31, 2]),
        ([SEPARATOR], [False]),
        conversation([22], [32] * 5),
        conversation([23, 7], [33]),
    ]
    ids, counts = (list(itertools.chain.from_iterable(column)) for column in zip(*parts))
    assert answered(np.array(ids), OPENING, CLOSING, SEPARATOR).tolist() == counts
    assert answered(np.array(ids[4:]), OPENING, CLOSING, SEPARATOR).tolist() == counts[4:]
    assert not answered(np.array([20, 21, 8, 9, 11]), OPENING, CLOSING, SEPARATOR).any()
    assert dataset.answers(np.array([5, 6]), tiny_target()).loss_mask.tolist() == [True, True]


def test_labels_are_the_tokens_that_follow_within_the_answer_and_the_row():
    """Compared with each position alone."""
    rng = np.random.default_rng(0)
    ids, counts = rng.integers(3, VOCAB, (4, 20)), rng.random((4, 20)) < 0.7
    batch = dataset.Batch.of(dataset.Text(ids, counts))
    expected = {}
    for row, column in itertools.product(range(4), range(19)):
        if counts[row, column + 1]:
            run = list(itertools.takewhile(counts[row].__getitem__, range(column + 1, min(column + 4, 20))))
            expected[20 * row + column] = [*ids[row, run].tolist(), *[dataset.IGNORE_INDEX] * (3 - len(run))]
    assert dict(zip(batch.positions.tolist(), batch.labels(3).T.tolist())) == expected


def test_a_share_of_the_positions_is_sampled_uniformly():
    rows = dataset.pack(dataset.Text.plain(np.arange(16 * 60)), 16, share=0.25)
    taken = [rows.batch(step, 8).positions for step in range(200)]
    assert {len(places) for places in taken} == {30}
    counts = torch.bincount(torch.cat(taken), minlength=128).view(8, 16)
    assert (counts[:, -1] == 0).all()  # a row's end has no next token
    assert (counts[:, :-1] > 20).all()  # of 50 expected: a false alarm in 10^6
    one = dataset.Batch.of(dataset.Text.plain(np.arange(8).reshape(1, 8)))
    assert len(one.sample(0.01, np.random.default_rng(0)).positions) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_without_counted_positions_changes_nothing(kind):
    target = tiny_target()
    objective = objective_of(kind, target, dataset.Text.plain(np.arange(VOCAB)))
    none = dataset.Batch.of(dataset.Text(np.full((2, 16), 5), np.zeros((2, 16), dtype=bool)))
    assert float(objective.backward(none)) == 0
    assert all(p.grad is None or not p.grad.any() for p in objective.trained.parameters())


@pytest.mark.parametrize("kind", ["medusa", "draft"])
def test_recorded_outputs_are_measured_at_the_positions_of_the_output(kind, text, tmp_path):
    """The measurements of a recorded output are those of its tokens, computed one by one with the target."""
    target, path = tiny_target(), tmp_path / "held.jsonl"
    records = [([5, 9, 14], [3, 20, 31, 8, 40, 11, 6]), ([7], [12, 13, 14])]
    path.write_text("\n".join(json.dumps({"prompt_ids": p, "output_ids": o}) for p, o in records))
    objective = HeadObjective(target, heads=2) if kind == "medusa" else DraftObjective(target, 1)
    found, right = objective.evaluate(dataset.recorded(str(path), target)), []
    for prompt, output in records:
        ids = torch.tensor([prompt + output])
        with torch.inference_mode():
            theirs = target.model(input_ids=ids).logits[0].argmax(-1)
            drafted = theirs if kind == "medusa" else objective._small(input_ids=ids).logits[0].argmax(-1)
        for at in range(len(prompt) - 1, ids.shape[1] - 1):
            if kind == "draft":
                right.append(bool(drafted[at] == theirs[at]))
            elif at + 2 < ids.shape[1]:  # new heads predict the next token as the target does
                right.append(bool(drafted[at] == ids[0, at + 2]))
    accuracy = found["accuracy"][0][0] if kind == "medusa" else found["accuracy"][0]
    assert accuracy == pytest.approx(np.mean(right))
    made = trained_figures(kind, run(kind, text, tmp_path / "out", "--held-out", str(path)))
    assert made["recorded"].keys() == found.keys()
    assert "On recorded outputs" in next((tmp_path / "out").glob("*.md")).read_text()


def test_unusable_recorded_outputs_are_refused(tmp_path):
    path = tmp_path / "held.jsonl"
    negative = "line 1 is not a recorded output"
    for prompt, output, message in (
        *(([5], [VOCAB], f"token id {VOCAB}"), ([5], [], "holds no recorded output")),
        *(([-1, 2, 3], [4], negative), ([1], [4, -5, 6], negative)),
    ):
        path.write_text(json.dumps({"prompt_ids": prompt, "output_ids": output}))
        with pytest.raises(AdedError, match=message):
            dataset.recorded(str(path), tiny_target())


@pytest.mark.parametrize("error", [IndexError, KeyboardInterrupt])
def test_an_error_of_any_kind_leaves_no_empty_folder(error, text, tmp_path, monkeypatch):
    def failing(*_):
        raise error

    monkeypatch.setattr(loop, "train", failing)
    with pytest.raises(error):
        run("medusa", text, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_learning_rate_rises_then_falls_to_zero():
    rates = [loop.learning_rate(1.0, done) for done in np.linspace(0, 1, 101)]
    assert max(rates) == pytest.approx(1.0, abs=1e-3)
    assert rates[0] < 0.02
    assert rates[-1] < 1e-3
    assert rates[4:] == sorted(rates[4:], reverse=True)


def test_a_limit_in_time_ends_the_schedule():
    schedule = loop.Schedule(steps=100, batch=1, rate=0.1, seconds=10.0)
    assert schedule.done(10, 9.0) == 0.9
    assert schedule.done(95, 1.0) == 0.95
    assert schedule.done(1, 11.0) == 1.0


def test_text_files_are_read_with_the_tokenizer_of_the_model(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one two three")
    target = tiny_target()
    assert dataset.read([str(path)], target, 0, 0, quiet).ids.tolist() == [*target.tokenizer("one two three")["input_ids"], 2]


def test_the_model_can_generate_its_training_corpus(monkeypatch):
    written = [np.full(7, i, dtype=np.int32) for i in range(3, 9)]
    monkeypatch.setattr(
        "aded.data.self_generation.ConversationGenerator", lambda target, seed: [SimpleNamespace(tokens=ids) for ids in written]
    )
    assert dataset.read(["self"], tiny_target(), 20, 0, quiet).ids.tolist() == [3] * 7 + [4] * 7 + [5] * 7


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--heads", "0"], "give a number from 1"),
        (["--length", "4"], "give a number from 8"),
        (["--tokens", "0"], "give a number from 1"),
        (["--learning-rate", "2"], "between 0 and 1"),
        (["--length", "4096"], "smaller --length"),
        (["--length", "257"], "longer than the context of llama; give a smaller --length, at most 256"),
        (["--heads", "15"], "larger --length"),
        (["--save-every", "0"], "save-every"),
        (["--share", "0"], "above 0 and at most 1"),
        (["--seed", "-1"], "--seed is -1"),
        (["--seed", str(2**70)], "give a number from 0"),
        (["--self-written", "0"], "--self-written is 0"),
        (["--minutes", "nan"], "--minutes is nan"),
        (["--decay", "-1"], "give a number from 0 to 1"),
    ],
)
def test_options_out_of_range_are_refused_with_a_remedy(more, message, text, tmp_path):
    with pytest.raises(AdedError, match=message):
        run("medusa", text, tmp_path / "out", *more)


def test_a_draft_model_has_no_more_layers_than_the_target(text, tmp_path):
    with pytest.raises(AdedError, match="--layers is 9; give at most 2"):
        run("draft", text, tmp_path / "out", "--layers", "9")


def test_a_model_that_verifies_no_trees_cannot_have_a_draft_model(text, tmp_path):
    with pytest.raises(AdedError, match="does not support tree attention; use another model"):
        train.check_fit(tiny_target("bloom"), options_of("draft", text, tmp_path / "out"))


def test_tokens_of_another_tokenizer_are_refused(tmp_path):
    np.save(tmp_path / "foreign.npy", np.array([1, 2, VOCAB]))
    with pytest.raises(AdedError, match=f"token id {VOCAB}"):
        run("medusa", str(tmp_path / "foreign.npy"), tmp_path / "out")


def test_a_checkpoint_of_other_settings_or_a_damaged_one_is_refused(text, tmp_path):
    out = tmp_path / "out"

    def stop(message, fraction=None):
        if message.startswith("training: step 16"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("medusa", text, out, progress=stop)
    with pytest.raises(AdedError, match="other settings; delete it"):
        run("medusa", text, out, "--seed", "1")
    checkpoint = torch.load(out / loop.CHECKPOINT, weights_only=True)
    for wrong in ({"step": -5}, {"step": "a"}, {"seconds": float("nan")}, {"losses": ["b"]}, {"trained": {}}):
        torch.save({**checkpoint, **wrong}, out / loop.CHECKPOINT)
        with pytest.raises(AdedError, match="damaged; delete it"):
            run("medusa", text, out)
    (out / loop.CHECKPOINT).write_bytes(b"no checkpoint")
    with pytest.raises(AdedError, match="damaged; delete it"):
        run("medusa", text, out)


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), 9903.0])
def test_a_loss_that_diverges_ends_the_run_and_leaves_nothing(loss, text, tmp_path, monkeypatch):
    losses = iter([12.0] * 19 + [loss] * 40)
    monkeypatch.setattr(HeadObjective, "backward", lambda self, batch: torch.tensor(next(losses)))
    with pytest.raises(AdedError, match=r"after 21 steps.*lower --learning-rate"):
        run("medusa", text, tmp_path / "out")
    assert not (tmp_path / "out").exists()  # the checkpoint of step 15 would diverge again


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_learned_nothing_is_not_saved(kind, text, tmp_path, capsys, monkeypatch):
    """At a learning rate of 0.99 the last step is worse than the first, even if no logged loss shows it."""
    monkeypatch.setattr("aded.cli.model_options.load_model", lambda options, progress, drafts: tiny_target())
    arguments = ["train", kind, "--corpus", text, "--out", str(tmp_path / "out"), "--length", "16", "--batch", "8"]
    assert main.main([*arguments, "--tokens", "1920", "--learning-rate", "0.99"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ") and "lower --learning-rate" in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["medusa", "draft"])
def test_a_result_worse_than_before_training_is_an_error(kind, text, tmp_path, monkeypatch):
    objective = HeadObjective if kind == "medusa" else DraftObjective
    losses = iter([3.0, 3.1])
    monkeypatch.setattr(objective, "loss", lambda self, figures: next(losses))
    monkeypatch.setattr(HeadObjective, "uniform", 1.0, raising=False)
    if kind == "medusa":
        losses = iter([1.0, 3.0, 3.1])
    with pytest.raises(AdedError, match=r"nothing was learned.* 3\.1, and was 3 .*lower --learning-rate"):
        run(kind, text, tmp_path / "out", "--tokens", "256")
    assert not (tmp_path / "out").exists()


def test_texts_without_words_are_refused_before_training(tmp_path):
    np.save(tmp_path / "zeros.npy", np.zeros(400, dtype=np.uint16))
    np.save(tmp_path / "separators.npy", np.arange(400) % 3)
    np.save(tmp_path / "one.npy", np.full(400, 7))
    (tmp_path / "empty.jsonl").write_text('""\n' * 400)
    for name in ("zeros.npy", "separators.npy", "one.npy", "empty.jsonl"):
        for kind in KINDS:
            with pytest.raises(AdedError, match="only separators or a single repeated token"):
                run(kind, str(tmp_path / name), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("longest", "kinds"), [(1, ["medusa"]), (4, ["medusa"]), (0, KINDS)])
def test_answers_that_are_too_short_are_refused_before_training(longest, kinds, text, tmp_path, monkeypatch):
    """Rows of one answer token train no head, and rows of four do not train the last of four heads."""
    column = np.arange(6000) % 16
    counts = (column < 1) if longest == 0 else (column > 15 - longest)
    monkeypatch.setattr(dataset, "answers", lambda ids, target: dataset.Text(ids.astype(np.int64), counts))
    for kind in kinds:
        with pytest.raises(AdedError, match=f"the corpus has at most {longest} tokens of an answer in a row"):
            run(kind, text, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_held_out_text_without_counted_positions_is_refused(text, tmp_path, monkeypatch):
    chosen = dataset.pack(dataset.Text.plain(np.arange(6000)), 16).held_out.ids // 16
    counts = ~np.isin(np.arange(6000) // 16, chosen)
    monkeypatch.setattr(dataset, "answers", lambda ids, target: dataset.Text(ids.astype(np.int64), counts))
    with pytest.raises(AdedError, match="the held-out part of the corpus has at most 0 tokens"):
        run("medusa", text, tmp_path / "out")
    path = tmp_path / "held.jsonl"
    path.write_text(json.dumps({"prompt_ids": [5], "output_ids": [6]}))
    with pytest.raises(AdedError, match=r"held\.jsonl has at most 1 tokens.*fewer --heads"):
        run("medusa", text, tmp_path / "out", "--held-out", str(path))


def test_files_are_read_before_the_model_writes(text, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "aded.data.self_generation.ConversationGenerator", lambda target, seed: pytest.fail("the model began to write")
    )
    np.save(tmp_path / "foreign.npy", np.array([1, 2, VOCAB]))
    with pytest.raises(AdedError, match=f"token id {VOCAB}"):
        dataset.read(["self", str(tmp_path / "foreign.npy")], tiny_target(), 20, 0, quiet)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--learning-rate", "2"], "the learning rate is 2"),
        (["--save-every", "0"], "save-every is 0"),
        (["--decay", "0"], "--heads 1"),
        (["--self-written", "9"], "--self-written goes with --corpus self; leave it out"),
        (["--corpus", "self", "nowhere.npy"], "cannot read nowhere.npy"),
        (["--held-out", "nowhere.jsonl"], "cannot read nowhere.jsonl"),
    ],
)
def test_impossible_options_are_refused_before_a_model_is_loaded(more, message, text, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("aded.cli.model_options.load_model", lambda options, progress, drafts: pytest.fail("a model was loaded"))
    assert main.main(["train", "medusa", "--corpus", text, "--out", str(tmp_path / "out"), *more]) == 2
    assert message in capsys.readouterr().err
