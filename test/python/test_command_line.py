"""Command lines: --help has every flag; config files, globs, and weights in files and folders."""
import fcntl
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import time

import capi
import models
import oracle
import pytest
import torch
from conftest import tools_folder
from refusals import refuse
from safetensors.torch import load_file, save_file

GROUPS = ("--optimizer", "*bias=sgd(lr=0.5)", "--optimizer", "sgd(lr=0.25)")


def run(command, cwd):
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def trained(tmp_path_factory, exports):
    """A folder with a perceptron compiled for two ranks, and data."""
    folder = tmp_path_factory.mktemp("program")
    oracle.compile_model(folder, oracle.export("mlp", exports), "dp=2", *GROUPS)
    save_file(models.mlp().draw_inputs(1), folder / "data.safetensors")
    return folder


# ---- every flag ----------------------------------------------------------------------------------------------------

# Flags that --help of ps-compile, of a program and of ps-run must list.
COMPILE = """dim batch batch-dim mode loss-output loss differentiate freeze init weights mesh ranks sharding-policy
    split-method num-chunks schedule micro-batches global-batch loss-average zero recompute precision plan write-plan
    gradient-reduction offload matmul-epilogues portable optimizer clip-norm ema target inference check explain report plan-data write-timeline no-codegen
    stop-after dump-dir""".split()
RUN = """config ranks comm threads data data-type labels fill shuffle seed epochs steps set lr-schedule eval-data
    eval-every eval-steps eval outputs output losses log gradients trace progress quiet info version save save-every keep load weights
    export-weights max-file-size check""".split()
EVALUATE = "entry ranks micro-batches steps seed set inputs outputs compare tolerance".split()


@pytest.mark.parametrize("tool,flags", [("ps-compile", COMPILE), ("ps-run", EVALUATE), ("program", RUN)])
def test_help_names_every_flag(trained, tool, flags):
    command = trained / tool if tool == "program" else tools_folder() / tool
    status, said = run([command, "--help"], trained)
    assert status == 0
    missing = [flag for flag in flags if f"--{flag}" not in said]
    assert not missing


@pytest.mark.parametrize("tool,arguments,words", [
    ("ps-compile", ["m.pt2", "--bath", "4", "--meshh=dp=2"], ["unknown flag --bath; did you mean --batch?", "unknown flag --meshh; did you mean --mesh?"]),
    ("ps-compile", ["m.pt2", "--steps", "4"], ["unknown flag --steps; --steps is a flag of the compiled program"]),
    ("ps-plan", ["m.pt2", "--clustr", "cpu"], ["unknown flag --clustr; did you mean --cluster?"]),
    ("ps-run", ["m.mlir", "--entri", "step"], ["unknown flag --entri; did you mean --entry?"]),
    ("ps-translate", ["--import-p2", "m.pt2"], ["unknown flag --import-p2; did you mean --import-pt2?"]),
    ("ps-timeline", ["t.json", "--qqqqqq", "3"], ["unknown flag --qqqqqq (--help"]),
])  # fmt: skip
def test_misspelt_flags_of_tools(tmp_path, tool, arguments, words):
    """Each unknown flag is named, with a flag that resembles it. The value of the flag is not reported."""
    status, said = run([tools_folder() / tool, *arguments], tmp_path)
    assert status == 2 and len(said.splitlines()) == len(words), said
    for line in words:
        assert line in said


@pytest.mark.parametrize("tool,arguments", [
    ("ps-compile", ["none.pt2", "-o", "x"]), ("ps-plan", ["none.pt2", "--cluster", "cpu-mpi", "--global-batch", "8", "-o", "x.json"]),
    ("ps-run", ["none.mlir"]), ("ps-run", ["{}", "--inputs", "none"]), ("ps-run", ["{}", "--compare", "none"]),
    ("ps-translate", ["--import-pt2", "none.pt2", "-o", "x.mlir"]), ("ps-timeline", ["none.json"]), ("psrt-probe", ["-o", "none/c.json"]),
    ("ps-compile", ["{}", "-o", "x", "--plan", "none.json"]), ("ps-compile", ["{}", "-o", "none/x"]),
    ("program", ["--data", "none.bin"]), ("program", ["--data", "data.safetensors", "--weights", "none"]), ("program", ["--load", "none"]),
    ("program", ["--data", "data.safetensors", "--losses", "none/x"]), ("program", ["--config", "none.json"]),
])  # fmt: skip
def test_a_path_that_cannot_be_opened_is_an_error_of_the_command_line(trained, exports, tool, arguments):
    """docs/errors.md: every tool ends with 2, and names the path."""
    command = trained / tool if tool == "program" else tools_folder() / tool
    status, said = run([command, *[argument.format(oracle.export("mlp", exports)) for argument in arguments]], trained)
    assert status == 2 and "none" in said, said


