"""Compares five steps of every optimizer (ps-optimizer, reference evaluator) with torch.optim.

Compares the update of each parameter, |w - w_torch| / |w_torch - w_0|, which reveals a wrong decay or bias correction.
"""
import subprocess

import pytest
import torch
from conftest import tools_folder
from safetensors.torch import load_file, save_file

STEPS = 5
MODEL = """
ps.variable parameter @weight : tensor<6x4xf32>
ps.variable parameter @bias : tensor<6xf32>
func.func @forward(%x: tensor<8x4xf32> {ps.name = "x"}, %target: tensor<8x6xf32> {ps.name = "target"}) -> tensor<f32> {
  %w = ps.read @weight : tensor<6x4xf32>
  %b = ps.read @bias : tensor<6xf32>
  %h = ps.contract %x [0, 1], %w [2, 1] -> [0, 2] : (tensor<8x4xf32>, tensor<6x4xf32>) -> tensor<8x6xf32>
  %c = ps.broadcast %b dims [1] : tensor<6xf32> -> tensor<8x6xf32>
  %y = ps.add %h, %c : tensor<8x6xf32>
  %d = ps.sub %y, %target : tensor<8x6xf32>
  %q = ps.mul %d, %d : tensor<8x6xf32>
  %s = ps.reduce sum %q dims [0, 1] : tensor<8x6xf32> -> tensor<f32>
  %n = ps.constant dense<48.0> : tensor<f32>
  %loss = ps.div %s, %n : tensor<f32>
  return %loss : tensor<f32>
}
"""

CASES = {
    "sgd(lr=0.1)": lambda p: torch.optim.SGD(p, lr=0.1),
    "sgd(lr=0.1,momentum=0.9,dampening=0.5,weight_decay=0.01)":
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.01),
    "sgd(lr=0.1,momentum=0.9,nesterov=true)": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam(lr=0.01,weight_decay=0.1)": lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.1),
    "adamw(lr=0.01)": lambda p: torch.optim.AdamW(p, lr=0.01),
    "adamw(lr=0.01,betas=(0.9,0.95),eps=1e-6,weight_decay=0.1)":
        lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.9, 0.95), eps=1e-6, weight_decay=0.1),
    "adamw(lr=0.01,betas=(0.5,0.0))": lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.5, 0.0)),
    "ndim<2=sgd(lr=0.1);adamw(lr=0.01,weight_decay=0.1)": None,
}


def make_optimizers(spec, weight, bias):
    if CASES[spec]:
        return [CASES[spec]([weight, bias])]
    return [torch.optim.SGD([bias], lr=0.1), torch.optim.AdamW([weight], lr=0.01, weight_decay=0.1)]


def run_ours(folder, spec, values, micro_batches, clip=None):
    source, training, given, out = (folder / name for name in ("a.mlir", "b.mlir", "in.safetensors", "out.safetensors"))
    source.write_text(MODEL)
    save_file(values, given)
    clip = f" clip-norm={clip}" if clip else ""
    for command in (["ps-opt", source, "-ps-autodiff", f'-ps-optimizer=optimizer="{spec}"{clip}', "-ps-verify-training",
                     "-o", training],
                    ["ps-run", training, "--entry", "step", "--steps", str(STEPS), "--micro-batches",
                     str(micro_batches), "--inputs", given, "--outputs", out]):
        done = subprocess.run([tools_folder() / command[0], *command[1:]], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return load_file(out)


def make_values(micro_batches):
    generator = torch.Generator().manual_seed(0)
    shapes = {"weight": (6, 4), "bias": (6,), "x": (STEPS * micro_batches * 8, 4),
              "target": (STEPS * micro_batches * 8, 6)}
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def run_torch(spec, values, micro_batches, clip=None):
    weight, bias = (torch.nn.Parameter(values[name].clone()) for name in ("weight", "bias"))
    optimizers = make_optimizers(spec, weight, bias)
    rows = micro_batches * 8
    for step in range(STEPS):
        x, target = (values[name][step * rows:(step + 1) * rows] for name in ("x", "target"))
        loss = torch.nn.functional.mse_loss(x @ weight.T + bias, target)
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_([weight, bias], clip)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    return {"weight": weight.detach(), "bias": bias.detach(), "loss": loss.detach()}


def check(ours, theirs, values):
    torch.testing.assert_close(ours["loss"], theirs["loss"], rtol=1e-5, atol=1e-6)
    for name in ("weight", "bias"):
        update = (theirs[name] - values[name]).norm()
        assert (ours[name] - theirs[name]).norm() < 2e-5 * update, name


@pytest.mark.parametrize("micro_batches", [1, 2])
@pytest.mark.parametrize("spec", CASES)
def test_update(spec, micro_batches, tmp_path):
    values = make_values(micro_batches)
    check(run_ours(tmp_path, spec, values, micro_batches), run_torch(spec, values, micro_batches), values)


@pytest.mark.parametrize("clip", [0.1, 100.0])
def test_clipping(clip, tmp_path):
    values = make_values(1)
    check(run_ours(tmp_path, "sgd(lr=0.1)", values, 1, clip), run_torch("sgd(lr=0.1)", values, 1, clip), values)


def test_comparison_sees_a_missing_decay(tmp_path):
    values = make_values(1)
    ours = run_ours(tmp_path, "adamw(lr=0.01,weight_decay=0)", values, 1)
    with pytest.raises(AssertionError):
        check(ours, run_torch("adamw(lr=0.01)", values, 1), values)
