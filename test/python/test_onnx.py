"""Import of ONNX: models train as in PyTorch, every op means what ONNX says, bad files are refused."""
import re

import cases
import models
import onnx
import onnx_models
import oracle
import pytest
import torch
import vision
from conftest import ROOT, tools_folder
from onnx import TensorProto, helper
from oracle import run
from safetensors.torch import save_file

LEVEL_0 = (
    "--ps-recognize-attention --ps-recognize-attention-masks --ps-recognize-grouped-queries "
    "--ps-split-fused-variables --canonicalize --cse"
).split()
MODELS = ["mlp", "gpt", "gpt2", "llama", "gpt2_eager", "llama_eager", "regressor"]
CAUSAL = {"gpt", "gpt2", "llama", "gpt2_eager", "llama_eager"}


def exported(name, folder, optimize=False):
    """The file of a model of the zoo in `folder`, made once."""
    path = folder / f"{name}{'-optimized' if optimize else ''}.onnx"
    return path if path.exists() else onnx_models.export(oracle.zoo(name), path, optimize)


def translate(path, folder, *flags, expect=0):
    return run([tools_folder() / "ps-translate", "--import-onnx", path, "-o", folder / "model.mlir", *flags], folder, expect)


# ---- training ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mesh", ["dp=1", "dp=2,tp=2"])
@pytest.mark.parametrize("name", MODELS)
def test_trains_as_in_pytorch(tmp_path, exports, name, mesh):
    flag, make, tolerance = oracle.OPTIMIZERS["adamw"]
    model = oracle.zoo(name)
    batches = oracle.draw_batches(model, 2)
    path = exported(name, exports)
    result = oracle.train_compiled(tmp_path, path, batches, mesh, 2, flag, flags=["--sharding-policy", "megatron"])
    reference = oracle.train_in_torch(model, batches, make)
    assert oracle.compare(reference, result, tolerance).failures() == []
    assert set(model.module.state_dict()) <= set(result.after) | {n for n, _ in model.module.named_buffers()}


@pytest.mark.parametrize("name", sorted(CAUSAL))
@pytest.mark.parametrize("optimize", [False, True], ids=["plain", "default"])
def test_attention_is_found(tmp_path, exports, name, optimize):
    translate(exported(name, exports, optimize), tmp_path)
    run([tools_folder() / "ps-opt", *LEVEL_0, "model.mlir", "-o", "recognised.mlir"], tmp_path)
    text = (tmp_path / "recognised.mlir").read_text()
    assert re.findall(r'ps.attention_form = "([^"]*)"', text) == ["causal", "causal"]
    assert "ps.softmax" not in text
    if name.startswith("llama"):
        line = next(x for x in text.splitlines() if "ps.attention " in x)
        assert re.search(r"tensor<4x4x16x8xf32>, tensor<4x2x16x8xf32>, tensor<4x2x16x8xf32>", line)


def test_megatron_splits_what_it_splits_from_pt2(tmp_path, exports):
    """The plan of the same model from both files: shardings by parameter."""

    def shardings(path):
        folder = tmp_path / path.suffix[1:]
        folder.mkdir()
        run([tools_folder() / "ps-compile", path, "-o", folder / "plan.mlir", "--mesh", "dp=2,tp=2", "--sharding-policy",
             "megatron", "--stop-after", "planned"], folder)  # fmt: skip
        found = {}
        for line in (folder / "plan.mlir").read_text().splitlines():
            if match := re.search(r"ps.variable parameter @\S+ names \[\"([^\"]*)\".*?(#ps.sharding<.*?>)?", line):
                found.setdefault(match.group(1), []).append(re.search(r"sharding.*", line).group(0))
        return found

    from_onnx, from_pt2 = shardings(exported("llama", exports)), shardings(oracle.export("llama", exports))
    assert from_onnx == from_pt2 and any("tp" in s for all in from_onnx.values() for s in all)


@pytest.mark.parametrize("name", ["gpt", "gpt2", "llama"])
def test_default_export_says_what_it_cannot_train(tmp_path, exports, name):
    """torch's optimizer folds weights into constants, and merges parameters of equal value."""
    path, model = exported(name, exports, optimize=True), oracle.zoo(name)
    said = translate(path, tmp_path)
    assert "warning" in said and "folded" in said and "optimize=False" in said
    data = model.draw_inputs(3)
    loss, gradients = oracle.first_step(tmp_path, path, data)
    expected, true_gradients = oracle.loss_and_gradients(model.module, data, torch.float32)
    assert loss == pytest.approx(expected, rel=1e-5)
    names = {n for n, _ in model.module.named_parameters(remove_duplicate=False)}
    missing = names - {t.name for t in onnx.load(path, load_external_data=False).graph.initializer}
    assert missing and len(gradients) > 0
    largest = max(g.abs().max() for g in true_gradients.values())
    aliases = oracle.aliases_of(model.module)
    compared = 0
    values = dict(model.module.named_parameters(remove_duplicate=False))
    for parameter, gradient in gradients.items():
        uniform = bool((values[parameter] == values[parameter].flatten()[0]).all())
        if uniform:  # stands for several
            continue
        if f"'{parameter}'" in said:
            assert parameter.endswith("head.weight")  # tied: its use as head was folded
        else:
            assert (gradient - true_gradients[aliases[parameter]]).abs().max() < 1e-5 * largest, parameter
            compared += 1
    assert compared


