"""The model zoo of the tests: tiny models, each built from a fixed seed and exported as a .pt2 archive or as ONNX.

Every builder returns a `Model`: the torch module, its example inputs by name, `export(path)` and `export_onnx(path)`.
`MODELS` maps the name of each model to its builder.
"""

import contextlib
import copy
import dataclasses
import logging
import os
import pathlib
import warnings
from unittest import mock

import same_exports
import torch
import torch.nn as nn
import torch.nn.functional as F

IGNORED = -100


@dataclasses.dataclass
class Model:
    """A module and its example inputs for the export.

    `decompositions`: None (as exported), "empty" (`run_decompositions({})`: the same ATen ops, without
    the vmap regions that torch cannot write to a file) or "core" (`run_decompositions()`).
    """

    name: str
    module: nn.Module
    inputs: dict
    decompositions: str | None = None
    dynamic_shapes: dict | None = None
    vocabulary: int = 0  # class numbers (tokens, labels) are below this number
    # Whether the model shifts its labels itself.
    shifts_labels: bool = False
    # Whether the model has batch norms, which use the statistics of one micro-batch. PyTorch then also trains on each micro-batch separately.
    has_statistics: bool = False

    def export(self, path):
        """Writes the archive and returns its path."""
        return same_exports.export(self, "pt2", path, self.write_pt2)

    def write_pt2(self, path):
        with warnings.catch_warnings(), mock.patch("torch.autocast", autocast_off_meta):
            warnings.simplefilter("ignore")
            program = torch.export.export(
                self.module, (), dict(self.inputs), dynamic_shapes=self.dynamic_shapes
            )
            if self.decompositions == "empty":
                program = program.run_decompositions({})
            elif self.decompositions == "core":
                program = program.run_decompositions()
            torch.export.save(program, str(path))

    def export_onnx(self, path, optimize=False, **options):
        """Exports the model with torch's ONNX exporter, and returns the path."""
        options = {"external_data": False, "optimize": optimize, **options}
        if options["external_data"]:  # several files
            self.write_onnx(path, **options)
            return pathlib.Path(path)
        return same_exports.export(self, "onnx", path, lambda file: self.write_onnx(file, **options), **options)

    def write_onnx(self, path, **options):
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # hides warnings about packages that these models do not need
        with warnings.catch_warnings(), open(os.devnull, "w") as quiet, contextlib.redirect_stdout(quiet):
            warnings.simplefilter("ignore")
            torch.onnx.export(
                self.module, (), kwargs=dict(self.inputs), f=str(path), dynamo=True, verbose=False,
                input_names=list(self.inputs), **options,
            )  # fmt: skip

    def as_in_onnx(self):
        """Returns the model that torch's ONNX exporter writes, with batch norms in evaluation mode."""
        if not self.has_statistics:
            return self
        module = copy.deepcopy(self.module)
        for part in module.modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                part.eval()
        return dataclasses.replace(self, module=module, has_statistics=False)

    def loss(self, inputs=None, dtype=torch.float32):
        """Returns the loss that PyTorch computes for `inputs` (default: the inputs of the export)."""
        return first_loss(self.module.to(dtype)(**cast(inputs or self.inputs, dtype)))

    def draw_inputs(self, seed, batch=None, ignored=0.0):
        """Draws another batch with the same shapes. The fraction `ignored` of the labels is -100."""
        generator = torch.Generator().manual_seed(seed)
        out = {}
        for name, value in self.inputs.items():
            shape = list(value.shape)
            if batch is not None:
                shape[0] = batch
            if value.dtype.is_floating_point:
                out[name] = torch.randn(shape, generator=generator, dtype=value.dtype)
            else:
                out[name] = torch.randint(0, self.vocabulary, shape, generator=generator)
        if ignored and "labels" in out:
            drop = torch.rand(out["labels"].shape, generator=generator) < ignored
            out["labels"][drop] = IGNORED
        if self.shifts_labels and not ignored:
            out["labels"] = out["input_ids"].clone()
        return out


AUTOCAST = torch.autocast