def test_leading_zeros(tmp_path):
    """Numbers with leading zeros are decimal, since scripts pad numbers with zeros."""

    class Squares(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x).square().mean()

    model = models.Model("squares", Squares(3, 3), {"x": torch.randn(4, 3)}, dynamic_shapes={"x": {0: torch.export.Dim("batch")}})
    archive = model.export(tmp_path / "model.pt2")
    save_file({"x": torch.randn(40, 3)}, tmp_path / "data.safetensors")
    assert run([tools_folder() / "ps-compile", archive, "-o", "program", "--batch", "010"], tmp_path)[0] == 0
    assert "[10, " in run(["./program", "--info"], tmp_path)[1]
    assert run(["./program", "--data", "data.safetensors", "--steps", "011", "--losses", "losses.txt"], tmp_path)[0] == 0
    assert len((tmp_path / "losses.txt").read_text().splitlines()) == 11


def test_programs_find_their_model(tmp_path, exports):
    """A program finds its model next to itself, at the absolute path of the compile, and by its relative path. The error lists all these paths."""
    (tmp_path / "models").mkdir()
    (tmp_path / "moved").mkdir()
    archive = tmp_path / "models" / "mlp.pt2"
    archive.write_bytes(oracle.export("mlp", exports).read_bytes())
    save_file(models.mlp().draw_inputs(1), tmp_path / "data.safetensors")
    status, said = run([tools_folder() / "ps-compile", "models/mlp.pt2", "-o", "models/program", "--optimizer", "sgd(lr=1)"], tmp_path)
    assert status == 0, said
    line = ["--data", tmp_path / "data.safetensors", "--steps", 1]
    for folder in (tmp_path / "models", tmp_path, "/"):
        status, said = run([tmp_path / "models/program", *line], folder)
        assert status == 0, said
    (tmp_path / "models/program").rename(tmp_path / "moved/program")
    status, said = run([tmp_path / "moved/program", *line], "/")
    assert status == 0, said
    archive.rename(tmp_path / "moved/mlp.pt2")
    status, said = run([tmp_path / "moved/program", *line], "/")
    assert status == 0, said
    (tmp_path / "moved/mlp.pt2").unlink()
    status, said = run([tmp_path / "moved/program", *line], "/")
    assert status == 1, said
    for path in ("models/mlp.pt2", tmp_path / "moved/models/mlp.pt2", tmp_path / "moved/mlp.pt2", tmp_path / "models/mlp.pt2"):
        assert f'"{path}"' in said, said


def test_a_file_that_is_only_called_onnx(trained):
    (trained / "model.onnx").write_bytes(b"onnx")
    for command in (["ps-compile", "model.onnx", "-o", "out"], ["ps-translate", "--import-onnx", "model.onnx", "-o", "x.mlir"]):
        status, said = run([tools_folder() / command[0], *command[1:]], trained)
        assert status == 1, said
        assert "model.onnx" in said and "not an ONNX model" in said and "torch.onnx.export" in said


# ---- resuming from a level ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "level,flags,words",
    [
        ("2-planned", ("--mesh", "dp=4"), ["warning: --mesh", "level planned"]),
        ("2-planned", ("--optimizer", "sgd(lr=1)"), ["warning: --optimizer", "level training"]),
        ("4-scheduled", ("--micro-batches", "2"), ["warning: --micro-batches", "level scheduled"]),
        ("0-imported", ("--batch", "8"), ["warning: --batch", "level imported"]),
    ],
)
def test_flags_of_earlier_levels(tmp_path, exports, level, flags, words):
    archive = oracle.export("mlp", exports)
    oracle.compile_model(tmp_path, archive, "dp=2", "--dump-dir", tmp_path, "--stop-after", "scheduled", out="o.mlir")
    status, said = run([tools_folder() / "ps-compile", f"{level}.mlir", "-o", "out", *flags], tmp_path)
    assert status == 0, said
    for word in words:
        assert word in said
    assert "warning" not in run([tools_folder() / "ps-compile", f"{level}.mlir", "-o", "out"], tmp_path)[1]
    if level != "0-imported":
        command = [tools_folder() / "ps-compile", f"{level}.mlir", "-o", "back.mlir", "--stop-after", "imported"]
        status, said = run(command, tmp_path)
        assert status == 2 and "--stop-after imported names an earlier level" in said and not (tmp_path / "back.mlir").exists()


