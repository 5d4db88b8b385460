"""Attention of queries whose mask excludes all keys.

If the mask is False or -inf for all keys, the result and the gradient are zero, as in PyTorch since 2.5 (on every backend, and
decomposed). If the mask adds a very low finite number, such as `finfo.min` in Hugging Face's eager attention, the result is
the mean of all values. Its gradient is compared with PyTorch's math backend. PyTorch's fused CPU backend is wrong here: next
to such a low maximum, it loses the logarithm of the sum, and returns the gradient times the number of keys.
"""
import dataclasses

import lanes
import models
import oracle
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

BATCH, LENGTH, WIDTH, HEADS = 4, 6, 16, 4
FIXED = ("--optimizer", "sgd(lr=0)")


class Attend(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x, mask, y):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)
        return F.mse_loss(self.out(attended), y), attended


def make_mask(kind):
    """Returns a causal mask in which some queries attend to no key: the first two of sample 1, query 3 of sample 2, and all of sample 3."""
    seen = torch.ones(LENGTH, LENGTH).tril().bool().repeat(BATCH, 1, 1, 1)
    seen[1, 0, :2] = seen[2, 0, 3] = seen[3] = False
    hidden = {"bool": None, "-inf": -float("inf"), "finfo": torch.finfo(torch.float32).min, "-1e9": -1e9}[kind]
    return seen if hidden is None else torch.zeros(seen.shape).masked_fill(~seen, hidden)


def compare_gradients(folder, program, model, inputs, dtype=torch.float64):
    """Compares the loss and the gradients of the first step with PyTorch's, as the acceptance tests do."""
    save_file({n: t.contiguous() for n, t in inputs.items()}, folder / "data.safetensors")
    oracle.run([program, "--data", "data.safetensors", "--steps", 1, "--gradients", "gradients.safetensors"], folder)
    loss, exact = oracle.loss_and_gradients(model.module, inputs, dtype)
    _, single = oracle.loss_and_gradients(model.module, inputs, torch.float32)
    found = load_file(folder / "gradients.safetensors")
    assert found["loss"].item() == pytest.approx(loss, rel=1e-5)
    largest = max(g.abs().max().item() for g in exact.values())
    for name, gradient in exact.items():
        error = (found[f"grad.{name}"].double() - gradient).abs().max().item()
        rounding = 4 * (single[name].double() - gradient).abs().max().item() or 4e-6 * largest
        assert error <= rounding + 1e-6 * largest, name


