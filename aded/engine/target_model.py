"""The target: a stock language model, its tokenizer, and a cache of its own for every decode.

Knows nothing of how drafts are made. A tree of tokens is verified in one forward pass: an additive mask lets every
node see the committed text and its own ancestors (SpecInfer, arXiv 2305.09781; Medusa, arXiv 2401.10774).
"""

from __future__ import annotations

import gc
import hashlib
import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import torch

import aded
from aded.core.cuda_graph import COMPILED_BUCKETS, NODE_BUCKETS, node_bucket
from aded.core.errors import AdedError, check_text, first_line
from aded.core.lru import recent
from aded.core.trace import Footprint
from aded.core.tree import DraftTree
from aded.engine import cost_model, distributed, load_check, weights
from aded.engine.attention_mask import Masks
from aded.engine.cost_model import StepCost
from aded.engine.kv_cache import KVCache
from aded.engine.layers import tree_attention
from aded.engine.layers.fused_linear import join_projections
from aded.engine.layers.prepacked_linear import is_packed, pack_linears
from aded.engine.loader import choose_device, choose_dtype, context_limit, eos_ids, load_stock
from aded.engine.session import TargetSession
from aded.engine.step_graph import StepPool
from aded.engine.tokenizer import tokenizer_fingerprint

T = TypeVar("T")
Mode = Literal["tree", "chain", "plain"]
"""What the model can verify in one pass: any tree, one chain, or a single token."""
MOST_SHARED = 256
NO_COMPILE = "--compile is for models whose steps are captured on a CUDA card; leave it out"