# ---- config files --------------------------------------------------------------------------------------------------


def losses(folder, *flags):
    status, said = run([folder / "program", *flags, "--losses", "losses.txt", "--quiet"], folder)
    assert status == 0, said
    return oracle.read_losses(folder / "losses.txt")


def test_config_equals_its_flags(trained):
    config = {"data": "data.safetensors", "steps": 3, "set": ["lr=0.125"], "shuffle": True, "seed": 7, "eval": False}
    (trained / "run.json").write_text(json.dumps(config))
    line = ["--data", "data.safetensors", "--steps", 3, "--set", "lr=0.125", "--shuffle", "--seed", 7]
    assert losses(trained, "--config", "run.json") == losses(trained, *line)


def test_flags_win_over_the_config(trained):
    (trained / "run.json").write_text('{"data": "none.safetensors", "epochs": 5, "ranks": 2}')
    assert len(losses(trained, "--config", "run.json", "--data", "data.safetensors", "--steps", 2)) == 2


@pytest.mark.parametrize(
    "text,words",
    [
        ('{"stepz": 1}', ["stepz"]),
        ('{"config": "b.json"}', ['"config" is only allowed on the command line; remove it from the file']),
        ('{"steps": ', ["parse error"]),
        ("[1]", ["object"]),
        ('{"shuffle": 1}', ["shuffle", "true"]),
        ('{"steps": {}}', ['"steps" is an object; expected a string, a number or a list']),
        ('{"data": [["a"]]}', ['an item of "data" is an array; expected a string or a number']),
        ('{"steps": "many"}', ["--steps", "many"]),
        ('{"steps": 1, "steps": 2}', ['"steps" is given twice']),
        ('{"save": ""}', ['"save" is empty; omit it']),
        ('{"data": ["data.safetensors", ""]}', ['an item of "data" is empty; remove the item, or give a value']),
        ('{"steps": 1e999}', ["--config", "overflow", "1e999"]),
    ],
)
def test_bad_config(trained, text, words):
    (trained / "bad.json").write_text(text)
    status, said = run([trained / "program", "--config", "bad.json"], trained)
    assert status == 2, said
    for word in words:
        assert word in said
    assert "json.exception" not in said


def test_missing_config(trained):
    status, said = run([trained / "program", "--config", "no.json"], trained)
    assert status == 2 and "no.json" in said


# ---- learning rates by glob ----------------------------------------------------------------------------------------


def updates(folder, *flags):
    """Runs one step. Returns the change of each parameter."""
    status, said = run(
        [folder / "program", "--data", "data.safetensors", "--steps", 1, *flags, "--export-weights", "after.safetensors"],
        folder,
    )
    assert status == 0, said
    before = dict(models.mlp().module.named_parameters())
    return {n: t - before[n].detach() for n, t in load_file(folder / "after.safetensors").items()}


def test_learning_rate_of_some_parameters(trained):
    usual, other = updates(trained), updates(trained, "--set", "*bias=lr=0.25")
    for name, value in usual.items():
        factor = 0.5 if name.endswith("bias") else 1.0
        torch.testing.assert_close(other[name], value * factor, rtol=1e-3, atol=1e-6)


def test_hyperparameters_set_at_the_start(tmp_path):
    """A program with values of --set equals one that was compiled with these values."""
    (tmp_path / "models").mkdir()
    for name, momentum, decay, clip in (("a", 0.9, 0.1, 1), ("b", 0.7, 0.2, 0.05)):
        optimizer = f"sgd(lr=0.1,momentum={momentum},weight_decay={decay})"
        oracle.compile_model(tmp_path, models.mlp().export(tmp_path / "mlp.pt2"), "dp=2", "--optimizer", optimizer, "--clip-norm", clip, out=name)
    save_file(models.mlp().draw_inputs(0, 4), tmp_path / "data.safetensors")
    settings = ("--set", "momentum=0.7", "--set", "weight_decay=0.2", "--set", "clip_grad_norm=0.05")
    losses = []
    for name, flags in (("a", ()), ("a", settings), ("b", ())):
        status, said = run([tmp_path / name, "--data", "data.safetensors", "--steps", 4, "--losses", "losses.txt", *flags], tmp_path)
        assert status == 0, said
        losses.append((tmp_path / "losses.txt").read_text())
        (tmp_path / "losses.txt").unlink()
    assert losses[1] == losses[2] != losses[0]


