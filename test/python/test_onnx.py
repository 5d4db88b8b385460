"""Import of ONNX files: models train as in PyTorch, and bad exports are reported."""
import re

import models
import onnx
import onnx_models
import oracle
import pytest
import torch
import vision
from conftest import tools_folder
from onnx import helper
from oracle import run
from safetensors.torch import load_file, save_file

LEVEL_0 = (
    "--ps-recognize-attention --ps-recognize-attention-masks --ps-recognize-grouped-queries --ps-recognize-activations "
    "--ps-split-fused-variables --canonicalize --cse"
).split()
CAUSAL = {"gpt", "gpt2", "llama", "gpt2_eager", "llama_eager"}


def exported(name, folder, optimize=False):
    """Returns the exported file of a model of the zoo, which is written once."""
    if not optimize:
        return oracle.export(name, folder, "onnx")
    path = folder / f"{name}-optimized.onnx"
    return path if path.exists() else oracle.zoo(name, "onnx").export_onnx(path, optimize=True)


def translate(path, folder, *flags, expect=0):
    return run([tools_folder() / "ps-translate", "--import-onnx", path, "-o", folder / "model.mlir", *flags], folder, expect)


# ---- training ------------------------------------------------------------------------------------------------------


@pytest.mark.part(2)
@pytest.mark.cover(1)
@pytest.mark.parametrize("mesh", ["dp=1", "dp=2,tp=2"])
@pytest.mark.parametrize("name", ["gpt2_eager", "llama_eager", "regressor"])
def test_others_train_as_in_pytorch(tmp_path, exports, name, mesh):
    flag, make, tolerance = oracle.OPTIMIZERS["adamw"]
    model = oracle.zoo(name)
    batches = oracle.draw_batches(model, 2)
    path = exported(name, exports)
    result = oracle.train_compiled(tmp_path, path, batches, mesh, 2, flag, flags=["--sharding-policy", "megatron"])
    reference = oracle.train_in_torch(model, batches, make)
    assert oracle.compare(reference, result, tolerance).failures() == []
    assert set(model.module.state_dict()) <= set(result.after) | {n for n, _ in model.module.named_buffers()}


@pytest.mark.part(2)
@pytest.mark.cover(1)
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
    """The policy megatron gives the same shardings to the parameters of a model from ONNX and from .pt2."""

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


@pytest.mark.part(3)
@pytest.mark.parametrize("name", ["gpt", "gpt2", "llama"])
def test_default_export_says_what_it_cannot_train(tmp_path, exports, name):
    """In the default export, torch's optimizer folds weights into constants and merges parameters with equal values. A warning lists them."""
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
        if uniform: # may be several parameters that the optimizer merged
            continue
        tied = [name for name in aliases if aliases[name] == aliases[parameter]]
        if any(f"'{name}'" in said for name in tied):
            assert any(name.endswith("head.weight") for name in tied)  # the optimizer folded the head, but not the embedding
        else:
            assert (gradient - true_gradients[aliases[parameter]]).abs().max() < 1e-5 * largest, parameter
            compared += 1
    assert compared


def test_outputs_that_are_constants(tmp_path):
    """A model whose outputs are a shape and a number, so that nothing is computed."""
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Constant", [], ["c"], value_float=2.5)]
    onnx_models.graph(nodes, {"x": (torch.float32, [2, 3])}, ["s", "c"], path=tmp_path / "shape.onnx")
    command = [tools_folder() / "ps-compile", "shape.onnx", "-o", "shape", "--inference"]
    said = run([*command, "--mesh", "pp=2"], tmp_path, expect=1)
    assert "the model's results are constants, which leaves no layer for 2 pipeline stages; use a mesh without" in said
    run(command, tmp_path)
    save_file({"x": torch.zeros(2, 3)}, tmp_path / "in.safetensors")
    run([tmp_path / "shape", "--data", "in.safetensors", "--eval", "--outputs", "out.safetensors"], tmp_path)
    found = load_file(tmp_path / "out.safetensors")
    assert found["s"].flatten().tolist() == [2, 3] and found["c"].flatten().tolist() == [2.5]


def test_dynamic_batch(tmp_path):
    model = models.gpt()
    shapes = {name: {0: torch.export.Dim("batch")} for name in model.inputs}
    path = model.export_onnx(tmp_path / "dynamic.onnx", dynamic_shapes=shapes)
    assert "give --batch" in translate(path, tmp_path, expect=1)
    data = model.draw_inputs(3, batch=6)
    for flag in (["--batch", 6], ["--dim", "input_ids.0=6"]):
        loss, _ = oracle.first_step(tmp_path, path, data, *flag)
        assert loss == pytest.approx(model.module(**data)[0].item(), rel=1e-5)


