"""Traces: round trips, finite numbers only, damaged files refused with a one-line message."""

import json
import math
import os
from dataclasses import replace

import numpy as np
import pytest
from fakes import VOCAB, cost, near, tiny_target

from aded.core import trace
from aded.core.errors import AdedError
from aded.core.inspection import Explanation
from aded.core.tree import DraftTree
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.draft_models.chain_runner import ChainRunner
from aded.drafters.base import Drafter, Inspectable
from aded.drafters.methods.speculative import SpeculativeDrafter


@pytest.fixture(scope="module")
def made() -> trace.Trace:
    settings = GenerationSettings(max_new_tokens=12, temperature=0.7, stop=("zz",))
    return Decoder(tiny_target("llama"), "aded", settings).run([5, 17, 40, 8, 5, 17, 40])


COST = {"sizes": [1, 4], "contexts": [8, 64], "seconds": [[0.1, 0.2], [0.2, 0.3]], "padded": False}
"""In the form of a header."""


def test_a_saved_trace_and_race_are_read_back_equal(made, tmp_path):
    for record in (made, trace.Race([made, made])):
        trace.save(record, tmp_path / "t.json")
        assert trace.load(tmp_path / "t.json") == trace.Race([made] * (1 if record is made else 2))


def test_the_file_has_its_format_its_version_and_plain_numbers(made):
    body = json.loads(trace.dumps(made))
    assert (body["format"], body["version"]) == ("aded-trace", trace.VERSION)
    assert "NaN" not in trace.dumps(made)
    assert "Infinity" not in trace.dumps(made)


def test_infinities_cannot_be_written_and_become_null_through_finite():
    assert trace.finite([1.0, math.inf, -math.inf, math.nan]) == [1.0, None, None, None]
    with pytest.raises(ValueError, match="JSON compliant"):
        trace.dumps(trace.Seconds(draft=math.inf))


def damaged(made, change) -> str:
    body = json.loads(trace.dumps(made))
    change(body)
    return json.dumps(body)


@pytest.mark.parametrize(
    "change",
    [
        lambda b: b.pop("header"),
        lambda b: b["header"].pop("seed"),
        lambda b: b["header"].update(seed="x"),
        lambda b: b["header"].update(extra=1),
        lambda b: b.update(steps={}),
        lambda b: b["steps"][0].update(path=[999]),
        lambda b: b["steps"][0]["tree"].update(parents=[0]),
        lambda b: b["steps"][0]["tree"]["verdict"].__setitem__(0, "maybe"),
        lambda b: b["steps"][0].update(emitted=[1, 2, 3, 4]),
        lambda b: b.update(prefill_seconds=True),
        lambda b: b.update(token_ids=[1]),
        lambda b: b.update(text="half a pair: \ud800"),
        lambda b: b.update(prefill_seconds=10**400),
        lambda b: b.update(prefill_seconds=-1),
        lambda b: b["steps"][0]["seconds"].update(draft=1.7e308),
        lambda b: b["header"].update(settings={"a": [[[[[[[[[[1]]]]]]]]]]}),
        lambda b: b["header"].update(settings={"a": "\ud800"}),
        lambda b: b["header"].update(cost={**COST, "seconds": []}),
        lambda b: b["header"].update(cost={**COST, "seconds": [[0.1, 0.2]]}),
        lambda b: b["header"].update(cost={**COST, "seconds": [[0.1, 0.2], [0.2]]}),
        lambda b: b["header"].update(cost={**COST, "seconds": [[0.1, 0.2], [0.2, 0.0]]}),
        lambda b: b["header"].update(cost={**COST, "sizes": [4, 1]}),
        lambda b: b["header"].update(cost={"sizes": [], "contexts": [], "seconds": [], "padded": True}),
        lambda b: b.update(version=99),
        lambda b: b.update(format="other"),
    ],
)
def test_damaged_traces_are_refused_in_one_line_with_a_remedy(made, change):
    with pytest.raises(AdedError, match="record") as caught:
        trace.loads(damaged(made, change))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda b: b["header"].pop("seed"), ".header.seed"),
        (lambda b: b["header"].update(seed=1.0), ".header.seed"),
        (lambda b: b["header"].update(lossless=1), ".header.lossless"),
        (lambda b: b["header"].update(extra=1), ".header.extra"),
        (lambda b: b["header"].update(settings={"a": math.nan}), ".header.settings"),
        (lambda b: b["header"].update(cost={**COST, "padded": 0}), ".header.cost.padded"),
        (lambda b: b["steps"][2]["tree"]["parents"].__setitem__(0, "-1"), ".steps[2].tree.parents[0]"),
        (lambda b: b["steps"][2]["tree"].update(parents=[0]), ".steps[2].tree"),
        (lambda b: b["steps"][2]["seconds"].update(draft=-1), ".steps[2].seconds.draft"),
        (lambda b: b["steps"][2].update(path=[999]), ".steps[2]"),
        (lambda b: b.update(prefill_seconds=math.nan), ".prefill_seconds"),
        (lambda b: b.update(token_ids=[1]), ""),
        (lambda b: b.update(token_ids=["1"] * 100), ".token_ids[0]"),
    ],
)
def test_the_damaged_field_is_named(made, change, where):
    body = json.loads(trace.dumps(made))
    race = {"format": "aded-race", "version": trace.VERSION, "lanes": [json.loads(trace.dumps(made)), body]}
    change(body)
    for text, place in ((json.dumps(body), f"trace{where}"), (json.dumps(race), f"race.lanes[1]{where}")):
        with pytest.raises(trace.TraceError) as caught:
            trace.loads(text)
        assert (caught.value.kind, caught.value.where) == ("damaged", place)
        assert str(caught.value).startswith(f"damaged trace: {place}: ")