@pytest.mark.parametrize(
    "setting,words",
    [
        ("momentum=0", ["momentum=0", "above 0"]),
        ("beta1.0=1", ["beta1.0=1", "below 1"]),
        ("nothing*=lr=1", ["nothing*", "no trained parameter", "nearest names"]),
        ("layer.0.bias=lr=1", ["layer.0.bias", "nearest names are 'layers.0.bias'"]),
        ("layers.0.*=lr=1", ["layers.0.", "--optimizer"]),  # the glob matches only a part of the group
        ("*=momentum=1", ["lr"]),
        ("momentum=1", ["momentum", "lr.0"]),
        ("lr", ["NAME=VALUE"]),
        ("lr=fast", ["lr=fast"]),
    ],
)
def test_bad_setting(trained, setting, words):
    status, said = run([trained / "program", "--data", "data.safetensors", "--steps", 1, "--set", setting], trained)
    assert status == 2, said
    for word in words:
        assert word in said


# ---- the log -------------------------------------------------------------------------------------------------------


class Terms(torch.nn.Module):
    """A model with a loss and two other scalar outputs, which are not trained."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 3)

    def forward(self, x):
        y = self.linear(x)
        return y.square().mean(), y.abs().mean(), y.sum()


@pytest.mark.parametrize("mesh", ["dp=1", "dp=2"])
def test_further_scalars_are_logged_by_name(tmp_path, mesh):
    """The log has the mean of each scalar over the micro-batches of a step, as for the loss."""
    torch.manual_seed(0)
    module = Terms()
    x = torch.randn(8, 8)
    program = torch.export.export(module, (x[:4],))
    torch.export.save(program, tmp_path / "model.pt2")
    names = program.graph_signature.user_outputs
    oracle.compile_model(tmp_path, tmp_path / "model.pt2", mesh, "--micro-batches", 2, "--optimizer", "sgd(lr=0)")
    save_file({"x": x}, tmp_path / "data.safetensors")
    oracle.run([tmp_path / "program", "--data", "data.safetensors", "--log", "log.jsonl"], tmp_path)
    entry = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[0])
    expected = [(a + b) / 2 for a, b in zip(module(x[:4]), module(x[4:]))]
    assert entry["loss"] == pytest.approx(expected[0].item(), rel=1e-5)
    for name, value in list(zip(names, expected))[1:]:
        assert entry[name] == pytest.approx(value.item(), rel=1e-5), name


# ---- the batch's dim -----------------------------------------------------------------------------------------------


class Weighted(torch.nn.Module):
    """A model with an input without a batch dim, and an input whose batch is dim 1."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 5)

    def forward(self, x, weight, labels):
        logits = self.linear(x.T * weight)
        return torch.nn.functional.cross_entropy(logits, labels), logits


def test_batch_dims(tmp_path):
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)

    def draw():
        return {
            "x": torch.randn(6, 4, generator=generator), "weight": torch.randn(6, generator=generator),
            "labels": torch.randint(0, 5, (4,), generator=generator),
        }  # fmt: skip

    model = models.Model("weighted", Weighted(), draw())
    archive = model.export(tmp_path / "model.pt2")
    flags = ("--batch-dim", "x=1", "--batch-dim", "weight=none", "--optimizer", "sgd(lr=0)")
    program = oracle.compile_model(tmp_path, archive, "dp=2", *flags)
    first, second = draw(), draw()
    second["weight"] = first["weight"]
    data = {"x": torch.cat([first["x"], second["x"]], 1), "labels": torch.cat([first["labels"], second["labels"]])}
    save_file({**data, "weight": first["weight"]}, tmp_path / "data.safetensors")
    oracle.run([program, "--data", "data.safetensors", "--losses", "losses.txt"], tmp_path)
    expected = [pytest.approx(model.loss(batch).item(), rel=1e-5) for batch in (first, second)]
    assert oracle.read_losses(tmp_path / "losses.txt") == expected


# ---- weights -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name,mesh", [("mlp", "dp=1"), ("gpt2", "dp=1,tp=2")])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_weights_of_another_dtype_are_converted(tmp_path, exports, name, mesh, dtype):
    """Weights are converted as in PyTorch, also if they are split over ranks. A message reports the conversion."""
    program = oracle.compile_model(tmp_path, oracle.export(name, exports), mesh)
    state = models.MODELS[name]().module.state_dict()
    given = {n: (t * 1.37).to(dtype) for n, t in state.items() if n != "lm_head.weight"}  # the weight is tied, so one of its names is enough
    save_file(given, tmp_path / "given.safetensors")
    status, said = run([program, "--weights", "given.safetensors", "--export-weights", "out.safetensors"], tmp_path)
    assert status == 0, said
    names = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float64: "f64"}
    assert f'"given.safetensors": {len(given)} tensors of {names[dtype]} are converted to f32' in said
    found = load_file(tmp_path / "out.safetensors")
    for n, value in given.items():
        assert torch.equal(found[n], value.float()), n


