"""The decoding loop that all methods share: draft, verify, compact the KV cache, learn, record."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any
from weakref import ref

import numpy as np
import torch

import aded
from aded.core.chat import Chat, Prompt
from aded.core.errors import AdedError, as_text, check_text, check_type, shown
from aded.core.limits import MAX_NODES, check_flags, whole_number
from aded.core.trace import FinishReason, Header, Seconds, Step, Trace, writable
from aded.core.tree import DraftTree, warm_up
from aded.decoding.recorder import RecordedStep, Recorder, recorded_cost
from aded.decoding.stopping import StopChecker
from aded.drafters.base import Context, Drafter, Outcome, draft, is_custom
from aded.drafters.budget import tree_budget as budgets
from aded.drafters.budget.tree_budget import AcceptanceCurve, AutomaticBudget, FixedBudget
from aded.drafters.methods.plain import PlainDrafter
from aded.drafters.registry import METHODS, Method, find_method
from aded.engine.loading import loader
from aded.engine.loading.tokenizer import IncrementalDetokenizer
from aded.engine.outputs import TreeOutput, check_needs
from aded.engine.prefix_cache import PrefixCache
from aded.engine.session import TargetSession
from aded.engine.target_model import TargetModel
from aded.engine.target_view import TargetView
from aded.sampling.logits_pipeline import NO_TOKEN, Processor, Rule
from aded.sampling.settings import SamplingSettings
from aded.verification.tree_walk import Verification

SHARED_NODES = 32
"""Node budget with ``auto`` where several processes share the model, so that costs cannot be measured."""


@dataclass(frozen=True)
class GenerationSettings:
    """Length, node budget, sampling and stop strings of a decode; see ``SamplingSettings`` for the sampling fields.

    Attributes:
        max_new_tokens: maximum number of new tokens.
        budget: maximum number of nodes of a draft tree, root included, or ``auto`` (from measured costs).
        stop: strings that end the text; the text does not include them.
        raw: use the prompt as plain text, without the chat template.

    Raises:
        AdedError: a field is out of range.
    """

    max_new_tokens: int = 128
    budget: int | str = "auto"
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    raw: bool = False

    def __post_init__(self) -> None:
        stop = (self.stop,) if isinstance(self.stop, str) else self.stop
        if not isinstance(stop, (tuple, list)) or any(not isinstance(text, str) for text in stop):
            raise AdedError(f"stop is {shown(stop)}; give a list of strings")
        if any(not text for text in stop):
            raise AdedError("a stop string is empty; leave it out")
        for text in stop:
            check_text(text, "a stop string")
        check_flags({"raw": self.raw})
        fields = asdict(self.sampling) | {"stop": tuple(stop)}
        fields["max_new_tokens"] = whole_number(self.max_new_tokens, "max new tokens")
        if fields["max_new_tokens"] < 1:
            raise AdedError(f"max new tokens is {shown(self.max_new_tokens)}; give 1 or more")
        if not isinstance(self.budget, str):
            fields["budget"] = whole_number(self.budget, "budget")
        if (budget := fields.get("budget", self.budget)) != "auto" and not (isinstance(budget, int) and 1 <= budget <= MAX_NODES):
            raise AdedError(f"budget is {shown(budget)}; give 'auto' or a number of nodes from 1 to {MAX_NODES}")
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def sampling(self) -> SamplingSettings:
        return SamplingSettings(self.temperature, self.top_k, self.top_p, self.min_p, self.repetition_penalty, self.seed)


class Decoder:
    """Decodes one prompt with one method.

    ``stream`` runs the whole decode. A caller that interleaves several decodes calls ``begin``, ``step`` and ``close`` itself.
    Threads that decode on the same model alternate step by step, because each step holds the model's lock.

    Attributes:
        clock: decode time in seconds: the sum over this decode's steps, without prefill and recording.
        prefill_seconds: time of the prefill of the target, the drafter and its draft models.
        prefill_progress: during the prefill, the number of prompt tokens in the KV cache, and of all; else None.
        finish_reason: None while the decode runs.
    """

    def __init__(
        self,
        model: TargetModel,
        method: str | Drafter = "aded",
        settings: GenerationSettings | None = None,
        options: Mapping[str, Any] | None = None,
        processors: Sequence[Processor] = (),
        record: bool = True,
        prefix_cache: PrefixCache | None = None,
    ) -> None:
        """
        Args:
            model: the target model.
            method: a key of ``METHODS``, or a custom drafter.
            settings: see ``GenerationSettings``; None for the defaults.
            options: options of the method.
            processors: logits processors with the signature of Transformers; each is called with the prefix of one tree node.
            record: fill every field of the steps; False omits the fields that are slow to compute, for benchmarks.
            prefix_cache: the KV cache of an earlier decode, which this decode continues from and then replaces; None for neither.
                A drafter that reads hidden states of the whole prompt starts without it.

        Raises:
            AdedError: the method or one of its options is unknown, or an argument is of another type or out of range.
        """
        check_type(model, TargetModel, "the model is", "a TargetModel, such as TargetModel.load()")
        check_type(method, (str, Drafter), "the method is", "the name of a method, or a drafter such as MyDrafter()")
        check_type(settings, (GenerationSettings, type(None)), "the settings are", "GenerationSettings(...)")
        check_flags({"record": record})
        if options and isinstance(method, Drafter):
            raise AdedError("options are for the name of a method; give those of a custom drafter when you make it")
        self.model = model
        self.settings = settings or GenerationSettings()
        self.method: Method = find_method(method) if isinstance(method, str) else METHODS["plain"].of(method)
        with model.lock:  # making a drafter may measure costs
            self.drafter: Drafter = (
                method
                if isinstance(method, Drafter)
                else self.method.make(model, {} if options is None else options, self.settings.seed)
            )
            self._custom = is_custom(self.drafter)
            self.rule = Rule(self.settings.sampling, processors, self.drafter.typical)
            sampling = "greedy" if self.rule.settings.greedy else "sampled"
            self._curve_key = f"{self.method.name} {self._method_settings()} {sampling}"
            self.budget = self._new_budget()
        warm_up()
        budgets.warm_up()
        self.record = record
        self._prefix_cache = prefix_cache
        self.prefill_seconds = 0.0
        self.prefill_progress: tuple[int, int] | None = None
        self._steps: list[Step] = []
        self._waiting: list[RecordedStep] = []  # those that are not yet complete
        self._session: TargetSession | None = None
        self.clock = 0.0
        self.finish_reason: FinishReason | None = None

    def stream(self, prompt: Prompt) -> Iterator[Step]:
        """Decode ``prompt`` and yield each step when it is done; closing the iterator stops the decode.

        Raises:
            AdedError: the prompt is empty or exceeds the context length.
        """
        self.begin(prompt)
        try:
            while self.running and (step := self.next_step()) is not None:  # closing it in another thread ends the text
                yield step
        finally:
            self.close()

    def run(self, prompt: Prompt) -> Trace:
        """Decode until the text ends and return the trace."""
        for _ in self.stream(prompt):
            pass
        return self.trace

    def begin(self, prompt: Prompt) -> None:
        """Tokenize the prompt, prefill the KV cache with all prompt tokens but the last, and start the drafter.

        Raises:
            AdedError: the prompt is empty or exceeds the context length, the drafter's needs cannot be met, this decode is
                running, or another running decode uses the drafter.
        """
        for _ in self.beginning(prompt):
            pass

    def beginning(self, prompt: Prompt) -> Iterator[None]:
        """``begin`` in parts: yields after each forward pass of the prefill but the last.

        Raises:
            AdedError: see ``begin``.
        """
        with self.model.lock:
            if self.running:
                raise AdedError("this decode is running; close it before you begin it again")
            self._attach_drafter()
            self._steps, self._waiting, self.prefill_seconds = [], [], 0.0
            self.finish_reason = None  # from here on it can be cancelled
            with self._closed_on_error():
                session, ids = self._begin(prompt)
                known = session.length
        chunks, seconds = session.prefill_chunks(ids[known:-1], self.drafter.needs.hidden_layers), 0.0
        while self.prefill_progress:
            with self.model.lock, self._closed_on_error():
                if not self.running:  # closed while this thread waited for the lock
                    break
                self.model.check_open()
                started = time.perf_counter()
                self._prefill(chunks, ids, known)
                self.model.synchronize()
                seconds += time.perf_counter() - started
            if self.prefill_progress:
                yield
        self.prefill_seconds = seconds if self.running else 0.0

    def step(self) -> Step:
        """One decoding step: draft, verify, compact the KV cache, learn, record. If it fails, the decode is closed.

        Raises:
            AdedError: the decode has not begun or has ended.
        """
        step = self.next_step()
        if step is None:
            raise AdedError(f"the decode has ended ({self.finish_reason}); call close, then begin for another one")
        return step

    def next_step(self) -> Step | None:
        """Like ``step``, but returns None if the decode has ended, by itself or by ``cancel`` in another thread."""
        return self.complete()[-1] if self.advance() else None

    def advance(self) -> bool:
        """A step that ``complete`` will return; False if the decode has ended. The records of several steps then cost less.

        Raises:
            AdedError: see ``step``.
        """
        with self.model.lock:
            if self._session is None:
                raise AdedError("the decode is not running; call begin before step")
            if self.finish_reason is not None:
                return False
            with self._closed_on_error():
                self.model.check_open()
                self._waiting.append(self._step(self._session))
            return True

    def complete(self) -> list[Step]:
        """The steps of ``advance`` since the last call, recorded.

        Raises:
            AdedError: the drafter returned something that cannot be recorded.
        """
        if not self._waiting:
            return []
        with self.model.lock, self._closed_on_error():
            waiting, self._waiting = self._waiting, []
            steps = self._recorder.complete(waiting)
            self._steps += steps
            return steps

    def _attach_drafter(self) -> None:
        other = None if self.drafter.decode is None else self.drafter.decode()
        if other is not None and other is not self and other.running:
            raise AdedError("this drafter serves another decode; close that one first, or make a new drafter for each decode")
        self.drafter.decode = ref(self)

    def _begin(self, prompt: Prompt) -> tuple[TargetSession, list[int]]:
        """Everything before the prefill; returns the session and the prompt's token ids."""
        text = prompt if isinstance(prompt, (str, Chat)) else None
        ids = self.model.check_prompt(prompt) if text is None else self.model.encode(text, self.settings.raw)  # type: ignore[arg-type]
        self.model.check_open()
        check_needs(self.drafter.needs, self.model)
        max_new = min(self.settings.max_new_tokens, self.model.context_limit - len(ids))
        self._tokens = np.zeros(len(ids) + max_new + 1, dtype=np.int32)
        self._tokens[: len(ids)] = ids
        self._length = self._prompt_length = len(ids)
        limit_reason: FinishReason = "length" if max_new == self.settings.max_new_tokens else "context"
        detokenizer = IncrementalDetokenizer(self.model.tokenizer, ids)
        self._stopping = StopChecker(detokenizer, self.model.eos_ids, self.settings.stop, max_new, limit_reason)
        self._recorder = Recorder(self.model, self.drafter, self.rule, self.record)
        self.budget = self._new_budget()
        capacity = len(ids) + max_new + self.model.padded_nodes(self.budget.cap)
        self._session = self._new_session(ids, capacity)
        self._prompt_text = self._recorder.text(ids) if text is None else text.text if isinstance(text, Chat) else text
        self.clock = 0.0
        self.drafter.bind(TargetView(self._session, self.rule.settings))
        self.prefill_progress = self._session.length, len(ids)
        return self._session, ids

    def _new_session(self, ids: list[int], capacity: int) -> TargetSession:
        if self._prefix_cache is None:
            return self.model.session(capacity, self._recorder.needs)
        known = () if self.drafter.needs.hidden_layers else ids[:-1]
        return self._prefix_cache.session(self.model, known, capacity, self._recorder.needs)

    def _prefill(self, chunks: Iterator[int], ids: list[int], known: int) -> None:
        """The next forward pass of the prefill after ``known`` tokens; after the last one, start the drafter."""
        try:
            self.prefill_progress = known + next(chunks), len(ids)
        except StopIteration as end:
            self.drafter.start(ids, end.value)
            self.prefill_progress = None

    def _step(self, session: TargetSession) -> RecordedStep:
        context, seconds, cap = self._context(), dict[str, float](), self.budget.cap
        self.drafter.prepare(context.copy() if self._custom else context, cap)
        with self._timed(seconds, "draft"):
            tree = self._draft(context)
        budget = self.budget.explain()
        session.prepare(tree, self.rule, self._recorder.needs)
        with self._timed(seconds, "verify"):
            tree, verification, output = self._verify(session, tree)
        self._check_finite(tree, verification, session.length)
        output, states = self._recorder.split(output)
        pieces = self._push(verification.chosen(tree))
        emitted = np.array(verification.chosen(tree)[: len(pieces)], dtype=np.int32)
        with self._timed(seconds, "commit"):
            session.compact(verification.path[: len(emitted)])
        outcome = self._outcome(tree, verification, context, emitted, output)
        snapshot = self._recorder.snapshot(outcome, verification, output.logits, states, cap) if self.record else None
        with self._timed(seconds, "update"):
            self.drafter.observe(outcome.copy() if self._custom else outcome)
            self.budget.observe(tree, verification.path, len(emitted), sum(seconds.values()))
        self._append(emitted)
        index = len(self._steps) + len(self._waiting)
        made = self._recorder.step(index, outcome, verification, pieces, budget, Seconds(**seconds), snapshot)
        self.clock += made.step.seconds.total
        if self._stopping.reason is not None:  # else keep a cancellation during this step
            self.finish_reason = self._stopping.reason
        return made

    def cancel(self) -> None:
        """End the decode after the step that is running, if any. Any thread may call this, and a drafter."""
        if self.finish_reason is None:
            self.finish_reason = "cancelled"

    def close(self) -> None:
        """End the decode if it is still running, and free its KV cache or keep it in the prefix cache."""
        self._close(keep=self._prefix_cache is not None)

    def _close(self, keep: bool) -> None:
        with self.model.lock:
            self.cancel()
            if self._session is None:
                return
            try:
                self.drafter.close()
            finally:
                if keep and self._prefix_cache is not None:
                    self._prefix_cache.keep(self._session, self._tokens)
                self._session.close()
                self._session = self.prefill_progress = None

    @property
    def running(self) -> bool:
        """Whether the decode has begun and has not been closed."""
        return self._session is not None

    @property
    def began(self) -> bool:
        """Whether the prefill is done, so that ``trace`` exists."""
        return bool(self._steps or self._waiting) or self.prefill_seconds > 0

    @property
    def trace(self) -> Trace:
        """The trace of all steps so far.

        Raises:
            AdedError: the decode has not begun.
        """
        self._require_begun()
        self.complete()
        ids = [token for step in self._steps for token in step.emitted]  # without a step whose record failed
        text = "".join(piece for step in self._steps for piece in step.texts)
        return Trace(self.header, list(self._steps), self.prefill_seconds, text, ids, self.finish_reason, self.model.footprint)

    @property
    def header(self) -> Header:
        """Method, model, device, versions, settings and prompt of the decode.

        Raises:
            AdedError: the decode has not begun.
        """
        self._require_begun()
        ids = self._tokens[: self._prompt_length].tolist()
        settings = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self.settings).items()}
        return Header(
            method=self.method.name,
            label=self.method.label,
            lossless=self.rule.typical is None,
            model=self.model.label,
            fingerprint=self.model.fingerprint,
            device=f"{self.model.device.type} ({self.model.device_name})",
            dtype=str(self.model.dtype).removeprefix("torch."),
            versions=versions(),
            settings=settings,
            method_settings=self._method_settings(),
            seed=self.settings.seed,
            prompt=self._prompt_text,
            prompt_tokens=ids,
            prompt_texts=self._recorder.texts.all(ids),
            notice="; ".join(as_text(notice) for notice in (self.model.notice, self.drafter.notice) if notice) or None,
            cost=recorded_cost(self.model.measured_cost),
        )

    def _method_settings(self) -> dict[str, Any]:
        settings = self.drafter.settings()
        check_type(settings, dict, f"{type(self.drafter).__name__}.settings() is", "a dict by name, with JSON values")
        return writable(settings)

    def _require_begun(self) -> None:
        if not self.began:
            raise AdedError("the decode has no trace yet; run it, or call begin first")

    def _new_budget(self) -> FixedBudget | AutomaticBudget:
        return choose_budget(self.settings.budget, self.model, self.drafter, self._curve_key)

    def _context(self) -> Context:
        """The committed tokens, as a view; a custom drafter gets copies."""
        return Context(self._tokens[: self._length], self._prompt_length)

    def _draft(self, context: Context) -> DraftTree:
        """A draft tree within the node budget and no deeper than the number of tokens that may still be generated."""
        cap = self.budget.cap
        if cap > 1:
            tree = draft(self.drafter, context, cap, self.model.vocab_size, self.rule.uses_rejection_sampling, self._custom)
        else:
            tree = DraftTree.root_only(context.root)
        tree = self.budget.trim(self.model.verifiable_part(tree).within(self._stopping.remaining - 1), len(context.tokens))
        return self.model.broadcast(tree)

    def _verify(self, session: TargetSession, tree: DraftTree) -> tuple[DraftTree, Verification, TreeOutput]:
        """Verify a draft tree; returns the verified tree, its verification and the target's output.

        If logits are not finite, the root is verified alone: NaN in the keys of one node spreads to all nodes of the forward
        pass, and without the drafted nodes the text equals plain decoding up to the token that causes NaN. A sampled
        draft tree is kept: discarding it because of its tokens would change the output distribution.
        """
        prefix = self._tokens[: self._length]
        verification, output = session.verify(tree, prefix, self.rule, self._recorder.needs)
        if verification.non_finite is not None and len(tree) > 1 and tree.sampled_from is None:
            session.wipe()
            tree = DraftTree.root_only(int(prefix[-1]))
            verification, output = session.verify(tree, prefix, self.rule, self._recorder.needs)
        return tree, verification, output

    def _check_finite(self, tree: DraftTree, verification: Verification, length: int) -> None:
        if (node := verification.non_finite) is not None:
            raise AdedError(
                f"{self.model.label}: the logits after position {length + int(tree.depths[node])} of the text, token id "
                f"{int(tree.tokens[node])}, are {loader.non_finite(self.model.dtype)}"
            )

    def _push(self, tokens: list[int]) -> list[str]:
        """The text of each token up to the end of the text."""
        pieces = self._stopping.push([token for token in tokens if token != NO_TOKEN])
        if len(pieces) < len(tokens) and self._stopping.reason is None:
            raise AdedError(
                "the logits processors leave no token a finite score (only -infinity), or give NaN or +infinity, after position "
                f"{self._length + len(pieces) - 1} of the text; correct them so that at least one token can be chosen"
            )
        return pieces

    def _outcome(
        self, tree: DraftTree, verification: Verification, context: Context, emitted: np.ndarray, output: TreeOutput
    ) -> Outcome:
        path = np.array(verification.path[: len(emitted)], dtype=np.int32)
        return Outcome(
            tree, path, context, emitted, output.top_tokens, output.top_probabilities, output.features, output.reader_output
        )

    def _append(self, emitted: np.ndarray) -> None:
        self._tokens[self._length : self._length + len(emitted)] = emitted
        self._length += len(emitted)

    @contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        """Close the decode and free its KV cache if the block fails, and release memory if the device has run out of it."""
        try:
            yield
        except BaseException as error:
            self._close(keep=False)
            if not isinstance(error, torch.OutOfMemoryError):
                raise
            self.model.release_memory()
            raise AdedError(
                "the memory of the device is used up; ask for fewer new tokens, a shorter prompt or a smaller model"
            ) from None

    @contextmanager
    def _timed(self, seconds: dict[str, float], name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        if name == "verify" or not self.model.captures:  # a captured step is already synchronized
            self.model.synchronize()
        seconds[name] = time.perf_counter() - started


def choose_budget(budget: int | str, model: TargetModel, drafter: Drafter, curve_key: str) -> FixedBudget | AutomaticBudget:
    """The budget that sets the number of nodes of each draft; ``curve_key`` names the acceptance curve that it learns."""
    if isinstance(drafter, PlainDrafter):
        return FixedBudget(1, "plain decoding drafts nothing")
    if model.mode == "plain":
        return FixedBudget(1, "the model verifies one token per step")
    if budget != "auto":
        return FixedBudget(int(budget), "as set")
    if model.tensor_parallel:
        return FixedBudget(SHARED_NODES, "fixed: costs are not measured where several processes share a model")
    return AutomaticBudget(model.cost, model.shared_by_decodes(curve_key, AcceptanceCurve), outdated=model.forget_cost)


def versions() -> dict[str, str]:
    """Versions of the libraries that a trace depends on."""
    import transformers

    return {
        "aded": aded.__version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
    }