class TargetModel:
    """A causal language model that verifies draft trees.

    Attributes:
        spec: what was asked for; ``label``: a short name to show.
        mode: what it can verify, found by a self-test at load; ``notice``: what the user should know of it, or None.
        context_limit: most tokens of prompt and output together.
        eos_ids: token ids that end a text.
        fingerprint: of the tokenizer (see ``aded.engine.tokenizer``).
        attention: whose attention a tree goes through: ``stock``, or that of ``aded.engine.layers.tree_attention``.
        lock: held while a decode makes a step, for decodes share buffers of the model and its draft models: threads take turns.
    """

    def __init__(
        self, model: Any, tokenizer: Any, spec: str = "custom", label: str = "custom", tensor_parallel: bool = False
    ) -> None:
        self.lock = threading.RLock()
        self.model = model.eval()
        self.shared = tensor_parallel
        self.packed = is_packed(model)
        self.spread = len({p.device for p in model.parameters()}) > 1
        self.tokenizer = tokenizer
        self.spec = spec
        self.label = label
        self.config = model.config.get_text_config()
        self.device = model.device
        self.dtype = model.dtype
        self.vocab_size = int(self.config.vocab_size)
        self.context_limit, self.notice = context_limit(self.config)
        self.eos_ids = eos_ids(model, tokenizer)
        self.fingerprint = tokenizer_fingerprint(tokenizer) if tokenizer else f"none-{self.vocab_size}"
        parameters = inspect.signature(model.forward).parameters
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"
        self._keeps_logits = "logits_to_keep" in parameters
        self.mode: Mode = "tree"
        self.masks = Masks(self.config, self.dtype, self.device)
        self.pool: StepPool | None = None
        self.step_sizes: tuple[int, ...] = NODE_BUCKETS[:-1]
        self._cost: StepCost | None = None
        self._shared: dict[str, Any] = {}
        self._forward: Any = model
        self.attention = "stock"
        on_one_card = self.device.type == "cuda" and not (self.shared or self.spread)
        if on_one_card:
            join_projections(model)
        self._find_mode()
        if on_one_card and self.mode == "tree":
            self._set_attention(tree_attention.attach(model))
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
        if compile and where.type != "cuda":
            raise AdedError(NO_COMPILE)
        name = weights.resolve(spec, progress)
        progress("loading the model", None)
        placement: dict[str, Any] = {"device_map": device_map} if device_map else {}
        if tensor_parallel:
            placement = distributed.tensor_parallel_arguments()
        model, tokenizer = load_stock(name, spec, kind, placement)
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
        known = weights.DEFAULT if spec in weights.DEFAULTS else spec
        target = cls(model, tokenizer, known, weights.label_of(spec), tensor_parallel)
        if compile:
            target.compile()
        return target

    def fix_steps(self, capture: bool) -> None:
        """Run steps in fixed shapes from now on, captured as CUDA graphs if ``capture``; stay as it is where that goes wrong."""
        self.pool = StepPool(self, capture)
        if load_check.fixed_steps_pass(self):
            return
        if self.attention != "stock":
            tree_attention.detach(self.model)
            self._set_attention(False)
            self.fix_steps(capture)
            return
        self.pool = None
        self._add_notice("steps of this model cannot be captured: they run one operation at a time")

    @property
    def captures(self) -> bool:
        """Whether steps are captured: then each has ended when its result is read."""
        return self.pool is not None and self.device.type == "cuda"

    def _set_attention(self, attached: bool) -> None:
        self.attention, self.masks.attached = tree_attention.NAME if attached else "stock", attached

    def padded(self, nodes: int) -> int:
        """How many nodes a step over a tree of ``nodes`` nodes computes, and so how many cache slots it writes."""
        return nodes if self.pool is None else node_bucket(nodes, self.compiled)

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
            raise AdedError(NO_COMPILE)
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
        """What a step costs here by tree size: measured at first use, then kept (see ``aded.drafters.tree_budget``)."""
        if self._cost is None:
            self._cost = cost_model.step_cost(self)
        return self._cost

    @property
    def measured_cost(self) -> StepCost | None:
        """The same where it has been measured; asking measures nothing."""
        return self._cost

    @property
    def cost_fingerprint(self) -> str:
        """A hash of all that a step's cost depends on (hex, 16 characters)."""
        parts = [self.config.to_json_string(), self.device_name, str(self.dtype), torch.__version__, str(self.pool is not None)]
        parts += [str(self.compiled), str(self.packed), self.attention, aded.__version__]
        return hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]

    def shared_by_decodes(self, key: str, make: Callable[[], T]) -> T:
        """What decodes on this model have in common, such as what a method's predictions were worth; no tokens of any text.

        Kept of the ``MOST_SHARED`` keys that were asked for last: visitors set methods as they like.
        """
        return recent(self._shared, key, make, MOST_SHARED)

    def session(self, capacity: int = 1024) -> TargetSession:
        """A decode of its own on this model, with room for ``capacity`` tokens (it grows)."""
        return TargetSession(self, capacity)

    def encode(self, text: str, raw: bool = False) -> list[int]:
        """Prompt text as token ids: through the chat template if the model has one, bare if ``raw``.

        Raises:
            AdedError: the text is empty, or it and at least one new token do not fit the context.
        """
        check_text(text, "the prompt")
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
            raise AdedError(f"the model's chat template failed ({first_line(error)}); use --raw for bare text") from None
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
        return distributed.agree(value) if self.shared else value

    @property
    def footprint(self) -> Footprint | None:
        """What is held on the card, or None elsewhere."""
        if self.device.type != "cuda":
            return None
        captured, seconds = (self.pool.captured, self.pool.capture_seconds) if self.pool is not None else (0, 0.0)
        return Footprint(torch.cuda.memory_allocated(self.device), captured, round(seconds, 3))

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

    def _find_mode(self) -> None:
        """Try trees, then chains, then single tokens on this very model, and keep the first that is right."""
        for kind in self.masks.candidates():
            self.mode, self.masks.kind = "tree", kind
            if load_check.passes(self, load_check.TREE):
                return
        steps: tuple[tuple[Mode, tuple[int, ...]], ...] = (("chain", load_check.CHAIN), ("plain", load_check.SINGLE))
        for mode, draft in steps:
            self.mode, self.masks.kind = mode, "none"
            if load_check.passes(self, draft):
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