def test_external_data(tmp_path):
    model = models.mlp()
    (tmp_path / "model").mkdir()
    path = model.export_onnx(tmp_path / "model" / "mlp.onnx", external_data=True)
    assert (tmp_path / "model" / "mlp.onnx.data").exists()
    data = model.draw_inputs(3)
    loss, _ = oracle.first_step(tmp_path, path, data)
    assert loss == pytest.approx(model.module(**data)[0].item(), rel=1e-5)


def test_weights_that_changed_are_noticed(tmp_path):
    model = models.mlp()
    path = model.export_onnx(tmp_path / "mlp.onnx")
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


def kept_as_they_are(path, module):
    """Returns the parameters that the file has with their values. Skips parameters with equal elements, which may be merged with others."""
    values = {t.name: torch.from_numpy(onnx.numpy_helper.to_array(t).copy()) for t in onnx.load(path).graph.initializer}
    return {name for name, value in module.named_parameters()
            if name in values and torch.equal(values[name], value) and not (value == value.flatten()[0]).all()}  # fmt: skip


@pytest.mark.part(3)
@pytest.mark.cover(1)
@pytest.mark.parametrize("mesh", ["dp=1", "dp=2,tp=2"])
@pytest.mark.parametrize("name", ["bert", "bart", "neox", "opt", "vit", "resnet", "unet"])
def test_first_step_of_the_default_export(tmp_path, exports, name, mesh):
    """Compares the gradients of parameters that the file has unchanged.

    torch's optimizer folds or merges all other parameters. In BERT and BART, it changes all parameters.
    """
    model, path = oracle.zoo(name, "onnx"), exported(name, exports, optimize=True)
    loss, gradients = oracle.first_step(tmp_path, path, model.inputs, "--sharding-policy", "megatron", mesh=mesh)
    expected, exact = oracle.loss_and_gradients(model.module, model.inputs, torch.float64)
    _, single = oracle.loss_and_gradients(model.module, model.inputs, torch.float32)
    assert loss == pytest.approx(expected, rel=1e-5)
    errors = oracle.gradient_errors(oracle.Reference([], single, exact, {}, {}, oracle.aliases_of(model.module)), gradients)
    errors = {parameter: errors[parameter] for parameter in kept_as_they_are(path, model.module) & set(gradients)}
    assert bool(errors) == (name not in ("bert", "bart"))
    assert max(errors.values(), default=0) <= 1, errors


@pytest.mark.part(3)
@pytest.mark.parametrize("name", ["bert", "opt", "gpt2"])
def test_parameters_that_are_merged_have_one_shape(tmp_path, exports, name):
    """A folded weight matrix is not mistaken for a merged bias of the same module."""
    translate(exported(name, exports, optimize=True), tmp_path)
    shapes = {n: tuple(p.shape) for n, p in oracle.zoo(name).module.named_parameters(remove_duplicate=False)}
    found = re.findall(r"ps.variable parameter @\S+ names \[(.*?)\].* : tensor<(.*)xf32>", (tmp_path / "model.mlir").read_text())
    assert found
    for names, sizes in found:
        for parameter in re.findall(r'"(.*?)"', names):
            assert shapes.get(parameter, sizes) in (sizes, tuple(map(int, sizes.split("x")))), parameter


# ---- warnings about training ------------------------------------------------------------------------------------



def test_tied_weights_load_in_transformers(tmp_path):
    """Exported weights load in transformers. The folder has the names of tied weights that Hugging Face expects, and both names of a tied bias."""
    import language
    import transformers

    models_of = {
        "llama": (models.llama(tied=True), transformers.LlamaForCausalLM),
        "bert": (language.bert(), transformers.BertForMaskedLM),
    }
    for name, (model, kind) in models_of.items():
        folder = tmp_path / name
        folder.mkdir()
        oracle.compile_model(folder, model.export_onnx(folder / "model.onnx"), "dp=1", "--optimizer", "sgd(lr=0.01)")
        inputs = model.draw_inputs(3)
        save_file(inputs, folder / "data.safetensors")
        said = run(["./program", "--data", "data.safetensors", "--steps", 3, "--export-weights", "home", "--eval-data",
                    "data.safetensors", "--eval-every", 3, "--quiet"], folder)  # fmt: skip
        module = next(part for part in model.module.modules() if isinstance(part, kind))
        module.config.save_pretrained(folder / "home")
        home, report = kind.from_pretrained(folder / "home", output_loading_info=True)
        assert not report["missing_keys"] and not any(p.is_meta for p in home.parameters()), report
        loss = home.eval()(**inputs).loss.item()
        assert f"{loss:.5f}"[:6] in said, (loss, said)

