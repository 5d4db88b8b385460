"""`--precision fp8` equals PyTorch with the operands of linear layers rounded in the same way (float8.py)."""
import math
import re
import subprocess

import float8
import lanes
import models
import oracle
import pytest
import refusals
import replay
import torch
from safetensors.torch import load_file, save_file
from shards import join

pytestmark = pytest.mark.usefixtures("one_thread")

STEPS = 24
ADAM = "adamw(lr=1e-3,betas=(0.9,0.95),eps=1e-8,weight_decay=0.1)"


def distance(weights, exact):
    return math.sqrt(sum((weights[n].double() - value.double()).square().sum().item() for n, value in exact.items()))


# ---- the op --------------------------------------------------------------------------------------------------------

VALUES = torch.cat([
    torch.linspace(-3, 3, 97), torch.tensor([0.0, -0.0, 448.0, 449.0, 464.0, 1e4, 57344.0, 61440.0, 1e30, -1e30, math.inf, -math.inf, math.nan]),
    2.0 ** torch.arange(-30, 20), 1.0625 * 2.0 ** torch.arange(-30, 20), -1.1875 * 2.0 ** torch.arange(-12, 12), 1.125 * 2.0 ** torch.arange(-20, 10),
])  # fmt: skip


AMAX = [0.0, 1.0, 448.0, 3.7, 1e-30, 2e5, math.inf, math.nan, 1e-44, 3e38]


