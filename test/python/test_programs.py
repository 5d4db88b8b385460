"""Special programs: with embedded weights, without weights, for evaluation only, and trained in evaluation mode."""
import re
import shutil

import capi
import models
import oracle
import pytest
import torch
from refusals import refuse, refuse_compile
from safetensors.torch import load_file, save_file
from torch import nn

PLAIN = ("--optimizer", "adamw(lr=1e-2)")


def train(folder, program, *flags, steps=2):
    oracle.run([folder / program, "--data", "data.safetensors", "--steps", steps, "--losses", "losses.txt", "--quiet", *flags], folder)
    return oracle.read_losses(folder / "losses.txt")


# ---- weights -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mesh", ["dp=2", "tp=2"])
def test_program_that_carries_its_weights(tmp_path, mesh):
    """--weights copy gives the same bits as --weights reference, after the model is removed and the program is moved."""
    model = models.gpt2()  # has fused and tied weights
    archive = model.export(tmp_path / "model.pt2")
    save_file(model.draw_inputs(1), tmp_path / "data.safetensors")
    oracle.compile_model(tmp_path, archive, mesh, *PLAIN)
    expected = train(tmp_path, "program")
    oracle.compile_model(tmp_path, archive, mesh, *PLAIN, "--weights", "copy", "--check", out="whole")
    library = oracle.compile_model(tmp_path, archive, mesh, *PLAIN, "--weights", "copy", out="whole.so")
    archive.unlink()
    (tmp_path / "elsewhere").mkdir()
    shutil.move(tmp_path / "whole", tmp_path / "elsewhere/whole")
    assert train(tmp_path, "elsewhere/whole") == expected
    oracle.run([tmp_path / "elsewhere/whole", "--data", "data.safetensors", "--check"], tmp_path)
    opened = capi.Program(library, ranks=2)
    state = model.module.state_dict()
    for name in ("transformer.wte.weight", "transformer.h.0.attn.c_attn.weight"):
        assert torch.equal(opened.get(name, state[name]), state[name])
    opened.close()


def test_carried_weights_that_are_cut_off(tmp_path, exports):
    program = oracle.compile_model(tmp_path, oracle.export("mlp", exports), "dp=1", "--weights", "copy")
    save_file(models.mlp().draw_inputs(1), tmp_path / "data.safetensors")
    size = program.stat().st_size
    with open(program, "r+b") as file:
        file.truncate(size - 100)
    refuse([program, "--data", "data.safetensors"], tmp_path, 1, "--weights copy", "missing from its end", "strip")


def test_program_without_weights(tmp_path):
    """A program of --weights none needs --weights. With it, results are the same, and the model's file is not read."""
    model = models.gpt2()
    archive = model.export(tmp_path / "model.pt2")
    save_file(model.draw_inputs(1), tmp_path / "data.safetensors")
    oracle.compile_model(tmp_path, archive, "tp=2", *PLAIN)
    expected = train(tmp_path, "program")
    bare = oracle.compile_model(tmp_path, archive, "tp=2", *PLAIN, "--weights", "none", out="bare")
    archive.unlink()
    refuse([bare, "--data", "data.safetensors"], tmp_path, 2, "transformer.wte.weight", "--weights none", "--weights FILE")
    save_file({n: t for n, t in model.module.state_dict().items() if n != "lm_head.weight"}, tmp_path / "given.safetensors")
    assert train(tmp_path, "bare", "--weights", "given.safetensors") == expected


def test_program_without_weights_that_draws_them(tmp_path, exports):
    """With --weights none, --init also applies to parameters with values in the model's file. All other parameters need --weights."""
    archive = oracle.export("mlp", exports)
    program = oracle.compile_model(
        tmp_path, archive, "dp=1", "--weights", "none", "--init", "*weight=normal(0.02)", "--init", "ones"
    )
    oracle.run([program, "--export-weights", "out.safetensors"], tmp_path)
    found = load_file(tmp_path / "out.safetensors")
    assert torch.equal(found["layers.0.bias"], torch.ones(24)) and 0.015 < found["layers.2.weight"].std() < 0.025
    half = oracle.compile_model(tmp_path, archive, "dp=1", "--weights", "none", "--init", "*bias=zeros", out="half")
    refuse([half, "--export-weights", "out.safetensors"], tmp_path, 2, "layers.0.weight", "one of 3 such parameters")


