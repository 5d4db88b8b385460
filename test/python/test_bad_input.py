"""What users get wrong: each case ends with exit status 1 or 2 and a message that says what to do."""
import os
import resource
import subprocess
import time
import zipfile

import models
import oracle
import pytest
import torch
from conftest import tools_folder
from safetensors.torch import save_file

PLAIN = ("--optimizer", "adamw(lr=1e-3)")


def refuse(command, cwd, status, *words):
    """Runs a command that must end with `status` (one of them) and print all `words`."""
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, timeout=120)
    said = done.stdout + done.stderr
    allowed = status if isinstance(status, tuple) else (status,)
    assert done.returncode in allowed, f"exit status {done.returncode}\n{said}"
    for word in words:
        assert word in said, f"'{word}' not in:\n{said}"
    return said


def refuse_compile(cwd, archive, *flags_and_words, status=(1, 2), words=()):
    return refuse([tools_folder() / "ps-compile", archive, "-o", cwd / "out", *flags_and_words], cwd, status, *words)


@pytest.fixture(scope="module")
def program(tmp_path_factory, exports):
    """A small GPT compiled for two ranks."""
    folder = tmp_path_factory.mktemp("program")
    return oracle.compile_model(folder, oracle.export("gpt", exports), "dp=2", *PLAIN)


def data_for(folder, name="data.safetensors", **changes):
    """A data file of the GPT's inputs; `changes` replace a tensor, or drop it when None."""
    tensors = {**models.gpt().draw_inputs(1), **changes}
    path = folder / name
    save_file({n: t.contiguous() for n, t in tensors.items() if t is not None}, path)
    return path


def train(program, data, *flags):
    return [program, "--ranks", 2, "--data", data, "--steps", 1, *flags]


# ---- the model's file ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [0, 1, 3, 40, 0.1, 0.5, 0.9, -200, -30, -1])
def test_truncated_archive(tmp_path, exports, kept):
    """Cut anywhere (a share of the file, bytes kept, bytes lost): an error that names the file, and no output."""
    whole = oracle.export("mlp", exports).read_bytes()
    path = tmp_path / "cut.pt2"
    path.write_bytes(whole[: int(len(whole) * kept) if isinstance(kept, float) else kept])
    refuse_compile(tmp_path, path, status=1, words=["cut.pt2", "export"])
    assert list(tmp_path.iterdir()) == [path]


def test_model_that_is_a_folder(tmp_path):
    (tmp_path / "model.pt2").mkdir()
    refuse_compile(tmp_path, tmp_path / "model.pt2", status=2, words=["model.pt2", "folder"])


def test_model_of_another_kind(tmp_path):
    (tmp_path / "model.pth").write_bytes(b"x")
    refuse_compile(tmp_path, tmp_path / "model.pth", status=2, words=["model.pth", ".pt2"])


def test_module_that_does_not_parse(tmp_path):
    (tmp_path / "model.mlir").write_text("module { func.func @forward( }")
    refuse_compile(tmp_path, tmp_path / "model.mlir", status=1, words=["model.mlir"])


def damage(archive, path, change):
    """A copy of an archive with some entries changed: change(name, bytes) gives the new bytes, or None to leave it out."""
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(path, "w") as target:
        for entry in source.infolist():
            data = change(entry.filename, source.read(entry))
            if data is not None:
                target.writestr(entry.filename, data)
    return path


