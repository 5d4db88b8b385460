"""`--loss KIND` for a model that returns no loss: losses and gradients equal PyTorch's."""
import models
import oracle
import pytest
import torch
import torch.nn.functional as F
from conftest import tools_folder
from safetensors.torch import load_file, save_file


class Perceptron(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(12, 24), torch.nn.Linear(24, 10)

    def forward(self, x):
        return self.down(torch.tanh(self.up(x)))


def perceptron():
    torch.manual_seed(0)
    inputs = {"x": torch.randn(8, 12, generator=torch.Generator().manual_seed(1))}
    return models.Model("perceptron", Perceptron(), inputs)


def masked(shape, classes):
    """Draws labels of which about a third is ignored. Later samples have more ignored labels."""
    generator = torch.Generator().manual_seed(5)
    labels = torch.randint(0, classes, shape, generator=generator)
    labels[torch.rand(shape, generator=generator) < torch.linspace(0, 0.6, shape[0]).reshape(-1, *[1] * (len(shape) - 1))] = -100
    return labels


def next_token(logits, labels):
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


CASES = {
    "classes": (perceptron, "cross_entropy", lambda: masked((8,), 10), F.cross_entropy),
    "tokens": (
        lambda: models.gpt(loss=False), "cross_entropy", lambda: masked((4, 16), 96),
        lambda logits, labels: F.cross_entropy(logits.flatten(0, 1), labels.flatten()),
    ),
    "next tokens": (lambda: models.gpt(loss=False), "causal_lm", lambda: masked((4, 16), 96), next_token),
    "squares": (perceptron, "mse", lambda: torch.randn(8, 10, generator=torch.Generator().manual_seed(2)), F.mse_loss),
}  # fmt: skip


def written(model, path):
    return model.export_onnx(path) if path.suffix == ".onnx" else model.export(path)


@pytest.mark.cover(1)
@pytest.mark.parametrize("mesh,file", [("dp=1", "model.pt2"), ("dp=2,tp=2", "model.pt2"), ("dp=1", "model.onnx")])
@pytest.mark.parametrize("case", CASES)
def test_added_loss_equals_pytorch(tmp_path, case, mesh, file):
    make, kind, draw, loss = CASES[case]
    model, labels = make(), draw()
    program = oracle.compile_model(tmp_path, written(model, tmp_path / file), mesh, "--loss", kind)
    save_file({**model.inputs, "labels": labels}, tmp_path / "data.safetensors")
    oracle.run(
        [program, "--data", "data.safetensors", "--steps", 1, "--gradients", "g.safetensors", "--losses", "losses.txt"],
        tmp_path,
    )
    expected = loss(model.module(**model.inputs), labels)
    expected.backward()
    assert oracle.read_losses(tmp_path / "losses.txt") == [pytest.approx(expected.item(), rel=1e-5)]
    gradients = load_file(tmp_path / "g.safetensors")
    largest = max(p.grad.abs().max() for p in model.module.parameters())
    aliases = oracle.aliases_of(model.module)  # an ONNX file may have another name of a tied parameter
    assert {aliases[name.removeprefix("grad.")] for name in gradients if name != "loss"} == set(aliases.values())
    for name, gradient in gradients.items():
        if name == "loss":
            continue
        parameter = model.module.get_parameter(aliases[name.removeprefix("grad.")])
        assert (gradient - parameter.grad).abs().max() < 1e-5 * largest, name


@pytest.mark.parametrize("kind,default", [("cross_entropy", "next"), ("causal_lm", "same")])
def test_labels_follow_from_the_kind(tmp_path, kind, default):
    program = oracle.compile_model(tmp_path, models.gpt(loss=False).export(tmp_path / "m.pt2"), "dp=1", "--loss", kind)
    assert f"labels      {default} " in oracle.run([program, "--info"], tmp_path)


class Several(Perceptron):
    """A model with two scalar outputs, after an output that is not a scalar."""

    def forward(self, x, target):
        y = super().forward(x)
        return {"prediction": y, "squares": F.mse_loss(y, target), "absolute": F.l1_loss(y, target)}


@pytest.mark.parametrize("asked", ["absolute", 2])
@pytest.mark.parametrize("file", ["model.pt2", "model.onnx"])
def test_loss_output_by_name_or_number(tmp_path, file, asked):
    torch.manual_seed(0)
    inputs = {"x": torch.randn(8, 12), "target": torch.randn(8, 10)}
    model = models.Model("several", Several(), inputs)
    path = tmp_path / file
    if file == "model.onnx":
        model.export_onnx(path, output_names=["prediction", "squares", "absolute"])
    else:
        model.export(path)
    said = oracle.run([tools_folder() / "ps-compile", path, "-o", "program"], tmp_path, expect=1)
    assert "name the loss with --loss-output" in said
    loss, gradients = oracle.first_step(tmp_path, path, inputs, "--loss-output", asked)
    expected = model.module(**inputs)["absolute"]
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    for name, parameter in model.module.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad, rtol=1e-5, atol=1e-7)
