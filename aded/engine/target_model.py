"""The target model, which verifies draft trees: a stock causal language model of Transformers, and its tokenizer.

Independent of how drafts are made. A tree is verified in one forward pass with tree attention: an additive mask lets each node
attend to the committed text, its ancestors and itself (SpecInfer, arXiv 2305.09781; Medusa, arXiv 2401.10774). Each decode has
its KV cache.
"""

from __future__ import annotations

import gc
import hashlib
import inspect
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Literal, TypeVar

import numpy as np
import torch

import aded
from aded.core.chat import Chat, Turn
from aded.core.compilation.cuda_graph import node_bucket
from aded.core.errors import AdedError, check_text, first_line
from aded.core.lru import recent
from aded.core.trace import Footprint
from aded.core.tree import DraftTree
from aded.engine import cost_model, distributed, load_check
from aded.engine.attention_mask import AttentionMasks
from aded.engine.cost_model import StepCost
from aded.engine.kv_cache import KVCache
from aded.engine.layers import fused_layers, tree_attention
from aded.engine.layers.fused_layers import FusedLayers
from aded.engine.layers.fused_linear import fuse_projections
from aded.engine.layers.prepacked_linear import is_prepacked, prepack_linears
from aded.engine.loading import weights
from aded.engine.loading.loader import (
    AttentionKind,
    choose_attention,
    choose_device,
    choose_dtype,
    context_limit,
    eos_ids,
    load_stock,
)
from aded.engine.loading.tokenizer import continued, tokenizer_fingerprint
from aded.engine.outputs import DrafterNeeds
from aded.engine.session import TargetSession
from aded.engine.step_graph import StepPool

T = TypeVar("T")
Mode = Literal["tree", "chain", "plain"]
"""What the model can verify in one forward pass: any tree, a chain, or a single token."""
MAX_SHARED = 256
"""Maximum number of values kept by ``TargetModel.shared_by_decodes``."""


