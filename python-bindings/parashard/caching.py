"""Entries of a program that generate tokens with a KV cache: `prefill` for the prompt, and `decode` for one token per row."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from parashard.errors import InputError, Unsupported
from parashard.export import export, in_mode

__all__ = ["Generation", "export_entries"]


@dataclasses.dataclass(frozen=True)
class Generation:
    """The sizes of a KV cache."""

    batch_size: int  # sequences that are generated together; with beams, all beams of all prompts
    max_length: int  # tokens of a sequence, including the prompt

    @classmethod
    def of(cls, given: Generation | dict[str, Any]) -> Generation:
        """Returns the sizes that a user gives as a dict or as a `Generation`. Raises InputError for other values."""
        try:
            sizes = given if isinstance(given, Generation) else cls(**given)
        except TypeError:
            raise InputError(f"generation is {given!r}; expected {{\"batch_size\": B, \"max_length\": L}}") from None
        if not all(isinstance(size, int) and size > 0 for size in dataclasses.astuple(sizes)):
            raise InputError(f"generation is {given!r}; batch_size and max_length are numbers above 0")
        return sizes


class CachedStep(torch.nn.Module):
    """A causal language model of Hugging Face whose keys and values are in buffers. Has the parameters of the model, with their names."""

    def __init__(self, model, sizes):
        super().__init__()
        self.original = (model,)  # in a tuple, so that it is not a submodule
        self.sizes = sizes
        self._parameters, self._modules = model._parameters, model._modules
        self._buffers = dict(model._buffers)
        self._non_persistent_buffers_set = set(model._non_persistent_buffers_set)
        for number, shape in enumerate(find_cache_shapes(model, sizes)):
            for kind in ("keys", "values"):
                self.register_buffer(f"cache_{kind}_{number}", torch.zeros(shape, dtype=model.dtype), persistent=False)

    def compute(self, input_ids, mask, position_ids, slots):
        """Returns the logits of all tokens. Writes their keys and values to the slots of the cache.

        mask: bools [rows, 1, queries, slots], true if the query attends to the slot.
        """
        from transformers import StaticCache

        model, = self.original
        cache = StaticCache(config=model.config, max_cache_len=self.sizes.max_length)
        for number, layer in enumerate(cache.layers):
            layer.keys, layer.values = self._buffers[f"cache_keys_{number}"], self._buffers[f"cache_values_{number}"]
            layer.is_initialized = True
        if model.config._attn_implementation == "eager":  # adds the mask to the scores
            mask = torch.where(mask, 0.0, torch.finfo(model.dtype).min).to(model.dtype)
        options = {"attention_mask": mask, "position_ids": position_ids, "cache_position": slots}
        return model(input_ids=input_ids, past_key_values=cache, use_cache=True, **options).logits


class Prefill(CachedStep):
    """Fills the cache with padded prompts. Returns the logits of the last token of each row."""

    def forward(self, input_ids, attention_mask, position_ids, cache_slot):
        slots = torch.arange(self.sizes.max_length)
        mask = (slots[:, None] >= slots) & attention_mask[:, None, None, :].bool()
        logits = self.compute(input_ids, mask, position_ids, slots)
        return logits.gather(1, cache_slot.view(1, 1, 1).expand(logits.shape[0], 1, logits.shape[2]))[:, 0]


class Decode(CachedStep):
    """Appends one token to each row. Returns the logits of these tokens."""

    def forward(self, input_ids, attention_mask, position_ids, cache_slot):
        return self.compute(input_ids, attention_mask[:, None, None, :].bool(), position_ids, cache_slot)[:, 0]


def find_cache_shapes(model, sizes):
    """Returns the shape [rows, heads, slots, head size] of the keys of each layer. Raises Unsupported for models with other caches."""
    config = model.config.get_text_config(decoder=True)
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"} or getattr(config, "sliding_window", None) or getattr(config, "attention_chunk_size", None):
        raise Unsupported("generation= supports models whose layers attend to all tokens, without a sliding window; omit it")
    if model.config._attn_implementation not in ("sdpa", "eager"):
        raise Unsupported(f"generation= supports the attention sdpa or eager, not {model.config._attn_implementation}")
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    longest = getattr(config, "max_position_embeddings", None)
    if longest and sizes.max_length > longest:
        raise InputError(f"generation has a max_length of {sizes.max_length}, but the model has {longest} positions")
    return [(sizes.batch_size, heads, sizes.max_length, size)] * config.num_hidden_layers


def export_entries(model, sizes, folder):
    """Exports the entries of a model to archives in a folder. Returns their paths by name. Each archive has a copy of the weights."""
    if not hasattr(model, "generate") or not hasattr(model, "config"):
        raise Unsupported(f"generation= needs a causal language model of Hugging Face; {type(model).__name__} has no generate()")
    paths = {}
    for name, kind in {"prefill": Prefill, "decode": Decode}.items():
        with in_mode(model, False, []):
            entry = kind(model, sizes)
            length = sizes.max_length if kind is Prefill else 1
            tokens = torch.zeros(sizes.batch_size, length, dtype=torch.int64)
            mask = torch.ones(sizes.batch_size, sizes.max_length, dtype=torch.int64)
            inputs = {"input_ids": tokens, "attention_mask": mask, "position_ids": tokens.clone(), "cache_slot": torch.zeros(1, dtype=torch.int64)}
            paths[name] = export(entry, inputs, folder / f"{name}.pt2", train=False, dynamic_batch=False).path
    return paths