# ---- eval mode, inference ------------------------------------------------------------------------------------------


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(6, 32), nn.Dropout(0.5), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, x, labels):
        logits = self.layers(x)
        return nn.functional.cross_entropy(logits, labels), logits


def draw(batch, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(batch, 6, generator=generator), "labels": torch.randint(0, 4, (batch,), generator=generator)}


@pytest.mark.parametrize("mode,equal", [("eval", True), ("train", False)])
def test_training_in_eval_mode(tmp_path, mode, equal):
    """With --mode eval, gradients equal those of model.eval(), without dropout. With --mode train, dropout is active."""
    model = models.Model("dropping", Dropping().train(), draw(8))
    archive = model.export(tmp_path / "model.pt2")
    loss, gradients = oracle.first_step(tmp_path, archive, draw(8), "--mode", mode)
    expected = model.module.eval()(**draw(8))[0]
    expected.backward()
    assert (loss == pytest.approx(expected.item(), rel=1e-5)) == equal
    for name, parameter in model.module.named_parameters():
        if name != "layers.3.bias":
            assert torch.allclose(gradients[name], parameter.grad, rtol=1e-4, atol=1e-6) == equal, name


@pytest.mark.parametrize("mesh", ["dp=1", "tp=2", "dp=2"])
def test_inference(tmp_path, exports, mesh):
    """An --inference program only evaluates. It contains no gradients and no optimizer, and writes outputs of every sample."""
    archive = oracle.export("gpt", exports)
    program = oracle.compile_model(tmp_path, archive, mesh, "--inference")
    training = oracle.compile_model(tmp_path, archive, mesh, out="training")
    model = models.gpt()
    inputs = {n: torch.cat([t, model.draw_inputs(2)[n][:2]]) for n, t in model.draw_inputs(1).items()}  # 6 samples
    save_file(inputs, tmp_path / "data.safetensors")
    said = oracle.run([program, "--eval", "--eval-data", "data.safetensors", "--outputs", "o.safetensors"], tmp_path)
    loss, logits = model.module.eval()(**inputs)
    assert float(re.search(r"eval loss ([0-9.]+) over 6", said)[1]) == pytest.approx(loss.item(), rel=1e-5)
    found = [t for t in load_file(tmp_path / "o.safetensors").values() if t.dim() == 3]
    torch.testing.assert_close(found[0], logits.detach(), rtol=1e-4, atol=1e-5)
    info, other = (oracle.run([p, "--info"], tmp_path) for p in (program, training))
    assert "only evaluates" in info and "gradient" not in info.split("variables")[0] and "optimizer" not in info.split("variables")[0]
    assert "gradient" in other.split("variables")[0]
    refuse([program, "--data", "data.safetensors"], tmp_path, 2, "--inference", "--eval")


def test_inference_without_labels_and_loss(tmp_path):
    """An --inference program needs no loss. The last, incomplete batch is evaluated, too."""
    model = models.gpt(loss=False)
    program = oracle.compile_model(tmp_path, model.export(tmp_path / "model.pt2"), "dp=2", "--inference", "--micro-batches", 2)
    inputs = {"input_ids": torch.cat([model.draw_inputs(1)["input_ids"], model.draw_inputs(2)["input_ids"][:1]])}  # 5
    save_file(inputs, tmp_path / "data.safetensors")
    said = oracle.run([program, "--eval", "--eval-data", "data.safetensors", "--outputs", "o.safetensors"], tmp_path)
    assert "loss" not in said and "are skipped" not in said
    (found,) = load_file(tmp_path / "o.safetensors").values()
    torch.testing.assert_close(found, model.module.eval()(**inputs).detach(), rtol=1e-4, atol=1e-5)


def test_flags_with_inference(tmp_path, exports):
    archive = oracle.export("gpt", exports)
    refuse_compile(tmp_path, archive, "--inference", "--loss", "none", status=2, words=["--inference", "--loss none"])
    refuse_compile(tmp_path, archive, "--inference", "--check", status=2, words=["--check", "--inference"])
    said = refuse_compile(tmp_path, archive, "--inference", "--ema", "0.9", "--no-codegen", status=0)
    assert "warning: --ema has no effect" in said
