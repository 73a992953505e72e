"""The target: a stock language model, its tokenizer, and a cache of its own for every decode.

Knows nothing of how drafts are made. A tree of tokens is verified in one forward pass: an additive mask lets every
node see the committed text and its own ancestors (SpecInfer, arXiv 2305.09781; Medusa, arXiv 2401.10774).
"""

from __future__ import annotations

import gc
import hashlib
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import torch

from aded import budget, parallel, selftest, weights
from aded.budget import AcceptanceCurve, StepCost
from aded.cache import KVCache
from aded.captured import COMPILED_BUCKETS, NODE_BUCKETS, StepKind, StepPool, draws_of, read_verdict
from aded.errors import AdedError
from aded.packing import pack_linears
from aded.tokens import tokenizer_fingerprint
from aded.tree import DraftTree
from aded.verify import Rule, Verification, verify

T = TypeVar("T")
Mode = Literal["tree", "chain", "plain"]
"""What the model can verify in one pass: any tree, one chain, or a single token."""
MaskKind = Literal["full", "sliding", "by layer type", "none"]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
PREFILL_CHUNK = 512


@dataclass(frozen=True)
class TreeOutput:
    """What the target says at every node: logits ``[n, vocab]`` in the model's dtype, hidden states ``[n, hidden]`` or None."""

    logits: torch.Tensor
    hidden: torch.Tensor | None = None