def autocast_off_meta(device_type, *arguments, **options):
    """Replaces `torch.autocast`, which torch 2.9 lacks for the `meta` device. Hugging Face disables autocast while it computes rotary tables."""
    return contextlib.nullcontext() if device_type == "meta" else AUTOCAST(device_type, *arguments, **options)


def cast(inputs, dtype):
    return {
        k: v.to(dtype) if v.dtype.is_floating_point else v for k, v in inputs.items()
    }


def first_loss(outputs):
    """Returns output 0, or `.loss` of a Hugging Face output."""
    if hasattr(outputs, "loss"):
        return outputs.loss
    return outputs[0] if isinstance(outputs, tuple) else outputs


class Attention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).split(c, dim=2)
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in (q, k, v))
        p = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.drop(self.attention(self.norm_1(x)))
        return x + self.drop(self.down(F.gelu(self.up(self.norm_2(x)), approximate="tanh")))


class GPT(nn.Module):
    """A plain GPT: learned positions, pre-norm blocks, tied head, cross-entropy in `forward`."""

    def __init__(self, vocabulary, width, layers, heads, length, dropout=0.0):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.wte.weight
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.05)
            elif name.endswith("bias"):
                nn.init.normal_(p, std=0.02)

    def forward(self, input_ids, labels=None):
        t = input_ids.shape[1]
        x = self.drop(self.wte(input_ids) + self.wpe(torch.arange(t, device=input_ids.device)))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        if labels is None:
            return logits
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)), logits


class Classifier(nn.Module):
    """A multi-layer perceptron: 1D inputs, ReLU, cross-entropy over classes."""

    def __init__(self, features, hidden, classes):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, classes)
        )

    def forward(self, x, labels):
        logits = self.layers(x)
        return F.cross_entropy(logits, labels), logits


class Regressor(nn.Module):
    """A perceptron with a mean squared error, a loss that does not divide by a count of labels."""

    def __init__(self, features, hidden):
        super().__init__()
        self.up, self.down = nn.Linear(features, hidden), nn.Linear(hidden, features)

    def forward(self, x, target):
        return F.mse_loss(self.down(torch.tanh(self.up(x))), target)


class Recommender(nn.Module):
    """Embedding tables of several sizes, one of which is read twice, and a small network on products of their rows."""

    def __init__(self, rows, width, features):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(count, width) for count in rows)
        self.bottom, self.top = nn.Linear(features, width), nn.Sequential(nn.Linear(25, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x, ids, target):
        rows = [table(ids[:, i]) for i, table in enumerate(self.tables)] + [self.tables[0](ids[:, -1])]
        parts = torch.stack([self.bottom(x).tanh(), *rows], 1)
        logits = self.top((parts @ parts.transpose(1, 2)).flatten(1))[:, 0]
        return F.binary_cross_entropy_with_logits(logits, (target > 0).float())


def tokens(vocabulary, batch, length, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, vocabulary, (batch, length), generator=generator)


def gpt(batch=4, length=16, vocabulary=96, width=32, layers=2, heads=4, dropout=0.0,
        loss=True, dynamic=False, decompositions=None):
    torch.manual_seed(0)
    module = GPT(vocabulary, width, layers, heads, length, dropout).train()
    inputs = {"input_ids": tokens(vocabulary, batch, length, 1)}
    if loss:
        inputs["labels"] = tokens(vocabulary, batch, length, 2)
    shapes = None
    if dynamic:
        size = torch.export.Dim("batch", min=2, max=1024)
        shapes = {name: {0: size} for name in inputs}
    return Model("gpt", module, inputs, decompositions, shapes, vocabulary)


def gpt_dropout(**options):
    return dataclasses.replace(gpt(dropout=0.1, **options), name="gpt_dropout")


def gpt_core(**options):
    return dataclasses.replace(gpt(decompositions="core", **options), name="gpt_core")


def gpt_dynamic(**options):
    return dataclasses.replace(gpt(dynamic=True, **options), name="gpt_dynamic")


def gpt2(batch=4, length=16, vocabulary=96, width=32, layers=2, heads=4, attention="sdpa",
         dropout=0.0, decompositions="empty"):
    """Hugging Face GPT-2: tied head, fused c_attn (Conv1D)."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=vocabulary, n_embd=width, n_layer=layers, n_head=heads, n_positions=length, use_cache=False,
        attn_implementation=attention, resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout,
        loss_type="ForCausalLMLoss", bos_token_id=0, eos_token_id=0,
    )
    inputs = {"input_ids": tokens(vocabulary, batch, length, 1), "labels": tokens(vocabulary, batch, length, 2)}
    return Model("gpt2", GPT2LMHeadModel(config).train(), inputs, decompositions, None, vocabulary, True)


def gpt2_eager(**options):
    return dataclasses.replace(gpt2(attention="eager", **options), name="gpt2_eager")


def llama(batch=4, length=16, vocabulary=96, width=32, hidden=64, layers=2, heads=4, groups=2, attention="sdpa",
          tied=False, decompositions="empty", device=None):
    """Hugging Face Llama: RoPE, grouped queries, RMSNorm, SwiGLU. `device="meta"`: parameters without data."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=width, intermediate_size=hidden, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=groups, max_position_embeddings=max(length, 16),
        use_cache=False, attn_implementation=attention, tie_word_embeddings=tied, bos_token_id=0, eos_token_id=0,
    )
    if device == "meta":
        with torch.device("meta"):
            module = LlamaForCausalLM(config)
        module = restore_buffers(module, config)
    else:
        module = LlamaForCausalLM(config)
    inputs = {"input_ids": tokens(vocabulary, batch, length, 1), "labels": tokens(vocabulary, batch, length, 2)}
    if device == "meta":
        inputs = {name: value.to("meta") for name, value in inputs.items()}
    return Model("llama", module.train(), inputs, decompositions, None, vocabulary, True)


