"""`--precision`: 16-bit training is compared with torch.autocast. Also tests f32 master weights, loss scaling and skipped steps."""
import copy
import json
import math
import re

import lanes
import models
import oracle
import pytest
import refusals
import torch
from safetensors.torch import load_file, save_file
from shards import join

pytestmark = pytest.mark.usefixtures("one_thread")

STEPS = 50
ADAM = "adamw(lr=1e-3,betas=(0.9,0.95),eps=1e-8,weight_decay=0.1)"
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


# ---- comparison with torch.autocast ---------------------------------------------------------------------------------------------


def train_torch(model, batches, dtype):
    """Trains in PyTorch, with autocast if `dtype` is given, and with a gradient scaler for float16. Returns (losses, state_dict)."""
    module = copy.deepcopy(model.module).train()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    scaler = torch.amp.GradScaler("cpu", enabled=dtype == torch.float16)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            loss = models.first_loss(module(**oracle.rows_of_step(batches, step, STEPS)))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses, {name: value.detach() for name, value in module.state_dict().items()}


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    """Returns a function: name -> (archive, batches, runs of PyTorch by dtype). Results are cached."""
    folder, known = tmp_path_factory.mktemp("references"), {}

    def get(name):
        if name not in known:
            model = oracle.zoo(name)
            batches = oracle.draw_batches(model, 1, STEPS)
            runs = {dtype: train_torch(model, batches, dtype) for dtype in (None, torch.bfloat16, torch.float16)}
            known[name] = model.export(folder / f"{name}.pt2"), batches, runs
        return known[name]

    return get


def distance(weights, exact):
    floats = [name for name, value in exact.items() if value.is_floating_point()]
    return math.sqrt(sum((weights[name].double() - exact[name].double()).square().sum().item() for name in floats))


LAYOUTS = {  # mesh: (flags, the maximum of the distance from f32, divided by autocast's distance)
    # The order of additions alone changes PyTorch's own distance by a factor of 1.2 (fp16, one or two threads).
    "dp=1": ((), 1.4), "dp=2": (("--zero", "3"), 1.4),
    # The partial sums of a split matmul are rounded before they are added: one rounding more than on one rank.
    "tp=2": ((), 1.5), "tp=2,pp=2": (("--recompute", "full"), 1.5),
}  # fmt: skip


@pytest.mark.part(2)
@lanes.product(name=["gpt2", "llama"], precision=list(DTYPES), mesh=list(LAYOUTS))
def test_trains_as_autocast(tmp_path, references, name, precision, mesh):
    """After 50 steps, the weights are about as close to f32 weights as autocast's are. Every loss is within 2 % of autocast's."""
    flags, most = LAYOUTS[mesh]
    archive, batches, runs = references(name)
    found = oracle.train_compiled(tmp_path, archive, batches, mesh, 1, ADAM, ("--precision", precision, *flags), STEPS)
    (_, exact), (losses, peer) = runs[None], runs[DTYPES[precision]]
    assert max(abs(a - b) / b for a, b in zip(found.losses, losses, strict=True)) < 0.02
    # Neither much closer to f32 than autocast nor farther. The distance with fp32 would be 100 times smaller.
    assert 0.2 < distance(found.after, exact) / distance(peer, exact) < most


@pytest.mark.part(2)
@pytest.mark.parametrize("name", lanes.some(["bert", "resnet", "unet", "bart"], ["resnet", "bart"]))
def test_other_models_train(tmp_path, name):
    """Losses of 16-bit training stay within 2 % of f32, for models with convolutions, running statistics and encoders."""
    model = oracle.zoo(name)
    archive, batches = model.export(tmp_path / "model.pt2"), oracle.draw_batches(model, 2, 8)
    losses = {}
    for precision in ["fp32", *DTYPES, "half"]:
        folder = tmp_path / precision
        folder.mkdir()
        found = oracle.train_compiled(folder, archive, batches, "dp=2", 2, ADAM, ("--precision", precision), 8)
        losses[precision] = torch.tensor(found.losses)
    for precision in [*DTYPES, "half"]:
        difference = ((losses[precision] - losses["fp32"]) / losses["fp32"]).abs().max().item()
        assert 0 < difference < 0.02, precision