class TargetModel:
    """A causal language model that verifies draft trees.

    Attributes:
        spec: what was asked for; ``label``: a short name to show.
        mode: what it can verify, found by a self-test at load; ``notice``: what the user should know of it, or None.
        context_limit: most tokens of prompt and output together.
        eos_ids: token ids that end a text.
        fingerprint: of the tokenizer (see ``aded.tokens``).
    """

    def __init__(
        self, model: Any, tokenizer: Any, spec: str = "custom", label: str = "custom", tensor_parallel: bool = False
    ) -> None:
        self.model = model.eval()
        self.shared = tensor_parallel
        self.spread = len({p.device for p in model.parameters()}) > 1
        self.tokenizer = tokenizer
        self.spec = spec
        self.label = label
        self.config = model.config.get_text_config()
        self.device = model.device
        self.dtype = model.dtype
        self.vocab_size = int(self.config.vocab_size)
        self.context_limit, self.notice = _context_limit(self.config)
        self.eos_ids = _eos_ids(model, tokenizer)
        self.fingerprint = tokenizer_fingerprint(tokenizer) if tokenizer else f"none-{self.vocab_size}"
        parameters = inspect.signature(model.forward).parameters
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"
        self._keeps_logits = "logits_to_keep" in parameters
        self.mode: Mode = "tree"
        self.mask_kind: MaskKind = "full"
        self.pool: StepPool | None = None
        self.step_sizes: tuple[int, ...] = NODE_BUCKETS[:-1]
        self._cost: StepCost | None = None
        self.acceptance: dict[str, AcceptanceCurve] = {}  # by method: what predictions were worth, no tokens
        self._forward: Any = model
        self._find_mode()
        if self.device.type == "cuda" and self.mode == "tree" and not (self.shared or self.spread):
            self.fix_steps(capture=True)

    @classmethod
    def load(
        cls,
        spec: str = weights.DEFAULT,
        device: str = "auto",
        dtype: str = "auto",
        progress: weights.Progress = weights.quiet,
        compile: bool = False,
        device_map: str | None = None,
        tensor_parallel: bool = False,
    ) -> TargetModel:
        """Load a model and find out what it can do.

        Args:
            spec: ``default``, a hub id, a folder, or a ``.gguf`` file.
            device: ``auto`` (CUDA if there is a card), ``cpu`` or ``cuda[:N]``.
            dtype: ``auto`` (bfloat16 on CUDA, float32 on the CPU), ``float32``, ``bfloat16`` or ``float16``.
            progress: called with what is going on.
            compile: see ``compile``.
            device_map: ``auto`` places the layers over all cards (accelerate).
            tensor_parallel: shard every layer over the processes that torchrun started.

        Raises:
            AdedError: unknown spec, device or dtype; nothing to be had without a network; not a causal language model.
        """
        where = choose_device(device)
        kind = choose_dtype(dtype, where)
        name = weights.resolve(spec, progress)
        progress("loading the model", None)
        placement: dict[str, Any] = {"device_map": device_map} if device_map else {}
        if tensor_parallel:
            placement = parallel.tensor_parallel_arguments()
        model, tokenizer = _load_stock(name, spec, kind, placement)
        try:
            if not placement:
                model.to(where)
        except torch.OutOfMemoryError:
            raise AdedError(
                f"{spec} does not fit the memory of {where}; use a smaller model, --dtype bfloat16 or --device-map auto"
            ) from None
        if where.type == "cpu" and not tensor_parallel:
            pack_linears(model)
        progress("checking that the model verifies trees", None)
        bundled = spec in (weights.DEFAULT, "", weights.DEFAULT_HUB_ID)
        label = weights.DEFAULT_LABEL if bundled else spec.rstrip("/").split("/")[-1].removesuffix(".gguf")
        target = cls(model, tokenizer, weights.DEFAULT if bundled else spec, label, tensor_parallel)
        if compile:
            target.compile()
        return target

    def fix_steps(self, capture: bool) -> None:
        """Run steps in fixed shapes from now on, captured as CUDA graphs if ``capture``; stay as it is where that goes wrong."""
        self.pool = StepPool(self, capture)
        if not selftest.fixed_steps_pass(self):
            self.pool = None
            self._add_notice("steps of this model cannot be captured: they run one operation at a time")

    @property
    def captures(self) -> bool:
        """Whether steps are captured: then each has ended when its result is read."""
        return self.pool is not None and self.device.type == "cuda"

    @property
    def compiled(self) -> bool:
        """Whether steps go through ``torch.compile`` before they are captured."""
        return self._forward is not self.model

    def compile(self) -> None:
        """Put the forward pass of steps through ``torch.compile``: about half a minute a shape, and then nearly twice as fast.

        Raises:
            AdedError: steps of this model are not captured, so that there is nothing to compile for.
        """
        if self.pool is None or self.device.type != "cuda":
            raise AdedError("--compile is for models whose steps are captured on a CUDA card; leave it out")
        torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 64)  # one for each shape
        self._forward = torch.compile(self.model, dynamic=False)
        self.step_sizes = COMPILED_BUCKETS[:-1]
        self._cost = None
        self.pool.clear()

    def close(self) -> None:
        """Free the model's memory; the object is of no use afterwards."""
        self.model = self._forward = None
        if self.pool is not None:
            self.pool.clear()
            self.pool = None
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def release_memory(self) -> None:
        """Free what no decode is using: caches kept for the next one, their graphs, the allocator's reserve."""
        if self.pool is not None:
            self.pool.clear()
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    @property
    def cost(self) -> StepCost:
        """What a step costs here by tree size: measured at first use, then kept (see ``aded.budget``)."""
        if self._cost is None:
            self._cost = budget.step_cost(self)
        return self._cost

    @property
    def cost_fingerprint(self) -> str:
        """A hash of all that a step's cost depends on (hex, 16 characters)."""
        parts = [self.config.to_json_string(), self.device_name, str(self.dtype), torch.__version__, str(self.pool is not None)]
        parts.append(str(self.compiled))
        return hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]

    def session(self, capacity: int = 1024) -> TargetSession:
        """A decode of its own on this model, with room for ``capacity`` tokens (it grows)."""
        return TargetSession(self, capacity)

    def encode(self, text: str, raw: bool = False) -> list[int]:
        """Prompt text as token ids: through the chat template if the model has one, bare if ``raw``.

        Raises:
            AdedError: the text is empty, or it and at least one new token do not fit the context.
        """
        if not text.strip():
            raise AdedError("the prompt is empty; write one, with --prompt or --prompt-file on the command line")
        if not raw and getattr(self.tokenizer, "chat_template", None):
            ids = self._encode_chat(text)
        else:
            ids = self.tokenizer(text, add_special_tokens=True)["input_ids"]
        if not ids:
            start = self.tokenizer.bos_token_id if self.tokenizer.bos_token_id is not None else min(self.eos_ids, default=0)
            ids = [start]
        self.check_prompt(ids)
        return [int(i) for i in ids]

    def _encode_chat(self, text: str) -> list[int]:
        turn = [{"role": "user", "content": text}]
        try:
            prompt = self.tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False)
        except Exception as error:  # a template is a program of the model's author and may raise anything
            raise AdedError(f"the model's chat template failed ({str(error).splitlines()[0]}); use --raw for bare text") from None
        return self.tokenizer(prompt, add_special_tokens=False)["input_ids"]

    def check_prompt(self, ids: Sequence[int]) -> None:
        """Refuse a prompt that leaves no room for a new token, or that holds unknown token ids."""
        if len(ids) >= self.context_limit:
            raise AdedError(
                f"the prompt has {len(ids)} tokens and the model's context {self.context_limit}; shorten it by at least "
                f"{len(ids) - self.context_limit + 1} tokens"
            )
        if not ids or min(ids) < 0 or max(ids) >= self.vocab_size:
            raise AdedError(f"the prompt's token ids must be one or more of 0 to {self.vocab_size - 1}")

    def agree(self, value: T) -> T:
        """``value``; under tensor parallelism the first process's, so that all go on alike."""
        return parallel.agree(value) if self.shared else value

    def synchronize(self) -> None:
        """Wait for the device, so that the clock reads its time."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def fit(self, tree: DraftTree) -> DraftTree:
        """The part of a draft that this model can verify in one pass."""
        if self.mode == "plain":
            return tree.select([0])
        return tree.first_chain() if self.mode == "chain" and not tree.is_chain else tree

    @property
    def device_name(self) -> str:
        """The card's name, or the processor's kind and thread count."""
        if self.device.type == "cuda":
            return torch.cuda.get_device_name(self.device)
        return f"CPU, {torch.get_num_threads()} threads"

    @torch.inference_mode()
    def run(
        self, ids: torch.Tensor, positions: torch.Tensor | None, mask: Any, cache: Any, hidden: bool = False, keep: int = 0
    ) -> Any:
        """One stock forward pass. ids, positions: ``[1, n]``; keep: rows of logits wanted from the end, 0 for all."""
        arguments: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, self._cache_argument: cache}
        arguments |= {"use_cache": cache is not None, "output_hidden_states": hidden}
        if positions is not None:
            arguments["position_ids"] = positions
        if keep and self._keeps_logits:
            arguments["logits_to_keep"] = keep
        return self.model(**arguments)

    def run_fixed(self, ids: torch.Tensor, positions: torch.Tensor, mask: Any, cache: KVCache, hidden: bool) -> Any:
        """The pass inside a step of fixed shape. ids, positions: ``[1, n]``; hidden: output hidden states too."""
        arguments: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
        arguments |= {self._cache_argument: cache, "use_cache": True, "output_hidden_states": hidden}
        return self._forward(**arguments)

    def masks(self, ancestors: np.ndarray, positions: np.ndarray, past: int) -> Any:
        """The additive mask of a pass in which ``n`` tokens see ``past`` committed ones and, of themselves, ``ancestors``.

        Args:
            ancestors: bool ``[n, n]``.
            positions: logical position of each token, int ``[n]``.
            past: committed tokens.

        Returns:
            Float ``[1, 1, n, past + n]`` (0 or the dtype's minimum), a dictionary of such by layer type, or None.
        """
        if self.mask_kind == "none":
            return None
        visible = np.concatenate([np.ones((len(ancestors), past), dtype=bool), ancestors], axis=1)
        if self.mask_kind == "full":
            return self._additive(visible)
        keys = np.concatenate([np.arange(past), positions])
        if self.mask_kind == "sliding":
            return self._additive(visible & self._window("sliding_attention", positions, keys))
        kinds = sorted(set(self.config.layer_types))
        return {kind: self._additive(visible & self._window(kind, positions, keys)) for kind in kinds}

    def device_masks(self, ancestors: torch.Tensor, depths: torch.Tensor, length: torch.Tensor, keys: torch.Tensor) -> Any:
        """As ``masks``, for a pass of fixed shape, from tensors on the device and nothing read back.

        Args:
            ancestors: bool ``[n, n]``; depths: int64 ``[n]``; length: committed tokens, int64 scalar.
            keys: 0 to ``seen - 1``, the slots that attention sees, int64 ``[seen]``.

        Returns:
            Float ``[1, 1, n, seen]`` or a dictionary of such by layer type.
        """
        node = (keys - length).clamp(0, len(depths) - 1)  # the tree's node in each slot
        past = keys < length
        inside = (keys >= length) & (keys < length + len(depths))
        visible = past | (inside & ancestors[:, node])
        where = torch.where(past, keys, length + depths[node])
        positions = (length + depths)[:, None]

        def additive(kind: str) -> torch.Tensor:
            seen = visible
            if kind == "sliding_attention":
                seen = visible & (where > positions - int(self.config.sliding_window))
            elif kind == "chunked_attention":
                size = int(self.config.attention_chunk_size)
                seen = visible & (where // size == positions // size)
            mask = torch.zeros(seen.shape, dtype=self.dtype, device=seen.device)
            return mask.masked_fill(~seen, torch.finfo(self.dtype).min)[None, None]

        if self.mask_kind == "by layer type":
            return {kind: additive(kind) for kind in sorted(set(self.config.layer_types))}
        return additive("sliding_attention" if self.mask_kind == "sliding" else "full_attention")

    def _window(self, kind: str, queries: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Which keys a layer of this kind may see at all, by logical position; bool ``[n, past + n]``."""
        q, k = queries[:, None], keys[None, :]
        if kind == "sliding_attention":
            return k > q - int(self.config.sliding_window)
        if kind == "chunked_attention":
            size = int(self.config.attention_chunk_size)
            return k // size == q // size
        return np.ones((len(queries), len(keys)), dtype=bool)

    def _additive(self, visible: np.ndarray) -> torch.Tensor:
        mask = torch.zeros(visible.shape, dtype=self.dtype)
        mask.masked_fill_(torch.from_numpy(~visible), torch.finfo(self.dtype).min)
        return mask[None, None].to(self.device)

    def _mask_kinds(self) -> list[MaskKind]:
        """The kinds of mask that may be this model's, the likeliest first; the self-test decides."""
        kinds = set(getattr(self.config, "layer_types", None) or [])
        window = getattr(self.config, "sliding_window", None)
        if len(kinds) > 1:
            return ["by layer type", "full"]
        if kinds == {"sliding_attention"} or (not kinds and window):
            return ["sliding", "by layer type", "full"] if kinds else ["sliding", "full"]
        return ["full", "by layer type"] if kinds - {"full_attention"} else ["full"]

    def _find_mode(self) -> None:
        """Try trees, then chains, then single tokens on this very model, and keep the first that is right."""
        for kind in self._mask_kinds():
            self.mode, self.mask_kind = "tree", kind
            if selftest.passes(self, selftest.TREE):
                return
        steps: tuple[tuple[Mode, tuple[int, ...]], ...] = (("chain", selftest.CHAIN), ("plain", selftest.SINGLE))
        for mode, draft in steps:
            self.mode, self.mask_kind = mode, "none"
            if selftest.passes(self, draft):
                what = (
                    "chains only: of a draft tree, its first path is verified"
                    if mode == "chain"
                    else "one token a step: drafting is off"
                )
                self._add_notice(f"this model verifies {what}")
                return
        raise AdedError(f"{self.label} cannot be decoded with a cache; use another model")

    def _add_notice(self, text: str) -> None:
        self.notice = f"{self.notice}; {text}" if self.notice else text


class TargetSession:
    """One decode's state on a target: what is committed, and the pass in flight.

    The root of every tree is the newest committed token, whose keys and values are not computed yet, so ``length``
    is one less than the number of committed tokens.
    """

    def __init__(self, target: TargetModel, capacity: int) -> None:
        self.target = target
        self._plain = target.mode == "plain"
        self.cache: Any = self._new_cache(capacity)
        self._length = 0
        self._moved: list[int] | None = None  # the path that the last step has already moved together

    def _new_cache(self, capacity: int) -> Any:
        if self._plain:
            return _stock_cache(self.target)
        if self.target.pool is not None:
            return self.target.pool.take(capacity)
        return KVCache(capacity, int(self.target.config.num_hidden_layers))

    def close(self) -> None:
        """Hand the cache to the next decode."""
        if self.target.pool is not None and isinstance(self.cache, KVCache):
            self.target.pool.give_back(self.cache)
        self.cache = None

    @property
    def length(self) -> int:
        """Tokens whose keys and values are held: the position of the next root."""
        return self._length if self._plain else self.cache.length

    def prefill(self, ids: Sequence[int]) -> None:
        """Compute keys and values of ``ids``, in chunks; for a prompt, all of its tokens but the last."""
        for start in range(0, len(ids), PREFILL_CHUNK):
            chunk = np.asarray(ids[start : start + PREFILL_CHUNK], dtype=np.int64)
            n = len(chunk)
            self._forward(chunk, np.arange(n), np.tri(n, dtype=bool), keep=1)
            self.commit(range(n))

    def forward_tree(self, tree: DraftTree, hidden: bool = False) -> TreeOutput:
        """Run every node in one pass; each sees the committed text and its ancestors.

        Returns:
            ``TreeOutput`` with one row a node.
        """
        assert not self._plain or len(tree) == 1, "this model takes one token a step"
        output = self._forward(tree.tokens.astype(np.int64), tree.depths, tree.ancestors, hidden=hidden)
        states = output.hidden_states[-1][0] if hidden else None
        return TreeOutput(output.logits[0], states)

    def prepare(self, nodes: int, rule: Rule, hidden: bool = False) -> None:
        """Capture the step for a tree of ``nodes`` nodes if that has not been done: outside all timing."""
        if self.target.pool is not None:
            self.target.pool.step(self.cache, nodes, self._kind(rule, hidden))

    def verify(
        self, tree: DraftTree, prefix: Sequence[int] | np.ndarray, rule: Rule, hidden: bool = False
    ) -> tuple[Verification, TreeOutput]:
        """Run the tree and walk it: on a card one graph for all of it.

        Args:
            tree: ``n`` nodes.
            prefix: all committed token ids, the root last.
            rule: how the target chooses.
            hidden: hidden states are wanted too.

        Returns:
            The verdict, and one row a node of what the target said; its tensors are valid until the next pass.
        """
        if self.target.pool is None:
            output = self.forward_tree(tree, hidden)
            verdict = verify(tree, output.logits, prefix, rule)
            return self.target.agree(verdict), output
        n, kind = len(tree), self._kind(rule, hidden)
        step = self.target.pool.step(self.cache, n, kind)
        draws = draws_of(tree, self.length, rule.settings) if kind.sampling is not None else None
        result = step.run(tree, draws)
        output = TreeOutput(step.logits[:n], step.hidden[:n] if step.hidden is not None else None)
        if kind.sampling is None:
            return verify(tree, output.logits, prefix, rule), output
        verdict = read_verdict(result, draws)
        self._moved = verdict.path
        return verdict, output

    def _kind(self, rule: Rule, hidden: bool) -> StepKind:
        return StepKind(None if rule.needs_prefix else rule.settings, hidden)

    def commit(self, nodes: Sequence[int]) -> None:
        """Keep keys and values of these nodes of the last pass (ascending), drop the others."""
        if self._plain:
            self._length += len(nodes)
        elif self._moved is not None and list(nodes) == self._moved[: len(nodes)]:
            self.cache.length += len(nodes)
        else:
            self.cache.commit(nodes)
        self._moved = None

    def _forward(
        self, tokens: np.ndarray, offsets: np.ndarray, ancestors: np.ndarray, hidden: bool = False, keep: int = 0
    ) -> Any:
        target, past = self.target, self.length
        if not self._plain:
            self.cache.reserve(len(tokens))
        positions = past + np.asarray(offsets)
        mask = target.masks(ancestors, positions, past)
        ids = torch.from_numpy(tokens)[None].to(target.device)
        where = None if self._plain else torch.from_numpy(positions.astype(np.int64))[None].to(target.device)
        return target.run(ids, where, mask, self.cache, hidden, keep)


def choose_device(device: str) -> torch.device:
    """``auto``, ``cpu`` or ``cuda[:N]`` as a device that is there."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError:
        chosen = None
    if chosen is None or chosen.type not in ("cpu", "cuda"):
        raise AdedError(f"unknown device '{device}'; use auto, cpu or cuda")
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise AdedError("no CUDA card is to be found; use --device cpu or auto")
    if chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
        raise AdedError(f"there is no {device}; this machine has {torch.cuda.device_count()} CUDA cards, counted from 0")
    return chosen


def choose_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """``auto`` or a name of ``DTYPES``."""
    if dtype == "auto":
        if device.type == "cuda":
            return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
        return torch.float32
    if dtype not in DTYPES:
        raise AdedError(f"unknown dtype '{dtype}'; use auto, {', '.join(DTYPES)}")
    return DTYPES[dtype]


def _load_stock(name: str, spec: str, dtype: torch.dtype, placement: dict[str, Any]) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()  # weights load in a second; downloads keep their own bars
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
        try:
            model = AutoModelForCausalLM.from_pretrained(name, dtype=dtype, attn_implementation="sdpa", **placement)
        except ValueError as error:
            if "attention" not in str(error):
                raise
            model = AutoModelForCausalLM.from_pretrained(name, dtype=dtype, attn_implementation="eager", **placement)
    except Exception as error:  # hub, configuration and weights each raise kinds of their own
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:200]
        raise AdedError(
            f"cannot load the model '{spec}' ({reason}); "
            "give 'default', a folder, a .gguf file, or a hub id while a network is there"
        ) from None
    return model, tokenizer


def _stock_cache(target: TargetModel) -> Any:
    from transformers import DynamicCache

    return DynamicCache(config=target.config)


def _eos_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    found = [
        getattr(model.generation_config, "eos_token_id", None),
        getattr(model.config.get_text_config(), "eos_token_id", None),
    ]
    found.append(getattr(tokenizer, "eos_token_id", None))
    ids: set[int] = set()
    for value in found:
        ids.update(value if isinstance(value, (list, tuple)) else [] if value is None else [value])
    return frozenset(int(i) for i in ids)


def _context_limit(config: Any) -> tuple[int, str | None]:
    """Most tokens in one text. Rotary embeddings that change with the length are used up to where they change."""
    names = ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx", "seq_length")
    limit = next((int(v) for v in (getattr(config, name, None) for name in names) if v), 4096)
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    if isinstance(rope, dict) and rope.get("rope_type", rope.get("type")) in ("dynamic", "longrope"):
        original = rope.get("original_max_position_embeddings") or getattr(config, "original_max_position_embeddings", None)
        if original and int(original) < limit:
            return int(original), f"the context is held to {original} tokens, where this model's rotary embedding changes"
    return limit, None
