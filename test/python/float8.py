"""Implements `--precision fp8` in PyTorch: linear layers with operands rounded to scaled 8-bit floats, under bf16 autocast."""
import copy
import math

import models
import oracle
import torch
import torch.nn.functional as F
from transformers.pytorch_utils import Conv1D

FORMATS = {"e4m3": (torch.float8_e4m3fn, 448.0), "e5m2": (torch.float8_e5m2, 57344.0)}


def scale(amax, format, margin=0):
    """Returns the scale, by which a tensor is divided before it is quantized: a power of two."""
    known = 0 < amax < math.inf
    return 2.0 ** min(max(margin - math.floor(math.log2(FORMATS[format][1] / amax)), -100), 100) if known else 1.0


def quantize(x, amax, format, margin=0):
    """Returns round(clamp(x / scale)) * scale."""
    dtype, largest = FORMATS[format]
    one = scale(amax, format, margin)
    return ((x.float() / one).clamp(-largest, largest).to(dtype).float() * one).to(x.dtype)


class Scales:
    """Stores the largest |x| of each tensor by name, for this step and for the last `history` steps."""

    def __init__(self, delayed=True, history=16, margin=0):
        self.delayed, self.history, self.margin = delayed, history, margin
        self.now, self.steps = {}, {}

    def round(self, name, x, format):
        largest = x.detach().float().abs().max().item()
        self.now[name] = max(self.now.get(name, 0.0), largest)
        return quantize(x, self.amax(name) if self.delayed else largest, format, self.margin)

    def amax(self, name):
        return max(self.steps.get(name, [0.0]))

    def finish_step(self):
        for name, largest in self.now.items():
            self.steps[name] = [*self.steps.get(name, [0.0] * self.history), largest][-self.history :]
        self.now = {}


class RoundedMatmul(torch.autograd.Function):
    """Computes x w^T in bf16. x, w and the incoming gradient are rounded to 8 bits; the gradient of w is computed in f32."""

    @staticmethod
    def forward(context, x, w, name, scales):
        x, w = (scales.round(f"{name}.{kind}", v.bfloat16(), "e4m3") for kind, v in [("input", x), ("weight", w)])
        context.save_for_backward(x, w)
        context.name, context.scales = name, scales
        return x @ w.t()

    @staticmethod
    def backward(context, gradient):
        x, w = context.saved_tensors
        g = context.scales.round(f"{context.name}.gradient", gradient.bfloat16(), "e5m2")
        rows = g.reshape(-1, g.shape[-1])
        return g @ w, rows.float().t() @ x.reshape(-1, x.shape[-1]).float(), None, None


def replace_linears(module, scales):
    """Makes every `Linear` and `Conv1D` (whose weight is transposed) compute a RoundedMatmul."""
    for name, layer in module.named_modules():
        if not isinstance(layer, (torch.nn.Linear, Conv1D)):
            continue

        def forward(x, layer=layer, name=name + ".weight"):
            weight = layer.weight.t() if isinstance(layer, Conv1D) else layer.weight
            y = RoundedMatmul.apply(x, weight, name, scales)
            return y if layer.bias is None else y + layer.bias.bfloat16()

        layer.forward = forward


def train(model, batches, steps, scales, micro_batches=1):
    """Trains by AdamW, in f32 if `scales` is None. Returns (losses, state_dict).

    Differentiates the sum of the losses over labels, and then divides by their count.
    """
    module = copy.deepcopy(model.module).train()
    if scales:
        replace_linears(module, scales)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        rows = oracle.rows_of_step(batches, step, steps)
        parts = [{n: v.chunk(micro_batches)[i] for n, v in rows.items()} for i in range(micro_batches)]
        count, total = (rows["labels"][:, 1:] != models.IGNORED).sum().item(), 0.0
        for part in parts:
            labels = part.pop("labels")[:, 1:]
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=scales is not None):
                logits = module(**part).logits[:, :-1].float()
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=models.IGNORED, reduction="sum")
            loss.backward()
            total += loss.item()
        for parameter in module.parameters():
            parameter.grad /= count
        optimizer.step()
        if scales:
            scales.finish_step()
        losses.append(total / count)
    return losses, {name: value.detach() for name, value in module.state_dict().items()}