def test_batch_norms_that_train_in_the_form_of_evaluation_warn(tmp_path, exports):
    """torch's ONNX exporter writes batch norms in evaluation mode even if the model is in training mode."""
    path = vision.resnet().export_onnx(tmp_path / "resnet.onnx")
    said = run([tools_folder() / "ps-compile", path, "-o", "program"], tmp_path)
    assert "its batch norms train with their running statistics" in said and "torch.export.export" in said
    said = run([tools_folder() / "ps-compile", path, "-o", "program", "--inference"], tmp_path)
    assert "running statistics" not in said


def test_running_statistics_of_other_exporters_are_not_parameters(tmp_path):
    """Without torch's metadata, running statistics are recognized by their use in batch norms."""
    vector = lambda: torch.rand(3) + 0.5  # noqa: E731
    nodes = [helper.make_node("BatchNormalization", ["x", "scale", "bias", "mean", "variance"], ["y"]),
             helper.make_node("ReduceMean", ["y"], ["z"], keepdims=0)]  # fmt: skip
    path = tmp_path / "norm.onnx"
    onnx_models.graph(nodes, {"x": (torch.float32, [4, 3, 5])}, ["z"],
                      {name: vector() for name in ("scale", "bias", "mean", "variance")}, path=path)  # fmt: skip
    _, gradients = oracle.first_step(tmp_path, path, {"x": torch.randn(4, 3, 5)})
    assert set(gradients) == {"scale", "bias"}
    assert "running statistics" in run([tools_folder() / "ps-compile", path, "-o", "program"], tmp_path)


def test_batch_norms_that_the_exporter_folds_into_weights(tmp_path, exports):
    """The folded weights keep their names but have other values. The parameters of the norms are reported as missing."""
    path = exported("resnet", exports, optimize=True)
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
    path = model.export_onnx(tmp_path / "norm.onnx")
    assert "running" not in run([tools_folder() / "ps-compile", path, "-o", "program"], tmp_path)
    loss, gradients = oracle.first_step(tmp_path, path, model.inputs)
    expected, true_gradients = oracle.loss_and_gradients(model.module, model.inputs, torch.float32)
    assert loss == pytest.approx(expected, rel=1e-5)
    for name, gradient in true_gradients.items():
        torch.testing.assert_close(gradients[name], gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.cover(1)
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
    path = models.Model("smoothed", Smoothed(), inputs).export_onnx(tmp_path / "smoothed.onnx", optimize)
    said = translate(path, tmp_path)
    assert ("dropped label_smoothing=0.1" in said) == (smoothing > 0)


def test_large_constants_are_not_expanded(tmp_path):
    """A 4 x 4 constant that is tiled to 2^32 elements, and constants with more than 2^20 elements: general, equal elements, and triangular."""
    n = 1100
    nodes = [helper.make_node("Constant", [], [name], value=onnx_models.constant(name, value)) for name, value in {
        "tile": torch.arange(16.0).view(4, 4), "repeats": torch.tensor([2**14, 2**14]),
        "mask": torch.ones(n, n, dtype=torch.bool).tril(), "equal": torch.full((n, n), 2.5, dtype=torch.float16),
        "mixed": torch.arange(n * n) % 3 == 0}.items()]  # fmt: skip
    nodes += [helper.make_node("Tile", ["tile", "repeats"], ["tiled"]), helper.make_node("Reshape", ["mixed", "square"], ["mixed2"])]
    nodes.insert(0, helper.make_node("Constant", [], ["square"], value=onnx_models.constant("square", torch.tensor([n, n]))))
    for name in ("mask", "equal", "mixed2"):
        nodes.append(helper.make_node("Cast", [name], [f"{name}_f"], to=1))
    for name in ("tiled", "mask_f", "equal_f", "mixed2_f"):
        nodes += [helper.make_node("ReduceMean", [name], [f"{name}_m"], keepdims=0)]
    nodes += [helper.make_node("Sum", [f"{name}_m" for name in ("tiled", "mask_f", "equal_f", "mixed2_f")], ["sum"]),
              helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Mul", ["h", "sum"], ["scaled"]),
              helper.make_node("ReduceMean", ["scaled"], ["loss"], keepdims=0)]  # fmt: skip
    path = tmp_path / "large.onnx"
    onnx_models.graph(nodes, {"x": (torch.float32, [8, 4])}, ["loss"], {"w": torch.ones(4, 4)}, path=path)
    translate(path, tmp_path)
    module = (tmp_path / "model.mlir").read_text()
    assert "ps.constant dense<2.500000e+00> : tensor<1100x1100xf16>" in module
    assert "ps.iota dim 0 : tensor<1100x1100xi64>" in module
    run([tools_folder() / "ps-compile", path, "-o", "large", "--stop-after", "placed"], tmp_path)
