"""Level 1 in the reference evaluator equals PyTorch. Levels 3 and 4 on N ranks equal level 1 on one rank."""
import dataclasses

import cases
import lanes
import oracle
import pytest
from conftest import tools_folder
from safetensors.torch import load_file, save_file

PASSES = (
    "ps-recognize-attention,ps-recognize-attention-masks,ps-recognize-grouped-queries,ps-recognize-activations,canonicalize,cse,ps-autodiff,"
    'ps-optimizer{{optimizer="{}"}},ps-verify-training'
)
STEPS = 3


def evaluate(folder, module, data, micro_batches, steps):
    """Runs `steps` steps in ps-run. Returns every variable, by symbol."""
    out = folder / f"after-{steps}.safetensors"
    oracle.run(
        [tools_folder() / "ps-run", module, "--entry", "step", "--micro-batches", micro_batches, "--steps", steps,
         "--inputs", data, "--outputs", out], folder,
    )  # fmt: skip
    return load_file(out)


@pytest.mark.part(2)
@lanes.product(name=["gpt", "gpt2", "llama", "mlp"], micro_batches=[1, 4], optimizer=["sgd", "adamw"])
def test_level_1_equals_pytorch(tmp_path, exports, name, micro_batches, optimizer):
    flag, make, tolerance = oracle.OPTIMIZERS[optimizer]
    model = oracle.zoo(name)
    batches = oracle.draw_batches(model, micro_batches, STEPS)
    ref = oracle.train_in_torch(model, batches, make, STEPS)
    data = tmp_path / "data.safetensors"
    save_file({n: v.contiguous() for n, v in batches.items()}, data)
    archive, level0, level1 = oracle.export(name, exports), tmp_path / "0.mlir", tmp_path / "1.mlir"
    oracle.run([tools_folder() / "ps-translate", "--import-pt2", archive, "-o", level0], tmp_path)
    passes = f"builtin.module({PASSES.format(flag)})"
    oracle.run([tools_folder() / "ps-opt", f"--pass-pipeline={passes}", level0, "-o", level1], tmp_path)

    first = evaluate(tmp_path, level1, data, micro_batches, 1)
    gradients = {n.removesuffix(".grad"): g / first["loss.count"] for n, g in first.items() if n.endswith(".grad")}
    last = evaluate(tmp_path, level1, data, micro_batches, STEPS)
    ends = dataclasses.replace(ref, losses=[ref.losses[0], ref.losses[-1]])
    result = oracle.Result([first["loss"].item(), last["loss"].item()], gradients, last, tmp_path)
    assert oracle.compare(ends, result, tolerance).failures() == []


@pytest.mark.cover(1)
@pytest.mark.parametrize("mesh", ["tp=2", "tp=4", "dp=2,tp=2"])
@pytest.mark.parametrize("name", cases.ODD)
def test_levels_3_and_4_equal_level_1(tmp_path, name, mesh):
    """Compares every variable after two steps of two micro-batches: weights, gradients, optimizer state and loss.

    The evaluator fills all padding with NaN.
    """
    model, micro_batches, steps = cases.ODD[name](), 2, 2
    data = tmp_path / "data.safetensors"
    save_file(oracle.draw_batches(model, micro_batches, steps), data)
    oracle.compile_model(
        tmp_path, model.export(tmp_path / "model.pt2"), mesh, "--micro-batches", micro_batches, "--optimizer",
        oracle.OPTIMIZERS["sgd"][0], "--sharding-policy", "megatron", "--dump-dir", tmp_path,
    )  # fmt: skip
    whole = evaluate(tmp_path, tmp_path / "1-training.mlir", data, micro_batches, steps)
    for level in ("3-partitioned", "4-scheduled"):
        found = evaluate(tmp_path, tmp_path / f"{level}.mlir", data, micro_batches, steps)
        assert found.keys() == whole.keys()
        for variable, value in whole.items():
            scale = max(1e-3, value.abs().max().item())
            error = (found[variable] - value).abs().max().item() / scale
            assert error <= 1e-4, f"{level}: {variable} differs by {error:.1e} of its largest element"


def test_evaluation_on_each_level(tmp_path, exports):
    """--entry evaluate runs on every level: functions up to level 3, programs from level 4 on."""
    model = oracle.zoo("gpt")
    oracle.compile_model(tmp_path, oracle.export("gpt", exports), "dp=2,tp=2", "--sharding-policy", "megatron", "--dump-dir", tmp_path)
    save_file(model.draw_inputs(3), tmp_path / "data.safetensors")
    losses = []
    for level in ("1-training", "3-partitioned", "4-scheduled", "5-placed"):
        oracle.run([tools_folder() / "ps-run", tmp_path / f"{level}.mlir", "--entry", "evaluate", "--inputs", "data.safetensors",
                    "--outputs", "out.safetensors"], tmp_path)  # fmt: skip
        losses.append(load_file(tmp_path / "out.safetensors")["cross_entropy_loss"].item())
    assert losses == pytest.approx([model.loss(model.draw_inputs(3)).item()] * 4, rel=1e-5)
    said = oracle.run([tools_folder() / "ps-run", tmp_path / "4-scheduled.mlir"], tmp_path, expect=2)
    assert "--entry forward: unknown entry; the module has evaluate, step" in said
