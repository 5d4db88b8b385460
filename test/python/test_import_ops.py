"""PyTorch ops after the import: values and gradients equal PyTorch's in float64, also at the edges of domains.

A case is a function of a few tensors. All cases form one model, in which every tensor is a parameter and every case is an
output. The model is imported as exported and after run_decompositions, then evaluated, split over ranks, and compiled.
"""
import functools
import json
import re
import sys

import models
import once
import oracle
import pytest
import torch
import torch.nn.functional as F
from conftest import ROOT, tools_folder
from oracle import run
from refusals import damage
from safetensors.torch import load_file, save_file

CASES = {}  # name -> (function, operands)
REFERENCES = {}  # name -> function to compare with, if PyTorch's kernel has a constant that is rounded to float32
# Cases whose decompositions have other gradients at edges, also in PyTorch: a square root with an infinite slope at 0, an
# overflow in a branch that is not taken, a logarithm's slope where the kernel's slope is 0, the slopes of equal operands.
AS_EXPORTED_ONLY = {"std_dim", "celu", "bce_certain", "xlogy_of_zeros", "logaddexp_equal"}


def case(name, function, *operands):
    """Adds a case. `operands` are tensors, or shapes of random tensors."""
    generator = torch.Generator().manual_seed(len(CASES))
    made = [x if isinstance(x, torch.Tensor) else torch.randn(x, generator=generator, dtype=torch.float64)
            for x in operands]
    CASES[name] = (function, [x.double() for x in made])


INFINITY = float("inf")
# Large and tiny numbers, and numbers at which functions switch branches.
EDGES = torch.tensor([-1e3, -90, -20.5, -6, -3.1, -1, -0.5, -0.3, -1e-4, 0, 1e-4, 0.3, 0.5, 1, 2.9, 6, 20.5, 90, 1e3, 2.5])
NEAR = EDGES[EDGES.abs() < 50]
NARROW = torch.tensor([-0.999, -0.5, -1e-5, 0, 1e-5, 0.5, 3, 1e3])

# ---- elements ------------------------------------------------------------------------------------------------------

for _name, _function in {
    "elu": F.elu, "elu_2": lambda x: F.elu(x, 2.0), "selu": F.selu, "celu": lambda x: F.celu(x, 0.5),
    "leaky_relu": F.leaky_relu, "softplus": F.softplus, "softplus_beta": lambda x: F.softplus(x, 2, 5),
    "logsigmoid": F.logsigmoid, "mish": F.mish, "hardtanh": F.hardtanh, "hardtanh_wide": lambda x: F.hardtanh(x, -0.3, 6),
    "relu6": F.relu6, "hardsigmoid": F.hardsigmoid, "threshold": lambda x: F.threshold(x, 0.5, 7),
    "hardswish": F.hardswish, "hardshrink": F.hardshrink, "softshrink": F.softshrink, "softsign": F.softsign,
    "tanhshrink": F.tanhshrink, "relu": F.relu, "silu": F.silu, "gelu": F.gelu,
    "clamp": lambda x: x.clamp(-0.5, 6), "clamp_min": lambda x: x.clamp_min(1), "abs": torch.abs,
    "clamp_tensors": lambda x: x.clamp(torch.tensor(-1.0, dtype=x.dtype), torch.tensor(1.0, dtype=x.dtype)),
    "sign": lambda x: x.sign() + x, "floor": lambda x: x.floor() + x, "ceil": lambda x: x.ceil() * x,
    "round": lambda x: x.round() + x, "trunc": lambda x: x.trunc() + x, "frac": torch.frac,
    "isfinite": lambda x: (x / x.abs().clamp_min(0)).isfinite() * x, "isnan": lambda x: (x / x).isnan() + x,
    "isinf": lambda x: (1 / x).isinf() + x
}.items():  # fmt: skip
    case(_name, _function, EDGES)
REFERENCES["hardsigmoid"] = lambda x: F.relu6(x + 3) / 6
case("expm1", torch.expm1, NEAR)
case("exp2", torch.exp2, NEAR)
case("log1p", torch.log1p, NARROW)
INSIDE = torch.tensor([-0.999, -0.5, -1e-5, 0, 1e-5, 0.5, 0.9, 0.99999])  # for functions with domain [-1, 1]
HUGE = torch.cat([EDGES, torch.tensor([-1e12, -1e8, 1e8, 1e12])])
for _name, _operand in {"tan": NEAR, "sinh": NEAR, "cosh": NEAR, "atan": HUGE, "asinh": HUGE, "acosh": HUGE.abs() + 1.01,
                        "asin": INSIDE, "acos": INSIDE, "atanh": INSIDE}.items():  # fmt: skip
    case(_name, getattr(torch, _name), _operand)
case("arc", lambda x: x.arcsin() + x.arccos() * x.arctan() - x.arcsinh() + (x + 3).arccosh() * x.arctanh(), INSIDE)
case("logaddexp", lambda x, y: torch.logaddexp(x[:, None], y), EDGES, EDGES + 0.25)
case("logaddexp_equal", lambda x: torch.logaddexp(x, x.detach()), EDGES)
for _power in (4, 5, -2, -3):
    case(f"pow_{_power}".replace("-", "minus_"), lambda x, p=_power: x**p, (3, 4))
case("pow_tensor", lambda x: x ** torch.tensor([[-3.0, 0, 3, 4]], dtype=x.dtype), (3, 4))
case("pow_of_zero", lambda x, y: x.relu() ** (y.abs() + 1), (3, 4), (3, 4))
case("log2", lambda x: torch.log2(x.abs()), NARROW + 2)
case("log10", lambda x: torch.log10(x.abs()), NARROW + 2)
case("prelu", F.prelu, EDGES.reshape(5, 4), (1,))
case("prelu_channels", F.prelu, (2, 3, 4), (3,))
case("glu", F.glu, (3, 8))
case("glu_dim", lambda x: F.glu(x, 0), (4, 3))
case("xlogy", lambda x, y: torch.xlogy(x.abs(), y.exp()), (3, 4), (3, 4))
OFF = 1 - torch.eye(3, 4)  # 0 at the elements where x is 0 in the next case
case("xlogy_of_zeros", lambda x, y: torch.xlogy(x - x.detach() * OFF, y.relu() * OFF + 2 * (1 - OFF)), (3, 4), (3, 4))
case("in_place", lambda x: F.elu(x * 2, inplace=True) + F.leaky_relu(x * 1, 0.2, inplace=True), EDGES)