def test_dynamic_batch(tmp_path):
    model = models.gpt()
    path = onnx_models.export(
        model, tmp_path / "dynamic.onnx", dynamic_shapes={name: {0: torch.export.Dim("batch")} for name in model.inputs}
    )
    assert "give --dim" in translate(path, tmp_path, expect=1)
    data = model.draw_inputs(3, batch=6)
    for flag in (["--batch", 6], ["--dim", "input_ids.0=6"]):
        loss, _ = oracle.first_step(tmp_path, path, data, *flag)
        assert loss == pytest.approx(model.module(**data)[0].item(), rel=1e-5)


def test_external_data(tmp_path):
    model = models.mlp()
    (tmp_path / "model").mkdir()
    path = onnx_models.export(model, tmp_path / "model" / "mlp.onnx", external_data=True)
    assert (tmp_path / "model" / "mlp.onnx.data").exists()
    data = model.draw_inputs(3)
    loss, _ = oracle.first_step(tmp_path, path, data)
    assert loss == pytest.approx(model.module(**data)[0].item(), rel=1e-5)


def test_weights_that_changed_are_noticed(tmp_path):
    model = models.mlp()
    path = onnx_models.export(model, tmp_path / "mlp.onnx")
    program = oracle.compile_model(tmp_path, path, "dp=1")
    save_file(model.draw_inputs(3), tmp_path / "data.safetensors")
    content = bytearray(path.read_bytes())
    at = content.find(model.module.layers[0].weight.detach().numpy().tobytes())
    content[at] ^= 1
    path.write_bytes(content)
    said = run([program, "--data", "data.safetensors", "--steps", 1], tmp_path, expect=1)
    assert "mlp.onnx" in said and "compile again" in said


def test_dropout_in_both_modes(tmp_path, exports):
    path = exported("gpt_dropout", exports)
    translate(path, tmp_path)
    text = (tmp_path / "model.mlir").read_text()
    assert len(re.findall(r"ps.key = \d+", text)) >= 5
    off = onnx_models.graph(
        [helper.make_node("Dropout", ["x", "ratio"], ["y"]), helper.make_node("ReduceSum", ["y"], ["z"], keepdims=0)],
        {"x": (torch.float32, [4, 4])}, ["z"], {"ratio": torch.tensor(0.25)}, path=tmp_path / "off.onnx",
    )  # fmt: skip
    assert off
    said = run([tools_folder() / "ps-compile", tmp_path / "off.onnx", "-o", tmp_path / "out"], tmp_path)
    assert "exported in eval mode" in said and "p = 0.25" in said


# ---- further models ------------------------------------------------------------------------------------------------


def bert():
    """With a mask of the padding, and its decoder tied to the embedding. Token 0 is padding: torch gives its row of the
    embedding no gradient, which an ONNX file cannot say, so no input has it."""
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(0)
    config = BertConfig(vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                        max_position_embeddings=16, hidden_dropout_prob=0, attention_probs_dropout_prob=0)  # fmt: skip
    ids, labels = torch.randint(1, 96, (4, 16)), torch.randint(0, 96, (4, 16))
    mask = torch.ones_like(ids)
    mask[1, 10:], mask[3, 5:] = 0, 0
    inputs = {"input_ids": ids, "attention_mask": mask, "labels": labels.masked_fill(mask == 0, models.IGNORED)}
    return models.Model("bert", BertForMaskedLM(config).train(), inputs, vocabulary=96)


def resnet():
    return in_eval_mode(vision.resnet())


def unet():
    return in_eval_mode(vision.unet())


def in_eval_mode(model):
    """Whose batch norms normalise by their running statistics: torch's exporter writes no other form."""
    model.module.eval()
    return model


FURTHER = {"bert": bert, "vit": vision.vit, "resnet": resnet, "unet": unet}
WRITTEN = [("bert", False), *((name, optimize) for name in ["vit", "resnet", "unet"] for optimize in [False, True])]


def kept_as_they_are(path, module):
    """Parameters that a file has with their values, and that stand for no other ones (as equal values may)."""
    values = {t.name: torch.from_numpy(onnx.numpy_helper.to_array(t).copy()) for t in onnx.load(path).graph.initializer}
    return {name for name, value in module.named_parameters()
            if name in values and torch.equal(values[name], value) and not (value == value.flatten()[0]).all()}  # fmt: skip