def test_gathered_copies_are_not_kept(tmp_path):
    """ZeRO-3 gathers the 16-bit copies of weights for forward, and again for backward. Forward does not save them."""
    archive = models.gpt2(batch=20).export(tmp_path / "model.pt2")
    for precision in ["bf16", "fp8"]:
        oracle.run([oracle.tools_folder() / "ps-compile", archive, "-o", "x.mlir", "--mesh", "dp=2", "--zero", "3", "--precision", precision,
                    "--stop-after", "partitioned"], tmp_path)
        forward = [line for line in (tmp_path / "x.mlir").read_text().splitlines() if re.match(r" *func.func @\w+\.forward\(", line)]
        assert len(forward) == 3
        for line in forward:
            results = re.findall(r"tensor<([\dx]+)x\w+>", line.split(" -> ")[1].split(" attributes")[0])
            assert not {"32x128", "128x32", "32x32", "96x32"} & set(results), line


def test_two_runs_and_every_schedule_have_the_same_bits(tmp_path):
    """A second run, recomputation and every schedule of the same stages give the same bits."""
    model = oracle.zoo("gpt2_deep")
    archive, batches = model.export(tmp_path / "model.pt2"), oracle.draw_batches(model, 4, 4)
    runs = []
    for i, flags in enumerate([(), (), ("--recompute", "full"), ("--recompute", "selective"), ("--schedule", "zb-h1"), ("--schedule", "gpipe")]):
        folder = tmp_path / str(i)
        folder.mkdir()
        runs.append(oracle.train_compiled(folder, archive, batches, "pp=2", 4, ADAM, ("--precision", "bf16", *flags), 4))
    for other in runs[1:]:
        assert other.losses == runs[0].losses
        assert [n for n, value in other.after.items() if not torch.equal(value, runs[0].after[n])] == []


# ---- loss scaling -----------------------------------------------------------------------------------------


def overflowing(unit=100.0):
    """Returns a GPT-2 whose gradients overflow in the last hidden unit of the first MLP. The activation of this unit is 0."""
    model = models.gpt2()
    mlp = model.module.transformer.h[0].mlp
    with torch.no_grad():
        mlp.c_fc.bias[-1] = -60.0  # its activation is 0
        mlp.c_proj.weight[-1] = unit
    return model