@pytest.mark.parametrize("field", ["versions", "settings", "unknown"])
def test_an_object_of_too_many_fields_is_refused(made, field):
    body = json.loads(trace.dumps(made))
    body["header"][field] = {str(i): 1 for i in range(trace.MAX_FIELDS + 1)}
    with pytest.raises(trace.TraceError, match="more than 1000 fields"):
        trace.loads(json.dumps(body))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3", '{"format": "aded-trace"}', "\x00", "[" * 100_000, '{"a": NaN}'])
def test_files_that_are_no_traces_are_refused(text):
    with pytest.raises(AdedError):
        trace.loads(text)


def test_a_byte_order_mark_before_a_trace_is_ignored(made, tmp_path):
    (tmp_path / "marked.json").write_text(trace.dumps(made), encoding="utf-8-sig")
    assert trace.load(tmp_path / "marked.json").lanes == [made]


def test_missing_and_unwritable_files_are_refused(made, tmp_path):
    with pytest.raises(AdedError, match="cannot read"):
        trace.load(tmp_path / "none.json")
    with pytest.raises(AdedError, match="cannot write"):
        trace.save(made, tmp_path / "no" / "such" / "folder.json")


def test_special_files_are_not_replaced_and_links_are_followed(made, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(AdedError, match="ordinary file"):
        trace.save(made, tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "real.json")
    trace.save(made, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert trace.load(tmp_path / "real.json").lanes == [made]


def test_a_number_out_of_range_in_settings_is_refused(made):
    text = trace.dumps(made).replace('"settings":{', '"settings":{"zz":1e999,', 1)
    with pytest.raises(AdedError, match="finite"):
        trace.loads(text)


def test_a_failed_write_leaves_the_old_file_and_no_litter(made, tmp_path, monkeypatch):
    target = tmp_path / "t.json"
    trace.save(made, target)
    old = target.read_bytes()
    monkeypatch.setattr("pathlib.Path.replace", lambda *a: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(AdedError, match="No space left"):
        trace.save(made, target)
    assert target.read_bytes() == old
    assert list(tmp_path.iterdir()) == [target]


def test_traces_of_the_first_version_are_read_without_learned_shares_and_sizes(made):
    body = json.loads(trace.dumps(made))
    body["version"] = 1
    body["header"].pop("cost")
    for step in body["steps"]:
        step.pop("size")
        for row in step["rows"]:
            row.pop("learned")
    (run,) = trace.loads(json.dumps(body)).lanes
    assert all(step.size is None for step in run.steps)
    assert all(row.learned == [] for step in run.steps for row in step.rows)
    assert trace.loads(trace.dumps(run)).lanes == [run]


class Talkative(Drafter, Inspectable):
    """Puts any value into the record."""

    def __init__(self, value: object) -> None:
        self.value = value

    def propose(self, context, budget):
        return DraftTree.root_only(context.root)

    def observe(self, outcome):
        self.notice = self.value

    def explain(self, context, budget):
        return Explanation(self.value)

    def settings(self):
        return {"value": self.value, "list": [self.value], self.value if isinstance(self.value, str) else 5: 1}


def nested(depth: int) -> list:
    return [nested(depth - 1)] if depth else [1.5]


CYCLE: dict = {}
CYCLE["again"] = [CYCLE]
VALUES = {
    "a huge number": 10**400,
    "a longer one": -(10**5000),
    "NaN of NumPy": np.float64("nan"),
    "a float of NumPy": np.float64(0.5),
    "a small float of NumPy": np.float32(0.5),
    "deep lists": nested(10),
    "deep dicts": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {}}}}}}}}}}},
    "a cycle": CYCLE,
    "a lone surrogate": "a \ud800 b",
    "a number": 5,
    "true": True,
    "bytes": b"x",
    "many fields": dict.fromkeys(range(2 * trace.MAX_FIELDS)),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_whatever_a_drafter_reports_can_be_written_and_read(value):
    settings = GenerationSettings(max_new_tokens=3, budget=4)
    record = Decoder(tiny_target("llama"), Talkative(value), settings).run([5, 17, 40])
    text = trace.dumps(record)
    (read,) = trace.loads(text).lanes
    assert trace.dumps(read) == text
    assert read.header.notice


