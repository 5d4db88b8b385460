"""Mistakes of users when compiling: each case ends with exit status 1 or 2 and a message that says what to do."""
import json
import os
import shutil
import signal
import subprocess
import time
import unicodedata
import zipfile

import models
import onnx
import oracle
import pytest
import torch
from conftest import tools_folder
from refusals import damage, data_for, program, refuse, refuse_compile, train  # noqa: F401
from safetensors.torch import save_file

# ---- the model's file ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [0, 1, 3, 40, 0.1, 0.5, 0.9, -200, -30, -1])
def test_truncated_archive(tmp_path, exports, kept):
    """An archive that is cut anywhere gives an error that names the file, and no output.

    `kept` is a fraction of the file, a number of bytes to keep or, if negative, a number of bytes to remove.
    """
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


@pytest.mark.parametrize("content,words", [(b"\xff\x00", "is not a valid module of MLIR"), (b"hello", "is not a valid module of MLIR"), (b"", "has no ops")])
def test_file_that_is_not_mlir(tmp_path, content, words):
    (tmp_path / "model.mlir").write_bytes(content)
    said = refuse_compile(tmp_path, tmp_path / "model.mlir", status=1, words=[f"model.mlir' {words}; give a file that ps-translate"])
    assert "reproduce" not in said, "the error is not of the compiler"


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


def test_reserved_tensor_name(tmp_path):
    module = torch.nn.Linear(4, 4)
    module.register_parameter("__metadata__", torch.nn.Parameter(torch.ones(4)))
    module.forward = lambda x: (x @ module.weight * module.get_parameter("__metadata__")).mean()
    torch.export.save(torch.export.export(module, (torch.randn(2, 4),)), tmp_path / "m.pt2")
    refuse_compile(tmp_path, "m.pt2", status=1, words=['"__metadata__"', "rename it in the model"])


def test_names_that_are_not_utf8(tmp_path, exports):
    """Names of files, and names in models of each kind. The error shows the bytes."""
    archive = oracle.export("mlp", exports)
    (tmp_path / "module.mlir").write_text(r"""
        func.func @forward(%x: tensor<f32> {ps.name = "a\FF"}) -> (tensor<f32> {ps.name = "loss"}) { return %x : tensor<f32> }""")
    model = models.mlp().export_onnx(tmp_path / "mlp.onnx")
    for name in [b"labels", b"layers.0.weight"]:
        (tmp_path / "names.onnx").write_bytes(model.read_bytes().replace(name, b"\xff" + name[1:]))
        refuse_compile(tmp_path, "names.onnx", status=1, words=['\\FF' + name[1:].decode(), "is not UTF-8"])
    refuse_compile(tmp_path, "module.mlir", status=1, words=['the name "a\\FF"', "is not UTF-8; rename it"])
    refuse_compile(tmp_path, os.fsdecode(b"\xff.pt2"), status=2, words=['"\\FF.pt2" is not UTF-8'])
    refuse_compile(tmp_path, archive, "-o", os.fsdecode(b"\xff"), status=2, words=['"\\FF" is not UTF-8'])
    # A folder may have any name, because the program stores the path relative to itself.
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    shutil.copy(archive, folder / "mlp.pt2")
    oracle.run([tools_folder() / "ps-compile", "mlp.pt2", "-o", "mlp"], folder)
    oracle.run([folder / "mlp", "--info"], folder)


@pytest.fixture(scope="module")
def escaping(tmp_path_factory):
    """A model whose names contain terminal colors, newlines and text that looks like messages, and its compiled program."""
    folder, name = tmp_path_factory.mktemp("escaping"), "w\x1b[31m\x9b1m\r\nwrote x\x7f"
    x, y = (onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [8, 4]) for n in ("x" + name, "y" + name))
    matmul = onnx.helper.make_node("MatMul", [x.name, name], ["a"], name=name)
    nodes = [matmul, onnx.helper.make_node("Relu", ["a"], [y.name], name=name)]
    graph = onnx.helper.make_graph(nodes, name, [x], [y], [onnx.numpy_helper.from_array(torch.ones(4, 4).numpy(), name)])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), folder / "m.onnx")
    save_file({"v" + name: torch.ones(2, 2)}, folder / "bad.safetensors")
    command = [tools_folder() / "ps-compile", "m.onnx", "-o", "m", "--loss", "mse", "--mesh", "dp=2", "--explain"]
    return folder, oracle.run(command, folder)