def test_weights_of_the_same_dtype_cause_no_message(trained):
    save_file(models.mlp().module.state_dict(), trained / "given.safetensors")
    status, said = run([trained / "program", "--weights", "given.safetensors", "--export-weights", "x.safetensors"], trained)
    assert status == 0 and "converted" not in said


@pytest.mark.parametrize(
    "change,words",
    [
        ({"layers.0.bias": torch.ones(24, dtype=torch.int64)}, ["layers.0.bias", "i64", "f32"]),
        ({"layers.0.bias": torch.ones(25)}, ["layers.0.bias", "[25]", "[24]"]),
        ({"layers.0.bias": None}, ["no tensor", "layers.0.bias"]),
        ({"layers.9.bias": torch.ones(24)}, ["layers.9.bias", "no variable"]),
    ],
    ids=["dtype", "shape", "missing", "unknown"],
)
def test_weights_that_do_not_fit(trained, change, words):
    state = {**models.mlp().module.state_dict(), **change}
    save_file({n: t for n, t in state.items() if t is not None}, trained / "bad.safetensors")
    status, said = run([trained / "program", "--weights", "bad.safetensors", "--export-weights", "x.safetensors"], trained)
    assert status == 1, said
    for word in words:
        assert word in said
    status, said = run([trained / "program", "--weights", "no.safetensors", "--export-weights", "x.safetensors"], trained)
    assert status == 2 and '--weights: cannot read "no.safetensors"' in said


def test_weights_in_place_of_the_models_file(tmp_path):
    """If --weights gives all weights, the model's file is not read: in training, in --check, and through the C API."""
    model, data = models.gpt2(), "data.safetensors"
    program = oracle.compile_model(tmp_path, model.export(tmp_path / "model.pt2"), "dp=2", "--check")
    library = oracle.compile_model(tmp_path, tmp_path / "model.pt2", "dp=2", out="program.so")
    save_file(model.draw_inputs(1), tmp_path / data)
    state = {n: t for n, t in model.module.state_dict().items() if n != "lm_head.weight"}
    save_file(state, tmp_path / "given.safetensors")
    line = [program, "--data", data, "--steps", 1, "--losses", "losses.txt"]
    oracle.run(line, tmp_path)
    usual = oracle.read_losses(tmp_path / "losses.txt")
    (tmp_path / "model.pt2").unlink()
    oracle.run([*line, "--weights", "given.safetensors"], tmp_path)
    assert oracle.read_losses(tmp_path / "losses.txt") == usual
    oracle.run([program, "--data", data, "--check", "--weights", "given.safetensors"], tmp_path)
    opened = capi.Program(library, ranks=2, weights=tmp_path / "given.safetensors")
    assert torch.equal(opened.get("transformer.wte.weight", state["transformer.wte.weight"]), state["transformer.wte.weight"])
    opened.close()
    save_file({n: t for n, t in state.items() if n != "transformer.wpe.weight"}, tmp_path / "given.safetensors")
    status, said = run([*line, "--weights", "given.safetensors"], tmp_path)
    assert status == 1, said
    assert "model.pt2" in said and "transformer.wpe.weight" in said


# ---- folders of weights --------------------------------------------------------------------------------------------