# ---- losses --------------------------------------------------------------------------------------------------------

TARGET = torch.tensor([0.0, 1, 0, 1, 1, 0, 0.3, 0.6, 1, 0, 1, 0, 0.5, 1, 0, 1, 0, 1, 0, 1], dtype=torch.float64)
WEIGHT = torch.linspace(0.1, 2, 20, dtype=torch.float64)


def target(x):
    return TARGET.to(x.dtype)


def weight(x):
    return WEIGHT.to(x.dtype)


for _reduction in ["none", "mean", "sum"]:
    for _name, _loss in {"l1": F.l1_loss, "smooth_l1": F.smooth_l1_loss, "mse": F.mse_loss, "huber": F.huber_loss,
                         "kl_div": F.kl_div, "soft_margin": F.soft_margin_loss}.items():
        case(f"{_name}_{_reduction}", functools.partial(
            lambda loss, how, x: loss(x, target(x), reduction=how), _loss, _reduction), EDGES / 50)
    case(f"bce_{_reduction}", functools.partial(
        lambda how, x: F.binary_cross_entropy(x.sigmoid(), target(x), reduction=how), _reduction), EDGES / 5)
    case(f"bce_logits_{_reduction}", functools.partial(
        lambda how, x: F.binary_cross_entropy_with_logits(x, target(x), reduction=how), _reduction), EDGES)
case("bce_certain", lambda x: F.binary_cross_entropy(x.clamp(0, 1), target(x)), EDGES)
case("bce_weighted", lambda x: F.binary_cross_entropy(x.sigmoid(), target(x), weight(x)), (20,))
case("bce_target", lambda x, t: F.binary_cross_entropy(x.sigmoid(), t.sigmoid()), (4, 5), (4, 5))
case("bce_logits_weighted", lambda x: F.binary_cross_entropy_with_logits(x, target(x), weight(x)), EDGES)
case("bce_logits_positives", lambda x: F.binary_cross_entropy_with_logits(x, target(x), pos_weight=3 * weight(x)), EDGES)
case("bce_logits_target", lambda x, t: F.binary_cross_entropy_with_logits(x, t.sigmoid()), (4, 5), (4, 5))
case("bce_logits_classes", lambda x: F.binary_cross_entropy_with_logits(
    x, target(x).reshape(5, 4), pos_weight=weight(x)[:4]), EDGES.reshape(5, 4))