def restore_buffers(module, config):
    """Computes the values of the rotary tables of a module on the `meta` device."""
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    module.model.rotary_emb = LlamaRotaryEmbedding(config)
    return module


def llama_eager(**options):
    return dataclasses.replace(llama(attention="eager", **options), name="llama_eager")


def llama_core(**options):
    return dataclasses.replace(llama(decompositions="core", **options), name="llama_core")


def mlp(batch=8, features=12, hidden=24, classes=10, decompositions=None):
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    inputs = {
        "x": torch.randn(batch, features, generator=generator),
        "labels": torch.randint(0, classes, (batch,), generator=generator),
    }
    return Model("mlp", Classifier(features, hidden, classes).train(), inputs, decompositions, None, classes)


def regressor(batch=8, features=12, hidden=24):
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    inputs = {name: torch.randn(batch, features, generator=generator) for name in ("x", "target")}
    return Model("regressor", Regressor(features, hidden).train(), inputs)


def recommender(batch=8, rows=(97, 40, 23), width=8, features=6):
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    inputs = {
        "x": torch.randn(batch, features, generator=generator),
        "ids": torch.randint(0, min(rows), (batch, len(rows) + 1), generator=generator),
        "target": torch.randn(batch, generator=generator),
    }
    return Model("recommender", Recommender(rows, width, features).train(), inputs, vocabulary=min(rows))


def gpt2_deep():
    return gpt2(layers=4)


def llama_deep():
    return llama(layers=4)


# First the models of the acceptance tests, then variants with other export options.
MODELS = {
    f.__name__: f
    for f in (
        gpt, gpt2, llama, mlp, gpt2_eager, llama_eager, gpt_core, llama_core, gpt_dropout, gpt_dynamic, regressor,
    )
}
# Models with enough layers for four pipeline stages.
DEEP = {f.__name__: f for f in (gpt2_deep, llama_deep)}
# Models whose parameters are mostly embedding tables.
TABLES = {f.__name__: f for f in (recommender,)}


if __name__ == "__main__":
    import argparse

    parser = argparse.ArgumentParser(description="export models of the zoo")
    parser.add_argument("folder")
    parser.add_argument("names", nargs="*", default=list(MODELS))
    arguments = parser.parse_args()
    pathlib.Path(arguments.folder).mkdir(parents=True, exist_ok=True)
    for name in arguments.names:
        print(MODELS[name]().export(pathlib.Path(arguments.folder) / f"{name}.pt2"))