def test_folder_of_weights_loads_in_transformers(tmp_path, exports):
    """GPT-2's weights in several files of at most 20 kB can be read by transformers and by the program."""
    from transformers import GPT2LMHeadModel

    model = models.gpt2()
    program = oracle.compile_model(tmp_path, oracle.export("gpt2", exports), "dp=1,tp=2")
    model.module.config.save_pretrained(tmp_path / "weights")
    status, said = run([program, "--export-weights", "weights", "--max-file-size", 20000], tmp_path)
    assert status == 0, said
    index = json.loads((tmp_path / "weights/model.safetensors.index.json").read_text())
    files = sorted(p.name for p in (tmp_path / "weights").glob("*.safetensors"))
    assert len(files) > 1 and files == sorted(set(index["weight_map"].values()))
    assert all((tmp_path / "weights" / name).stat().st_size < 25000 for name in files)
    wrong = {**index, "weight_map": {**index["weight_map"], "transformer.wte.weight": files[-1]}}
    shutil.copytree(tmp_path / "weights", tmp_path / "wrong")
    (tmp_path / "wrong/model.safetensors.index.json").write_text(json.dumps(wrong))
    status, said = run([program, "--weights", "wrong", "--export-weights", "x.safetensors"], tmp_path)
    assert status == 1 and f'tensor "transformer.wte.weight" is in the file "{files[-1]}", but the file does not contain it' in said, said
    state = model.module.state_dict()
    assert set(index["weight_map"]) == set(state) - {"lm_head.weight"}  # the index has only the first name of a tied weight
    loaded = GPT2LMHeadModel.from_pretrained(tmp_path / "weights").state_dict()
    for name, value in state.items():
        assert torch.equal(loaded[name], value), name
    status, said = run([program, "--weights", "weights", "--export-weights", "again.safetensors"], tmp_path)
    assert status == 0, said
    again = load_file(tmp_path / "again.safetensors")
    assert again.keys() == state.keys() and all(torch.equal(again[n], state[n]) for n in state)


def test_folder_of_one_file_replaces_an_earlier_export(trained):
    assert run([trained / "program", "--export-weights", "folder", "--max-file-size", 1000], trained)[0] == 0
    assert len(list((trained / "folder").glob("model-*"))) > 1
    assert run([trained / "program", "--export-weights", "folder"], trained)[0] == 0
    assert [p.name for p in (trained / "folder").iterdir()] == ["model.safetensors"]
    saved = load_file(trained / "folder/model.safetensors")
    for name, value in models.mlp().module.state_dict().items():
        assert torch.equal(saved[name], value)


def export_parts(trained, folder, weights=None):
    """Exports the program's weights, or those of `weights`, to a folder with one file per tensor."""
    flags = ["--weights", weights] if weights else []
    return run([trained / "program", *flags, "--export-weights", folder, "--max-file-size", 1], trained)


@pytest.fixture
def two_exports(trained):
    """Two exported folders with the same files. All values are 0 in the folder `zeros` and 1 in the folder `ones`."""
    state = models.mlp().module.state_dict()
    for name, value in (("zeros", 0.0), ("ones", 1.0)):
        save_file({n: torch.full_like(v, value) for n, v in state.items()}, trained / f"{name}.safetensors")
        assert export_parts(trained, name, f"{name}.safetensors")[0] == 0
    return trained


def values_in(trained, folder):
    """Returns the set of values that a program loads from a folder, or None if it refuses the folder."""
    status, said = run([trained / "program", "--weights", folder, "--export-weights", "found.safetensors"], trained)
    if status:
        assert status in (1, 2) and "error: " in said, said  # 2: the first export has not created the folder yet
        return None
    return {float(v) for tensor in load_file(trained / "found.safetensors").values() for v in tensor.flatten()}


def test_folder_with_files_of_two_exports_is_refused(two_exports):
    trained = two_exports
    file = sorted(path.name for path in (trained / "ones").glob("model-*"))[1]
    shutil.copy(trained / "ones" / file, trained / "zeros" / file)
    status, said = run([trained / "program", "--weights", "zeros", "--export-weights", "found.safetensors"], trained)
    assert status == 1 and '"zeros" is a mix of two exports' in said and file in said, said
    (trained / "zeros/model.safetensors.index.json").unlink()
    assert values_in(trained, "zeros") is None, "without an index, the folder is incomplete"
    assert export_parts(trained, "zeros", "zeros.safetensors")[0] == 0 and values_in(trained, "zeros") == {0.0}


def test_kill_during_an_export_does_not_mix_two_exports(two_exports, repeat=8):
    """After a kill, the folder has one complete export or is refused. The next export removes leftover files."""
    trained, generator = two_exports, random.Random(6)
    for _ in range(repeat):
        assert export_parts(trained, "zeros", "zeros.safetensors")[0] == 0
        line = [trained / "program", "--weights", "ones.safetensors", "--export-weights", "zeros", "--max-file-size", "1"]
        running = subprocess.Popen(line, cwd=trained, stdout=subprocess.DEVNULL)
        while running.poll() is None and not list((trained / "zeros").glob("model-*.tmp")):
            pass
        time.sleep(0.02 * generator.random())
        running.kill()
        running.wait()
        assert values_in(trained, "zeros") in ({0.0}, {1.0}, None)
    left = trained / "zeros/model-00001-of-00002.safetensors.0123456789abcdef.tmp"
    held, other = (left.with_name(left.name.replace("0123", new)) for new in ("4567", "x123"))
    for file in (left, held, other):
        file.write_text("")
    with open(held) as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        assert export_parts(trained, "zeros", "zeros.safetensors")[0] == 0
    assert sorted((trained / "zeros").glob("*.tmp")) == sorted([held, other]), "a file that is being written, and a file of another program, are kept"