class TargetModel:
    """A causal language model that verifies draft trees.

    Args:
        model: a causal language model of Transformers; on a single GPU its layers may be fused and its attention replaced.
        tokenizer: its tokenizer; None if only token ids are decoded.
        tensor_parallel: whether each layer is sharded over the processes started by torchrun.
        attention: tree attention to use on a single GPU, if the model supports it.

    Attributes:
        spec: the model as the user named it; ``label``: a short display name.
        config: the configuration of the text model; ``vocab_size``: number of logits.
        mode: what the model can verify, found by the load check; ``notice``: a message to the user about limitations, or None.
        context_limit: maximum number of tokens of prompt and output together.
        eos_ids: token ids that end a text.
        fingerprint: hash of the tokenizer's vocabulary (see ``aded.engine.loading.tokenizer``).
        prepacked: whether linear layers have prepacked weights; ``multi_device``: whether several devices hold the parameters.
        masks: builds the attention masks.
        pool: caches and graphs of fixed-shape steps; None if forward passes have the shape of the tree.
        attention: attention used for trees in fixed-shape steps (see ``aded.engine.loading.loader.AttentionKind``).
        lock: held during a step, because decodes share buffers of the model and its draft models.
        draft_models: the models that draft for this one, by file or name; ``close`` and ``release_memory`` include them.

    Raises:
        AdedError: the model cannot be decoded with a KV cache.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        spec: str = "custom",
        label: str = "custom",
        tensor_parallel: bool = False,
        attention: AttentionKind = "triton",
    ) -> None:
        self.lock = threading.RLock()
        self.model = model.eval()
        self.tensor_parallel = tensor_parallel
        self.prepacked = is_prepacked(model)
        self.multi_device = len({p.device for p in model.parameters()}) > 1
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
        self._has_logits_to_keep = "logits_to_keep" in parameters
        self.mode: Mode = "tree"
        self.masks = AttentionMasks(self.config, self.dtype, self.device)
        self.pool: StepPool | None = None
        self._cost: StepCost | None = None
        self.draft_models: dict[str, TargetModel] = {}
        self._shared: dict[str, Any] = {}
        self.attention: AttentionKind = "sdpa"
        self.fused_layers: FusedLayers | None = None
        single_gpu = self.device.type == "cuda" and not (self.tensor_parallel or self.multi_device)
        if single_gpu:
            fuse_projections(model)
        self._detect_mode()
        if single_gpu and self.mode == "tree":
            if attention != "sdpa":
                self._set_tree_attention(attention if tree_attention.attach(model) else "sdpa")
            self.use_fixed_shapes()
        if self.attention != attention != "triton":
            self._add_notice(f"this model does not support --attention {attention}: trees are verified with {self.attention}")

    @classmethod
    def load(
        cls,
        spec: str = weights.DEFAULT,
        device: str = "auto",
        dtype: str = "auto",
        progress: weights.Progress = weights.quiet,
        device_map: str | None = None,
        tensor_parallel: bool = False,
        attention: str = "triton",
    ) -> TargetModel:
        """Load a model and check what it can verify.

        Args:
            spec: ``default``, a hub id, a folder, or a ``.gguf`` file.
            device: ``auto`` (CUDA if available), ``cpu`` or ``cuda[:N]``.
            dtype: ``auto`` (on CUDA bfloat16, or float16 if the GPU lacks it; float32 on the CPU), ``float32``, ``bfloat16`` or
                ``float16``.
            progress: called with a message and the fraction done, None if unknown.
            device_map: ``auto`` distributes the layers over all GPUs (accelerate); None: one device.
            tensor_parallel: shard each layer over the processes started by torchrun.
            attention: tree attention on a single GPU, if the model supports it: ``triton``, ``flex`` or ``sdpa``. On several GPUs
                and on the CPU it is ``sdpa``; ``flex`` is refused on the CPU.

        Raises:
            AdedError: unknown spec, device, dtype or attention; not a causal language model, or it cannot be decoded with a KV
                cache; a download failed; out of memory.
        """
        chosen_device = choose_device(device)
        chosen_attention = choose_attention(attention, chosen_device)
        chosen_dtype = choose_dtype(dtype, chosen_device)
        name = weights.resolve(spec, progress)
        progress("loading the model", None)
        placement: dict[str, Any] = {"device_map": device_map} if device_map else {}
        if tensor_parallel:
            placement = distributed.tensor_parallel_arguments()
        model, tokenizer = load_stock(name, spec, chosen_dtype, placement)
        try:
            if not placement:
                model.to(chosen_device)
        except torch.OutOfMemoryError:
            raise AdedError(
                f"{spec} does not fit the memory of {chosen_device}; use a smaller model, --dtype bfloat16 or --device-map auto"
            ) from None
        if chosen_device.type == "cpu" and not tensor_parallel:
            prepack_linears(model)
        progress("checking that the model verifies trees", None)
        known = weights.DEFAULT if weights.is_default(spec) else spec
        return cls(model, tokenizer, known, weights.label_of(spec), tensor_parallel, chosen_attention)

    def use_fixed_shapes(self) -> None:
        """Use fixed-shape steps from now on, on a GPU captured as CUDA graphs; if the load check fails, only ``notice`` changes.

        The fastest layers that pass the load check are used: fused ones, stock ones with tree attention, stock ones with SDPA.
        """
        self.fused_layers = fused_layers.attach(self.model, int(self.config.num_hidden_layers))
        self.pool = StepPool(self)
        if load_check.fixed_steps_pass(self):
            return
        if self.fused_layers is not None:
            self._detach_fused_layers()
            if load_check.fixed_steps_pass(self):
                return
        if self.attention != "sdpa":
            tree_attention.detach(self.model)
            self._set_tree_attention("sdpa")
            self.pool = StepPool(self)
            if load_check.fixed_steps_pass(self):
                return
        self.pool = None
        self._add_notice("steps of this model cannot be captured: they run one operation at a time")

    @property
    def captures(self) -> bool:
        """Whether steps are captured as CUDA graphs; then a step is complete when its result has been read."""
        return self.pool is not None and self.device.type == "cuda"

    def _detach_fused_layers(self) -> None:
        """Use stock decoder layers in all forward passes."""
        if self.fused_layers is not None:
            fused_layers.detach(self.model)
            self.fused_layers = None
        if self.pool is not None:
            self.pool.clear()

    def _set_tree_attention(self, kind: AttentionKind) -> None:
        self.attention, self.masks.attached, self.masks.flex = kind, kind != "sdpa", kind == "flex"

    def padded_nodes(self, nodes: int) -> int:
        """Number of nodes with padding of a tree of ``nodes`` nodes in a step, which writes this many cache slots."""
        return nodes if self.pool is None else node_bucket(nodes)

    def close(self) -> None:
        """Free the memory of this model and its draft models; the object cannot be used afterwards."""
        for draft in self.draft_models.values():
            draft.close()
        self.draft_models.clear()
        self._shared.clear()  # parts of the model, such as the logit lens
        self.model = self.fused_layers = None
        if self.pool is not None:
            self.pool.clear()
            self.pool = None
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def release_memory(self) -> None:
        """Free unused memory of this model and its draft models: idle KV caches with their graphs, and the allocator's cache."""
        for draft in self.draft_models.values():
            draft.release_memory()
        if self.pool is not None:
            self.pool.clear()
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    @property
    def cost(self) -> StepCost:
        """Time of a step by tree size and context length, measured at first use (see ``aded.engine.cost_model``)."""
        if self._cost is None:
            self._cost = cost_model.step_cost(self)
        return self._cost

    def forget_cost(self) -> None:
        """Discard the measured cost, for example because the machine was busy; the next use measures it again."""
        self._cost = None
        cost_model.forget_step_cost(self)

    @property
    def measured_cost(self) -> StepCost | None:
        """``cost`` if it has been measured, else None."""
        return self._cost

    @property
    def cost_fingerprint(self) -> str:
        """A hash of everything that the cost of a step depends on (16 hex characters)."""
        parts = [self.config.to_json_string(), self.device_name, str(self.dtype), torch.__version__, str(self.pool is not None)]
        parts += [str(self.prepacked), self.attention, str(self.fused_layers is not None), aded.__version__]
        return hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]

    def shared_by_decodes(self, key: str, make: Callable[[], T]) -> T:
        """A value shared by all decodes on this model, such as acceptance statistics of a method; it must hold no user's text.

        Args:
            key: identifies the value; the ``MAX_SHARED`` most recently used ones are kept.
            make: makes the value if none is kept.
        """
        return recent(self._shared, key, make, MAX_SHARED)

    def session(self, capacity: int = 1024, needs: DrafterNeeds | None = None) -> TargetSession:
        """Start a decode.

        Args:
            capacity: initial capacity of the KV cache in tokens; it grows as needed.
            needs: what the steps will return; the decode then gets a cache with captured graphs of such steps, if there is one.
        """
        return TargetSession(self, capacity, needs=needs)

    def encode(self, prompt: str | Chat, raw: bool = False) -> list[int]:
        """Token ids of a prompt, with the model's chat template if it has one.

        Args:
            prompt: a text, which is one turn of the user, or a conversation.
            raw: do not apply the chat template.

        Raises:
            AdedError: the prompt is empty, not valid Unicode, or so long that the context has no capacity for a new token; the
                chat template failed; or the prompt has several turns and there is no chat template.
        """
        chat = prompt if isinstance(prompt, Chat) else Chat((Turn("user", prompt),))
        check_text(chat.text, "the prompt")
        if not chat.text.strip():
            raise AdedError("the prompt is empty; write one, with --prompt or --prompt-file on the command line")
        if not raw and getattr(self.tokenizer, "chat_template", None):
            ids = self._encode_chat(chat)
        elif len(chat.turns) == 1:
            ids = self.tokenizer(chat.text, add_special_tokens=True)["input_ids"]
        else:
            raise AdedError("this model has no chat template for several turns; give one text")
        if not ids:
            start = self.tokenizer.bos_token_id if self.tokenizer.bos_token_id is not None else min(self.eos_ids, default=0)
            ids = [start]
        return self.check_prompt(ids)

    def _encode_chat(self, chat: Chat) -> list[int]:
        turns = [{"role": turn.role, "content": turn.text} for turn in chat.turns]
        try:
            prompt = self.tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
        except Exception as error:  # a template is a program and may raise anything
            raise AdedError(f"the model's chat template failed ({first_line(error)}); use --raw for bare text") from None
        return continued(self.tokenizer, chat.ids, self.tokenizer(prompt, add_special_tokens=False)["input_ids"])

    def check_prompt(self, prompt: Sequence[int]) -> list[int]:
        """The token ids of a prompt as a list, checked.

        Raises:
            AdedError: they are not one-dimensional integers, there are none, there are so many that the context has no capacity
                for a new token, or an id is outside the vocabulary.
        """
        ids = _token_ids(prompt)
        if len(ids) >= self.context_limit:
            raise AdedError(
                f"the prompt has {len(ids)} tokens and the model's context {self.context_limit}; shorten it by at least "
                f"{len(ids) - self.context_limit + 1} tokens"
            )
        if not ids:
            raise AdedError("the prompt has no tokens; give at least one")
        if (unknown := next((token for token in ids if not 0 <= token < self.vocab_size), None)) is not None:
            raise AdedError(
                f"the prompt has the token id {unknown}, and {self.label} only 0 to {self.vocab_size - 1}; give ids of this "
                "model, or the model with its own tokenizer"
            )
        return ids

    def check_open(self) -> None:
        """Raise ``AdedError`` if the model has been closed."""
        if self.model is None:
            raise AdedError(f"the model {self.label} has been closed; load it again")

    def broadcast(self, value: T) -> T:
        """Returns ``value``; under tensor parallelism that of rank 0, so that all processes continue with the same one."""
        return distributed.broadcast(value) if self.tensor_parallel else value

    @property
    def footprint(self) -> Footprint | None:
        """Allocated GPU memory in bytes, number of captured steps and time of their capture; None on other devices."""
        if self.device.type != "cuda":
            return None
        captured, seconds = (self.pool.captured, self.pool.capture_seconds) if self.pool is not None else (0, 0.0)
        return Footprint(torch.cuda.memory_allocated(self.device), captured, round(seconds, 3))

    def synchronize(self) -> None:
        """Wait for the device, so that wall-clock times include its work."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def verifiable_part(self, tree: DraftTree) -> DraftTree:
        """The subtree of a draft that this model can verify in one forward pass: all of it, its first chain, or its root."""
        if self.mode == "plain":
            return tree.select([0])
        return tree.first_chain() if self.mode == "chain" and not tree.is_chain else tree

    @property
    def device_name(self) -> str:
        """Name of the GPU, or CPU and the number of threads."""
        if self.device.type == "cuda":
            return torch.cuda.get_device_name(self.device)
        return f"CPU, {torch.get_num_threads()} threads"

    @torch.inference_mode()
    def forward(
        self, ids: torch.Tensor, positions: torch.Tensor | None, mask: Any, cache: Any, hidden: bool = False, keep: int = 0
    ) -> Any:
        """One forward pass of the stock model.

        Args:
            ids, positions: int64 ``[1, n]``; positions: None for consecutive ones after the cache.
            mask: see ``aded.engine.attention_mask``.
            cache: the KV cache; None for none.
            hidden: whether to return the hidden states of all layers.
            keep: number of last positions whose logits are needed, 0 for all; a model without this option returns all.

        Returns:
            The output object of Transformers, with ``logits`` ``[1, n or keep, vocab]``.
        """
        arguments: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, self._cache_argument: cache}
        arguments |= {"use_cache": cache is not None, "output_hidden_states": hidden}
        if positions is not None:
            arguments["position_ids"] = positions
        if keep and self._has_logits_to_keep:
            arguments["logits_to_keep"] = keep
        return self.model(**arguments)

    def forward_fixed(self, ids: torch.Tensor, positions: torch.Tensor, mask: Any, cache: KVCache, hidden: bool) -> Any:
        """The forward pass of a fixed-shape step, with fused layers if attached; arguments and result as in ``forward``."""
        arguments: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
        arguments |= {self._cache_argument: cache, "use_cache": True, "output_hidden_states": hidden}
        with nullcontext() if self.fused_layers is None else self.fused_layers.step(cache):
            return self.model(**arguments)

    def _detect_mode(self) -> None:
        """Run the load check for trees, then chains, then single tokens, and keep the first that passes."""
        for mask_kind in self.masks.candidates():
            self.mode, self.masks.kind = "tree", mask_kind
            if load_check.passes(self, load_check.TREE):
                return
        fallbacks: tuple[tuple[Mode, tuple[int, ...]], ...] = (("chain", load_check.CHAIN), ("plain", load_check.SINGLE))
        for mode, draft in fallbacks:
            self.mode, self.masks.kind = mode, "none"
            if load_check.passes(self, draft):
                capability = (
                    "chains only: of a draft tree, its first path is verified"
                    if mode == "chain"
                    else "one token per step: drafting is off"
                )
                self._add_notice(f"this model verifies {capability}")
                return
        raise AdedError(f"{self.label} cannot be decoded with a cache; use another model")

    def _add_notice(self, text: str) -> None:
        self.notice = f"{self.notice}; {text}" if self.notice else text


def _token_ids(prompt: Any) -> list[int]:
    """A sequence of token ids as a list; raises ``AdedError`` if it is not one-dimensional integers."""
    try:
        ids = np.asarray(prompt)
    except (TypeError, ValueError, RuntimeError):
        ids = np.array(None)
    if ids.ndim != 1 or (len(ids) and ids.dtype.kind not in "iu"):
        raise AdedError("the prompt is neither text nor a list of token ids; give one of them")
    return ids.tolist()
