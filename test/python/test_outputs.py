"""`--eval --outputs` writes the outputs of all samples, for any position of the batch dim. Outputs with one value per batch are omitted, with a note."""
import subprocess

import oracle
import pytest
import torch
from conftest import tools_folder
from refusals import refuse
from safetensors.torch import load_file, save_file

BATCH, SAMPLES = 8, 20


class Outputs(torch.nn.Module):
    """A model with outputs whose batch is in different dims, outputs without a batch dim, and outputs with one value per batch."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(5, 6)

    def forward(self, x):
        rows = self.layer(x)
        return {
            "rows": rows, "flat": rows.reshape(-1), "pairs": rows.reshape(-1, 2), "columns": rows.t(), "doubled": torch.stack([rows, 2 * rows]),
            "largest": rows.argmax(-1), "bias": 2 * self.layer.bias, "square": (self.layer.weight @ self.layer.weight.t()),
            "zeros": x.new_zeros(x.shape[0], 2),
            "mean": rows.mean(), "means": rows.mean(0), "twice": torch.cat([rows, 2 * rows]), "products": rows @ rows.t(),
        }  # fmt: skip


OF_SAMPLES, OF_BATCHES = ["rows", "flat", "pairs", "columns", "doubled", "largest", "bias", "square"], ["mean", "means", "twice", "products"]


@pytest.mark.parametrize("mesh,batch", [("dp=1", BATCH), ("dp=2", BATCH), ("dp=1", 1)])
def test_outputs_are_of_all_samples(tmp_path, mesh, batch):
    model, x = Outputs(), torch.randn(SAMPLES, 5)
    shapes = {"x": {0: torch.export.Dim("batch")}}
    torch.export.save(torch.export.export(model, (x[:BATCH],), dynamic_shapes=shapes), tmp_path / "model.pt2")
    names = list(model(x))
    flags = ["--inference", "--mesh", mesh, "--batch", str(batch)]
    oracle.run([tools_folder() / "ps-compile", "model.pt2", "-o", "program", *flags], tmp_path)
    save_file({"x": x}, tmp_path / "x.safetensors")
    run = ["./program", "--eval", "--eval-data", "x.safetensors", "--outputs", "o.safetensors"]
    said = oracle.run(run, tmp_path)
    found, expected = load_file(tmp_path / "o.safetensors"), model(x)
    left = OF_BATCHES if batch > 1 else []
    assert set(names) - set(found) >= set(left) and all(f'"{name}"' in said for name in left), said
    for name in OF_SAMPLES:
        assert torch.allclose(found[name], expected[name], rtol=1e-5, atol=1e-6), name
    assert ('note: --outputs writes "zeros" once, with a dim of 8' in said) == (batch > 1) and said.count("once") == (batch > 1), said
    if batch == 1:
        return
    assert found["zeros"].shape == (BATCH, 2)
    refuse([*run, "--output", "means"], tmp_path, 2, "--output means", "per batch, not per sample", "--eval-steps 1")
    oracle.run([*run, "--eval-steps", "1"], tmp_path)
    first = model(x[:BATCH])
    for name, value in load_file(tmp_path / "o.safetensors").items():
        assert torch.allclose(value, first[name], rtol=1e-5, atol=1e-6), name


class Logarithm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x):
        return (self.layer(x) * 0).log().sum()


def test_scalar_of_inference_may_be_infinite(tmp_path):
    inputs = {"x": torch.randn(4, 3)}
    torch.export.save(torch.export.export(Logarithm(), (), inputs), tmp_path / "m.pt2")
    program = oracle.compile_model(tmp_path, tmp_path / "m.pt2", "dp=1", "--inference")
    save_file(inputs, tmp_path / "x.safetensors")
    done = subprocess.run([program, "--eval", "--data", "x.safetensors", "--outputs", "o.safetensors"], cwd=tmp_path,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0 and "eval loss -inf over 4 samples" in done.stdout, done.stderr
    assert next(iter(load_file(tmp_path / "o.safetensors").values())).item() == -float("inf")