case("smooth_l1_beta", lambda x, y: F.smooth_l1_loss(x, y, beta=0.3), (3, 4), (3, 4))
case("smooth_l1_sharp", lambda x, y: F.smooth_l1_loss(x, y, beta=0.0), (3, 4), (3, 4))
case("huber_delta", lambda x, y: F.huber_loss(x, y, delta=0.4), (3, 4), (3, 4))
case("kl_div_batchmean", lambda x, y: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"), (3, 4), (3, 4))
case("kl_div_log", lambda x, y: F.kl_div(x.log_softmax(-1), y.log_softmax(-1), log_target=True), (3, 4), (3, 4))
case("cross_entropy_smooth", lambda x: F.cross_entropy(x, torch.tensor([1, 0, 3]), label_smoothing=0.2), (3, 4))
case("cross_entropy_probabilities", lambda x: F.cross_entropy(x, weight(x)[:12].reshape(3, 4)), (3, 4))
case("cross_entropy_probabilities_smooth", lambda x, y: F.cross_entropy(
    x, y.softmax(1), label_smoothing=0.1, reduction="sum"), (3, 4, 2), (3, 4, 2))
case("cross_entropy_weighted", lambda x: F.cross_entropy(x, torch.tensor([1, -100, 3, 0]), weight(x)[:4]), (4, 4))
case("cross_entropy_weighted_none", lambda x: F.cross_entropy(
    x, torch.tensor([1, -100, 3, 0]), weight(x)[:4], reduction="none"), (4, 4))
case("nll_weighted", lambda x: F.nll_loss(x.log_softmax(1), torch.tensor([1, 2, 3, 0]), weight(x)[:4]), (4, 4))

# ---- norms and reductions ------------------------------------------------------------------------------------------

ZERO_ROW = torch.tensor([[1.0, -2, 3, 0.5], [0, 0, 0, 0], [-1, 5, 0, 2]])
def nans(x):
    return x.masked_fill(x > 6, float("nan"))


def numbers(x):
    return x.masked_fill(x.isnan(), 7)


TIES = torch.tensor([[1.0, 3, 3, 0], [2, 2, 2, 2], [-1, -5, 0, 0]])
for _order in [2, 1, 3, 1.5, 0, float("inf"), float("-inf")]:
    case(f"vector_norm_{_order}".replace("-", "minus_").replace(".", "_"), functools.partial(
        lambda p, x: torch.linalg.vector_norm(x, p, dim=1) + x.sum(1), _order), ZERO_ROW)
case("norm", torch.norm, (3, 4))
case("norm_dims", lambda x: torch.norm(x, dim=(0, 2), keepdim=True), (2, 3, 4))
case("norm_p", lambda x: x.norm(1, -1), (3, 4))
case("linalg_norm", lambda x: torch.linalg.norm(x, dim=0), (3, 4))
case("normalize", F.normalize, ZERO_ROW)
case("dist", torch.dist, (3, 4), (3, 4))
case("pairwise_distance", F.pairwise_distance, (3, 4), (3, 4))
case("cosine", F.cosine_similarity, ZERO_ROW, (3, 4))
case("cosine_broadcast", lambda x, y: F.cosine_similarity(x[:, None], y[None], dim=-1), (3, 4), (5, 4))
case("std", torch.std, (3, 4))
case("std_dim", lambda x: x.std(1), ZERO_ROW)
case("std_population", lambda x: x.std(0, correction=0, keepdim=True), (3, 4))
case("var", torch.var, (3, 4))
case("var_dims", lambda x: x.var((0, 2), unbiased=False), (2, 3, 4))
case("var_mean", lambda x: torch.stack(torch.var_mean(x, 1)), (3, 4))
case("std_mean", lambda x: torch.stack(torch.std_mean(x, 1, keepdim=True)), (3, 4))
case("logsumexp", lambda x: x.logsumexp(-1), EDGES.reshape(5, 4))
case("logsumexp_dims", lambda x: x.logsumexp((0, 2), keepdim=True), (2, 3, 4))
case("prod", torch.prod, (3, 3))
case("prod_dim", lambda x: x.prod(1), ZERO_ROW)
case("prod_odd", lambda x: x.prod(0, keepdim=True), (7, 2))
case("amax", lambda x: x.amax(1), TIES)
case("max", torch.max, (3, 4))
case("max_dim", lambda x: x.max(1).values, TIES)
case("min_dim", lambda x: x.min(0, keepdim=True)[0], TIES)
case("max_both", lambda x: x.max(1).values * x.max(1).indices, TIES)
case("argmax", lambda x: x.argmax(1) + x.sum(1), TIES)
case("argmin", lambda x: x.argmin() + x.sum(), TIES)
case("sort", lambda x: x.sort().values, (3, 1, 7))
case("sort_both", lambda x: x * x.sort(dim=0, descending=True, stable=True).indices + x.sort(0).values, (5, 4))
case("sort_ties", lambda x: x.sort(dim=1, stable=True).values * x.sort(dim=1, stable=True).indices, TIES)
case("sort_scalar", lambda x: x.sum().sort().values, (3, 2))
WITH_NANS = torch.tensor([[1.0, 3, -2, 0, 5], [9, -1, 7, -3, 8], [4, 2, -1, 1, 3]])  # the cases replace numbers above 6 by NaN
case("sort_nans", lambda x: numbers(nans(x).sort(1).values), WITH_NANS)
case("sort_nans_descending", lambda x: numbers(nans(x).sort(dim=0, descending=True, stable=True).values), WITH_NANS)
case("argsort", lambda x: x.argsort(1) * x + x.argsort(dim=0, descending=True, stable=True), (3, 6))
case("topk", lambda x: x.topk(2).values * x.topk(2).indices, (3, 6))
case("topk_smallest", lambda x: x.topk(3, 0, largest=False, sorted=True).values, (5, 2))
case("topk_all", lambda x: x.topk(4, 1).values + x.topk(4, 1).indices, (3, 4))
case("kthvalue", lambda x: x.kthvalue(2, 1).values * x.kthvalue(2, 1, keepdim=True).indices[:, 0], (3, 5))
case("median", lambda x: x.median(1).values * x.median(1, keepdim=True).indices[:, 0], (3, 6))
case("median_odd", lambda x: x.median(0).values, (5, 2))
case("median_nans", lambda x: numbers(nans(x).median(1).values) + nans(x).median(1).indices, WITH_NANS)

# ---- matmuls ------------------------------------------------------------------------------------------------------

for _equation, *_shapes in [
    ("bhid,bhjd->bhij", (2, 3, 4, 5), (2, 3, 6, 5)), ("bqhd,bkhd->bhqk", (2, 4, 3, 5), (2, 6, 3, 5)),
    ("bhqk,bkhd->bqhd", (2, 3, 4, 6), (2, 6, 3, 5)), ("ij,jk", (3, 4), (4, 5)), ("ij,jk->ki", (3, 4), (4, 5)),
    ("...ij,jk->...ik", (2, 3, 4), (4, 5)), ("...d,...d->...", (2, 3, 4), (2, 3, 4)), ("b i, b i -> b", (3, 4), (3, 4)),
    ("ij->ji", (3, 4)), ("ij->", (3, 4)), ("ijk->ki", (2, 3, 4)), ("ii->i", (4, 4)), ("ii", (4, 4)), ("i,j->ij", (3,), (4,)),
    ("ij,ij->ij", (3, 4), (3, 4)), ("ijk,j->ik", (2, 3, 4), (3,)), ("ijk,jl->li", (2, 3, 4), (3, 5)),
    ("bi,ij,bj->b", (3, 4), (4, 5), (3, 5)), ("ab,bc,cd->ad", (2, 3), (3, 4), (4, 5)), ("bi,oij,bj->bo", (3, 4), (2, 4, 5), (3, 5)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)), ("ij,ij->", (3, 4), (3, 4)), ("bnij,bmij->bnm", (2, 3, 4, 5), (2, 6, 4, 5)),
    ("abij,cbji->ca", (2, 3, 4, 5), (6, 3, 5, 4)), ("i...,i...->...", (3, 4), (3, 4)),
]:  # fmt: skip
    case("einsum_" + _equation.replace(" ", "").replace("...", "_").replace(",", "_").replace("->", "_to_"),
         functools.partial(torch.einsum, _equation), *_shapes)
case("diagonal", lambda x: x.diagonal(1, 0, 2), (3, 2, 5))
case("outer", torch.outer, (3,), (4,))
case("dot", torch.dot, (4,), (4,))
case("mv", torch.mv, (3, 4), (4,))
case("inner", torch.inner, (3, 4), (5, 4))
case("tensordot", lambda x, y: torch.tensordot(x, y, ([2, 1], [0, 2])), (2, 3, 4), (4, 5, 3))

# ---- indexing --------------------------------------------------------------------------------------------------------