@pytest.mark.parametrize("change", [{"text": 5}, {"prefill_seconds": -1.0}, {"token_ids": [1]}, {"finish_reason": "x"}], ids=str)
def test_what_cannot_be_read_is_not_written(made, change):
    with pytest.raises(AdedError, match="damaged trace: trace.*; record it again"):
        trace.dumps(replace(made, **change))


def test_measured_costs_are_in_the_trace():
    """The automatic budget measures costs, a fixed one does not."""
    target, prompt = tiny_target("llama"), [5, 17, 40, 8, 5, 17, 40]
    fixed = Decoder(target, "aded", GenerationSettings(max_new_tokens=4, budget=4)).run(prompt)
    asked = Decoder(target, "aded", GenerationSettings(max_new_tokens=4)).run(prompt)
    (run,) = trace.loads(trace.dumps(asked)).lanes
    cost = run.header.cost
    assert cost is not None
    assert (tuple(cost.sizes), tuple(cost.contexts), cost.padded) == (target.cost.sizes, target.cost.contexts, target.cost.padded)
    assert cost.seconds == [pytest.approx(row, rel=1e-5) for row in target.cost.seconds]
    assert fixed.header.cost is None


def test_traces_of_the_second_version_are_read_without_costs(made):
    body = json.loads(trace.dumps(made))
    body["version"] = 2
    body["header"].pop("cost")
    assert trace.loads(json.dumps(body)).lanes[0].header.cost is None
    body["header"]["cost"] = COST
    assert trace.loads(json.dumps(body)).lanes[0].header.cost == trace.Cost(**COST)


@pytest.fixture(scope="module")
def sampled() -> trace.Trace:
    """A run that is verified by rejection sampling."""
    target = tiny_target("llama")
    drafter = SpeculativeDrafter(ChainRunner(near(target, 0.9), VOCAB), cost(1.0), lambda greedy: 0.1, "rejection", 3)
    return Decoder(target, drafter, GenerationSettings(max_new_tokens=12, temperature=0.8)).run([5, 9, 14, 3, 20])


