"""Properties of compiled training: same bits in two runs, exported weights, evaluation, and initial values."""
import copy
import json

import models
import oracle
import pytest
import torch
from safetensors.torch import load_file, save_file

ADAMW = oracle.OPTIMIZERS["adamw"][0]


def weights_of(result):
    return (result.folder / "weights.safetensors").read_bytes()


@pytest.mark.part(2)
@pytest.mark.parametrize("name", ["gpt", "gpt_dropout"])
@pytest.mark.parametrize("mesh", ["dp=1", "dp=2,tp=2"])
def test_two_runs_have_the_same_bits(tmp_path, exports, mesh, name):
    model = oracle.zoo(name)
    runs = []
    for run in ("a", "b"):
        (tmp_path / run).mkdir()
        runs.append(
            oracle.train_compiled(
                tmp_path / run, oracle.export(name, exports), oracle.draw_batches(model, 2), mesh, 2, ADAMW
            )
        )
    assert runs[0].losses == runs[1].losses
    assert weights_of(runs[0]) == weights_of(runs[1])


@pytest.mark.part(3)
@pytest.mark.parametrize("mesh,micro_batches,batch", [("dp=2", 1, 4), ("tp=2", 1, 4), ("dp=1", 4, 1)])
def test_dropout_is_the_same_on_every_layout(tmp_path, mesh, micro_batches, batch):
    """With dropout 0.1, the losses of 4 samples per step equal those of one rank, for any layout."""
    whole, parts = models.gpt_dropout(batch=4), models.gpt_dropout(batch=batch)
    batches = dict(oracle.draw_batches(whole, 1))
    losses = []
    for name, model, where, count in (("one", whole, "dp=1", 1), ("many", parts, mesh, micro_batches)):
        folder = tmp_path / name
        folder.mkdir()
        archive = model.export(folder / "model.pt2")
        losses.append(oracle.train_compiled(folder, archive, batches, where, count, ADAMW).losses)
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_masks_of_dropout_differ_between_steps(tmp_path):
    """With a learning rate of 0 and the same batch, the losses of steps differ only because of their dropout masks."""
    model = models.gpt_dropout()
    batch = model.draw_inputs(1)
    batches = {n: v.repeat(4, *[1] * (v.dim() - 1)) for n, v in batch.items()}
    archive = model.export(tmp_path / "model.pt2")
    result = oracle.train_compiled(tmp_path, archive, batches, "dp=1", 1, "sgd(lr=0)", steps=4)
    assert len(set(result.losses)) == 4


@pytest.mark.part(2)
@pytest.mark.parametrize("name", ["gpt", "gpt2", "llama", "mlp"])
@pytest.mark.parametrize("mesh", ["dp=1", "dp=2,tp=2"])
def test_exported_weights_load_and_give_the_loss_of_the_evaluation(tmp_path, exports, name, mesh):
    model = oracle.zoo(name)
    held_out = oracle.draw_batches(model, 1, steps=3, seed=900)
    save_file(held_out, tmp_path / "eval.safetensors")
    log = tmp_path / "log.jsonl"
    result = oracle.train_compiled(
        tmp_path, oracle.export(name, exports), oracle.draw_batches(model, 1), mesh, 1, ADAMW,
        run_flags=("--eval-data", tmp_path / "eval.safetensors", "--log", log),
    )  # fmt: skip
    module = copy.deepcopy(model.module)
    module.load_state_dict(load_file(result.folder / "weights.safetensors"), strict=True)
    expected = models.first_loss(module.eval()(**held_out)).item()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    printed = [line["eval_loss"] for line in lines if "eval_loss" in line]
    assert printed[-1] == pytest.approx(expected, rel=1e-5)


def test_initial_values_are_the_same_on_every_layout(tmp_path):
    """A model exported on the meta device and initialized with --init has the same bits on one rank and on four."""
    archive = models.llama(device="meta").export(tmp_path / "llama.pt2")
    inputs = models.llama().draw_inputs(1)
    save_file(inputs, tmp_path / "data.safetensors")
    files = []
    for mesh in ("dp=1", "dp=2,tp=2"):
        out = f"program-{mesh}"
        program = oracle.compile_model(
            tmp_path, archive, mesh, "--optimizer", "sgd(lr=0)", "--init", "*norm*=ones", "--init",
            "normal(0.02)", out=out,
        )  # fmt: skip
        weights = tmp_path / f"{mesh}.safetensors"
        oracle.run(
            [program, "--ranks", oracle.ranks_of(mesh), "--data", "data.safetensors", "--steps", 1,
             "--export-weights", weights, "--quiet"],
            tmp_path,
        )  # fmt: skip
        files.append(load_file(weights))
    assert files[0].keys() == files[1].keys()
    for name, value in files[0].items():
        assert torch.equal(value, files[1][name]), name
    assert files[0]["model.layers.0.mlp.up_proj.weight"].std() == pytest.approx(0.02, rel=0.1)