@pytest.mark.part(3)
@pytest.mark.parametrize("mesh", ["dp=1", "tp=2,pp=2", "dp=2,tp=2"])
def test_overflow_on_one_rank_skips_the_step_everywhere(tmp_path, mesh):
    model = overflowing(60000.0)
    archive, batches = model.export(tmp_path / "model.pt2"), oracle.draw_batches(model, 1, 12)
    before = {name: value.clone() for name, value in model.module.state_dict().items()}
    program = oracle.compile_model(tmp_path, archive, mesh, "--precision", "fp16", "--optimizer", ADAM, "--clip-norm", "1")
    save_file({n: v.contiguous() for n, v in batches.items()}, tmp_path / "data.safetensors")
    run = [program, "--ranks", oracle.ranks_of(mesh), "--data", "data.safetensors", "--quiet", "--log", "log.jsonl",
           "--export-weights", "w.safetensors"]  # fmt: skip
    oracle.run([*run, "--steps", "12"], tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    skipped = [line["skipped"] for line in lines]
    count = skipped.index(False)
    assert count > 0 and sum(skipped) < 8
    scales = [line["loss_scale"] for line in lines]
    assert scales[1:] == [a / 2 if skip else a for a, skip in zip(scales, skipped[1:])]
    # The skipped steps change no parameter on any rank. The first step that is not skipped changes all of them.
    oracle.run([*run, "--steps", count], tmp_path)
    assert [n for n, value in load_file(tmp_path / "w.safetensors").items() if not torch.equal(value, before[n])] == []
    oracle.run([*run, "--steps", count + 1], tmp_path)
    after = load_file(tmp_path / "w.safetensors")
    assert all(torch.isfinite(value).all() for value in after.values())
    assert not [n for n, value in after.items() if value.is_floating_point() and n != "transformer.h.0.mlp.c_proj.bias" and torch.equal(value, before[n])]


def test_gradients_that_never_are_finite_end_the_run(tmp_path):
    model = overflowing(3e38)
    oracle.compile_model(tmp_path, model.export(tmp_path / "model.pt2"), "dp=1", "--precision", "fp16")
    save_file(oracle.draw_batches(model, 1, 60), tmp_path / "data.safetensors")
    said = oracle.run(["./program", "--data", "data.safetensors", "--quiet"], tmp_path, expect=1)
    assert "are not finite" in said and "keep-fp32=MODULE" in said


# ---- loading and saving weights --------------------------------------------------------------------------------------------


def test_copies_follow_their_weights(tmp_path):
    """The 16-bit copies are made from the loaded weights: from --weights, from a checkpoint, or from the model's file."""
    model = models.gpt2()
    archive = model.export(tmp_path / "model.pt2")
    save_file(oracle.draw_batches(model, 1, 4), tmp_path / "data.safetensors")
    with torch.no_grad():
        for value in model.module.parameters():
            value += 0.01 * torch.randn(value.shape)
    weights = model.module.state_dict()
    save_file({n: v.contiguous().clone() for n, v in weights.items()}, tmp_path / "other.safetensors")
    other = model.export(tmp_path / "other.pt2")
    run = ["--data", "data.safetensors", "--quiet", "--steps", "4"]
    losses = {}
    for name, source, mesh, flags in [
        ("given", archive, "dp=2", ["--weights", "other.safetensors"]), ("file", other, "dp=2", []), ("split", other, "tp=2", [])]:
        program = oracle.compile_model(tmp_path, source, mesh, "--precision", "bf16", "--optimizer", ADAM, out=name)
        oracle.run([program, *run, *flags, "--losses", f"{name}.txt", "--save", f"{name}.saved", "--save-every", "2"], tmp_path)
        losses[name] = oracle.read_losses(tmp_path / f"{name}.txt")
    assert losses["given"] == losses["file"]
    assert losses["split"] == pytest.approx(losses["file"], rel=1e-3)
    oracle.run(["./given", *run, "--load", "given.saved/step-000002", "--losses", "again.txt"], tmp_path)
    assert oracle.read_losses(tmp_path / "again.txt") == losses["file"][2:]


@pytest.mark.part(2)
@pytest.mark.parametrize("saved, loaded", [
    lanes.full("fp16", "fp32"), ("fp32", "fp16"), lanes.full("bf16", "fp32"), ("fp16", "bf16"), ("bf16", "half"), ("half", "fp32")])  # fmt: skip
def test_checkpoints_go_from_one_precision_to_another(tmp_path, saved, loaded):
    """Weights and state keep their bits, except with `half`, which reports conversions. State that the checkpoint lacks is initialized."""
    model = models.gpt2()
    archive = model.export(tmp_path / "model.pt2")
    save_file(oracle.draw_batches(model, 1, 4), tmp_path / "data.safetensors")
    for name, precision, mesh in [("first", saved, "dp=2"), ("second", loaded, "tp=2")]:
        oracle.compile_model(tmp_path, archive, mesh, "--precision", precision, "--optimizer", ADAM, out=name)
    run = ["--data", "data.safetensors", "--quiet"]
    oracle.run(["./first", *run, "--steps", "2", "--save", "a"], tmp_path)
    said = oracle.run(["./second", *run, "--steps", "2", "--load", "a/step-000002", "--save", "b"], tmp_path)
    assert ("loss_scale" in said) == ("fp16" in (saved, loaded))
    assert ("converted" in said) == ("half" in (saved, loaded))
    before, after = (state_of(tmp_path / name / "step-000002") for name in "ab")
    assert before.keys() == after.keys()
    assert [n for n, value in before.items() if not torch.equal(value, after[n].to(value.dtype)) and loaded != "half"] == []
    oracle.run(["./second", *run, "--steps", "4", "--load", "b/step-000002"], tmp_path)


def state_of(folder):
    """Returns the tensors of a checkpoint by name, except for the loss scale, which only fp16 has."""
    return {name: value for name, value in join(folder).items() if not name.startswith("loss_scale")}


# ---- the command line ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text, words", [
    ("bfloat16", "takes fp32, bf16, fp16, half or fp8"),
    ("bf16,keep=lm_head", "'keep=lm_head' is neither keep-fp32=GLOB nor compute=GLOB"),
    ("bf16,keep-fp32=", "is neither keep-fp32=GLOB"),
    ("fp32,compute=ps.add", "fp32 has no precision classes to override"),
    ("bf16,keep-fp32=transformer.g.0",
     "--precision keep-fp32=transformer.g.0 matches no op and no module of the model; the nearest names are 'transformer.h.0"),
])  # fmt: skip
def test_bad_precisions(tmp_path, text, words):
    archive = models.gpt2().export(tmp_path / "model.pt2")
    refusals.refuse_compile(tmp_path, archive, "--precision", text, status=2, words=[words])
    assert not (tmp_path / "out").exists()