@pytest.mark.parametrize("format", float8.FORMATS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rounds_as_pytorch(tmp_path, format, dtype):
    """Rounding is to nearest with ties to even, also for subnormals. Too large values become the largest number. Checks ps-run and a program."""
    shape = f"{len(AMAX)}x{len(VALUES)}x"
    type_, amax = f"tensor<{shape}{'f32' if dtype == torch.float32 else 'bf16'}>", f"tensor<{shape}f32>"
    bits = f"tensor<{shape}{'f8E4M3FN' if format == 'e4m3' else 'f8E5M2'}>"
    ops = "".join(f"""
          %u{margin} = ps.float8_scale {format} %a margin {margin} : {amax}
          %q{margin} = ps.quantize %x, %u{margin} : {type_}, {amax} -> {bits}
          %y{margin} = ps.dequantize %q{margin}, %u{margin} : {bits}, {amax} -> {type_}""" for margin in (0, 2))
    (tmp_path / "op.mlir").write_text(f"""
      module attributes {{ps.level = #ps.level<imported>}} {{
        func.func @forward(%x: {type_} {{ps.name = "x"}}, %a: {amax} {{ps.name = "a"}}) -> ({type_} {{ps.name = "y0"}}, {type_} {{ps.name = "y2"}}) {{{ops}
          return %y0, %y2 : {type_}, {type_}
        }}
      }}""")
    x = VALUES.to(dtype)
    save_file({"x": x.repeat(len(AMAX), 1), "a": torch.tensor(AMAX)[:, None].repeat(1, len(x))}, tmp_path / "x.safetensors")
    oracle.run([oracle.tools_folder() / "ps-run", "op.mlir", "--inputs", "x.safetensors", "--outputs", "y.safetensors"], tmp_path)
    oracle.run([oracle.tools_folder() / "ps-compile", "op.mlir", "-o", "program", "--inference"], tmp_path)
    oracle.run(["./program", "--eval", "--eval-data", "x.safetensors", "--outputs", "z.safetensors", "--quiet"], tmp_path)
    for margin in (0, 2):
        expected = torch.stack([float8.quantize(x, amax, format, margin) for amax in AMAX]).float().nan_to_num(nan=1e33)
        for file in "yz":
            found = load_file(tmp_path / f"{file}.safetensors")[f"y{margin}"].float().nan_to_num(nan=1e33)
            assert [(AMAX[i], x[j].item(), found[i, j].item(), expected[i, j].item()) for i, j in (found != expected).nonzero()] == [], file


# ---- training ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    """Returns a function (name, delayed, micro-batches) -> (archive, batches, f32 weights, fp8 (losses, weights), scales), trained in PyTorch."""
    folder, known = tmp_path_factory.mktemp("references"), {}

    def get(name, delayed=True, micro_batches=1):
        key = name, delayed, micro_batches
        if key not in known:
            model = oracle.zoo(name)
            batches, scales = oracle.draw_batches(model, micro_batches, STEPS), float8.Scales(delayed)
            losses, weights = float8.train(model, batches, STEPS, scales, micro_batches)
            exact = float8.train(model, batches, STEPS, None, micro_batches)[1]
            archive = model.export(folder / f"{name}.pt2")
            known[key] = archive, batches, exact, (losses, weights), scales
        return known[key]

    return get


LAYOUTS = [("dp=1", 1, ()), ("dp=2", 1, ("--zero", "3")), ("tp=2", 1, ()), ("pp=2", 2, ()), ("tp=2,pp=2", 2, ("--recompute", "full"))]


@pytest.mark.part(2)
@pytest.mark.cover(1)
@pytest.mark.parametrize("name", ["gpt2", "llama"])
@pytest.mark.parametrize("mesh, micro_batches, flags", LAYOUTS, ids=[mesh for mesh, *_ in LAYOUTS])
def test_trains_as_pytorch(tmp_path, references, name, mesh, micro_batches, flags):
    archive, batches, exact, (losses, weights), _ = references(name, True, micro_batches)
    found = oracle.train_compiled(tmp_path, archive, batches, mesh, micro_batches, ADAM, ("--precision", "fp8", *flags), STEPS)
    assert max(abs(a - b) / b for a, b in zip(found.losses, losses, strict=True)) < 0.02
    # The distance to the f32 weights is about that of PyTorch with fp8: neither much smaller nor larger.
    assert 0.5 < distance(found.after, exact) / distance(weights, exact) < 1.2


@pytest.mark.parametrize("scaling", ["fp8", "fp8,scaling=current"])
def test_a_first_layer_of_the_input(tmp_path, scaling):
    """The first layer needs no gradient of its input. Its incoming gradient is quantized for the gradient of the weight only."""
    torch.manual_seed(0)

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

        def forward(self, x, y):
            return torch.nn.functional.mse_loss(self.b(torch.nn.functional.gelu(self.a(x))), y)

    module, data = Network(), {"x": torch.randn(16, 16), "y": torch.randn(16, 16)}
    module(**data).backward()
    _, found = oracle.first_step(tmp_path, models.Model("first", module, data).export(tmp_path / "model.pt2"), data, "--precision", scaling)
    for name, parameter in module.named_parameters():
        assert (found[name] - parameter.grad).norm() < 0.1 * parameter.grad.norm(), name


def test_current_scaling(tmp_path, references):
    archive, batches, exact, (losses, weights), _ = references("llama", False)
    found = oracle.train_compiled(tmp_path, archive, batches, "dp=2,tp=2", 1, ADAM, ("--precision", "fp8,scaling=current"), STEPS)
    assert max(abs(a - b) / b for a, b in zip(found.losses, losses, strict=True)) < 0.02
    assert 0.5 < distance(found.after, exact) / distance(weights, exact) < 1.2
    assert "fp8." not in oracle.run(["./program", "--info"], tmp_path)


def saved_scales(tmp_path, archive, batches, mesh, micro_batches, flags, steps=3):
    folder = tmp_path / mesh.replace(",", "-")
    folder.mkdir()
    oracle.train_compiled(folder, archive, batches, mesh, micro_batches, ADAM, ("--precision", "fp8", *flags), steps, ["--save", "saved"])
    return {name: value for name, value in join(folder / "saved" / f"step-{steps:06d}").items() if name.startswith("fp8.")}


def test_histories_are_those_of_pytorch_in_every_layout(tmp_path, references):
    """Histories store the largest magnitude of the unsharded tensor over all micro-batches, on every layout."""
    archive, batches, _, _, _ = references("llama", True, 2)
    model, scales = oracle.zoo("llama"), float8.Scales()
    part = oracle.rows_of_step(batches, 0, STEPS // 3)
    float8.train(model, part, 3, scales, 2)
    for mesh, _, flags in [("dp=1", 2, ()), ("dp=2", 2, ("--zero", "2")), *LAYOUTS[2:]]:
        found = saved_scales(tmp_path, archive, part, mesh, 2, flags)
        histories = {name: value for name, value in found.items() if name.endswith(".history")}
        # 15 linear layers (7 in each of 2 blocks, and the head) have 3 histories each. Per block, layers that share an input save 2 + 1 histories.
        assert len(histories) == 3 * 15 - 2 * 3
        for name, history in histories.items():
            tensor = name.removesuffix(".amax.history")
            steps = scales.steps[tensor.removeprefix("fp8.")]
            # Equal up to some roundings in the first step; later, the weights differ more.
            for place, most in [(-3, 0.05), (-2, 0.1), (-1, 0.1)]:
                assert history[place].item() == pytest.approx(steps[place], rel=most), (mesh, name)
            assert not history[:-3].any()
            assert found[f"{tensor}.scale"] == float8.scale(history.max().item(), "e5m2" if tensor.endswith("gradient") else "e4m3")


def test_schedules_and_recompute_have_the_same_bits(tmp_path):
    model = oracle.zoo("gpt2_deep")
    archive, batches = model.export(tmp_path / "model.pt2"), oracle.draw_batches(model, 4, 3)
    runs = []
    for i, flags in enumerate([(), ("--schedule", "gpipe"), ("--schedule", "zb-h1"), ("--recompute", "full")]):
        folder = tmp_path / str(i)
        folder.mkdir()
        runs.append(oracle.train_compiled(folder, archive, batches, "pp=2", 4, ADAM, ("--precision", "fp8", *flags), 3, ["--save", "saved"]))
    states = [join(tmp_path / str(i) / "saved/step-000003") for i in range(len(runs))]
    for run, state in zip(runs[1:], states[1:]):
        assert run.losses == runs[0].losses
        assert [n for n, value in state.items() if not torch.equal(value, states[0][n])] == []


# ---- on GPUs -------------------------------------------------------------------------------------------------------

MATMULS = re.compile(r"matmul (\d+)x(\d+)x(\d+)( of 8 bits)?")


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """Makes programs for a GPU run on the fake driver and log the operations that they enqueue."""
    for name, value in {**replay.environment(), "PSRT_FAKE_LOG": str(tmp_path / "log")}.items():
        monkeypatch.setenv(name, value)


ON_GPU = [
    *[("gpt2", *layout) for layout in LAYOUTS[2:]], *[("llama", *layout) for layout in LAYOUTS[:2]],
    *[lanes.full("gpt2", *layout) for layout in LAYOUTS[:2]], *[lanes.full("llama", *layout) for layout in LAYOUTS[2:]],
    ("llama", "tp=2", 1, ("--sharding-policy", "megatron+sp")), ("llama", "dp=2", 1, ("--precision", "fp8,scaling=current")),
]  # fmt: skip


@pytest.mark.part(3)
@pytest.mark.parametrize("name, mesh, micro_batches, flags", ON_GPU, ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value))
def test_matmuls_of_8_bits_equal_those_of_the_cpu(tmp_path, exports, fake, name, mesh, micro_batches, flags):
    """The CPU multiplies dequantized numbers. On a GPU, a matmul of a linear layer is in 8 bits if all its local dims are multiples of 16."""
    batches, losses = oracle.draw_batches(oracle.zoo(name), micro_batches, 4), {}
    precision = () if "--precision" in flags else ("--precision", "fp8")
    for target in ["cpu", "cuda:replay"]:
        folder = tmp_path / target.replace(":", "-")
        folder.mkdir()
        losses[target] = oracle.train_compiled(folder, oracle.export(name, exports), batches, mesh, micro_batches, ADAM,
                                               (*precision, "--target", target, *flags), 4).losses  # fmt: skip
    assert losses["cuda:replay"] == pytest.approx(losses["cpu"], rel=2e-3)
    products = MATMULS.findall((tmp_path / "log").read_text())
    assert sum(bool(narrow) for *_, narrow in products) > 100
    for *sizes, narrow in products:
        assert bool(narrow) == all(int(size) % 16 == 0 for size in sizes), sizes


def test_matmuls_of_16_bits_where_a_gpu_has_no_others(tmp_path, exports):
    """sm_80 has no matmuls of 8-bit floats, so kernels dequantize the operands."""
    for architecture, narrow in [("sm_80", False), ("sm_90", True), ("sm_100", True)]:
        oracle.run([oracle.tools_folder() / "ps-compile", oracle.export("gpt2", exports), "-o", "x.mlir", "--precision", "fp8",
                    "--target", f"cuda:{architecture}", "--stop-after", "partitioned"], tmp_path)  # fmt: skip
        text = (tmp_path / "x.mlir").read_text()
        assert bool(re.search(r"ps.contract .* scales ", text)) == narrow
        assert bool(re.search(r"ps.dequantize", text)) != narrow


def test_backward_keeps_values_of_8_bits(tmp_path, exports):
    """All saved operands of weight gradients have one byte per element."""
    elements = {}
    for precision in ["bf16", "fp8"]:
        oracle.run([oracle.tools_folder() / "ps-compile", oracle.export("llama", exports), "-o", "x.mlir", "--precision", precision,
                    "--stop-after", "partitioned"], tmp_path)
        (arguments,) = re.findall(r"func.func @layers.1.backward_weight\((.*?)\) attributes", (tmp_path / "x.mlir").read_text())
        elements[precision] = set(re.findall(r": tensor<4x(?:\d+x)+(\w+)>", arguments))
    assert elements == {"bf16": {"bf16"}, "fp8": {"f8E4M3FN", "f8E5M2"}}


# ---- checkpoints and inference ----------------------------------------------------------------------------------------------------


def test_scales_are_saved_in_checkpoints_only(tmp_path):
    """A resumed run has the same bits. A run with another precision or history reports ignored or new scales. Weight files contain no scales."""
    model = models.llama()
    archive = model.export(tmp_path / "model.pt2")
    save_file(oracle.draw_batches(model, 1, 4), tmp_path / "data.safetensors")
    programs = [("first", "fp8", "dp=2"), ("other", "bf16", "tp=2"), ("late", "fp8", "tp=2"), ("short", "fp8,history=4", "dp=1")]
    for name, precision, mesh in programs:
        oracle.compile_model(tmp_path, archive, mesh, "--precision", precision, "--optimizer", ADAM, out=name)
    run = ["--data", "data.safetensors", "--quiet"]
    oracle.run(["./first", *run, "--losses", "whole.txt", "--save", "a", "--save-every", "2", "--export-weights", "w.safetensors"], tmp_path)
    oracle.run(["./first", *run, "--losses", "rest.txt", "--load", "a/step-000002"], tmp_path)
    assert oracle.read_losses(tmp_path / "rest.txt") == oracle.read_losses(tmp_path / "whole.txt")[2:]
    model.module.load_state_dict(load_file(tmp_path / "w.safetensors"), strict=True)
    said = oracle.run(["./other", *run, "--load", "a/step-000002", "--save", "b", "--save-every", "2"], tmp_path)
    assert 'has "fp8.' in said and "more, which this program lacks; they are ignored" in said
    said = oracle.run(["./late", *run, "--load", "b/step-000004", "--epochs", "2"], tmp_path)
    assert 'has no "fp8.' in said and "more, so they start at their initial values" in said
    said = oracle.run(["./short", *run, "--load", "a/step-000002", "--save", "c", "--save-every", "1"], tmp_path)
    assert re.search(r'has "fp8\.\S+\.history" and 38 more in another shape, so they start at their initial values', said)
    for name, history in join(tmp_path / "c/step-000003").items():
        if name.endswith(".amax.history"):
            assert not history[:3].any() and history[3] > 0, name


def test_inference_scales_by_the_tensor_itself(tmp_path):
    """In an inference program without history, small weights are not rounded to zero."""
    model = models.llama()
    with torch.no_grad():
        for name, value in model.module.named_parameters():
            if "proj" in name:
                value *= 1e-4
    archive = model.export(tmp_path / "model.pt2")
    save_file(oracle.draw_batches(model, 1, 2), tmp_path / "data.safetensors")
    losses = {}
    for precision in ["fp32", "fp8"]:
        oracle.run([oracle.tools_folder() / "ps-compile", archive, "-o", precision, "--inference", "--precision", precision], tmp_path)
        oracle.run([f"./{precision}", "--eval", "--eval-data", "data.safetensors", "--outputs", "o.safetensors", "--output", "logits"], tmp_path)
        losses[precision] = load_file(tmp_path / "o.safetensors")["logits"].float()
    assert (losses["fp8"] - losses["fp32"]).norm() < 0.1 * losses["fp32"].norm()


# ---- which layers --------------------------------------------------------------------------------------------------


def scales_of(tmp_path, archive, precision):
    """Compiles a model. Returns (names of its fp8 scales, stderr)."""
    command = [oracle.tools_folder() / "ps-compile", archive, "-o", "x.mlir", "--precision", precision, "--stop-after", "planned"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "x.mlir").read_text()
    return set(re.findall(r"ps.variable buffer @(fp8\.\S+\.scale) init", text)), done.stderr


def test_dims_that_do_not_fit_are_listed(tmp_path):
    archive = models.gpt2(vocabulary=90).export(tmp_path / "model.pt2")
    names, said = scales_of(tmp_path, archive, "fp8")
    assert "1 linear layer has other dims and stays in bf16" in said
    assert "transformer.wte.weight: 64 x 32 by 32 x 90" in said and "modeling_gpt2.py" in said
    assert len(names) == 2 * (3 * 6 - 2) and not any("wte" in name for name in names)
    said = oracle.run([oracle.tools_folder() / "ps-compile", archive, "-o", "x", "--precision", "fp8,misfit=error"], tmp_path, expect=2)
    assert "error: --precision fp8 needs dims that are multiples of 16" in said and "exclude=GLOB" in said and not (tmp_path / "x").exists()


def test_include_and_exclude(tmp_path):
    archive = models.gpt2().export(tmp_path / "model.pt2")
    every, _ = scales_of(tmp_path, archive, "fp8")
    assert len(every) == 2 * (3 * 6 - 2) + 3
    some, _ = scales_of(tmp_path, archive, "fp8,include=transformer.h.*.mlp,exclude=transformer.h.1")
    assert {name.removesuffix(".scale") for name in some} == {
        f"fp8.transformer.h.0.mlp.{layer}.weight.{kind}" for layer in ["c_fc", "c_proj"] for kind in ["input", "weight", "gradient"]}


@pytest.mark.parametrize("text, words", [
    ("fp8,scaling=often", "scaling takes delayed or current, not 'often'"),
    ("fp8,history=0", "history takes a number from 1 to 65536, not '0'"),
    ("fp8,scaling=current,history=4", "history needs scaling=delayed"),
    ("fp8,margin=x", "margin takes a number from 0 to 32, not 'x'"),
    ("fp8,misfit=", "'misfit=' is neither"),
    ("bf16,scaling=current", "'scaling=current' needs fp8"),
    ("fp8,exclude=lm_heat", "--precision exclude=lm_heat matches no op and no module of the model; the nearest names are 'lm_head'"),
])  # fmt: skip
def test_bad_precisions(tmp_path, text, words):
    archive = models.gpt2().export(tmp_path / "model.pt2")
    refusals.refuse_compile(tmp_path, archive, "--precision", text, status=2, words=[words])
    assert not (tmp_path / "out").exists()
