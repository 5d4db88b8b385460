"""Generation with Hugging Face's own code: the logits come from a compiled model, with or without a KV cache."""

import torch

from parashard.drives import allocate
from parashard.errors import InputError, Unsupported

__all__ = ["generate"]


def generate(model, original, inputs, options):
    """Runs `generate` of a Hugging Face model with the logits of a compiled model. Returns the result of `generate`.

    Hugging Face's code passes all tokens of a sequence each time (use_cache=False). `CachedLogits` keeps the KV cache of the program.

    model: a `CompiledModel` in evaluation mode. original: (class, configuration, generation configuration) of the module that was
    compiled. inputs: the token ids, or None. options: the keyword arguments of generate().
    """
    kind, config, generation_config = original
    with torch.device("meta"):  # the parameters are in the program
        shell = make_shell(kind, choose_logits(model, options))(config)
    shell.generation_config = generation_config
    return shell.eval().generate(inputs, **{**options, "use_cache": False})


def choose_logits(model, options):
    """Returns the object that computes logits. Uses the KV cache if the program has one, unless the options contain use_cache=False."""
    has_cache = "decode" in model._program.names("entries")
    if not has_cache and options.get("use_cache"):
        raise Unsupported(
            "use_cache=True: the model was compiled without a KV cache; pass generation={\"batch_size\": B, \"max_length\": L} to "
            "parallelize, or omit use_cache"
        )
    if not has_cache or not options.get("use_cache", True):
        return Logits(model)
    given = [name for name in ("assistant_model", "prompt_lookup_num_tokens", "past_key_values") if options.get(name) is not None]
    if given:
        raise Unsupported(f"{given[0]} is not supported with a KV cache; omit it, or pass use_cache=False")
    return CachedLogits(model._program)


def make_shell(kind, logits):
    """Returns a subclass of a Hugging Face model whose forward returns the logits of a compiled model."""

    class Shell(kind):
        @property
        def device(self):
            return torch.device("cpu")

        def forward(self, input_ids=None, attention_mask=None, position_ids=None, **options):
            from transformers.modeling_outputs import CausalLMOutputWithPast

            return CausalLMOutputWithPast(logits=logits.compute(input_ids, attention_mask, position_ids))

    Shell.__name__ = kind.__name__  # generate() prints it
    return Shell


class Logits:
    """Evaluates a compiled causal language model on sequences of any number and length up to the compiled length."""

    def __init__(self, model):
        self.model = model
        self.names = set(model._program.names("inputs")).difference(model._drive.cotangents)
        if "input_ids" not in self.names:
            raise Unsupported("generate() needs a model with the input input_ids")
        self.rows, self.length = model._program.describe("inputs", "input_ids")[1]

    def compute(self, tokens, mask, positions):
        """Returns the logits of all tokens. Tokens after them cannot change the logits, because the model is causal."""
        if tokens.shape[1] > self.length:
            raise InputError(
                f"generate() reached {tokens.shape[1]} tokens, but the model is compiled for {self.length}; parallelize with a longer "
                "example, or set max_length"
            )
        inputs = {"input_ids": (tokens, 0), "attention_mask": (mask, 0), "position_ids": (positions, 0)}
        if mask is not None and not mask.all() and not {"attention_mask", "position_ids"} <= self.names:
            raise Unsupported("generate() with padded prompts needs a model that is compiled with attention_mask and position_ids")
        inputs = {name: value for name, value in inputs.items() if name in self.names}
        if "labels" in self.names:
            inputs["labels"] = (torch.full_like(tokens, -100), -100)
        missing = [name for name in self.names if inputs.get(name, (None,))[0] is None]
        if missing:
            raise Unsupported(f"generate() does not know the values of the input {missing[0]}")
        parts = [self.compute_part({name: (value[at : at + self.rows], rest) for name, (value, rest) in inputs.items()})
                 for at in range(0, tokens.shape[0], self.rows)]  # fmt: skip
        return torch.cat(parts)[:, : tokens.shape[1]]

    def compute_part(self, inputs):
        """Evaluates at most `rows` sequences, padded to the compiled shape."""
        padded, count = {}, 0
        for name, (value, rest) in inputs.items():
            count = value.shape[0]
            padded[name] = torch.full((self.rows, self.length), rest, dtype=value.dtype)
            padded[name][:count, : value.shape[1]] = value
        outputs = self.model(**padded)
        return (outputs[1] if isinstance(outputs, tuple) else outputs).logits[:count]  # with a criterion: (loss, outputs)


class CachedLogits:
    """Computes the logits of the last tokens with the entries `prefill` and `decode` of a program, which share a KV cache."""

    def __init__(self, program):
        self.program = program
        self.rows, self.length = program.describe("inputs:prefill", "input_ids")[1]
        self.cached = None  # the tokens, mask and positions whose keys and values are in the cache

    def compute(self, tokens, mask, positions):
        """Returns the logits [rows, 1, vocabulary] of the last tokens.

        If each row continues the row of the last call by one token, only this token is evaluated. Otherwise, as after a change of the
        order of beams, all tokens are evaluated.
        """
        count, length = tokens.shape
        if count > self.rows or length > self.length:
            raise InputError(
                f"generate() needs a KV cache for {count} sequences of {length} tokens, but generation= of parallelize has a batch_size "
                f"of {self.rows} and a max_length of {self.length}; choose larger sizes, or pass use_cache=False"
            )
        mask = torch.ones_like(tokens) if mask is None else mask
        positions = (mask.cumsum(1) - 1).clamp(min=0) if positions is None else positions.expand(count, length)
        now = [tokens, mask, positions]
        continues = self.cached is not None and all(torch.equal(old, new[:, :-1]) for old, new in zip(self.cached, now))
        self.cached = None  # until the call succeeds
        entry, start = ("decode", length - 1) if continues else ("prefill", 0)
        logits = self.call(entry, tokens[:, start:], mask, positions[:, start:], length - 1)
        self.cached = [value.clone() for value in now]
        return logits[:count, None]

    def call(self, entry, tokens, mask, positions, slot):
        """Runs an entry on padded inputs. slot: the slot of the last token in the cache."""
        width = self.length if entry == "prefill" else 1
        inputs = {
            "input_ids": self.pad(tokens, width),
            "attention_mask": self.pad(mask, self.length),
            "position_ids": self.pad(positions, width),
            "cache_slot": torch.tensor([slot]),
        }
        known = self.program.names(f"inputs:{entry}")  # without inputs that the model does not use
        outputs = allocate(self.program, entry, self.program.names(f"outputs:{entry}"))
        self.program.call(entry, 0, {name: value for name, value in inputs.items() if name in known}, outputs)
        (logits,) = outputs.values()
        return logits

    def pad(self, value, width):
        padded = torch.zeros(self.rows, width, dtype=torch.int64)
        padded[: value.shape[0], : value.shape[1]] = value
        return padded