def test_gradients_are_written_without_their_scale(tmp_path):
    """--gradients writes the gradients without the loss scale."""
    model = models.gpt2()
    archive, data = model.export(tmp_path / "model.pt2"), oracle.draw_batches(model, 1, 1)
    found = {}
    for precision in ["fp32", "fp16", "half"]:
        folder = tmp_path / precision
        folder.mkdir()
        found[precision] = oracle.first_step(folder, archive, data, "--precision", precision)
    for precision, most in [("fp16", 2**-7), ("half", 2**-4)]:
        for name, exact in found["fp32"][1].items():
            other = found[precision][1][name].float()
            if exact.norm() > 1e-6:  # skips the key bias, whose gradient is only rounding errors
                assert (other - exact).norm() < most * exact.norm(), (precision, name)


def test_a_model_of_f64_has_a_scaled_loss(tmp_path):
    """The count of the loss is f64, and the loss scale is f32."""
    torch.manual_seed(0)
    module, x = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double(), torch.randn(4, 6).double()

    class Mean(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = module

        def forward(self, x):
            return self.layers(x).square().mean()

    archive = models.Model("f64", Mean(), {"x": x}).export(tmp_path / "model.pt2")
    module(x).square().mean().backward()
    _, found = oracle.first_step(tmp_path, archive, {"x": x}, "--precision", "fp16")
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(found[f"layers.{name}"].double(), parameter.grad, rtol=2e-2, atol=1e-3)


def test_check_needs_f32(tmp_path):
    archive = models.gpt2().export(tmp_path / "model.pt2")
    flags = ["--mesh", "dp=2", "--precision", "bf16", "--check"]
    said = oracle.run([oracle.tools_folder() / "ps-compile", archive, "-o", "x", *flags], tmp_path, expect=2)
    assert "--precision fp32" in said


def test_modules_keep_f32(tmp_path):
    """keep-fp32=* gives the bits of fp32. With a part of the model in f32, the bits differ from both fp32 and bf16."""
    model = models.gpt2()
    archive, batches = model.export(tmp_path / "model.pt2"), oracle.draw_batches(model, 1, 4)
    losses = {}
    for precision in ["fp32", "bf16", "bf16,keep-fp32=*", "bf16,keep-fp32=*.mlp,keep-fp32=lm_head"]:
        folder = tmp_path / str(len(losses))
        folder.mkdir()
        losses[precision] = oracle.train_compiled(folder, archive, batches, "dp=1", 1, ADAM, ("--precision", precision), 4).losses
    whole, narrow, kept, part = losses.values()
    assert kept == whole != narrow
    assert part not in (whole, narrow)


@pytest.mark.parametrize("zero", lanes.some(["0", "1", "2", "3"], ["0", "3"]))
def test_gradients_are_reduced_in_bf16(tmp_path, zero):
    """--gradient-reduction bf16 halves the communicated bytes. Updates equal those of fp32 up to bf16 roundings."""
    model = models.gpt2()
    archive, batches = model.export(tmp_path / "model.pt2"), oracle.draw_batches(model, 2, 4)
    moved, runs = {}, {}
    for kind in ["fp32", "bf16"]:
        folder = tmp_path / kind
        folder.mkdir()
        flags = ("--zero", zero, "--gradient-reduction", kind)
        runs[kind] = oracle.train_compiled(folder, archive, batches, "dp=2", 2, "sgd(lr=0.1)", flags, 4)
        rows = re.findall(r"(?:all_reduce|reduce_scatter) over dp +(\d+) +([\d.]+) KB", oracle.run(["./program", "--info"], folder))
        moved[kind] = sum(float(kilobytes) for _, kilobytes in rows)
    assert moved["bf16"] < 0.52 * moved["fp32"]
    before = model.module.state_dict()
    for name, value in runs["bf16"].after.items():
        other = runs["fp32"].after[name]
        assert (value - other).norm() <= 2**-8 * (other - before[name]).norm() + 1e-7 * value.norm(), name
    assert runs["bf16"].losses != runs["fp32"].losses


@pytest.mark.parametrize("mesh", ["dp=1", "pp=2"])
def test_gradient_reduction_without_reductions(tmp_path, exports, mesh):
    """On a mesh without a data or tensor axis of several ranks, --gradient-reduction bf16 prints a warning and changes nothing."""
    plans = {}
    for kind in ["fp32", "bf16"]:
        said = oracle.run([oracle.tools_folder() / "ps-compile", oracle.export("gpt", exports), "-o", f"{kind}.mlir", "--mesh", mesh,
                           "--stop-after", "planned", "--optimizer", ADAM, "--gradient-reduction", kind], tmp_path)  # fmt: skip
        assert ("warning: --gradient-reduction bf16 has no effect" in said) == (kind == "bf16")
        plans[kind] = (tmp_path / f"{kind}.mlir").read_text()
    assert plans["bf16"] == plans["fp32"]