@pytest.mark.part(2)
@lanes.product(kind=["bool", "-inf", "finfo", "-1e9"], decompositions=[None, "core"], mesh=["dp=1", "dp=2,tp=2"])
def test_queries_that_attend_to_no_key(tmp_path, kind, decompositions, mesh):
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(2, BATCH, LENGTH, WIDTH, generator=generator)
    inputs = {"x": x, "mask": make_mask(kind), "y": y}
    model = models.Model("attend", Attend(), inputs, decompositions)
    program = oracle.compile_model(tmp_path, model.export(tmp_path / "model.pt2"), mesh, *FIXED)
    # With -1e9, scores are lost in float32 roundings, but not in float64: compare in float32.
    compare_gradients(tmp_path, program, model, inputs, torch.float32 if kind == "-1e9" else torch.float64)
    oracle.run([program, "--eval", "--data", "data.safetensors", "--outputs", "out.safetensors"], tmp_path)
    expected = model.module(**inputs)[1].detach()
    empty = inputs["mask"][:, 0].eq(False if kind == "bool" else inputs["mask"].min()).all(-1)
    assert empty.sum() == 3 + LENGTH and (kind in ("finfo", "-1e9")) == bool(expected[empty].all())
    found = [t for t in load_file(tmp_path / "out.safetensors").values() if t.shape == expected.shape]
    torch.testing.assert_close(found[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.part(2)
@pytest.mark.cover(1)
@pytest.mark.parametrize("mesh", ["dp=1", "dp=2,tp=2"])
@pytest.mark.parametrize("name,attention,form", [
    ("llama", "sdpa", "causal, padding"), ("llama", "eager", "additive mask"),
    ("gpt2", "sdpa", "causal, padding"), ("gpt2", "eager", "additive mask"),
])  # fmt: skip
def test_left_padding_in_transformers(tmp_path, name, attention, form, mesh):
    """Loss and gradients equal PyTorch's, although padding, whose queries attend to no key, has labels."""
    model = models.MODELS[name]()
    model = dataclasses.replace(model, module=getattr(models, name)(attention=attention).module)
    seen = torch.ones_like(model.inputs["input_ids"])
    seen[1, :5] = seen[2, :11] = 0
    inputs = {**model.inputs, "attention_mask": seen}
    model = dataclasses.replace(model, inputs=inputs)
    program = oracle.compile_model(tmp_path, model.export(tmp_path / "model.pt2"), mesh, *FIXED)
    assert f" {form}" in oracle.run([program, "--info"], tmp_path)
    compare_gradients(tmp_path, program, model, inputs)


class Biased(torch.nn.Module):
    """T5's attention, with a trained bias per distance and head. Keys and values have `groups` heads."""

    def __init__(self, groups, written_out):
        super().__init__()
        self.groups, self.written_out = groups, written_out
        self.query, self.out = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.key, self.value = (torch.nn.Linear(WIDTH, WIDTH // HEADS * groups) for _ in range(2))
        self.bias = torch.nn.Embedding(2 * LENGTH, HEADS)

    def forward(self, x, y):
        def split(z):
            return z.unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2)

        places = torch.arange(LENGTH)
        bias = self.bias(places[:, None] - places + LENGTH).permute(2, 0, 1)[None]
        seen = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
        mask = bias.masked_fill(~seen, -1e9)
        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        if self.written_out:
            k, v = (z.repeat_interleave(HEADS // self.groups, 1) for z in (k, v))
            attended = ((q @ k.mT + mask).softmax(-1)) @ v
        else:
            attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1.0, enable_gqa=self.groups < HEADS)
        return F.mse_loss(self.out(attended.transpose(1, 2).flatten(2)), y)


@pytest.mark.part(2)
@pytest.mark.parametrize("mesh", ["dp=1", "dp=2,tp=2"])
@pytest.mark.parametrize("groups,written_out", [(HEADS, False), (2, False), (HEADS, True)])
def test_trained_attention_bias(tmp_path, groups, written_out, mesh):
    torch.manual_seed(0)
    inputs = {"x": torch.randn(BATCH, LENGTH, WIDTH), "y": torch.randn(BATCH, LENGTH, WIDTH)}
    model = models.Model("biased", Biased(groups, written_out), inputs)
    loss, exact = oracle.loss_and_gradients(model.module, inputs, torch.float64)
    _, single = oracle.loss_and_gradients(model.module, inputs, torch.float32)
    found, gradients = oracle.first_step(tmp_path, model.export(tmp_path / "model.pt2"), inputs, mesh=mesh)
    assert found == pytest.approx(loss, rel=1e-5)
    errors = oracle.gradient_errors(oracle.Reference([], single, exact, {}, {}, oracle.aliases_of(model.module)), gradients)
    assert exact["bias.weight"].abs().max() > 0 and max(errors.values()) <= 1, errors


@pytest.mark.parametrize("kind", ["plain", "causal", "seen", "added", "written out"])
def test_attention_of_f64(tmp_path, kind):
    """Attention in f64 is computed by separate ops, since libraries do not support it. One query attends to no key."""
    seen, added = torch.ones(5, 5, dtype=torch.bool).tril(-1), torch.arange(25.0).view(5, 5).double() / 9
    added[2] = -float("inf")
    options = {"plain": {}, "causal": {"is_causal": True}, "seen": {"attn_mask": seen}, "added": {"attn_mask": added}}

    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(6, 12).double()

        def forward(self, x):
            q = self.layer(x).view(3, 5, 2, 6).transpose(1, 2)
            if kind == "written out":
                return ((q @ q.transpose(-1, -2) * 6**-0.5).softmax(-1) @ q).square().mean()
            return torch.nn.functional.scaled_dot_product_attention(q, q, q, **options[kind]).square().mean()

    torch.manual_seed(0)
    module, x = Attention(), torch.randn(3, 5, 6).double()
    module(x).backward()
    _, found = oracle.first_step(tmp_path, models.Model("f64", module, {"x": x}).export(tmp_path / "model.pt2"), {"x": x})
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, rtol=1e-12, atol=1e-14)