case("roll", lambda x: x.roll((1, -2), (0, 1)), (3, 4))
case("roll_flat", lambda x: x.roll(5), (3, 4))
case("flip", lambda x: x.flip(0, 1), (3, 4))
case("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), (2, 8, 3, 5))
case("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), (2, 3, 4, 6))
case("channel_shuffle", lambda x: F.channel_shuffle(x, 3), (2, 6, 3, 5))
case("index_select", lambda x: x.index_select(1, torch.tensor([3, 0, 2, 2, 1])), (3, 4))
case("index_copy", lambda x, y: x.index_copy(1, torch.tensor([1, 3]), y), (3, 4, 2), (3, 2, 2))
case("index_copy_computed", lambda x, y: x.index_copy(1, (y.sum() > 0).long().reshape(1) + 1, y), (3, 4), (3, 1))
case("addmm_beta_0", lambda x, y: torch.addmm(x.new_full((3, 5), float("nan")), x, y, beta=0), (3, 4), (4, 5))
case("index_from_end", lambda x: x[:, [-1, -2]], (3, 4))
case("index_rows_from_end", lambda x: x[torch.tensor([-1, 2, -5])], (5, 3))
case("index_computed_from_end", lambda x, y: x[(y > 0).long() - 2] * y[:, None], (4, 3), (6,))
case("index_columns", lambda x: x[:, torch.tensor([1, 2, 3])], (3, 4))
case("index_between", lambda x: x[:, torch.arange(2)[:, None], torch.arange(1, 4)], (3, 2, 4, 2))
case("index_apart", lambda x: x[torch.arange(2)[:, None], :, torch.arange(3)], (2, 4, 3))
case("index_table", lambda x: x[:, torch.tensor([[1, 1], [0, 2]])], (5, 3))
case("gather", lambda x: x.gather(1, torch.tensor([[1], [0], [3]])), (3, 4))
case("gather_computed", lambda x, y: x.gather(1, 2 * (y > 0).long()) * y, (3, 4), (3, 1))
case("eye", lambda x: x * torch.eye(3, 4, dtype=x.dtype), (3, 4))
case("linspace", lambda x: x * torch.linspace(-1, 2, 7, dtype=x.dtype), (7,))
case("cumsum", lambda x: x.cumsum(-1), (3, 7))
case("cumsum_first", lambda x: x.cumsum(0), (5, 2, 3))
case("cumsum_one", lambda x: x.cumsum(1), (3, 1))
case("cumsum_none", lambda x: x.sum().cumsum(0), (3, 2))
case("cumsum_long", lambda x: x.cumsum(0), (300, 2))
case("cumsum_type", lambda x: (x > 0).cumsum(1, dtype=x.dtype) * x, (3, 6))
case("cumsum_bools", lambda x: (x > 0).cumsum(1) * x, (3, 6))
case("cumsum_positions", lambda x: ((x > 0).long().cumsum(1) * (x > 0) - 1).masked_fill(x < 0, 1) * x, (4, 9))


# ---- images --------------------------------------------------------------------------------------------------------

case("conv1d", lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1), (2, 3, 9), (4, 3, 3), (4,))
case("conv2d", lambda x, w, b: F.conv2d(x, w, b, (2, 1), (1, 0), (1, 2)), (2, 3, 7, 8), (4, 3, 3, 2), (4,))
case("conv2d_groups", lambda x, w: F.conv2d(x, w, padding=1, groups=2), (2, 4, 5, 5), (6, 2, 3, 3))
case("conv2d_depth", lambda x, w: F.conv2d(x, w, stride=2, padding=2, groups=4), (2, 4, 6, 5), (4, 1, 5, 5))
case("conv2d_same", lambda x, w: F.conv2d(x, w, padding="same", dilation=(1, 2)), (2, 3, 5, 6), (4, 3, 3, 3))
case("conv2d_same_even", lambda x, w: F.conv2d(x, w, padding="same"), (2, 3, 5, 6), (4, 3, 4, 2))
case("conv2d_valid", lambda x, w: F.conv2d(x, w, padding="valid"), (2, 3, 5, 6), (4, 3, 3, 2))
case("conv2d_alone", F.conv2d, (3, 5, 6), (4, 3, 3, 2), (4,))
case("conv2d_zeros", lambda x, w, b: F.conv2d(x, w, b, padding=1), (2, 3, 4, 4), (4, 3, 1, 1), (4,))
case("turned", lambda x, y: x.permute(*range(2, -1, -1)) @ y.mT, (4, 3, 2), (2, 5, 4))
case("turned_conjugate", lambda x, y: x.H @ y.mH.adjoint()[0], (3, 4), (2, 3, 5))
case("conv2d_patches", lambda x, w, b: F.conv2d(x, w, b, stride=4).flatten(2).transpose(1, 2), (2, 3, 8, 10), (5, 3, 4, 4), (5,))
case("conv3d", lambda x, w: F.conv3d(x, w, padding=(0, 1, 0)), (2, 2, 3, 4, 5), (3, 2, 2, 3, 2))
case("conv_transpose1d", lambda x, w, b: F.conv_transpose1d(x, w, b, stride=3, output_padding=1), (2, 3, 4), (3, 4, 2), (4,))
case("conv_transpose2d", lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1), (2, 3, 4, 5), (3, 4, 3, 3), (4,))
case("conv_transpose2d_groups", lambda x, w: F.conv_transpose2d(x, w, stride=(1, 2), groups=2, dilation=2),
     (2, 4, 4, 5), (4, 3, 2, 3))
case("conv_transpose2d_beyond", lambda x, w: F.conv_transpose2d(x, w, stride=2, dilation=4, output_padding=3),
     (2, 3, 3, 4), (3, 2, 2, 2))