def test_reader_during_an_export_does_not_see_two_exports(two_exports):
    trained, found = two_exports, []
    for name in ("ones", "zeros", "ones", "zeros"):
        writing = subprocess.Popen([trained / "program", "--weights", f"{name}.safetensors", "--export-weights", "both", "--max-file-size", "1"],
                                   cwd=trained, stdout=subprocess.DEVNULL)  # fmt: skip
        while writing.poll() is None:
            found.append(values_in(trained, "both"))
    assert all(values in ({0.0}, {1.0}, None) for values in found), found


def test_bad_folders_of_weights(trained):
    (trained / "empty").mkdir()
    status, said = run([trained / "program", "--weights", "empty", "--export-weights", "x.safetensors"], trained)
    assert status == 1 and "model.safetensors" in said
    (trained / "damaged").mkdir()
    (trained / "damaged/model.safetensors.index.json").write_text('{"weight_map": {"a": "../outside.safetensors"}}')
    status, said = run([trained / "program", "--weights", "damaged", "--export-weights", "x.safetensors"], trained)
    assert status == 1 and "expected the name of a file in the same folder" in said
    (trained / "taken").write_text("a file")
    status, said = run([trained / "program", "--export-weights", "taken"], trained)
    assert status == 2 and said.startswith("error: --export-weights") and "taken" in said
    status, said = run([trained / "program", "--data", "data.safetensors", "--steps", "1", "--save", "taken"], trained)
    assert status == 2 and 'error: --save: cannot create the folder "taken"' in said


@pytest.mark.parametrize("change, words", [
    (lambda text: text[:-3], ["is not a valid index of weights: parse error"]),
    (lambda text: text.replace('"weight_map"', '"weight_map": {}, "weight_map"'), ["\"weight_map\" is given twice"]),
    (lambda text: text.replace('"layers.0.bias": ', '"layers.0.bias": "model-00001-of-00002.safetensors", "layers.0.bias": '),
     ["\"layers.0.bias\" is given twice in one object; the first would be lost"]),
    (lambda text: text.replace('"metadata"', '"weights": {}, "metadata"'),
     ["the unknown key \"weights\"; expected metadata, weight_map"]),
    (lambda text: text.replace('"weight_map"', '"weight_maps"'), ["the unknown key \"weight_maps\""]),
    (lambda text: '{"weight_map": ["a"]}', ["\"weight_map\" is array; expected an object"]),
])  # fmt: skip
def test_damaged_indices_of_weights(trained, change, words):
    shutil.rmtree(trained / "indexed", ignore_errors=True)
    assert run([trained / "program", "--export-weights", "indexed", "--max-file-size", 1000], trained)[0] == 0
    index = trained / "indexed/model.safetensors.index.json"
    text = index.read_text()
    assert change(text) != text
    index.write_text(change(text))
    refuse([trained / "program", "--weights", "indexed", "--export-weights", "x.safetensors"], trained, 1, index.name, *words)


