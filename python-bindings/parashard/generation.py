"""Generation with Hugging Face's own code: the logits come from a compiled model, which is evaluated at its compiled length."""

import torch

from parashard.errors import InputError, Unsupported

__all__ = ["generate"]


def generate(model, original, inputs, options):
    """Runs `generate` of a Hugging Face model with the logits of a compiled model, without a KV cache. Returns the result of `generate`.

    model: a `CompiledModel` in evaluation mode. original: (class, configuration, generation configuration) of the module that was
    compiled. inputs: the token ids, or None. options: the keyword arguments of generate().
    """
    if options.get("use_cache"):
        raise Unsupported("use_cache=True: generation has no KV cache yet; omit it")
    kind, config, generation_config = original
    with torch.device("meta"):  # the parameters are in the program
        shell = make_shell(kind, Logits(model))(config)
    shell.generation_config = generation_config
    return shell.eval().generate(inputs, **{**options, "use_cache": False})


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