case("conv_transpose3d", lambda x, w: F.conv_transpose3d(x, w, stride=2), (2, 2, 2, 3, 2), (2, 3, 2, 2, 2))
TIED = torch.tensor([0.0, 1, 1, 0, 2, 2, -1, 0, 0, 0, 3, 1] * 12).reshape(2, 3, 4, 6)
case("max_pool1d", lambda x: F.max_pool1d(x, 3, 2, 1), (2, 3, 8))
case("max_pool2d", lambda x: F.max_pool2d(x, 3, 2, 1), TIED)
case("max_pool2d_ceil", lambda x: F.max_pool2d(x, (2, 3), ceil_mode=True), (2, 3, 5, 7))
case("max_pool2d_dilated", lambda x: F.max_pool2d(x, 2, 1, 1, 2), (2, 3, 5, 7))
case("max_pool2d_alone", lambda x: F.max_pool2d(x, 2), (3, 5, 7))
case("max_pool3d", lambda x: F.max_pool3d(x, 2), (2, 2, 4, 4, 5))
case("avg_pool1d", lambda x: F.avg_pool1d(x, 3, 2, 1), (2, 3, 8))
case("avg_pool2d", lambda x: F.avg_pool2d(x, 2), (2, 3, 5, 7))
case("avg_pool2d_overlap", lambda x: F.avg_pool2d(x, 3, 2, 1), (2, 3, 5, 7))
case("avg_pool2d_inside", lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (2, 3, 5, 7))
case("avg_pool2d_ceil", lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), (2, 3, 6, 8))
case("avg_pool2d_divisor", lambda x: F.avg_pool2d(x, (2, 3), divisor_override=5), (2, 3, 4, 6))
case("avg_pool3d", lambda x: F.avg_pool3d(x, 2, 1), (2, 2, 3, 4, 3))
case("adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 3), (2, 3, 8))
case("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1), (2, 3, 5, 7))
case("adaptive_avg_pool2d_tiles", lambda x: F.adaptive_avg_pool2d(x, (2, None)), (2, 3, 6, 5))
case("adaptive_avg_pool2d_uneven", lambda x: F.adaptive_avg_pool2d(x, (3, 4)), (2, 3, 5, 7))
case("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, (2, 3)), (2, 3, 6, 6))
case("upsample_nearest2d", lambda x: F.interpolate(x, scale_factor=2), (2, 3, 4, 5))
case("upsample_nearest2d_size", lambda x: F.interpolate(x, size=(8, 5)), (2, 3, 4, 5))
case("upsample_nearest2d_uneven", lambda x: F.interpolate(x, size=(7, 3)), (2, 3, 4, 5))
case("upsample_nearest2d_double", lambda x: F.interpolate(x, scale_factor=2.3), (2, 2, 3, 3))
case("upsample_nearest2d_factor", lambda x: F.interpolate(x, scale_factor=(2.3, 1.6)), (2, 2, 4, 7))
case("upsample_bilinear2d", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (2, 3, 4, 5))
case("upsample_bilinear2d_corners", lambda x: F.interpolate(x, (7, 4), mode="bilinear", align_corners=True), (2, 3, 4, 5))
case("batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), (4, 3, 5, 2), (3,), (3,))
case("batch_norm_rows", lambda x: F.batch_norm(x, None, None, training=True, eps=1e-3), (6, 4))
case("batch_norm_running", lambda x, w: F.batch_norm(x, torch.linspace(-1, 2, 3, dtype=x.dtype), torch.linspace(
    0.5, 3, 3, dtype=x.dtype), w), (4, 3, 5), (3,))
case("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), (2, 4, 5, 3), (4,), (4,))
case("group_norm_plain", lambda x: F.group_norm(x, 3, eps=1e-2), (2, 6, 5))
case("instance_norm", lambda x, w, b: F.instance_norm(x, weight=w, bias=b), (2, 3, 5, 4), (3,), (3,))


class Ops(torch.nn.Module):
    """A model of cases. Each output is the weighted sum of a case. The loss is the sum of all outputs times the mean of `x`."""

    def __init__(self, dtype, names=tuple(CASES)):
        super().__init__()
        self.names = names
        self.operands = torch.nn.ParameterDict()
        for name in names:
            function, operands = CASES[name]
            for i, value in enumerate(operands):
                self.operands[f"{name}_{i}"] = torch.nn.Parameter(value.to(dtype).clone())
            result = function(*(x.to(dtype) for x in operands))
            weights = (torch.arange(result.numel(), dtype=dtype) + 1).cos().reshape(result.shape)
            self.register_buffer(f"weights_{name}", weights, persistent=False)

    def forward(self, x):
        sums = {}
        for name in self.names:
            function, operands = CASES[name]
            result = function(*(self.operands[f"{name}_{i}"] for i in range(len(operands))))
            sums[name] = (result * getattr(self, f"weights_{name}")).sum()
        return {"loss": sum(sums.values()) * x.mean(), **sums}


def exported(dtype, names=tuple(CASES)):
    return torch.export.export(Ops(dtype, names), (), {"x": torch.ones(4, 3, dtype=dtype)})


@functools.cache
def in_torch(dtype, names=tuple(CASES)):
    """Computes the value and the gradients of each case in PyTorch, independently of other cases."""
    found = {}
    module = Ops(dtype, names)
    for name in names:
        function, operands = CASES[name]
        leaves = [module.operands[f"{name}_{i}"] for i in range(len(operands))]
        value = (REFERENCES.get(name, function)(*leaves) * getattr(module, f"weights_{name}")).sum()
        found[name] = (value.detach(), torch.autograd.grad(value, leaves))
    return found


def check(name, values, gradients, rtol):
    value, expected = in_torch(torch.float64)[name]
    torch.testing.assert_close(values[name].double(), value, rtol=rtol, atol=rtol * max(1, value.abs()))
    for i, gradient in enumerate(expected):
        torch.testing.assert_close(gradients[f"{name}_{i}"].double(), gradient, rtol=rtol,
                                   atol=rtol * max(1e-3, gradient.abs().max()))


@pytest.fixture(scope="module", params=[False, True], ids=["as_exported", "decomposed"])
def evaluated(request, shared):
    """Returns (whether the model is decomposed, values and gradients in f64 from the reference evaluator).

    One worker of the test run computes them.
    """
    values = once.make(shared / f"ops-{request.param}.safetensors", lambda out: evaluate(out, request.param))
    return request.param, load_file(values)


def evaluate(out, decomposed):
    folder = out.parent
    archive, program = folder / "ops.pt2", exported(torch.float64)
    torch.export.save(program.run_decompositions() if decomposed else program, archive)
    raw, training, given = (folder / n for n in ("raw.mlir", "training.mlir", "in.safetensors"))
    run([tools_folder() / "ps-translate", "--import-pt2", archive, "-o", raw], folder)
    run([tools_folder() / "ps-opt", raw, "-canonicalize", "-cse", "-ps-autodiff", "-ps-verify-training", "-o", training],
        folder)
    save_file({"x": torch.ones(4, 3, dtype=torch.float64)}, given)
    run([tools_folder() / "ps-run", training, "--entry", "micro_batch", "--inputs", given, "--outputs", out], folder)


@pytest.mark.parametrize("name", CASES)
def test_evaluated_equals_pytorch(evaluated, name):
    decomposed, evaluated = evaluated
    if decomposed and name in AS_EXPORTED_ONLY:
        pytest.skip("the decomposition has other gradients at edges")
    values = {name: evaluated[f"output.{name}"]}
    gradients = {key.removeprefix("operands.").removesuffix(".grad"): value for key, value in evaluated.items()
                 if key.endswith(".grad")}
    check(name, values, gradients, 1e-9)


# ---- compiled ------------------------------------------------------------------------------------------------------



def policy_of(names, dim):
    """Returns a policy that splits dim `dim` of every operand over tp, if the operand has this dim. Negative dims count from the end."""
    policy = {}
    for name in names:
        for i, operand in enumerate(CASES[name][1]):
            if -operand.dim() <= dim < operand.dim():
                policy[f"operands.{name}_{i}"] = {str(dim % operand.dim()): ["tp"]}
    return json.dumps(policy)


@pytest.mark.part(2)
@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("mesh,dim", [pytest.param("dp=1", 0, marks=pytest.mark.full), ("tp=2", 0), pytest.param("tp=3", -1, marks=pytest.mark.full)])
def test_compiled_equals_pytorch(tmp_path, mesh, dim, half):
    """Runs one step of every other case in f32, on one rank and split. The errors of gradients are at most about four times PyTorch's f32 errors."""
    archive, policy, names = tmp_path / "ops.pt2", tmp_path / "policy.json", tuple(CASES)[half::2]
    torch.export.save(exported(torch.float32, names), archive)
    policy.write_text(policy_of(names, dim))
    flags = () if mesh == "dp=1" else ("--sharding-policy", policy)
    program = oracle.compile_model(tmp_path, archive, mesh, *flags)
    save_file({"x": torch.ones(4, 3)}, tmp_path / "data.safetensors")
    run([program, "--data", "data.safetensors", "--steps", 1, "--gradients", "g.safetensors", "--quiet"], tmp_path)
    found = load_file(tmp_path / "g.safetensors")
    wrong = []
    for name in names:
        for i, (exact, single) in enumerate(zip(in_torch(torch.float64, names)[name][1], in_torch(torch.float32, names)[name][1])):
            ours = found[f"grad.operands.{name}_{i}"].double()
            allowed = 4 * (single.double() - exact).abs().max() + 2e-6 * exact.abs().max()
            error = (ours - exact).abs().max()
            if not error <= allowed:
                wrong.append(f"{name}_{i}: error {error:.1e}, allowed {allowed:.1e}\n{ours}\n{exact}")
    assert wrong == [], "\n".join(wrong)


class Tagger(torch.nn.Module):
    """A classifier with several labels per sample and a larger weight for positive labels."""

    def __init__(self):
        super().__init__()
        self.up, self.middle, self.down = torch.nn.Linear(12, 24), torch.nn.Linear(24, 24), torch.nn.Linear(24, 10)
        self.slope = torch.nn.PReLU()
        self.register_buffer("positive", torch.linspace(0.5, 3, 10))

    def forward(self, x, target):
        h = F.mish(self.up(x)) + F.softplus(self.up(x), beta=2)
        h = self.slope(F.elu(self.middle(h)) + F.hardswish(h))
        return F.binary_cross_entropy_with_logits(self.down(h), (target > 0).to(x.dtype), pos_weight=self.positive)


class Attender(torch.nn.Module):
    """Attention by einsum over normalized rows, with a robust loss."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (torch.nn.Parameter(torch.randn(12, 4, 3) / 3) for _ in range(3))
        self.out = torch.nn.Parameter(torch.randn(4, 3, 12) / 3)

    def forward(self, x, target):
        x = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-3)
        q, k, v = (torch.einsum("btc,chd->bthd", x, w) for w in (self.query, self.key, self.value))
        scores = torch.einsum("bqhd,bkhd->bhqk", F.normalize(q, dim=-1), F.normalize(k, dim=-1)) * 4
        weights = (scores - scores.logsumexp(-1, keepdim=True)).exp()
        y = torch.einsum("bhqk,bkhd,hdc->bqc", weights, v, self.out)
        return F.smooth_l1_loss(y, target, beta=0.5)


class Distiller(torch.nn.Module):
    """A loss of the divergence from a given distribution and the angle to a given vector."""

    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(12, 24), torch.nn.Linear(24, 12)

    def forward(self, x, target):
        y = self.down(F.selu(self.up(x)) * F.leaky_relu(self.up(x), 0.2))
        divergence = F.kl_div(y.log_softmax(-1), target.softmax(-1), reduction="batchmean") / x.shape[1]
        return divergence + 0.5 * F.huber_loss(F.cosine_similarity(y, target, dim=-1), torch.ones_like(y[..., 0]))


MODELS = {"tagger": (Tagger, 10), "attender": (Attender, 12), "distiller": (Distiller, 12)}


@pytest.mark.cover(1)
@pytest.mark.parametrize("mesh", ["dp=1", "dp=2,tp=2"])
@pytest.mark.parametrize("name", MODELS)
def test_models_train_as_in_pytorch(tmp_path, name, mesh):
    make, width = MODELS[name]
    torch.manual_seed(0)
    inputs = {"x": torch.randn(8, 6, 12), "target": torch.randn(8, 6, width)}
    model = models.Model(name, make(), inputs)
    batches = oracle.draw_batches(model, 2)
    flag, optimizer, tolerance = oracle.OPTIMIZERS["sgd"]
    result = oracle.train_compiled(tmp_path, model.export(tmp_path / "model.pt2"), batches, mesh, 2, flag)
    reference = oracle.train_in_torch(model, batches, optimizer)
    assert oracle.compare(reference, result, tolerance).failures() == []


class Sums(torch.nn.Module):
    """A model that returns cumulative sums of integers and of floats."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(()))

    def forward(self, x, y):
        return (y.mean() * self.weight, x.cumsum(1), y.cumsum(1))


@pytest.mark.parametrize("mesh", ["dp=1", "dp=2"])
def test_running_sums_are_exact(tmp_path, mesh):
    """Integers beyond 2^53 and wrapping integers are exact. Infinities and NaN only affect the sums that include them."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(-(2**62), 2**62, (4, 3000), generator=generator)
    y = torch.randn(4, 3000, generator=generator)
    y[1, 2000], y[2, 7], y[3, 5], y[3, 900] = float("inf"), float("nan"), float("inf"), -float("inf")
    model = models.Model("sums", Sums(), {"x": x, "y": y})
    expected = model.module(x, y)
    assert expected[1].abs().max() > 2**62 and (x.double().cumsum(1).abs() > 2**63).any()
    program = oracle.compile_model(tmp_path, model.export(tmp_path / "sums.pt2"), mesh, "--optimizer", "sgd(lr=0)")
    save_file({"x": x, "y": y}, tmp_path / "data.safetensors")
    command = [program, "--ranks", oracle.ranks_of(mesh), "--eval", "--data", "data.safetensors", "--outputs", "out.safetensors"]
    assert "eval loss nan over 4 samples" in run(command, tmp_path, expect=1)  # the outputs are written anyway
    found = list(load_file(tmp_path / "out.safetensors").values())
    integers = [t for t in found if t.dtype == torch.int64]
    assert len(integers) == 1 and torch.equal(integers[0], expected[1])
    (floats,) = [t for t in found if t.shape == y.shape and t.dtype == torch.float32]
    torch.testing.assert_close(floats, expected[2], rtol=1e-5, atol=1e-3, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_running_sums_of_short_floats_are_added_in_float32(tmp_path, dtype):
    """In bfloat16, 256 + 1 would be 256."""

    class Short(torch.nn.Module):
        def forward(self, x):
            return x.cumsum(0)

    x = torch.ones(3000, dtype=dtype)
    archive = models.Model("short", Short(), {"x": x}).export(tmp_path / "short.pt2")
    run([tools_folder() / "ps-translate", "--import-pt2", archive, "-o", "m.mlir"], tmp_path)
    save_file({"x": x}, tmp_path / "in.safetensors")
    run([tools_folder() / "ps-run", "m.mlir", "--entry", "forward", "--inputs", "in.safetensors", "--outputs",
         "out.safetensors"], tmp_path)  # fmt: skip
    (found,) = load_file(tmp_path / "out.safetensors").values()
    assert torch.equal(found, x.cumsum(0)) and found[-1] > 2900


FUNCTIONS = ["tan", "sinh", "cosh", "atan", "asinh", "acosh", "asin", "acos", "atanh"]


class Functions(torch.nn.Module):
    """Applies each of FUNCTIONS to the same numbers."""

    def forward(self, x):
        return {name: getattr(torch, name)(x) for name in FUNCTIONS}


def test_functions_lose_no_digits(tmp_path):
    """In f32, functions are exact to a few ulps near 0, at the ends of domains, and where x^2 overflows. Infinities and NaN are as in PyTorch."""
    tiny = torch.logspace(-30, 0, 200)
    x = torch.cat([tiny, -tiny, 1 - tiny, 1 + tiny, torch.linspace(-89, 89, 1001), torch.tensor([89.3, -89.3]),
                   torch.logspace(2, 38, 100), -torch.logspace(2, 38, 100),
                   torch.tensor([0.0, -1, -2, 1e30, INFINITY, -INFINITY, float("nan")])])  # fmt: skip
    archive = models.Model("functions", Functions(), {"x": x}).export(tmp_path / "functions.pt2")
    run([tools_folder() / "ps-translate", "--import-pt2", archive, "-o", "m.mlir"], tmp_path)
    save_file({"x": x}, tmp_path / "in.safetensors")
    run([tools_folder() / "ps-run", "m.mlir", "--entry", "forward", "--inputs", "in.safetensors", "--outputs",
         "out.safetensors"], tmp_path)  # fmt: skip
    found = load_file(tmp_path / "out.safetensors")
    for name in FUNCTIONS:
        exact = getattr(torch, name)(x.double())
        ours = found[name]
        torch.testing.assert_close(ours, exact.float(), rtol=7e-7, atol=0, equal_nan=True, msg=lambda text, n=name: f"{n}: {text}")


def test_slopes_at_the_ends_of_domains_are_infinite(tmp_path):
    """The slopes are infinite, as in PyTorch, and not NaN (infinity times 0)."""

    class Ends(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = (torch.nn.Parameter(torch.tensor([1.0, -1, 0, 0.5])) for _ in range(2))
            self.c = torch.nn.Parameter(torch.tensor([1.0, 1.5]))

        def forward(self, x):
            return (self.a.asin().sum() + self.b.acos().sum() + self.c.acosh().sum()) * x.mean()

    module, data = Ends(), {"x": torch.ones(4, 1)}
    archive = models.Model("ends", module, data).export(tmp_path / "ends.pt2")
    loss, gradients = oracle.first_step(tmp_path, archive, data)
    expected = module(**data)
    expected.backward()
    assert loss == pytest.approx(float(expected.detach()), rel=1e-6)
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad, rtol=1e-6, atol=0)
    assert gradients["a"][:2].tolist() == [INFINITY, INFINITY] and gradients["b"][:2].tolist() == [-INFINITY, -INFINITY]
    assert gradients["c"][0] == INFINITY


def test_logaddexp_of_infinities(tmp_path):
    """The result equals PyTorch's, also for equal infinities, whose difference is NaN."""

    class Sum(torch.nn.Module):
        def forward(self, x, y):
            return torch.logaddexp(x, y)

    ends = torch.tensor([-INFINITY, -1e8, -50, 0, 1, 50, 1e8, INFINITY, float("nan")])
    x, y = (grid.flatten() for grid in torch.meshgrid(ends, ends, indexing="ij"))
    archive = models.Model("sum", Sum(), {"x": x, "y": y}).export(tmp_path / "sum.pt2")
    run([tools_folder() / "ps-translate", "--import-pt2", archive, "-o", "m.mlir"], tmp_path)
    save_file({"x": x, "y": y}, tmp_path / "in.safetensors")
    run([tools_folder() / "ps-run", "m.mlir", "--entry", "forward", "--inputs", "in.safetensors", "--outputs",
         "out.safetensors"], tmp_path)  # fmt: skip
    (found,) = load_file(tmp_path / "out.safetensors").values()
    torch.testing.assert_close(found, torch.logaddexp(x.double(), y.double()).float(), rtol=5e-7, atol=0, equal_nan=True)


def test_means_of_halves_are_divided_in_float32(tmp_path):
    """The sum of 4096 squares of 5.5 overflows f16, but their mean and the loss do not."""

    class Halves(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.full((4096,), 5.5))

        def forward(self, x):
            h = (x * self.w).half()
            return F.mse_loss(h, h * 0).float() + h.square().mean(-1).float().mean()

    module, data = Halves(), {"x": torch.ones(4, 4096)}
    archive = models.Model("halves", module, data).export(tmp_path / "halves.pt2")
    loss, gradients = oracle.first_step(tmp_path, archive, data)
    expected = module(**data)
    expected.backward()
    assert loss == pytest.approx(float(expected.detach()), rel=1e-3)
    torch.testing.assert_close(gradients["w"], module.w.grad, rtol=1e-2, atol=0)


def test_errors_about_unsupported_ops_say_what_to_do(tmp_path):
    class Odd(torch.nn.Module):
        def forward(self, x):
            return (torch.fmod(x, 0.3) + x.flip(0)).sum()

    archive = models.Model("odd", Odd(), {"x": torch.rand(40, 4)}).export(tmp_path / "odd.pt2")
    said = run([tools_folder() / "ps-translate", "--import-pt2", archive, "--check"], tmp_path, expect=1)
    for words in ["remainder of floating-point numbers", "an order of 40 arithmetic progressions", "test_import_ops.py"]:
        assert words in said


@pytest.mark.parametrize(
    "change,words",
    [
        (lambda node: node["inputs"].append({"name": "scale", "arg": {"as_float": 2.0}, "kind": 1}),
         ["'aten.relu.default' has the argument 'scale', which is not supported"]),
        (lambda node: node["outputs"][0]["as_tensor"].update(name="input"), ["'aten.relu.default' defines 'input'", "already defined"]),
        (lambda node: node["inputs"].append(node["inputs"][0]), ["'aten.relu.default' has the argument 'self' twice"]),
        (lambda node: node["inputs"].append({"name": "n", "arg": {"as_int": "7"}, "kind": 1}), ["'as_int' has the value \"7\""]),
        (lambda node: node["inputs"].append({"name": "n", "arg": {"as_float": "1e3"}, "kind": 1}), ["a float is \"1e3\""]),
    ],
    ids=["argument", "name", "twice", "kind", "float"],
)  # fmt: skip
def test_arguments_that_no_converter_reads_are_errors(tmp_path, change, words):
    archive = models.Model("plain", torch.nn.ReLU(), {"input": torch.rand(4)}).export(tmp_path / "plain.pt2")

    def edit(name, data):
        if not name.endswith("models/model.json"):
            return data
        program = json.loads(data)
        change(program["graph_module"]["graph"]["nodes"][0])
        return json.dumps(program)

    changed = damage(archive, tmp_path / "changed.pt2", edit)
    said = run([tools_folder() / "ps-translate", "--import-pt2", changed, "--check"], tmp_path, expect=1)
    for word in words:
        assert word in said, said


def test_bytes_are_not_read_as_another_type(tmp_path):
    class Bits(torch.nn.Module):
        def forward(self, x):
            return x.view(torch.int32) + 1

    archive = models.Model("bits", Bits(), {"x": torch.rand(4)}).export(tmp_path / "bits.pt2")
    said = run([tools_folder() / "ps-translate", "--import-pt2", archive, "--check"], tmp_path, expect=1)
    assert "'aten.view.dtype' reads the bytes of a tensor as another type (view(dtype))" in said
    assert "to convert the numbers instead, use .to(dtype)" in said


# ---- the list of ops -----------------------------------------------------------------------------------------------

LIST = ROOT / "docs/pytorch-ops.md"
LIMITS = """\
# Supported PyTorch ops

`build/venv/bin/python test/python/test_import_ops.py` writes this page from the importer's tables
(`lib/Import/Pt2`). A name without an overload means all overloads. In-place ops are imported as
their functional variants. If a model has other ops, the import ends with an error that lists them
with their source lines.

Values and gradients equal PyTorch's, also at points where a function is not differentiable. Some
ops have limits:

* **Gather and index.** `gather` needs an index tensor of size 1 along the gathered dim. `index` and
  `index_select` take constant arithmetic progressions, or rows of a table. Negative indices count
  from the end, but negative values of a model input are errors. A row index out of range gives NaN.
  An index of `gather` that the model computes gives NaN if it is out of range (0 in integer
  tensors). `index_copy` takes constant positions in arithmetic progression, or one position that is
  known only at run time.
* **In-place writes** through views other than slices, permutations and reshapes are errors:
  `diagonal`, `einsum`, `unfold`.
* **Functions of f32.** `sin`, `cos` and `tan` are NaN from 2^48 on. `pow` is exact to about 1e-6.
  `erfc` is not supported: `1 - erf(x)` loses its digits where erfc is small.
* **Permutations.** The constant indices of `flip`, `roll` and `index_select` may consist of at most
  16 arithmetic progressions.
* **Stopped gradients.** `detach` and `no_grad` are not supported with in-place writes to a value
  that requires a gradient. PyTorch's `run_decompositions` drops no_grad regions. `torch.export`
  never records `.data`, nor a no_grad region inside an autocast region. `parashard.export` keeps
  all no_grad regions, and reports an assignment to `.data` as an error.
* **Custom backwards and hooks.** `torch.export` also drops the backward of a
  `torch.autograd.Function`, and the hooks of tensors, parameters and modules. An archive of
  `torch.export.save` does not show them. `parashard.export` reports hooks of tensors and parameters
  as an error. The same holds for a Function with a gradient whose backward is not the derivative of
  its forward. A note reports that backward hooks of modules are not exported.
* **First maximum.** `max.dim`, `min.dim`, `argmax` and `argmin` give the first index.
* **Order of equal elements.** Sorts are stable, also those that PyTorch does not promise to be.
  `topk`, `kthvalue` and `median` therefore take the first of equal elements, and the gradient goes
  there; PyTorch does not specify which of them it takes. `topk` is always sorted.
* **Restricted arguments.** `linalg_norm` computes norms of vectors and the Frobenius norm of
  matrices. `fmod`, `remainder` and `floor_divide` take integers only. `round` does not take
  `decimals`. `instance_norm` uses the statistics of the input, not running statistics.
* **Pooling.** `max_pool*` and `adaptive_max_pool*` give values, not indices. `adaptive_max_pool*`
  needs output sizes that divide the input sizes. Space dims are never split over ranks; the batch
  dim may be.
* **Interpolation** along one or three dims is supported as exported, not decomposed. Linear
  interpolation is a matmul with a weight matrix, and so is adaptive average pooling to a size that
  does not divide the input size. Unlike in PyTorch, an infinite element then makes its whole row
  and column NaN.

| family | ops |
|---|---|
"""


def listed():
    """Markdown: the ops of each file of converters."""
    lines = []
    for path in sorted((ROOT / "lib/Import/Pt2").glob("Convert?*.cpp")):
        names = re.findall(r'table\["(?:aten\.)?([\w.]+)"\] *=', path.read_text())
        if names:
            family = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", path.stem.removeprefix("Convert")).lower()
            lines.append(f"| {family} | {' '.join(f'`{name}`' for name in sorted(names))} |")
    return LIMITS + "\n".join(lines) + "\n"


def test_the_list_is_current():
    assert LIST.read_text() == listed()


if __name__ == "__main__":
    LIST.write_text(listed())
    print(f"wrote {LIST}", file=sys.stderr)