@pytest.mark.parametrize("tool", ["ps-compile", "ps-opt", "ps-plan", "ps-run", "ps-timeline", "ps-translate"])
@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_full_standard_output_of_a_tool(tool, flag):
    with open("/dev/full", "w") as full:
        done = subprocess.run([tools_folder() / tool, flag], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "error: the standard output cannot be written: No space left on device\n"


def test_batch_beyond_every_tensor(trained, exports):
    status, said = run([tools_folder() / "ps-compile", oracle.export("mlp", exports), "-o", "huge", "--batch", 2**63 - 1], trained)
    assert status == 2 and "--batch takes a number from 1 to 1099511627776, not '9223372036854775807'" in said


def test_each_written_file_is_reported(trained, exports):
    status, said = run([tools_folder() / "ps-compile", oracle.export("mlp", exports), "-o", "beside", "--report", "r.html", "--write-plan", "p.json",
                        "--dump-dir", "levels"], trained)  # fmt: skip
    assert status == 0
    lines = said.splitlines()
    assert all(f"wrote {path}" in lines for path in ("r.html", "p.json", "levels")) and "wrote beside in" in said


class Unequal(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x, y):
        return self.layer(x).square().mean() + self.layer(y).mean()


@pytest.mark.parametrize("flags", [["--batch", "4"], ["--dim", "y.0=4"]])
def test_flag_that_gives_inputs_unequal_batches(tmp_path, flags):
    inputs, dim = {"x": torch.randn(8, 3), "y": torch.randn(8, 3)}, torch.export.Dim("batch")
    torch.export.save(torch.export.export(Unequal(), (), inputs, dynamic_shapes={"x": None, "y": {0: dim}}), tmp_path / "m.pt2")
    status, said = run([tools_folder() / "ps-compile", "m.pt2", "-o", "out", *flags], tmp_path)
    assert status == 2 and "note: pass" not in said and not (tmp_path / "out.failed.mlir").exists()
    assert said.startswith("error: " + " ".join(flags) + ': input "y" would have 4 samples, and input "x" 8, which the export fixes')


class Sequences(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(16, 4)

    def forward(self, ids):
        return self.table(ids).cumsum(1).square().mean()


def test_length_of_sequences_is_chosen_when_compiling(tmp_path):
    """Data of another length is an error that names both lengths. Also checks the text in docs/models.md."""
    torch.manual_seed(0)
    module, ids = Sequences(), torch.randint(0, 16, (4, 8))
    exported = torch.export.export(module, (ids,), dynamic_shapes={"ids": {1: torch.export.Dim("length")}})
    torch.export.save(exported, tmp_path / "m.pt2")
    oracle.run([tools_folder() / "ps-compile", "m.pt2", "-o", "m", "--dim", "ids.1=5"], tmp_path)
    for length in (5, 8):
        save_file({"ids": ids[:, :length].contiguous()}, tmp_path / f"{length}.safetensors")
    oracle.run(["./m", "--data", "5.safetensors", "--steps", 1, "--losses", "l.txt"], tmp_path)
    assert oracle.read_losses(tmp_path / "l.txt") == pytest.approx([module(ids[:, :5]).item()], rel=1e-5)
    refuse(["./m", "--data", "8.safetensors", "--steps", 1], tmp_path, 1, '"ids"', "[4, 8]", "[4, 5]")
    readme = (pathlib.Path(__file__).parents[2] / "docs/models.md").read_text()
    assert "The sequence length is fixed at the export" in readme and "`ps-compile --dim INPUT.1=N`" in readme


@pytest.mark.parametrize("mesh, whose", [("dp=2", ""), ("pp=2", " of pipeline coordinate [01]")])
def test_memory_limit(tmp_path, exports, mesh, whose):
    """A limit that equals the bytes of a rank is accepted; one byte less is refused."""
    command = [tools_folder() / "ps-compile", oracle.export("gpt2", exports), "-o", tmp_path / "program", "--mesh", mesh]

    def refused(limit, *flags):
        said = oracle.run([*command, "--memory-limit", limit, *flags], tmp_path, expect=2)
        assert not (tmp_path / "program").exists() and not list(tmp_path.glob("*.failed.mlir"))
        return said

    said = refused("10KB", "--explain")
    assert "memory per rank" in said, "the plan is printed first"
    (needed,) = re.findall(rf"error: --memory-limit: a rank{whose} needs .* \((\d+) bytes\), and the limit is 10000 B; add --zero", said)
    assert "a rank" in refused(int(needed) - 1)
    assert "'much' is not a number of bytes" in refused("much")
    assert "do not exist after --stop-after planned" in refused("1GB", "--stop-after", "planned")
    oracle.run([*command, "--memory-limit", needed], tmp_path)
    assert (tmp_path / "program").exists()


def test_a_long_compile_shows_its_steps_on_a_terminal(tmp_path, exports):
    ours, theirs = os.openpty()
    line = [tools_folder() / "ps-compile", oracle.export("gpt", exports), "-o", "program", "--mesh", "pp=2", "--micro-batches", "4096"]
    with subprocess.Popen(line, cwd=tmp_path, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while part := read_terminal(ours):
            shown += part
    os.close(ours)
    assert process.returncode == 0 and re.search(rb"\rps-compile: \d+ s, (ps-[a-z-]+|machine code)\x1b\[K\r", shown), shown
    assert shown.endswith(b" s\r\n") and b"wrote program in" in shown.rsplit(b"\r", 2)[-2], shown


def read_terminal(descriptor):
    """Reads from a terminal. Returns b"" after the last writer has closed it."""
    try:
        return os.read(descriptor, 4096)
    except OSError:
        return b""
