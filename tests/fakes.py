"""Small fakes for tests: tiny random models of many families, and a tokenizer without files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from aded.core.tree import DraftTree
from aded.drafters.base import Context, Drafter

VOCAB = 97
WINDOW = 8
_SMALL = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_MOE = {"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
_GPT2 = {"vocab_size": VOCAB, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256, "bos_token_id": 1, "eos_token_id": 2}

# family -> (class prefix, settings of the configuration)
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", _SMALL),
    "gpt2": ("GPT2", _GPT2),
    "gpt_neox": ("GPTNeoX", _SMALL),
    "opt": ("OPT", {**_SMALL, "ffn_dim": 64, "word_embed_proj_dim": 32}),
    "qwen2": ("Qwen2", _SMALL),
    "qwen3": ("Qwen3", {**_SMALL, "head_dim": 8}),
    "phi3": ("Phi3", _SMALL),
    "olmo2": ("Olmo2", _SMALL),
    "stablelm": ("StableLm", _SMALL),
    "granite": ("Granite", _SMALL),
    "cohere": ("Cohere", _SMALL),
    "mixtral": ("Mixtral", {**_SMALL, **_MOE}),
    "smollm3": ("SmolLM3", _SMALL),
    "mistral_sliding": ("Mistral", {**_SMALL, "sliding_window": WINDOW}),
    "qwen2_sliding": ("Qwen2", {**_SMALL, "use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1}),
    "gemma2_sliding": ("Gemma2", {**_SMALL, "head_dim": 8, "sliding_window": WINDOW}),
    "gemma3_sliding": ("Gemma3", {**_SMALL, "head_dim": 8, "sliding_window": WINDOW}),
}
CHAIN_FAMILIES = {
    "bloom": ("Bloom", {"vocab_size": VOCAB, "hidden_size": 32, "n_layer": 2, "n_head": 4, "bos_token_id": 1, "eos_token_id": 2})
}
PLAIN_FAMILIES = {
    "qwen3_next": (
        "Qwen3Next",
        {
            **_SMALL,
            **_MOE,
            "head_dim": 8,
            "linear_num_value_heads": 4,
            "linear_num_key_heads": 2,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
            "layer_types": ["linear_attention", "full_attention"],
            "shared_expert_intermediate_size": 32,
        },
    )
}


def tiny_model(family: str, seed: int = 0, dtype: torch.dtype = torch.float32, scale: float = 4.0, **changes: Any) -> Any:
    """A random Transformers model of a family; its weights are scaled so that its greedy text does not repeat one token."""
    import transformers

    prefix, settings = {**FAMILIES, **CHAIN_FAMILIES, **PLAIN_FAMILIES}[family]
    name = f"{prefix}Text" if prefix == "Gemma3" else prefix
    config = getattr(transformers, f"{name}Config")(**{**settings, **changes})
    torch.manual_seed(seed)
    head = "LMHeadModel" if prefix == "GPT2" else "ForCausalLM"
    model = getattr(transformers, f"{prefix}{head}")._from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(scale)
    return model.to(dtype).eval()


class WordTokenizer:
    """Token i is the text ``w<i> ``; has the part of the interface that the engine uses."""

    bos_token_id = 1
    eos_token_id = 2
    all_special_ids = (0, 1, 2)
    chat_template = None

    def __init__(self, size: int = VOCAB, words: dict[int, str] | None = None) -> None:
        self.size = size
        self.words = words or {}

    def get_vocab(self) -> dict[str, int]:
        return {f"w{i}": i for i in range(self.size)}

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return {"input_ids": [3 + sum(map(ord, word)) % (self.size - 3) for word in text.split()]}

    def convert_ids_to_tokens(self, token: int) -> str:
        return f"<{token}>"

    def decode(self, ids: Any, skip_special_tokens: bool = False, clean_up_tokenization_spaces: bool = False) -> str:
        return "".join(
            self.words.get(int(i), f"w{int(i)} ") for i in ids if not (skip_special_tokens and int(i) in self.all_special_ids)
        )


def save_tokenizer(folder: Path, chat_template: str | None = None) -> None:
    """Save a small real tokenizer, whose token i is the word ``w<i>``, into a folder."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {f"w{i}": i for i in range(VOCAB)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    saved = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="w1", eos_token="w2", unk_token="w0")
    saved.chat_template = chat_template
    saved.save_pretrained(folder)