@pytest.mark.parametrize(
    "command",
    [None, ["./m", "--info"], ["./m", "--data", "bad.safetensors"],
     ["./m", "--weights", "bad.safetensors", "--export-weights", "o.safetensors"],
     ["ps-compile", "m.onnx", "-o", "o", "--loss", "mse", "--freeze", "none"], ["ps-compile", "bad.onnx", "-o", "o"]],
    ids=str,
)  # fmt: skip
def test_names_do_not_reach_the_terminal(escaping, command):
    """Control characters in names from files are printed as \\x1b, and a name never begins a line."""
    folder, said = escaping
    if command:
        bad = (folder / "m.onnx").read_bytes().replace(b"Relu", b"R\x1b\nu")
        (folder / "bad.onnx").write_bytes(bad)
        path = tools_folder() / command[0] if command[0].startswith("ps-") else command[0]
        done = subprocess.run([path, *command[1:]], cwd=folder, capture_output=True, timeout=60)
        said = (done.stdout + done.stderr).decode()
    assert "\\x1b" in said, said
    assert not [c for c in said if c != "\n" and unicodedata.category(c) == "Cc"], said
    assert "wrote x" in said or "R\\x1b" in said
    assert not [line for line in said.splitlines() if line.startswith("wrote x")]


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
    """An export without a hint for the size of a dim needs --batch, and then compiles."""

    def forget(name, data):
        return data.replace(b'"hint": {"as_int": 4}', b'"hint": null') if name.endswith("model.json") else data

    archive = damage(oracle.export("gpt_dynamic", exports), tmp_path / "unknown.pt2", forget)
    refuse_compile(tmp_path, archive, status=1, words=["input_ids.0", "no size", "give --batch N"])
    oracle.run([tools_folder() / "ps-compile", archive, "-o", tmp_path / "out", "--batch", 8], tmp_path)


def test_dim_given_twice(tmp_path, exports):
    archive = oracle.export("gpt_dynamic", exports)
    refuse_compile(tmp_path, archive, "--dim", "input_ids.0=4", "--batch", 8, status=2, words=["4", "8"])


def test_unknown_dim(tmp_path, exports):
    refuse_compile(tmp_path, oracle.export("gpt_dynamic", exports), "--dim", "nothing.0=4", status=2, words=["nothing"])


# ---- mesh and policy -----------------------------------------------------------------------------------------------


def test_axis_used_twice(tmp_path, exports):
    refuse_compile(tmp_path, oracle.export("mlp", exports), "--mesh", "dp=2,dp=2", status=2, words=["dp"])


def test_mesh_size_that_is_not_a_number(tmp_path, exports):
    refuse_compile(tmp_path, oracle.export("mlp", exports), "--mesh", "dp=two", status=2, words=["two"])


