"""ADED as a drafter of vLLM: its class for ``speculative_config={"method": "custom_class", …}``.

vLLM builds an `AdedProposer` in each worker, asks it after each step for a chain of tokens per request, and verifies the chains
itself. Options are in vLLM's ``additional_config={"aded": {…}}`` (`ProposerOptions`). How to use it: docs/vllm.md.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aded.core.errors import AdedError, check_type, first_line, remedy_for_missing
from aded.core.limits import Limits, check_numbers
from aded.drafters.artifacts import base_counts_for
from aded.engine.loading.tokenizer import tokenizer_fingerprint
from aded.engine.loading.weights import label_of
from aded.integrations.request_sessions import RequestSessions
from aded.ngram.session_counts import within
from aded.ngram.trigram import TrigramMatrix

LOGGER = logging.getLogger("vllm.aded")  # vLLM shows what loggers below its own say
LIMITS: Limits = {"min_probability": (0.0, 1.0), "memory_mb": (1, 1 << 20)}


@dataclass(frozen=True)
class ProposerOptions:
    """Options of `AdedProposer`.

    Attributes:
        matrix: file of the base matrix; None: the one for the model's tokenizer, if there is one.
        min_probability: a chain ends before a token whose cumulative probability, as estimated, is lower.
        memory_mb: maximum size of all session counts in a worker, in MB.

    Raises:
        AdedError: a value is invalid.
    """

    matrix: str | None = None
    min_probability: float = 0.02
    memory_mb: int = 512

    def __post_init__(self) -> None:
        check_type(self.matrix, (str, type(None)), "matrix is", "the name of a file")
        check_numbers(LIMITS, vars(self))

    @classmethod
    def of(cls, additional_config: Any) -> ProposerOptions:
        """The options in vLLM's ``additional_config``.

        Raises:
            AdedError: an option is unknown or invalid.
        """
        given = additional_config.get("aded", {}) if isinstance(additional_config, dict) else {}
        check_type(given, dict, 'additional_config["aded"] is', "a dict of options")
        names = cls.__dataclass_fields__
        if unknown := [name for name in given if name not in names]:
            raise AdedError(f"unknown option {unknown[0]} of aded; known are {', '.join(names)}")
        return cls(**given)


@dataclass(frozen=True)
class ServedModel:
    """What artifacts are found by; see `aded.drafters.artifacts.Tokenized`."""

    label: str
    fingerprint: str
    vocab_size: int


class AdedProposer:
    """Drafts chains from the tri-gram matrix and from what each request's text has taught its session.

    The drafts depend only on the options and on the texts, so the workers of a tensor-parallel model agree on them.

    Args:
        config: vLLM's ``VllmConfig``.

    Raises:
        AdedError: an option is invalid, the tokenizer cannot be loaded, or the matrix is missing, damaged or for another one.
    """

    def __init__(self, config: Any) -> None:
        model, options = config.model_config, ProposerOptions.of(config.additional_config)
        self._longest_draft = config.speculative_config.num_speculative_tokens
        self._longest_text = model.max_model_len
        self._vocab_size = model.get_vocab_size()
        self._min_probability = float(options.min_probability)
        base = base_counts_for(_served(model), options.matrix)
        if base is None:
            base = TrigramMatrix.empty(self._vocab_size)
            if config.parallel_config.rank == 0:
                LOGGER.warning(
                    "no matrix for %s: drafts come from each text alone; %s", model.model, remedy_for_missing(model.model)
                )
        arguments = config.scheduler_config.max_num_seqs, self._longest_text, options.memory_mb << 20
        RequestSessions(base, *arguments).read({0: np.zeros(2, dtype=np.int32)})[0].draft(1, 0.0)  # JIT-compile now
        self._sessions = RequestSessions(base, *arguments)

    def load_model(self, *_: Any) -> None:
        """Called by vLLM for drafters with a model; this one has none."""

    def propose(
        self,
        sampled_token_ids: Sequence[Sequence[int]],
        num_tokens_no_spec: np.ndarray,
        token_ids_cpu: np.ndarray,
        slot_mappings: Any = None,
    ) -> list[list[int]]:
        """A chain for each row of the batch; empty where nothing is likely enough, and for rows that wrote no token.

        Args:
            sampled_token_ids: tokens that each row has written in this step; none while its prompt is read in parts.
            num_tokens_no_spec: length of each row's text, those tokens included, int ``[rows or more]``.
            token_ids_cpu: the texts, int32 ``[rows or more, maximum length]``.
            slot_mappings: not used.

        Returns:
            Token ids within the vocabulary, at most ``num_speculative_tokens`` per row; text and draft are shorter than the
            model's maximum length.
        """
        texts = {}
        for row, sampled in enumerate(sampled_token_ids):
            text = token_ids_cpu[row, : num_tokens_no_spec[row]]
            if len(sampled) and len(text) < self._longest_text - 1 and within(text, self._vocab_size):
                texts[row] = text
        drafts: list[list[int]] = [[] for _ in sampled_token_ids]
        for row, session in self._sessions.read(texts).items():
            drafts[row] = session.draft(min(self._longest_draft, self._longest_text - 1 - len(session)), self._min_probability)
        return drafts


def _served(model: Any) -> ServedModel:
    """The model of vLLM's ``ModelConfig``."""
    from transformers import AutoTokenizer

    options = {"revision": model.tokenizer_revision, "trust_remote_code": model.trust_remote_code}
    try:
        tokenizer = AutoTokenizer.from_pretrained(model.tokenizer, **options)
    except Exception as error:  # of hub, configuration and tokenizer: they have different types
        raise AdedError(
            f"cannot load the tokenizer {model.tokenizer} ({first_line(error)[:200]}), by which ADED finds the matrix; "
            "name one that Transformers can load with vLLM's option tokenizer"
        ) from None
    return ServedModel(label_of(model.model), tokenizer_fingerprint(tokenizer), model.get_vocab_size())