def tiny_target(family: str = "llama", seed: int = 0, **options: Any) -> Any:
    """A ``TargetModel`` over a tiny random model."""
    from aded.engine.target_model import TargetModel

    return TargetModel(tiny_model(family, seed, **options), WordTokenizer(), family, family)


def alone(target: Any, prompt: list[int], count: int, rule: Any = None) -> list[int]:
    """An independent reference: token by token without KV cache and tree, up to the first end-of-text token."""
    from aded.sampling.logits_pipeline import Rule
    from aded.sampling.settings import SamplingSettings

    rule = rule or Rule(SamplingSettings())
    ids = list(prompt)
    with torch.inference_mode():
        for _ in range(count):
            output = target.model(input_ids=torch.tensor([ids], device=target.device), use_cache=False)
            ids.append(rule.choose(output.logits[0, -1], ids)[0])
            if ids[-1] in target.eos_ids:
                break
    return ids[len(prompt) :]


class OracleDrafter(Drafter):
    """Drafts random trees that contain the true token with probability ``hit`` per depth: many accepted, many rejected nodes."""

    def __init__(
        self, truth: list[int], hit: float = 0.8, seed: int = 0, vocab: int = VOCAB, width: int = 2, depth: int = 5
    ) -> None:
        self.truth, self.hit, self.vocab, self.width, self.depth = truth, hit, vocab, width, depth
        self.rng = np.random.default_rng(seed)

    def propose(self, context: Context, budget: int) -> DraftTree:
        done = len(context.tokens) - context.prompt_length
        ahead = self.truth[done : done + self.depth]
        tokens, parents, good = [context.root], [-1], 0
        for depth, true in enumerate(ahead):
            children = self.rng.choice(self.vocab, self.width, replace=False).tolist()
            if true not in children and self.rng.random() < self.hit:
                children[self.rng.integers(self.width)] = true
            base, hits = len(tokens), good == 0 or tokens[good] == ahead[depth - 1]
            tokens += children
            parents += [good] * len(children)
            good = base + children.index(true) if hits and true in children else base
            if len(tokens) > budget:
                break
        n = min(len(tokens), budget)
        return DraftTree(np.array(tokens[:n]), np.array(parents[:n]))


def cost(seconds: float) -> Any:
    """A cost model: every forward pass takes ``seconds``, for every context length and number of nodes."""
    return lambda context, nodes: np.full(nodes, seconds)


def near(target: Any, factor: float = 1.03) -> Any:
    """A draft model similar to the target: its layers, with slightly changed weights."""
    from aded.draft_models.draft_model import pruned_model, unshared_parameters
    from aded.engine.target_model import TargetModel

    draft = TargetModel(pruned_model(target.model, [0, 1]), target.tokenizer, "draft", "draft")
    with torch.no_grad():
        for parameter in unshared_parameters(draft.model, target.model).values():
            parameter.mul_(factor)
    return draft


class TableModel(torch.nn.Module):
    """A model whose logits depend only on the last token, with the part of the Transformers interface that the engine uses.

    Args:
        table: logits after each token, float32 ``[vocab, vocab]``.
    """

    def __init__(self, table: torch.Tensor, context: int = 256) -> None:
        import types

        super().__init__()
        self.table = torch.nn.Parameter(table, requires_grad=False)
        self.config: Any = types.SimpleNamespace(
            vocab_size=len(table), max_position_embeddings=context, num_hidden_layers=1, eos_token_id=None
        )
        self.config.get_text_config = lambda: self.config
        self.config.to_json_string = lambda: f"table {len(table)}"
        self.generation_config = self.config
        self.device, self.dtype = table.device, table.dtype

    def forward(
        self, input_ids: Any, attention_mask: Any = None, position_ids: Any = None, past_key_values: Any = None,
        use_cache: bool = False, output_hidden_states: bool = False, logits_to_keep: int = 0,
    ) -> Any:  # fmt: skip
        import types

        if past_key_values is not None:
            nothing = torch.zeros(1, 1, input_ids.shape[1], 1)
            past_key_values.update(nothing, nothing, 0)
        return types.SimpleNamespace(logits=self.table[input_ids[:, -logits_to_keep:]], hidden_states=None)


def table_target(probabilities: Any, **options: Any) -> Any:
    """A ``TargetModel`` that writes token j after token i with probability ``probabilities[i, j]``, at temperature 1."""
    from aded.engine.target_model import TargetModel

    table = torch.tensor(probabilities, dtype=torch.float64).log().float()
    target = TargetModel(TableModel(table, **options), WordTokenizer(), "table", "table")
    target.eos_ids = frozenset()
    return target