@pytest.mark.parametrize(
    "mesh,words",
    [
        ("", ["--mesh is empty"]),
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
        tmp_path, oracle.export("mlp", exports), "--mesh", "tp=2", "--sharding-policy", policy, status=2,
        words=["tp", "twice", "layers.0.weight"],
    )  # fmt: skip


@pytest.mark.parametrize(
    "text,words",
    [
        ("", ["policy.json"]),
        ("[]", ["object"]),
        ("[" * 100000, ["policy.json", "nested deeper"]),
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
        tmp_path, oracle.export("mlp", exports), "--mesh", "tp=2", "--sharding-policy", policy, status=2, words=words
    )


def test_policy_glob_skips_parameters_without_the_dim(tmp_path, exports):
    """A rule for dim 1 applies to the weights. Biases have no dim 1: propagation chooses their shardings, and a note reports this."""
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


def test_an_error_of_a_flag_is_not_a_failing_pass(tmp_path, exports):
    """The message begins with the flag, the exit status is 2, and no files for reproducing a failure are written."""
    policy = tmp_path / "policy.json"
    policy.write_text('{"layers.0.weight": {"0": ["pp"]}}')
    flags = ("--mesh", "pp=2", "--micro-batches", 2, "--sharding-policy", policy)
    said = refuse_compile(tmp_path, oracle.export("mlp", exports), *flags, status=2, words=[f"{policy}: ", 'axis "pp" is of kind pipeline'])
    assert said.startswith("error: --sharding-policy ") and "reproduce the failure with" not in said
    assert not (tmp_path / "out.failed.mlir").exists()


MODEL = """module attributes {{ps.level = #ps.level<imported>}} {{
  {variables}
  func.func @forward(%x: tensor<4x2xf32> {{ps.name = "x"}}, %y: tensor<{samples}x2xf32> {{ps.name = "y"}})
      -> ({type} {{ps.name = "out"}}) {{
    {body}
    return %r : {type}
  }}
}}
"""
SUM = "%r = ps.reduce sum %x dims [0, 1] : tensor<4x2xf32> -> tensor<f32>"
CONSTANT = "%r = ps.constant dense<1.0> : tensor<f32>"
Q, M = "tensor<1x1x4x2xf32>", "tensor<1x1x4x4xf32>"
NO_VALUES = f"ps.variable parameter @mask : {M}"
MASK = f"ps.variable parameter @mask init #ps.distribution<normal, 0.0, 0.02> : {M}"
SUM_OF_MASK = f"""%m = ps.read @mask : {M}
    %r = ps.reduce sum %m dims [0, 1, 2, 3] : {M} -> tensor<f32>"""
ATTENTION = f"""%m = ps.read @mask : {M}
    %q = ps.reshape %x : tensor<4x2xf32> -> {Q}
    %o, %l = ps.attention %q, %q, %q mask %m scale 1.0 : ({Q}, {Q}, {Q}, {M}) -> ({Q}, tensor<1x1x4xf32>)
    %r = ps.reduce sum %o dims [0, 1, 2, 3] : {Q} -> tensor<f32>"""


def write_model(folder, body, variables="", samples=4, type="tensor<f32>"):
    (folder / "model.mlir").write_text(MODEL.format(body=body, variables=variables, samples=samples, type=type))
    return folder / "model.mlir"


@pytest.mark.parametrize(
    "model,flags,words",
    [
        ({"body": CONSTANT}, (), ["model.mlir:5:10: error: the loss is a constant"]),
        ({"body": CONSTANT}, ("--inference", "--mesh", "pp=2"), ["results are constants"]),
        ({"body": "%r = ps.neg %x : tensor<4x2xf32>", "type": "tensor<4x2xf32>"}, (), ["has no floating-point scalar output"]),
        ({"body": SUM, "samples": 8}, (), ['input "x" has 4 samples and input "y" has 8']),
        ({"body": ATTENTION, "variables": MASK}, (), ["model.mlir:7:14: error: 'ps.attention' does not support a gradient with respect to its mask"]),
        ({"body": SUM_OF_MASK, "variables": NO_VALUES}, (), ["parameter 'mask' has no values in the model's file"]),
    ],
)
def test_an_error_of_the_model_is_not_a_failing_pass(tmp_path, model, flags, words):
    """The user has to change the model, so no files for reproducing a failure are written."""
    said = refuse_compile(tmp_path, write_model(tmp_path, **model), *flags, status=1, words=words)
    assert "reproduce the failure with" not in said and not (tmp_path / "out.failed.mlir").exists()


def test_a_failing_pass_can_be_reproduced(tmp_path):
    """The input of the failing level is written, and the printed command fails in the same way."""
    model = write_model(tmp_path, SUM + "\n    %z = arith.negf %r : tensor<f32>")
    command = [tools_folder() / "ps-compile", model, "-o", tmp_path / "out"]
    done = subprocess.run([str(c) for c in command], cwd=tmp_path, capture_output=True, text=True)
    repeat = done.stderr.split("reproduce the failure with\n")[1].strip()
    assert repeat.endswith("out.failed.mlir") and "ps.level = #ps.level<imported>" in (tmp_path / "out.failed.mlir").read_text()
    again = subprocess.run(f"{tools_folder()}/{repeat}", shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert again.returncode != 0 and "is not an op of the dialect ps" in again.stderr


@pytest.mark.parametrize("model, flags, expected", [
    ({"body": CONSTANT}, ("--mesh", "dp="), [("error", None, None)]),
    ({"body": CONSTANT}, ("--nonsense",), [("error", None, None)]),
    ({"body": CONSTANT}, (), [("error", "model.mlir", 5)]),
    ({"body": SUM + "\n    %z = arith.negf %r : tensor<f32>"}, (), [("error", "model.mlir", 6), ("note", None, None)]),
    ({"body": SUM}, ("--differentiate", "out", "--loss", "none", "--inference"), [("error", None, None)]),
])  # fmt: skip
def test_messages_as_json(tmp_path, model, flags, expected):
    """Each line is an object. The texts are those without the flag. A failing pass has the command that reproduces it."""
    command = [tools_folder() / "ps-compile", write_model(tmp_path, **model), "-o", tmp_path / "out", *flags]
    plain, done = (subprocess.run([*command, *more], capture_output=True, text=True) for more in ([], ["--messages", "json"]))
    assert done.returncode == plain.returncode != 0
    found = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(m["severity"], os.path.basename(m["file"]) if "file" in m else None, m.get("line")) for m in found] == expected
    for message in found:
        assert f"{message['severity']}: {message['text']}".split("\n")[0] in plain.stderr
    if len(found) > 1:
        assert found[1]["reproducer"].startswith("ps-opt --pass-pipeline=") and found[1]["reproducer"] in plain.stderr


def test_progress_and_warnings_as_json(tmp_path, exports):
    command = [tools_folder() / "ps-compile", oracle.export("mlp", exports), "--no-codegen", "--messages=json", "--verbose"]
    done = subprocess.run([*command, "--plan-data", tmp_path / "data.json", "--inference", "--freeze", "layers.0.*"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stderr.splitlines()]
    assert {"severity": "progress", "text": f"wrote {tmp_path}/data.json"} in found
    assert any(m["severity"] == "warning" and m["text"].startswith("--freeze has no effect") for m in found)


def test_missing_policy_file(tmp_path, exports):
    archive = oracle.export("mlp", exports)
    refuse_compile(tmp_path, archive, "--sharding-policy", "no.json", status=2, words=["no.json"])
    refuse_compile(tmp_path, archive, "--sharding-policy", "best", status=2, words=["best", "megatron"])


@pytest.mark.parametrize(
    "text,words",
    [
        ("", ["--optimizer is empty"]),
        ("adamw(", ["error: --optimizer 'adamw(', column 7: expected"]),
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


def test_parameter_without_an_optimizer(tmp_path, exports):
    refuse_compile(
        tmp_path, oracle.export("mlp", exports), "--optimizer", "*weight=sgd(lr=1)", words=["--optimizer: no filter matches parameter 'layers.0.bias'"]
    )


@pytest.mark.parametrize(
    "flags,words",
    [
        (("--optimizer", "layer.0.*=sgd(lr=1)", "--optimizer", "sgd(lr=1)"), ["--optimizer", "layer.0.*", "'layers.0.weight'"]),
        (("--freeze", "*.wieght"), ["--freeze *.wieght", "matches no parameter", "'layers.0.weight'"]),
        (("--init", "layers.0.biass=zeros"), ["--init", "layers.0.biass", "matches no parameter", "'layers.0.bias'"]),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_globs_that_match_nothing_name_the_nearest(tmp_path, exports, flags, words):
    refuse_compile(tmp_path, oracle.export("mlp", exports), *flags, status=2, words=words)


@pytest.mark.parametrize(
    "flags,words",
    [
        (("--optimizer", "sgd(lr=1)", "--optimizer", "*bias=adamw(lr=1)"), ["warning", "*bias=adamw(lr=1)", "updates no parameter"]),
        (("--freeze", "*bias", "--optimizer", "*bias=adamw(lr=1)", "--optimizer", "sgd(lr=1)"), ["updates no parameter", "frozen"]),
        (("--init", "*bias=zeros"), ["warning", "*bias=zeros", "has no effect", "--weights none"]),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_globs_without_effect_cause_warnings(tmp_path, exports, flags, words):
    refuse_compile(tmp_path, oracle.export("mlp", exports), *flags, "--no-codegen", status=0, words=[*words, "out is not written"])
    assert not (tmp_path / "out").exists()


def test_batch_that_does_not_divide(tmp_path, exports):
    said = refuse_compile(
        tmp_path, oracle.export("gpt", exports), "--mesh", "dp=3", status=2, words=["--mesh", "batch of 4", "3 data shards"]
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
        (("--zero", "2"), ["--zero 2", "dp=1", "no data axis", "dp=2"]),
        (("--zero", "1", "--mesh", "tp=2"), ["--zero 1", "tp=2", "no data axis"]),
        (("--zero", "4", "--mesh", "dp=2"), ["--zero", "'4'", "from 0 to 3"]),
        (("--zero", "-1", "--mesh", "dp=2"), ["--zero", "'-1'"]),
        (("--zero", "one"), ["--zero", "from 0 to 3", "'one'"]),
        (("--target", "tpu"), ["tpu"]),
        (("--no-such-flag",), ["no-such-flag"]),
        (("--micro-batches", "0"), ["micro-batches"]),
        (("--micro-batches", "two"), ["micro-batches", "two"]),
        (("--check", "--gradient-reduction", "bf16", "--mesh", "dp=2"), ["--check", "--gradient-reduction fp32"]),
        (("--micro-batches", "1000000"), ["--micro-batches 1000000", "at most 16384"]),
        (("--batch", "0"), ["--batch", "0", "from 1 to"]),
        (("--batch", "-4"), ["--batch", "-4", "from 1 to"]),
        (("--ranks", "0"), ["--ranks", "0", "at least 1"]),
        (("--global-batch", "0", "--batch", "4"), ["--global-batch", "0", "at least 1"]),
        (("--init", "normal(-1)"), ["--init", "normal(-1)", "at least 0"]),
        (("--init", "normal(0,-1)"), ["--init", "normal(0,-1)", "at least 0"]),
        (("--init", "uniform(2,1)"), ["--init", "uniform(2,1)", "above the lower"]),
        (("--init", "value(nan)"), ["--init", "value(nan)", "finite"]),
        (("--mesh", "cp=2"), ["--mesh", "cp", "context parallelism", "not supported"]),
        (("--mesh", "dp=2,long:context=4"), ["--mesh", "long", "context parallelism", "not supported"]),
        (("--batch", "many"), ["batch", "many"]),
        (("--global-batch", "7"), ["--global-batch", "--batch"]),
        (("--loss-average", "rank"), ["loss-average", "rank"]),
        (("--loss-output", "nothing"), ["nothing", "cross_entropy_loss"]),
        (("--loss-output", "1"), ["floating-point scalar"]),
        (("--clip-norm", "-1"), ["clip-norm", "-1"]),
        (("--clip-norm", "1e-50"), ["clip-norm", "above 0 that f32 can hold", "1e-50"]),
        (("--stop-after", "lunch"), ["lunch", "partitioned"]),
        (("--target", "cpu:z80"), ["z80"]),
        (("--target", "cpu:pentium"), ["--target cpu:pentium", "64-bit code"]),
        (("--batch-dim", "x=7"), ["x", "7"]),
        (("--batch-dim", "y=0"), ["y"]),
        (("--init", "gauss(1)"), ["gauss(1)", "normal"]),
        (("--mode", "sleep"), ["sleep"]),
        (("--loss", "none", "--differentiate", "nothing"), ["--differentiate nothing", "cross_entropy_loss"]),
        (("--loss", "mse"), ["--loss mse", "labels"]),
        (("--dim", "x.0=7"), ["--dim x.0=7", "8"]),
        (("further.pt2",), ["unexpected argument 'further"]),
        (("--clip-norm", "1", "--clip-norm", "2"), ["--clip-norm is given 2 times; give it once"]),
        (("--freeze", ""), ["--freeze is empty"]),
        (("--dump-dir=",), ["--dump-dir is empty"]),
        (("--dump-dir", "/proc/none"), ["--dump-dir /proc/none: the folder cannot be created"]),
        (("--report", "-"), ["--report: output '-' is not the name of a file"]),
        (("--precision", "fp8,foo=1"), ["'foo=1'", "scaling, history, margin"]),
        (("",), ["is empty"]),
    ],
)
def test_bad_flag(tmp_path, exports, flags, words):
    said = refuse_compile(tmp_path, oracle.export("mlp", exports), *flags, status=2, words=words)
    assert "LLVM ERROR" not in said and "recognized processor" not in said
    assert not (tmp_path / "out.failed.mlir").exists()


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


def test_missing_model_of_the_importer(tmp_path):
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
        (("further.mlir",), 2, ["unexpected argument 'further"]),
        (("--entry", "lunch"), 2, ["--entry lunch", "forward"]),
        (("--entry", "step"), 2, ["--entry step: unknown entry; the module has forward"]),
        (("--ranks", "4"), 2, ["--ranks 4", "1"]),
        (("--ranks", "many"), 2, ["--ranks", "many"]),
        (("--steps", "0"), 2, ["--steps"]),
        (("--micro-batches", "0"), 2, ["--micro-batches"]),
        (("--steps", "2"), 2, ["--steps needs --entry step"]),
        (("--entry", "micro_batch", "--micro-batches", "2"), 2, ["--micro-batches needs --entry step"]),
        (("--set", "w"), 2, ["--set w", "NAME=V"]),
        (("--set", "w=many"), 2, ["--set w=many"]),
        (("--set", "v=1"), 2, ["--set v=1"]),
        (("--inputs", "none.safetensors"), 2, ["none.safetensors"]),
        (("--outputs", "no/such/y.safetensors"), 2, ["no/such"]),
        ((), 0, ["y"]),
    ],
)
def test_bad_flag_of_the_evaluator(tmp_path, flags, status, words):
    (tmp_path / "module.mlir").write_text(MODULE)
    save_file({"x": torch.ones(2)}, tmp_path / "x.safetensors")
    inputs = [] if "--inputs" in flags else ["--inputs", "x.safetensors"]
    refuse([tools_folder() / "ps-run", "module.mlir", *inputs, *flags], tmp_path, status, *words)


def test_truncated_input_of_the_evaluator(tmp_path):
    (tmp_path / "module.mlir").write_text(MODULE)
    path = tmp_path / "x.safetensors"
    save_file({"x": torch.ones(2)}, path)
    path.write_bytes(path.read_bytes()[:-4])
    words = ["x.safetensors' is truncated", "entry 'x' ends at byte 8 of the data", "only 4 bytes of data"]
    refuse([tools_folder() / "ps-run", "module.mlir", "--inputs", path.name], tmp_path, 1, *words)


def test_missing_module_of_the_evaluator(tmp_path):
    refuse([tools_folder() / "ps-run"], tmp_path, 2, "ps-run FILE.mlir")
    refuse([tools_folder() / "ps-run", "none.mlir"], tmp_path, 2, "none.mlir", "does not exist")
    (tmp_path / "module.mlir").write_text(MODULE)
    refuse([tools_folder() / "ps-run", "module.mlir"], tmp_path, 1, "input 'x' is not given")
    (tmp_path / "module.mlir").write_text("func.func @forward( }")
    refuse([tools_folder() / "ps-run", "module.mlir"], tmp_path, 1, "module.mlir")


def test_missing_output_folder(tmp_path, exports):
    command = [tools_folder() / "ps-compile", oracle.export("mlp", exports), "-o", tmp_path / "no/such/out"]
    refuse(command, tmp_path, 2, "no/such")


def test_output_that_is_a_folder(tmp_path, exports):
    (tmp_path / "out").mkdir()
    refuse_compile(tmp_path, oracle.export("mlp", exports), status=2, words=["folder"])


def test_mlir_output_needs_stop_after(tmp_path, exports):
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


def test_output_that_is_an_input_or_another_output(tmp_path):
    """An output cannot overwrite an input of the compile or another output, under any spelling of the path."""
    graph = models.mlp().export_onnx(tmp_path / "m.onnx", external_data=True)
    oracle.run([tools_folder() / "ps-compile", graph, "-o", "0-imported.mlir", "--stop-after", "imported"], tmp_path)
    (tmp_path / "policy.json").write_text('{"*": {}}')
    (tmp_path / "plan.json").write_text("{}")
    os.link(tmp_path / "plan.json", tmp_path / "linked.json")
    os.link(tmp_path / "0-imported.mlir", tmp_path / "dump.failed.mlir")
    policy, plan = ["--sharding-policy", "./policy.json"], ["--plan", "plan.json"]
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for flags, flag, use in (
        (["-o", "m.onnx.data"], "-o", "holds weights of the model"),
        (["-o", "o", "--report", "m.onnx.data"], "--report", "holds weights of the model"),
        (["-o", "o", "--write-plan", "./m.onnx.data"], "--write-plan", "holds weights of the model"),
        (["-o", "policy.json", *policy], "-o", "is read by --sharding-policy"),
        (["-o", "o", "--write-plan", "policy.json", *policy], "--write-plan", "is read by --sharding-policy"),
        (["-o", "o", "--report", "linked.json", *plan], "--report", "is read by --plan"),
        (["-o", "linked.json", *plan], "-o", "is read by --plan"),
        (["-o", "o", "--report", "r", "--measured", "plan.json", "--write-plan", "plan.json"], "--write-plan", "read by --measured"),
        (["-o", "o", "--report", "./o"], "--report", "is written by -o too"),
        (["-o", "o", "--report", "r", "--write-plan", f"../{tmp_path.name}/r"], "--write-plan", "written by --report too"),
        (["-o", "2-planned.mlir", "--stop-after", "planned", "--dump-dir", "."], "--dump-dir", "is written by -o too"),
    ):
        kind = "folder" if flag == "--dump-dir" else "name"
        said = refuse([tools_folder() / "ps-compile", graph, "--batch", 8, *flags], tmp_path, 2, use, f"give another {kind} to {flag}\n")
        assert f"error: {flag}: output" in said
    module = [tools_folder() / "ps-compile", "0-imported.mlir"]
    refuse([*module, "-o", "o", "--dump-dir", "."], tmp_path, 2, "--dump-dir: output './0-imported.mlir' is the model itself")
    words = "error: -o: output 'dump.failed.mlir' (written if a pass fails) is the model itself; give another name to -o\n"
    refuse([tools_folder() / "ps-compile", "dump.failed.mlir", "-o", "dump"], tmp_path, 2, words)
    refuse([*module, "-o", "m.onnx.data"], tmp_path, 2, "holds weights of the model")
    assert before == {path: path.read_bytes() for path in tmp_path.iterdir()}


def special_file(folder, kind):
    path = folder / "special.safetensors"
    os.mkfifo(path) if kind == "fifo" else path.symlink_to("target.safetensors")
    if kind == "link to a fifo":
        os.mkfifo(folder / "target.safetensors")
    return path


@pytest.mark.parametrize("kind", ["fifo", "link to a fifo"])
def test_output_that_is_not_a_regular_file(tmp_path, exports, program, kind):
    """A device or a pipe is refused and not replaced."""
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
        refuse(command, tmp_path, 2, "special.safetensors", "device or pipe")
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


@pytest.mark.alone
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_removes_temporary_folders(tmp_path, exports, number):
    """Sends the signal when the objects are written, and while the linker runs. The linker then does not find its folder."""
    (tmp_path / "temporary").mkdir()
    command = [tools_folder() / "ps-compile", oracle.export("gpt", exports), "-o", "out", "--batch", "4"]
    for wanted in ("program.a", "log.txt"):
        environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
        compile_ = subprocess.Popen(list(map(str, command)), cwd=tmp_path, env=environment, stderr=subprocess.PIPE)
        while compile_.poll() is None and not list(tmp_path.glob(f"temporary/*/{wanted}")):
            time.sleep(0.002)
        compile_.send_signal(number)
        compile_.communicate(timeout=60)
        assert compile_.returncode == -number
        assert list((tmp_path / "temporary").iterdir()) == []
    assert not (tmp_path / "out").exists()


def test_no_output_and_no_model(tmp_path, exports):
    refuse([tools_folder() / "ps-compile"], tmp_path, 2, "ps-compile MODEL -o OUT")
    refuse([tools_folder() / "ps-compile", oracle.export("mlp", exports)], tmp_path, 2, "-o OUT")