def as_version(record: trace.Trace, version: int) -> dict:
    """The file of a record as an earlier version wrote it."""
    body = {**json.loads(trace.dumps(record)), "version": version}
    for step in body["steps"]:
        for choice in step["choices"] if version < 4 else ():
            del choice["rejection"], choice["typical"], choice["logits"]
        for row in step["rows"] if version < 2 else ():
            del row["learned"]
        if version < 2:
            del step["size"]
    if version < 3:
        del body["header"]["cost"]
    return body


@pytest.mark.parametrize("version", trace.READABLE)
def test_a_file_of_each_version_is_read_and_written_again_as_the_present_one(sampled, version, tmp_path):
    (tmp_path / "old.json").write_text(json.dumps(as_version(sampled, version)))
    (read,) = trace.load(tmp_path / "old.json").lanes
    assert read.token_ids == sampled.token_ids
    trials = [choice.rejection for step in read.steps for choice in step.choices if len(step.tree.tokens) > 1]
    assert all((record is not None) == (version == 4) for record in trials)
    assert (read == sampled) == (version == 4)
    trace.save(read, tmp_path / "new.json")
    assert trace.load(tmp_path / "new.json").lanes == [read]


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record["tokens"].pop(),
        lambda record: record["trials"][0]["top_q"].pop(),
        lambda record: record["trials"][0].update(node=99),
        lambda record: record["trials"][0].update(node=0),
        lambda record: record["trials"][0].update(extra=1),
        lambda record: record.update(residual_probability=0.5, residual=[]),
    ],
)
def test_damaged_trials_are_refused(sampled, change):
    body = json.loads(trace.dumps(sampled))
    change(next(choice["rejection"] for step in body["steps"] for choice in step["choices"] if len(step["tree"]["tokens"]) > 1))
    with pytest.raises(trace.TraceError, match="damaged trace: trace.steps"):
        trace.loads(json.dumps(body))


def test_files_of_this_version_without_logits_are_read(sampled):
    body = json.loads(trace.dumps(sampled))
    for choice in (choice for step in body["steps"] for choice in step["choices"]):
        del choice["logits"]
        for trial in choice["rejection"]["trials"] if choice["rejection"] else ():
            del trial["logits_q"]
    (read,) = trace.loads(json.dumps(body)).lanes
    assert all(choice.logits is None for step in read.steps for choice in step.choices)
    assert trace.loads(trace.dumps(read)).lanes == [read]


@pytest.mark.parametrize(
    "change",
    [
        lambda choice: choice["logits"]["tokens"].pop(),
        lambda choice: choice["logits"]["texts"].pop(),
        lambda choice: choice["logits"].update(ranked=99),
        lambda choice: choice["logits"].update(ranked=0),
        lambda choice: choice["logits"]["others"].pop(),
        lambda choice: choice["logits"]["others"].__setitem__(0, -1.0),
        lambda choice: choice["logits"]["values"].__setitem__(0, math.nan),
        lambda choice: choice["logits"]["values"].__setitem__(0, 1.0),
        lambda choice: choice["rejection"]["trials"][0]["logits_q"].pop(),
        lambda choice: choice.update(logits=None),
    ],
)
def test_damaged_logits_are_refused(sampled, change):
    body = json.loads(trace.dumps(sampled))
    change(next(choice for step in body["steps"] for choice in step["choices"] if choice["rejection"]["trials"]))
    with pytest.raises(trace.TraceError, match="damaged trace: trace.steps"):
        trace.loads(json.dumps(body))


@pytest.mark.parametrize("version", [0, 5, "1", None])
def test_an_unknown_version_is_refused_and_the_known_ones_are_named(made, version):
    body = {**json.loads(trace.dumps(made)), "version": version}
    with pytest.raises(AdedError, match="reads versions 1 to 4; record it again"):
        trace.loads(json.dumps(body))