@pytest.mark.parametrize("mesh", ["dp=1", "dp=2,tp=2"])
@pytest.mark.parametrize("name,optimize", WRITTEN)
def test_first_step_equals_pytorch(tmp_path, exports, name, optimize, mesh):
    """Of the default export, which folds and merges some parameters, those that it has as the model does."""
    model = FURTHER[name]()
    path = exports / f"{name}{'-optimized' if optimize else ''}.onnx"
    path = path if path.exists() else onnx_models.export(model, path, optimize)
    loss, gradients = oracle.first_step(tmp_path, path, model.inputs, "--sharding-policy", "megatron", mesh=mesh)
    expected, exact = oracle.loss_and_gradients(model.module, model.inputs, torch.float64)
    _, single = oracle.loss_and_gradients(model.module, model.inputs, torch.float32)
    assert loss == pytest.approx(expected, rel=1e-5)
    reference = oracle.Reference([], single, exact, {}, {}, oracle.aliases_of(model.module))
    errors = oracle.gradient_errors(reference, gradients)
    if optimize:
        errors = {parameter: errors[parameter] for parameter in sorted(kept_as_they_are(path, model.module) & set(gradients))}
        assert errors
    parameter, error = max(errors.items(), key=lambda item: item[1])
    assert error <= 1, f"{parameter}: {error:.1f} x the error allowed"


# ---- what training must be told ------------------------------------------------------------------------------------


def test_batch_norms_that_train_in_the_form_of_evaluation_warn(tmp_path, exports):
    """torch's exporter writes this form of a model in training too."""
    path = onnx_models.export(vision.resnet(), tmp_path / "resnet.onnx")
    said = run([tools_folder() / "ps-compile", path, "-o", "program"], tmp_path)
    assert "its batch norms train with their running statistics" in said and "torch.export.export" in said
    said = run([tools_folder() / "ps-compile", path, "-o", "program", "--inference"], tmp_path)
    assert "running statistics" not in said


def test_running_statistics_of_other_exporters_are_no_parameters(tmp_path):
    """No metadata says what an initializer is; those of a batch norm of the batch itself need no warning."""
    vector = lambda: torch.rand(3) + 0.5  # noqa: E731
    nodes = [helper.make_node("BatchNormalization", ["x", "scale", "bias", "mean", "variance"], ["y"]),
             helper.make_node("ReduceMean", ["y"], ["z"], keepdims=0)]  # fmt: skip
    path = tmp_path / "norm.onnx"
    onnx_models.graph(nodes, {"x": (torch.float32, [4, 3, 5])}, ["z"],
                      {name: vector() for name in ("scale", "bias", "mean", "variance")}, path=path)  # fmt: skip
    _, gradients = oracle.first_step(tmp_path, path, {"x": torch.randn(4, 3, 5)})
    assert set(gradients) == {"scale", "bias"}
    assert "running statistics" in run([tools_folder() / "ps-compile", path, "-o", "program"], tmp_path)


def test_batch_norms_that_the_exporter_folds_into_weights(tmp_path):
    """The weights keep their names and have other values: nothing is written under the names of the norms."""
    path = onnx_models.export(resnet(), tmp_path / "resnet.onnx", optimize=True)
    said = translate(path, tmp_path)
    for words in ["batch norms into the weights before them", "12 parameters of the norms", "'stem.1.weight'", "optimize=False"]:
        assert words in said
    assert "stem.1.weight" not in (tmp_path / "model.mlir").read_text()


def test_batch_norms_without_running_statistics(tmp_path):
    class Norm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.norm = torch.nn.Conv1d(3, 4, 3), torch.nn.BatchNorm1d(4, track_running_stats=False)

        def forward(self, x):
            return self.norm(self.layer(x)).square().mean((0, 2)).mul(torch.arange(4)).sum()

    torch.manual_seed(0)
    model = models.Model("norm", Norm(), {"x": torch.randn(4, 3, 9)})
    path = onnx_models.export(model, tmp_path / "norm.onnx")
    assert "running" not in run([tools_folder() / "ps-compile", path, "-o", "program"], tmp_path)
    loss, gradients = oracle.first_step(tmp_path, path, model.inputs)
    expected, true_gradients = oracle.loss_and_gradients(model.module, model.inputs, torch.float32)
    assert loss == pytest.approx(expected, rel=1e-5)
    for name, gradient in true_gradients.items():
        torch.testing.assert_close(gradients[name], gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("optimize", [False, True], ids=["plain", "default"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_label_smoothing_that_the_exporter_drops(tmp_path, smoothing, optimize):
    class Smoothed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(12, 10)

        def forward(self, x, labels):
            return torch.nn.functional.cross_entropy(self.layer(x), labels, label_smoothing=smoothing)

    inputs = {"x": torch.randn(8, 12), "labels": torch.randint(0, 10, (8,))}
    path = onnx_models.export(models.Model("smoothed", Smoothed(), inputs), tmp_path / "smoothed.onnx", optimize)
    said = translate(path, tmp_path)
    assert ("dropped label_smoothing=0.1" in said) == (smoothing > 0)