@pytest.mark.parametrize(
    "change,words",
    [
        (lambda n, d: None if n.endswith("weight_2") else d, ["weight_2", "export"]),
        (lambda n, d: d[:-4] if n.endswith("weight_2") else d, ["weight_2", "bytes"]),
        (lambda n, d: d[: len(d) // 2] if n.endswith("model.json") else d, ["JSON is damaged"]),
        (lambda n, d: b"{}" if n.endswith("model.json") else d, ["schema_version"]),
        (lambda n, d: None if n.endswith("model.json") else d, ["models/*.json"]),
        (lambda n, d: None if n.endswith("model_weights_config.json") else d, ["layers.0.weight", "configs"]),
        (lambda n, d: b"[]" if n.endswith("model_weights_config.json") else d, ["model_weights_config.json"]),
    ],
    ids=["no weight", "short weight", "half a graph", "empty graph", "no graph", "no config", "empty config"],
)
def test_damaged_archive(tmp_path, exports, change, words):
    path = damage(oracle.export("mlp", exports), tmp_path / "damaged.pt2", change)
    refuse_compile(tmp_path, path, status=1, words=["damaged.pt2", *words])
    assert list(tmp_path.iterdir()) == [path]


def test_foreign_file(tmp_path):
    path = tmp_path / "notes.pt2"
    path.write_text("not an archive")
    refuse_compile(tmp_path, path, status=1, words=["notes.pt2"])


def test_archive_of_something_else(tmp_path):
    path = tmp_path / "other.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    refuse_compile(tmp_path, path, status=1, words=["other.pt2"])


@pytest.mark.parametrize("outside", ["../outside", "/outside", "data/../../outside", "C:/outside", "..\\outside"])
def test_entry_that_leaves_the_archive(tmp_path, exports, outside):
    path = tmp_path / "escape.pt2"
    with zipfile.ZipFile(oracle.export("mlp", exports)) as source, zipfile.ZipFile(path, "w") as target:
        for entry in source.infolist():
            target.writestr(entry, source.read(entry))
        target.writestr(outside, "x")
    refuse_compile(tmp_path, path, status=1, words=[outside, "leaves the archive"])
    assert not (tmp_path.parent / "outside").exists()


def test_missing_file(tmp_path):
    refuse_compile(tmp_path, tmp_path / "nothing.pt2", status=2, words=["nothing.pt2"])


class Unsupported(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = torch.linalg.det(self.linear(x))
        return torch.special.bessel_j0(y).sum() + torch.special.bessel_j0(y * 2).sum()


def test_unsupported_ops_are_listed_all_at_once(tmp_path):
    program = torch.export.export(Unsupported(), (torch.randn(2, 4, 4),))
    torch.export.save(program, tmp_path / "model.pt2")
    refuse_compile(
        tmp_path, tmp_path / "model.pt2", status=1, words=["det", "bessel_j0", "2", "test_bad_input.py"]
    )


class Complex(torch.nn.Module):
    def forward(self, x):
        return x.abs().sum()


def test_unsupported_dtype(tmp_path):
    program = torch.export.export(Complex(), (torch.randn(4, dtype=torch.complex64),))
    torch.export.save(program, tmp_path / "model.pt2")
    refuse_compile(tmp_path, tmp_path / "model.pt2", status=1, words=["complex64"])


# ---- dims ----------------------------------------------------------------------------------------------------------


def test_batch_of_a_static_export_shows_the_line_to_add(tmp_path, exports):
    refuse_compile(tmp_path, oracle.export("gpt", exports), "--batch", 16, status=2, words=["dynamic_shapes"])


def test_dim_out_of_the_range_of_the_export(tmp_path, exports):
    refuse_compile(tmp_path, oracle.export("gpt_dynamic", exports), "--batch", 4096, status=2, words=["4096", "1024"])


def test_dim_without_a_size(tmp_path, exports):
    """An export that keeps no hint of a dim's size: it must be given, and then all is well."""
    forget = lambda n, d: d.replace(b'"hint": {"as_int": 4}', b'"hint": null') if n.endswith("model.json") else d
    archive = damage(oracle.export("gpt_dynamic", exports), tmp_path / "unknown.pt2", forget)
    refuse_compile(tmp_path, archive, status=1, words=["input_ids.0", "no size", "--dim"])
    oracle.run([tools_folder() / "ps-compile", archive, "-o", tmp_path / "out", "--batch", 8], tmp_path)


def test_dim_given_twice(tmp_path, exports):
    archive = oracle.export("gpt_dynamic", exports)
    refuse_compile(tmp_path, archive, "--dim", "input_ids.0=4", "--batch", 8, status=2, words=["4", "8"])


def test_unknown_dim(tmp_path, exports):
    refuse_compile(tmp_path, oracle.export("gpt_dynamic", exports), "--dim", "nothing.0=4", status=2, words=["nothing"])


# ---- mesh and policy -----------------------------------------------------------------------------------------------


def test_axis_used_twice(tmp_path, exports):
    refuse_compile(tmp_path, oracle.export("mlp", exports), "--mesh", "dp=2,dp=2", status=2, words=["dp"])


def test_mesh_that_is_none(tmp_path, exports):
    refuse_compile(tmp_path, oracle.export("mlp", exports), "--mesh", "dp=two", status=2, words=["two"])


@pytest.mark.parametrize(
    "mesh,words",
    [
        ("", ["NAME=N"]),
        ("dp", ["dp", "NAME=N"]),
        ("dp=", ["dp"]),
        ("dp=0", ["dp", "0"]),
        ("dp=-2", ["dp", "-2"]),
        ("dp=2;tp=2", ["2;tp=2"]),
        ("dp=2,", ["NAME=N"]),
        ("rows=2", ["rows:data=N"]),
        ("rows:blue=2", ["blue", "tensor"]),
        ("dp=*", ["--ranks"]),
        ("dp=*,tp=*", ["dp", "tp"]),
        ("dp=99999999999999999999", ["99999999999999999999"]),
        ("dp=1000000,tp=1000000,cp=1000000,ep=1000000", ["devices"]),
        ("a b=2", ["a b"]),
    ],
)
def test_bad_mesh(tmp_path, exports, mesh, words):
    refuse_compile(tmp_path, oracle.export("mlp", exports), "--mesh", mesh, status=2, words=["--mesh", *words])


def test_ranks_that_the_mesh_cannot_fill(tmp_path, exports):
    refuse_compile(tmp_path, oracle.export("mlp", exports), "--mesh", "dp=*,tp=2", "--ranks", 5, status=2, words=["5", "2"])
    refuse_compile(tmp_path, oracle.export("mlp", exports), "--mesh", "dp=2", "--ranks", 4, status=2, words=["2", "4"])


def test_axis_used_twice_for_a_parameter(tmp_path, exports):
    policy = tmp_path / "policy.json"
    policy.write_text('{"layers.0.weight": {"0": ["tp"], "1": ["tp"]}}')
    refuse_compile(
        tmp_path, oracle.export("mlp", exports), "--mesh", "tp=2", "--sharding-policy", policy, status=1,
        words=["tp", "twice", "layers.0.weight"],
    )  # fmt: skip


@pytest.mark.parametrize(
    "text,words",
    [
        ("", ["policy.json"]),
        ("[]", ["object"]),
        ('{"*": [["tp"]]}', ["object", '{"0": ["tp"]}']),
        ('{"layers.0.weight": {"7": ["tp"]}}', ["layers.0.weight", '"7"', "2 dims"]),
        ('{"layers.0.weight": {"0": "tp"}}', ["layers.0.weight", "list"]),
        ('{"layers.0.weight": {"0": ["tp"]}, "*": {}, "layers.0.weight": {"1": ["tp"]}}', ["layers.0.weight", "twice"]),
        ('{"layers.0.weight": {"0": ["tp"], "0": []}}', ['"0"', "twice"]),
        ('{"layers.0.bias": {"1": ["tp"]}}', ["layers.0.bias", '"1"', "1 dim"]),
    ],
)
def test_bad_policy(tmp_path, exports, text, words):
    policy = tmp_path / "policy.json"
    policy.write_text(text)
    refuse_compile(
        tmp_path, oracle.export("mlp", exports), "--mesh", "tp=2", "--sharding-policy", policy, status=1, words=words
    )


def test_policy_glob_passes_over_what_has_no_such_dim(tmp_path, exports):
    """A rule for dim 1 is about the weights: the biases are left to propagation, and a note says so."""
    policy = tmp_path / "policy.json"
    policy.write_text('{"layers.*": {"1": ["tp"]}}')
    flags = ("--mesh", "tp=2", "--sharding-policy", policy, "--explain")
    command = [tools_folder() / "ps-compile", oracle.export("mlp", exports), "-o", tmp_path / "out", *flags]
    done = subprocess.run([str(c) for c in command], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.startswith("  layers.")}
    assert '[{}, {"tp"}]' in rows["layers.0.weight"] and "policy" in rows["layers.0.weight"]
    assert "policy" not in rows["layers.0.bias"]
    assert "layers.0.bias" in done.stderr and '"1"' in done.stderr and "layers.0.weight" not in done.stderr


def test_policy_that_is_not_there(tmp_path, exports):
    archive = oracle.export("mlp", exports)
    refuse_compile(tmp_path, archive, "--sharding-policy", "no.json", status=2, words=["no.json"])
    refuse_compile(tmp_path, archive, "--sharding-policy", "best", status=2, words=["best", "megatron"])


@pytest.mark.parametrize(
    "text,words",
    [
        ("", ["sgd, adam or adamw"]),
        ("adamw(", ["column"]),
        ("adamw(lr=)", ["number"]),
        ("adamw(lr=-1)", ["lr"]),
        ("adamw(lr=1e-3", ["')'"]),
        ("adamw(lr=1e-3) and more", ["the end"]),
        ("adamw(betas=(0.9))", ["beta"]),
        ("adamw(betas=(0.9,1.5))", ["[0, 1)"]),
        ("sgd(betas=(0.9,0.95))", ["betas"]),
        ("sgd(nesterov=maybe)", ["true"]),
        ("ndim<x=sgd", ["number of dims"]),
    ],
)
def test_bad_optimizer(tmp_path, exports, text, words):
    refuse_compile(tmp_path, oracle.export("mlp", exports), "--optimizer", text, status=2, words=["--optimizer", *words])


def test_optimizers_that_leave_a_parameter_out(tmp_path, exports):
    refuse_compile(
        tmp_path, oracle.export("mlp", exports), "--optimizer", "*weight=sgd(lr=1)", status=1, words=["layers.0.bias"]
    )


def test_batch_that_does_not_divide(tmp_path, exports):
    said = refuse_compile(
        tmp_path, oracle.export("gpt", exports), "--mesh", "dp=3", status=1, words=["batch of 4", "3 data shards"]
    )
    assert "ps.contract" not in said  # a message, not the module


def test_policy_with_an_unknown_parameter(tmp_path, exports):
    policy = tmp_path / "policy.json"
    policy.write_text('{"layers.17.weight": {"0": ["tp"]}}')
    refuse_compile(
        tmp_path, oracle.export("mlp", exports), "--mesh", "tp=2", "--sharding-policy", policy,
        words=["layers.17.weight"],
    )  # fmt: skip


def test_policy_with_an_unknown_axis(tmp_path, exports):
    policy = tmp_path / "policy.json"
    policy.write_text('{"layers.0.weight": {"0": ["cp"]}}')
    refuse_compile(
        tmp_path, oracle.export("mlp", exports), "--mesh", "tp=2", "--sharding-policy", policy, words=["cp"]
    )


@pytest.mark.parametrize(
    "flags,words",
    [
        (("--optimizer", "lion(lr=1)"), ["lion"]),
        (("--optimizer", "adamw(rate=1)"), ["rate"]),
        (("--freeze", "no.such.parameter"), ["no.such.parameter"]),
        (("--zero", "2"), ["zero"]),
        (("--target", "tpu"), ["tpu"]),
        (("--no-such-flag",), ["no-such-flag"]),
        (("--micro-batches", "0"), ["micro-batches"]),
        (("--micro-batches", "two"), ["micro-batches", "two"]),
        (("--micro-batches", "1000000"), ["--micro-batches 1000000", "at most 16384"]),
        (("--batch", "0"), ["--batch", "0", "at least 1"]),
        (("--batch", "-4"), ["--batch", "-4", "at least 1"]),
        (("--ranks", "0"), ["--ranks", "0", "at least 1"]),
        (("--global-batch", "0", "--batch", "4"), ["--global-batch", "0", "at least 1"]),
        (("--init", "normal(-1)"), ["--init", "normal(-1)", "at least 0"]),
        (("--init", "normal(0,-1)"), ["--init", "normal(0,-1)", "at least 0"]),
        (("--init", "uniform(2,1)"), ["--init", "uniform(2,1)", "above the lower"]),
        (("--init", "value(nan)"), ["--init", "value(nan)", "finite"]),
        (("--mesh", "cp=2"), ["--mesh", "cp", "context parallelism", "not built"]),
        (("--mesh", "dp=2,long:context=4"), ["--mesh", "long", "context parallelism", "not built"]),
        (("--batch", "many"), ["batch", "many"]),
        (("--global-batch", "7"), ["--global-batch", "--batch"]),
        (("--loss-average", "rank"), ["loss-average", "rank"]),
        (("--loss-output", "nothing"), ["nothing", "cross_entropy_loss"]),
        (("--loss-output", "1"), ["floating scalar"]),
        (("--clip-norm", "-1"), ["clip-norm", "-1"]),
        (("--stop-after", "lunch"), ["lunch", "partitioned"]),
        (("--target", "cpu:z80"), ["z80"]),
        (("--batch-dim", "x=7"), ["x", "7"]),
        (("--batch-dim", "y=0"), ["y"]),
        (("--init", "gauss(1)"), ["gauss(1)", "normal"]),
        (("--mode", "sleep"), ["sleep"]),
        (("--loss", "none", "--differentiate", "nothing"), ["--differentiate nothing", "cross_entropy_loss"]),
        (("--loss", "mse"), ["--loss mse", "labels"]),
        (("--dim", "x.0=7"), ["--dim x.0=7", "8"]),
        (("further.pt2",), ["positional"]),
    ],
)
def test_bad_flag(tmp_path, exports, flags, words):
    refuse_compile(tmp_path, oracle.export("mlp", exports), *flags, status=2, words=words)


@pytest.mark.parametrize(
    "flags,words",
    [
        ((), ["-o", "--check"]),
        (("--check", "--no-such-flag"), ["no-such-flag"]),
        (("--check", "further.pt2"), ["further.pt2"]),
        (("--check", "--dim", "q.0=7"), ["--dim q.0=7", "x.0=8"]),
        (("--check", "--dim", "x"), ["--dim x", "INPUT.D=N"]),
        (("--check", "--batch", "3"), ["--batch 3", "dynamic_shapes"]),
        (("--check", "--batch", "many"), ["--batch", "many"]),
        (("--check", "--init", "gauss(1)"), ["gauss(1)", "normal"]),
        (("-o", "no/such/out.mlir"), ["no/such"]),
        (("-o", "model.pt2"), ["model.pt2", "the model itself"]),
        (("-o", "."), ["folder"]),
    ],
)
def test_bad_flag_of_the_importer(tmp_path, flags, words):
    archive = models.mlp().export(tmp_path / "model.pt2")
    before = archive.read_bytes()
    refuse([tools_folder() / "ps-translate", "--import-pt2", archive, *flags], tmp_path, 2, *words)
    assert archive.read_bytes() == before and list(tmp_path.iterdir()) == [archive]


def test_model_that_the_importer_does_not_find(tmp_path):
    tool = tools_folder() / "ps-translate"
    refuse([tool, "--check"], tmp_path, 2, "--import-pt2 FILE")
    refuse([tool, "--import-pt2", "none.pt2", "--check"], tmp_path, 2, "none.pt2", "does not exist")
    refuse([tool, "--import-pt2", ".", "--check"], tmp_path, 2, "folder")
    (tmp_path / "notes.pt2").write_text("not an archive")
    refuse([tool, "--import-pt2", "notes.pt2", "--check"], tmp_path, 1, "notes.pt2")


MODULE = """
ps.variable parameter @w : tensor<2xf32>
func.func @forward(%x: tensor<2xf32> {ps.name = "x"}) -> (tensor<2xf32> {ps.name = "y"}) {
  %w = ps.read @w : tensor<2xf32>
  %y = ps.add %x, %w : tensor<2xf32>
  return %y : tensor<2xf32>
}
"""


@pytest.mark.parametrize(
    "flags,status,words",
    [
        (("--no-such-flag",), 2, ["no-such-flag"]),
        (("further.mlir",), 2, ["positional"]),
        (("--entry", "lunch"), 2, ["--entry lunch", "forward"]),
        (("--entry", "step"), 2, ["micro_batch", "forward"]),
        (("--ranks", "4"), 2, ["--ranks 4", "1"]),
        (("--ranks", "many"), 2, ["--ranks", "many"]),
        (("--steps", "0"), 2, ["--steps"]),
        (("--micro-batches", "0"), 2, ["--micro-batches"]),
        (("--set", "w"), 2, ["--set w", "NAME=V"]),
        (("--set", "w=many"), 2, ["--set w=many"]),
        (("--set", "v=1"), 2, ["--set v=1"]),
        (("--inputs", "none.safetensors"), 1, ["none.safetensors"]),
        (("--outputs", "no/such/y.safetensors"), 1, ["no/such"]),
        ((), 0, ["y"]),
    ],
)
def test_bad_flag_of_the_evaluator(tmp_path, flags, status, words):
    (tmp_path / "module.mlir").write_text(MODULE)
    save_file({"x": torch.ones(2)}, tmp_path / "x.safetensors")
    inputs = [] if "--inputs" in flags else ["--inputs", "x.safetensors"]
    refuse([tools_folder() / "ps-run", "module.mlir", *inputs, *flags], tmp_path, status, *words)


def test_module_that_the_evaluator_does_not_find(tmp_path):
    refuse([tools_folder() / "ps-run"], tmp_path, 2, "ps-run FILE.mlir")
    refuse([tools_folder() / "ps-run", "none.mlir"], tmp_path, 2, "none.mlir", "does not exist")
    (tmp_path / "module.mlir").write_text(MODULE)
    refuse([tools_folder() / "ps-run", "module.mlir"], tmp_path, 1, "input 'x' is not given")
    (tmp_path / "module.mlir").write_text("func.func @forward( }")
    refuse([tools_folder() / "ps-run", "module.mlir"], tmp_path, 1, "module.mlir")


def test_output_folder_that_is_not_there(tmp_path, exports):
    command = [tools_folder() / "ps-compile", oracle.export("mlp", exports), "-o", tmp_path / "no/such/out"]
    refuse(command, tmp_path, 2, "no/such")


def test_output_that_is_a_folder(tmp_path, exports):
    (tmp_path / "out").mkdir()
    refuse_compile(tmp_path, oracle.export("mlp", exports), status=2, words=["folder"])


def test_module_without_a_level_to_stop_at(tmp_path, exports):
    command = [tools_folder() / "ps-compile", oracle.export("mlp", exports), "-o", "x.mlir"]
    refuse(command, tmp_path, 2, "x.mlir", "--stop-after")
    refuse([*command, "--stop-after", "native"], tmp_path, 2, "x.mlir", "--stop-after")
    oracle.run([*command, "--stop-after", "planned"], tmp_path)


def test_output_that_cannot_be_created(tmp_path, exports):
    command = [tools_folder() / "ps-compile", oracle.export("mlp", exports), "-o", "/proc/out"]
    refuse(command, tmp_path, 2, "/proc/out", "cannot be written")


def test_output_that_is_the_model(tmp_path):
    archive = models.mlp().export(tmp_path / "model.pt2")
    before = archive.read_bytes()
    refuse([tools_folder() / "ps-compile", archive, "-o", "model.pt2"], tmp_path, 2, "model.pt2", "the model itself")
    assert archive.read_bytes() == before


def special_file(folder, kind):
    path = folder / "special.safetensors"
    os.mkfifo(path) if kind == "fifo" else path.symlink_to("target.safetensors")
    if kind == "link to a fifo":
        os.mkfifo(folder / "target.safetensors")
    return path


@pytest.mark.parametrize("kind", ["fifo", "link to a fifo"])
def test_output_that_is_no_regular_file(tmp_path, exports, program, kind):
    """A device or a pipe is refused, and stays what it is."""
    path = special_file(tmp_path, kind)
    archive, tools = oracle.export("mlp", exports), tools_folder()
    (tmp_path / "module.mlir").write_text(MODULE)
    for command in (
        [tools / "ps-compile", archive, "-o", path],
        [tools / "ps-compile", archive, "-o", path, "--stop-after", "imported"],
        [tools / "ps-translate", "--import-pt2", archive, "-o", path],
        [tools / "ps-run", "module.mlir", "--outputs", path],
        train(program, data_for(tmp_path), "--gradients", path),
        train(program, data_for(tmp_path), "--export-weights", path),
        [program, "--eval", "--eval-data", data_for(tmp_path), "--outputs", path],
    ):
        refuse(command, tmp_path, 2, "special.safetensors", "no regular file")
        assert path.is_fifo()


@pytest.mark.parametrize("exists", [True, False])
def test_output_that_is_a_link_is_written_through(tmp_path, exports, program, exists):
    (tmp_path / "there").mkdir()
    for name, command in (
        ("out", [tools_folder() / "ps-compile", oracle.export("mlp", exports), "-o", "out"]),
        ("out.mlir", [tools_folder() / "ps-translate", "--import-pt2", oracle.export("mlp", exports), "-o", "out.mlir"]),
        ("gradients.safetensors", train(program, data_for(tmp_path), "--gradients", "gradients.safetensors")),
    ):
        (tmp_path / name).symlink_to(f"there/{name}")
        if exists:
            (tmp_path / "there" / name).write_text("old")
        oracle.run(command, tmp_path)
        assert (tmp_path / name).is_symlink() and (tmp_path / "there" / name).stat().st_size > 100


def test_no_output_and_no_model(tmp_path, exports):
    refuse([tools_folder() / "ps-compile"], tmp_path, 2, "ps-compile MODEL -o OUT")
    refuse([tools_folder() / "ps-compile", oracle.export("mlp", exports)], tmp_path, 2, "-o OUT")


# ---- the program's own flags and data ------------------------------------------------------------------------------


def test_ranks_other_than_the_mesh_show_the_compile_line(tmp_path, program):
    command = [program, "--ranks", 4, "--data", data_for(tmp_path), "--steps", 1]
    refuse(command, tmp_path, 2, "ps-compile", "--mesh")


@pytest.mark.parametrize(
    "changes,words",
    [
        ({"labels": None}, ["labels"]),
        ({"input_ids": torch.zeros(8, 5, dtype=torch.int64)}, ["input_ids", "5", "16"]),
        ({"input_ids": torch.zeros(8, 16)}, ["input_ids", "i64"]),
        ({"input_ids": torch.full((4, 16), 96)}, ["96", "input_ids"]),
        ({"input_ids": torch.zeros(3, 16, dtype=torch.int64)}, ["input_ids"]),
    ],
    ids=["missing", "shape", "dtype", "token outside", "unequal amounts"],
)
def test_bad_data(tmp_path, program, changes, words):
    outputs = ("--export-weights", "weights.safetensors", "--gradients", "gradients.safetensors")
    refuse(train(program, data_for(tmp_path, **changes), *outputs), tmp_path, 1, *words)
    assert not (tmp_path / "weights.safetensors").exists() and not (tmp_path / "gradients.safetensors").exists()


def test_label_outside_the_classes(tmp_path, program):
    labels = torch.full((4, 16), -100)
    labels[2, 3] = -1
    refuse(train(program, data_for(tmp_path, labels=labels)), tmp_path, 1, "-1", "labels", "sample 2, element 3")


@pytest.mark.parametrize("kept", [0, 7, 60, 300, -1])
def test_truncated_data(tmp_path, program, kept):
    path = data_for(tmp_path)
    path.write_bytes(path.read_bytes()[:kept])
    refuse(train(program, path), tmp_path, 1, "data.safetensors")


def test_data_of_another_kind(tmp_path, program):
    (tmp_path / "data.txt").write_text("words")
    refuse(train(program, tmp_path / "data.txt"), tmp_path, 2, "data.txt", ".safetensors", ".bin")
    (tmp_path / "data.bin").mkdir()
    refuse(train(program, tmp_path / "data.bin"), tmp_path, 1, "data.bin", "not a regular file")
    (tmp_path / "odd.bin").write_bytes(b"x" * 1001)
    refuse(train(program, tmp_path / "odd.bin", "--data-type", "uint16"), tmp_path, 1, "odd.bin", "1001", "--data-type")


def test_tokens_for_a_model_without_tokens(tmp_path, exports):
    program = oracle.compile_model(tmp_path, oracle.export("mlp", exports), "dp=1", *PLAIN)
    (tmp_path / "tokens.bin").write_bytes(b"x" * 1000)
    refuse([program, "--data", "tokens.bin", "--steps", 1], tmp_path, 1, '"x"', "f32", "--fill x=")


def test_too_little_data(tmp_path, program):
    (tmp_path / "short.bin").write_bytes(b"abc")
    refuse(train(program, tmp_path / "short.bin", "--data-type", "uint8"), tmp_path, (1, 2), "short.bin")


def test_data_that_is_not_there(tmp_path, program):
    refuse(train(program, tmp_path / "none.bin", "--data-type", "uint8"), tmp_path, (1, 2), "none.bin")


def test_token_outside_the_vocabulary_is_given_with_its_place(tmp_path, program):
    (tmp_path / "tokens.bin").write_bytes(bytes([5] * 40 + [200] + [5] * 500))
    refuse(train(program, tmp_path / "tokens.bin", "--data-type", "uint8"), tmp_path, (1, 2), "200", "40")


@pytest.mark.parametrize("name,default,other", [("gpt", "next", "same"), ("gpt2", "same", "next"), ("llama", "same", "next")])
def test_labels_are_as_the_graph_shows(tmp_path, exports, name, default, other):
    """The shift is read from the graph: --info says it, token files are read so, and the other way is an error."""
    program = oracle.compile_model(tmp_path, oracle.export(name, exports), "dp=2", *PLAIN)
    said = oracle.run([program, "--info"], tmp_path)
    assert f"labels      {default} " in said
    tokens = torch.randint(0, 96, (200,), generator=torch.Generator().manual_seed(3), dtype=torch.uint8)
    (tmp_path / "tokens.bin").write_bytes(tokens.numpy().tobytes())
    losses = []
    for flags in ([], ["--labels", default]):
        line = [*train(program, "tokens.bin", "--data-type", "uint8", "--losses", "losses.txt"), *flags]
        oracle.run(line, tmp_path)
        losses.append(oracle.read_losses(tmp_path / "losses.txt"))
    assert losses[0] == losses[1]
    windows = tokens.long()[:64].reshape(4, 16)
    shifted = tokens.long()[1:65].reshape(4, 16)
    expected = models.MODELS[name]().loss({"input_ids": windows, "labels": windows if default == "same" else shifted})
    assert losses[0][0] == pytest.approx(expected.item(), rel=1e-5)
    refuse(train(program, "tokens.bin", "--labels", other), tmp_path, 2, f"--labels {other}", "contradicts", default)


@pytest.mark.parametrize("flag", ["--losses", "--export-weights", "--gradients", "--log", "--trace"])
def test_output_that_cannot_be_written(tmp_path, program, flag):
    path = tmp_path / "no/such/file.safetensors"
    refuse(train(program, data_for(tmp_path), flag, path), tmp_path, 1, "no/such/file.safetensors", "No such file")


@pytest.mark.parametrize("flag", ["--losses", "--log", "--gradients", "--export-weights", "--trace"])
def test_output_that_is_an_input(tmp_path, flag):
    """Nothing that is read is overwritten: neither the data, nor the model that holds the weights, nor the program."""
    archive = models.mlp().export(tmp_path / "model.pt2")
    program = oracle.compile_model(tmp_path, archive, "dp=1", *PLAIN)
    save_file(models.mlp().draw_inputs(1), tmp_path / "data.safetensors")
    os.symlink(archive, tmp_path / "model.safetensors")
    before = {name: (tmp_path / name).read_bytes() for name in ("model.pt2", "data.safetensors", "program")}
    outputs = ["data.safetensors", "model.safetensors"]
    for output in outputs if flag == "--export-weights" else [*outputs, "model.pt2", "program"]:
        refuse([program, "--data", "data.safetensors", "--steps", 1, flag, output], tmp_path, 2, output, "another file")
    assert before == {name: (tmp_path / name).read_bytes() for name in before}


@pytest.mark.parametrize("flag", ["--losses", "--log"])
def test_lines_that_no_longer_fit_the_disk(tmp_path, program, flag):
    os.symlink("/dev/full", tmp_path / "full")
    refuse(train(program, data_for(tmp_path), flag, "full"), tmp_path, 1, "full", "No space left")


def test_output_that_is_a_folder_of_the_program(tmp_path, program):
    (tmp_path / "there").mkdir()
    refuse(train(program, data_for(tmp_path), "--gradients", "there"), tmp_path, 2, "there", "folder")


@pytest.mark.parametrize(
    "flags,words",
    [
        (("--nonsense",), ["--nonsense"]),
        (("--steps", "many"), ["--steps", "many"]),
        (("--steps", "-1"), ["--steps", "-1"]),
        (("--steps", "1", "--epochs", "1"), ["--steps", "--epochs"]),
        (("--threads", "0"), ["--threads"]),
        (("--data-type", "int4"), ["--data-type", "int4", "uint8"]),
        (("--labels", "prior"), ["--labels", "prior", "next"]),
        (("--lr-schedule", "spiral"), ["spiral", "cosine"]),
        (("--lr-schedule", "cosine(warmup=x)"), ["warmup"]),
        (("--fill", "labels"), ["--fill", "NAME=VALUE"]),
        (("--fill", "masks=1"), ["masks"]),
        (("--eval-every", "5"), ["--eval-data"]),
        (("--outputs", "out.safetensors"), ["--eval"]),
        (("--eval", "--eval-data", "data.safetensors", "--outputs", "o.safetensors", "--output", "none"), ["none", "cross_entropy_loss"]),
        (("--set", "momentum=1"), ["momentum", "lr"]),
        (("--config", "no.json"), ["no.json"]),
        (("--check",), ["ps-compile --check"]),
    ],
)
def test_bad_flag_of_the_program(tmp_path, program, flags, words):
    line = [program, "--data", data_for(tmp_path)]
    refuse([*line, *flags], tmp_path, 2, *words)


@pytest.mark.parametrize(
    "flags,words",
    [
        (("--ranks", "-1"), ["--ranks", "-1", "must be at least 1"]),
        (("--threads", "30000"), ["--threads", "30000", "must be at most 1024"]),
        (("--eval-every", "0"), ["--eval-every", "must be at least 1"]),
        (("--steps", "three"), ["--steps", "three", "must be at least 0"]),
        (("--steps", "12345678901234567890123"), ["--steps", "must be at most 9223372036854775807"]),
        (("--seed", "12345678901234567890123"), ["--seed", "must be at most 18446744073709551615"]),
        (("--seed", "-1"), ["--seed", "-1", "must be at least 0"]),
        (("--set", "lr=-1"), ["--set", "lr=-1", "at least 0"]),
        (("--set", "lr=nan"), ["--set", "lr=nan", "at least 0"]),
        (("--set", "*bias=lr=-1"), ["--set", "*bias=lr=-1", "at least 0"]),
    ],
)
def test_number_out_of_range(tmp_path, program, flags, words):
    said = refuse([program, "--data", data_for(tmp_path), *flags], tmp_path, 2, *words)
    assert len(said) < 250, "a plain message"


def test_number_out_of_range_in_a_config(tmp_path, program):
    (tmp_path / "run.json").write_text('{"steps": "three", "data": "data.safetensors"}')
    said = refuse([program, "--config", "run.json"], tmp_path, 2, "--steps", "three", "at least 0")
    assert len(said) < 250, "a plain message"


@pytest.mark.parametrize("mesh", ["dp=1", "dp=2"])
def test_threads_that_the_system_refuses(tmp_path, exports, mesh):
    """The stacks of 1024 threads do not fit into the memory that this process may map."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    program = oracle.compile_model(tmp_path, oracle.export("gpt", exports), mesh, *PLAIN)
    done = subprocess.run(
        [program, "--data", data_for(tmp_path), "--threads", "1024"], cwd=tmp_path, capture_output=True, text=True,
        timeout=60, preexec_fn=limit,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "cannot start thread" in done.stderr and "--threads" in done.stderr


def test_ranks_that_the_system_refuses(tmp_path, exports):
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    program = oracle.compile_model(tmp_path, oracle.export("mlp", exports), "tp=4096", "--sharding-policy", "replicated")
    save_file(models.mlp().draw_inputs(1), tmp_path / "data.safetensors")
    done = subprocess.run(
        [program, "--data", "data.safetensors"], cwd=tmp_path, capture_output=True, text=True, timeout=60, preexec_fn=limit
    )
    assert done.returncode == 3, done.stderr
    assert "cannot start the thread of rank" in done.stderr and "of 4096" in done.stderr


@pytest.mark.parametrize(
    "environment",
    [
        {"RANK": "1", "WORLD_SIZE": "2"},
        {"SLURM_PROCID": "1", "SLURM_NTASKS": "2"},
        {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"},
        {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"},
        {"PMI_RANK": "1", "PMI_SIZE": "2"},
    ],
    ids=" ".join,
)
def test_one_of_several_processes(tmp_path, program, environment):
    """Each process would train the whole job and overwrite what the others write."""
    command = train(program, data_for(tmp_path), "--losses", "losses.txt")
    done = subprocess.run(
        [str(c) for c in command], cwd=tmp_path, capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert done.returncode == 2, done.stderr
    assert "process 1 of 2" in done.stderr and "./program --ranks 2" in done.stderr
    assert not (tmp_path / "losses.txt").exists()


@pytest.mark.parametrize(
    "environment",
    [
        {"RANK": "0", "WORLD_SIZE": "1"},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "7"},  # the batch script itself
        {"PMI_RANK": "0", "PMI_SIZE": "1"},
    ],
    ids=" ".join,
)
def test_process_that_is_alone(tmp_path, program, environment):
    command = [str(c) for c in train(program, data_for(tmp_path))]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, env={**os.environ, **environment})


def test_nothing_to_do(tmp_path, program):
    refuse([program], tmp_path, 2, "--data", "--info")


@pytest.mark.parametrize("how", ["", ",throw"], ids=["status", "exception"])
def test_failing_rank_ends_all(tmp_path, exports, how):
    """One of four ranks fails in step 2, the others wait for it: exit status 3 within 5 seconds, with rank, step, reason."""
    program = oracle.compile_model(tmp_path, oracle.export("gpt", exports), "dp=2,tp=2", *PLAIN)
    command = [program, "--ranks", "4", "--data", data_for(tmp_path), "--steps", "100000", "--quiet"]
    environment = {**os.environ, "PSRT_TEST_FAIL": f"rank=2,step=2{how}"}
    begin = time.monotonic()
    done = subprocess.run(
        [str(c) for c in command], cwd=tmp_path, capture_output=True, text=True, timeout=60, env=environment
    )
    assert time.monotonic() - begin < 5
    assert done.returncode == 3, done.stderr
    assert "rank 2, step 2" in done.stderr and "as PSRT_TEST_FAIL asked" in done.stderr


def test_model_without_a_loss_names_the_cure(tmp_path):
    archive = models.gpt(loss=False).export(tmp_path / "model.pt2")
    words = ["the model has no floating scalar output", "--loss cross_entropy, causal_lm or mse", "--loss none"]
    refuse_compile(tmp_path, archive, status=1, words=words)


class Regularised(torch.nn.Module):
    """Every place of an attention block where dropout may stand."""

    def __init__(self, p):
        super().__init__()
        self.linear, self.dropout = torch.nn.Linear(8, 8), torch.nn.Dropout(p)

    def forward(self, x):
        return self.dropout(self.dropout(self.linear(x)).relu()).square().mean()


@pytest.mark.parametrize("p,mode,warns", [(0.25, "eval", True), (0.25, "train", False), (0.0, "eval", False)])
def test_export_in_eval_mode_warns_once(tmp_path, p, mode, warns):
    module = getattr(Regularised(p), mode)()
    torch.export.save(torch.export.export(module, (torch.randn(4, 8),)), tmp_path / "model.pt2")
    command = [tools_folder() / "ps-compile", tmp_path / "model.pt2", "-o", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("warning") == int(warns), done.stderr
    if warns:
        checked = subprocess.run([*command, "--check"], cwd=tmp_path, capture_output=True, text=True)
        assert checked.stderr.count("warning") == 1, checked.stderr
        assert "eval mode" in done.stderr and "dropout off (p = 0.25 here, 2 in all)" in done.stderr


def test_training_without_a_loss_by_itself(tmp_path, exports):
    program = oracle.compile_model(tmp_path, oracle.export("mlp", exports), "dp=1", "--loss", "none")
    save_file(models.mlp().draw_inputs(1), tmp_path / "data.safetensors")
    refuse([program, "--data", "data.safetensors"], tmp_path, 2, "--loss none", "psrt_backward")


def test_loss_that_is_not_a_number_names_the_step(tmp_path, exports):
    program = oracle.compile_model(tmp_path, oracle.export("mlp", exports), "dp=1", *PLAIN)
    batch = models.mlp().draw_inputs(1)
    x = torch.cat([batch["x"], batch["x"]])
    x[9] = float("nan")
    save_file({"x": x, "labels": torch.cat([batch["labels"]] * 2)}, tmp_path / "data.safetensors")
    command = [program, "--data", "data.safetensors", "--steps", 2, "--export-weights", "weights.safetensors"]
    refuse(command, tmp_path, 1, "step 1", "nan", "--set lr")
    assert not (tmp_path / "weights.safetensors").exists()


def test_moved_weights_are_named(tmp_path):
    """Weights are referenced in the model's file: without it the program says which file it misses."""
    archive = models.mlp().export(tmp_path / "model.pt2")
    program = oracle.compile_model(tmp_path, archive, "dp=1", *PLAIN)
    os.remove(archive)
    save_file(models.mlp().draw_inputs(1), tmp_path / "data.safetensors")
    refuse([program, "--data", "data.safetensors", "--steps", 1], tmp_path, (1, 2), "model.pt2")
