"""Import of .pt2 archives: the forward equals PyTorch's, attention is recognized, and bad archives are refused."""
import json
import re
import subprocess
import zipfile

import models
import oracle
import pytest
import torch
from conftest import tools_folder
from safetensors.torch import load_file, save_file

LEVEL_0 = (
    "--ps-recognize-attention --ps-recognize-attention-masks --ps-recognize-grouped-queries --ps-recognize-activations "
    "--ps-split-fused-variables --canonicalize --cse"
).split()
CAUSAL = {"gpt", "gpt2", "llama", "gpt2_eager", "llama_eager", "gpt_core", "llama_core", "gpt_dynamic"}


def run_tool(name, *arguments, status=0):
    command = [str(tools_folder() / name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == status, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def refuse(archive, *words, flags=(), status=1):
    said = run_tool("ps-translate", "--import-pt2", archive, "--check", *flags, status=status)
    for word in words:
        assert word in said, f"'{word}' not in:\n{said}"


def import_model(archive, folder, *flags):
    """Imports a model. Returns two files: the module as imported, and the module after the passes LEVEL_0."""
    raw, recognised = folder / "raw.mlir", folder / "recognised.mlir"
    run_tool("ps-translate", "--import-pt2", archive, *flags, "-o", raw)
    run_tool("ps-opt", *LEVEL_0, raw, "-o", recognised)
    return raw, recognised


def evaluate_loss(module, inputs, folder):
    save_file({n: t.contiguous() for n, t in inputs.items()}, folder / "in.safetensors")
    run_tool("ps-run", module, "--entry", "forward", "--inputs", folder / "in.safetensors",
             "--outputs", folder / "out.safetensors")
    outputs = load_file(folder / "out.safetensors")
    name = re.search(r"-> \(tensor<f32> \{ps.name = \"([^\"]*)\"", module.read_text()) or \
        re.search(r"-> tensor<f32> \{ps.name = \"([^\"]*)\"", module.read_text()) or \
        re.search(r"-> \(tensor<f32> \{ps.name = \"([^\"]*)\"\}\)", module.read_text())
    return float(outputs[name.group(1)])


@pytest.mark.part(2)
@pytest.mark.parametrize("name", [n for n in models.MODELS if n != "gpt_dropout"])
def test_forward_equals_torch(name, exports, tmp_path):
    model = models.MODELS[name]()
    archive = oracle.export(name, exports)
    raw, recognised = import_model(archive, tmp_path)
    inputs = model.draw_inputs(7, ignored=0.3)
    expected = float(model.loss(inputs).detach())
    for module in (raw, recognised):
        assert evaluate_loss(module, inputs, tmp_path) == pytest.approx(expected, rel=1e-5)
    text = recognised.read_text()
    forms = re.findall(r'ps.attention_form = "([^"]*)"', text)
    assert forms == (["causal", "causal"] if name in CAUSAL else [])
    assert "ps.softmax" not in text


def test_llama_has_grouped_queries(exports, tmp_path):
    _, recognised = import_model(oracle.export("llama", exports), tmp_path)
    line = next(x for x in recognised.read_text().splitlines() if "ps.attention " in x)
    assert re.search(r"tensor<4x4x16x8xf32>, tensor<4x2x16x8xf32>, tensor<4x2x16x8xf32>", line)


def test_fused_weights_are_split_and_tied_ones_are_one(exports, tmp_path):
    _, recognised = import_model(oracle.export("gpt2", exports), tmp_path)
    text = recognised.read_text()
    assert 'names ["transformer.wte.weight", "lm_head.weight"]' in text
    parts = re.findall(r'names \["transformer.h.0.attn.c_attn.weight"\].*slice = \[([^\]]*)\]', text)
    assert parts == ["0:32, 0:32", "0:32, 32:64", "0:32, 64:96"]


def test_random_ops_have_different_keys(exports, tmp_path):
    raw, _ = import_model(oracle.export("gpt_dropout", exports), tmp_path)
    keys = re.findall(r"ps.key = (\d+)", raw.read_text())
    assert keys == [str(i) for i in range(len(keys))] and len(keys) == 7


def test_frozen_and_transient(tmp_path):
    class Frozen(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.free, self.fixed = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
            self.fixed.weight.requires_grad_(False)
            self.register_buffer("scale", torch.full((4,), 2.0))
            self.register_buffer("shift", torch.full((4,), 3.0), persistent=False)

        def forward(self, x):
            return (self.fixed(self.free(x)) * self.scale + self.shift).sum()

    archive = models.Model("frozen", Frozen(), {"x": torch.ones(2, 4)}).export(tmp_path / "frozen.pt2")
    raw, _ = import_model(archive, tmp_path)
    text = raw.read_text()
    assert re.search(r'names \["fixed.weight"\] init .* frozen', text)
    assert not re.search(r'names \["free.weight"\] init .* frozen', text)
    assert re.search(r'ps.variable buffer @scale', text)
    assert "@shift" not in text  # small, not in the state dict and never written, so it becomes a constant


NAMES_OF_OURS = ["loss_scale", "lr", "loss", "grad_norm", "count", "fp8", "update"]


def test_parameters_with_names_of_ours(tmp_path):
    """Parameters with names of the optimizer's variables or of functions are trained like all others."""

    class Named(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name in NAMES_OF_OURS:
                self.register_parameter(name, torch.nn.Parameter(torch.full((3,), 1.5)))

        def forward(self, x):
            return (x * sum(getattr(self, name) for name in NAMES_OF_OURS)).square().mean()

    archive = models.Model("named", Named(), {"x": torch.ones(4, 3)}).export(tmp_path / "named.pt2")
    for precision in ["fp32", "fp16"]:
        oracle.run([tools_folder() / "ps-compile", archive, "-o", "named", "--optimizer", "adamw(lr=1e-2)", "--clip-norm", "1",
                    "--precision", precision, "--no-codegen"], tmp_path)  # fmt: skip


def test_written_buffers(tmp_path):
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(4))

        def forward(self, x):
            self.seen.add_(x.sum(0))
            return (x * self.seen).sum()

    for decompositions in (None, "empty"):
        model = models.Model("counter", Counter(), {"x": torch.ones(2, 4)}, decompositions)
        raw, _ = import_model(model.export(tmp_path / "counter.pt2"), tmp_path)
        assert re.search(r"ps.write @seen", raw.read_text())
        assert evaluate_loss(raw, {"x": torch.full((2, 4), 2.0)}, tmp_path) == 64.0


# ---- dims ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dynamic(exports):
    return oracle.export("gpt_dynamic", exports)


def test_unbound_symbols_take_the_size_at_export(dynamic, tmp_path):
    said = run_tool("ps-translate", "--import-pt2", dynamic, "-o", tmp_path / "x.mlir")
    assert re.search(r"dim s\d+ \(input_ids.0, labels.0\) keeps its size at export, 4; --batch N changes it", said)


@pytest.mark.parametrize("flags", [["--batch", "6"], ["--dim", "labels.0=6"]])
def test_bound_batch(flags, dynamic, tmp_path):
    raw, _ = import_model(dynamic, tmp_path, *flags)
    assert "tensor<6x16xi64>" in raw.read_text()
    model = models.gpt_dynamic()
    inputs = model.draw_inputs(3, batch=6)
    assert evaluate_loss(raw, inputs, tmp_path) == pytest.approx(float(model.loss(inputs).detach()), rel=1e-5)


class Apart(torch.nn.Module):
    """A model whose inputs have independent batch sizes: two symbols in the export."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(1))

    def forward(self, x, y):
        return (x * self.w).mean() + (y * self.w).mean()


def test_batch_is_that_of_all_inputs(tmp_path):
    rows = torch.arange(8.0).view(8, 1)
    batch = {0: torch.export.Dim.DYNAMIC}
    program = torch.export.export(Apart(), (rows, rows * 2), dynamic_shapes={"x": batch, "y": batch})
    torch.export.save(program, tmp_path / "apart.pt2")

    def shapes(*flags, level="imported"):
        said = run_tool("ps-compile", tmp_path / "apart.pt2", "--stop-after", level, "-o", tmp_path / "x.mlir", *flags)
        return said, re.findall(r"tensor<(\d+)x1xf32> \{ps", (tmp_path / "x.mlir").read_text())

    assert shapes("--batch", "4")[1] == ["4", "4"]
    said, found = shapes("--batch", "4", "--batch-dim", "y=none")
    assert found == ["4", "8"] and "(y.0) keeps its size at export, 8; --dim y.0=N changes it" in said
    said, found = shapes("--batch-dim", "none", level="training")
    assert found[:2] == ["8", "8"] and "--dim x.0=N changes it" in said and "--dim y.0=N changes it" in said
    said, _ = shapes()
    assert "(x.0) keeps its size at export, 8; --batch N changes it" in said
    # A dim given by itself does not change the batch size.
    said = run_tool("ps-compile", tmp_path / "apart.pt2", "-o", tmp_path / "x", "--batch", "4", "--dim", "y.0=8", status=2)
    assert "--batch 4: dim" in said and "is given as 8 by --dim" in said and "--batch-dim y=none" in said
    said = run_tool("ps-compile", tmp_path / "apart.pt2", "-o", tmp_path / "x", "--dim", "y.0=4", status=2)
    assert said.startswith("error: --dim y.0=4:") and 'input "x" would have 8 samples, and input "y" 4' in said


def test_dims_out_of_range_or_fixed(dynamic):
    refuse(dynamic, "is 5000", "the export allows 2 to 1024", flags=["--batch", "5000"], status=2)
    refuse(dynamic, "dim input_ids.1 is fixed to 16", "torch.export.Dim", flags=["--dim", "input_ids.1=8"], status=2)
    refuse(dynamic, "no such dim", flags=["--dim", "tokens.0=8"], status=2)


# ---- bad archives --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def archive(exports):
    return oracle.export("mlp", exports)


def rewrite(source, target, change, method=zipfile.ZIP_STORED):
    """Copies an archive. `change(name, data)` returns the new (name, data) of an entry, or None to omit the entry."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", method) as new:
        for item in old.infolist():
            changed = change(item.filename, old.read(item))
            if changed:
                new.writestr(*changed)
    return target


def test_truncated(archive, tmp_path):
    cut = tmp_path / "cut.pt2"
    cut.write_bytes(archive.read_bytes()[:5000])
    refuse(cut, "cut.pt2", "truncated")


def test_foreign(tmp_path):
    other = tmp_path / "other.pt2"
    other.write_text("hello")
    refuse(other, "is not a zip archive", "torch.export.save")
    with zipfile.ZipFile(tmp_path / "zip.pt2", "w") as z:
        z.writestr("hello.txt", "hello")
    refuse(tmp_path / "zip.pt2", "has no models/*.json")


def test_missing_file(tmp_path):
    refuse(tmp_path / "none.pt2", "does not exist", status=2)


def test_without_a_top_folder(archive, tmp_path):
    flat = rewrite(archive, tmp_path / "flat.pt2", lambda n, d: (n.split("/", 1)[1], d))
    run_tool("ps-translate", "--import-pt2", flat, "--check")


def test_leaving_entry(archive, tmp_path):
    bad = rewrite(archive, tmp_path / "bad.pt2", lambda n, d: ("../../evil", d) if n.endswith("weight_1") else (n, d))
    refuse(bad, "../../evil", "leaves the archive")


def test_compressed(archive, tmp_path):
    refuse(rewrite(archive, tmp_path / "deflated.pt2", lambda n, d: (n, d), zipfile.ZIP_DEFLATED),
           "compressed entry", "weight_0")


def test_entry_that_inflates_without_bound(archive, tmp_path):
    """A file of 72 kB whose graph inflates to 70 MiB is refused by its stated size, before it is inflated."""
    bomb = rewrite(archive, tmp_path / "bomb.pt2", lambda n, d: (n, b" " * (70 << 20)) if n.endswith("model.json") else None,
                   zipfile.ZIP_DEFLATED)
    refuse(bomb, "bomb.pt2", "models/model.json", "73400320 bytes", "at most 67108864 are allowed")


@pytest.mark.parametrize("stated", [100, 1 << 20, 60 << 20])
def test_entry_of_another_size_than_it_states(archive, tmp_path, stated):
    path = rewrite(archive, tmp_path / "lies.pt2", lambda n, d: (n, d) if n.endswith("model.json") else None,
                   zipfile.ZIP_DEFLATED)
    data = bytearray(path.read_bytes())
    header = data.rindex(b"PK\1\2")
    data[header + 24 : header + 28] = stated.to_bytes(4, "little")
    path.write_bytes(data)
    refuse(path, "lies.pt2", "models/model.json", f"states {stated} bytes, but the entry inflates to", "export it again")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_entries_of_one_name(archive, tmp_path):
    twice = rewrite(archive, tmp_path / "twice.pt2", lambda n, d: (n.replace("weight_1", "weight_0"), d))
    refuse(twice, "has two entries 'data/weights/weight_0'")


def test_missing_weight(archive, tmp_path):
    bad = rewrite(archive, tmp_path / "bad.pt2", lambda n, d: None if n.endswith("weight_1") else (n, d))
    refuse(bad, "data/weights/weight_1")
    short = rewrite(archive, tmp_path / "short.pt2", lambda n, d: (n, d[:8]) if n.endswith("weight_1") else (n, d))
    refuse(short, "needs 96 bytes", "has 8")


def change_model(archive, target, change):
    def edit(name, data):
        if "/models/" not in name:
            return name, data
        program = json.loads(data)
        change(program)
        return name, json.dumps(program)

    return rewrite(archive, target, edit)


def test_unknown_schema_version(archive, tmp_path):
    bad = change_model(archive, tmp_path / "bad.pt2", lambda p: p["schema_version"].update(major=9))
    refuse(bad, "schema version 9")


def test_all_unsupported_ops_are_listed(tmp_path):
    class Odd(torch.nn.Module):
        def forward(self, x):
            return torch.erfinv(x).sum() + torch.logcumsumexp(x, 0).sum() + torch.erfinv(x * 0.5).sum()

    odd = models.Model("odd", Odd(), {"x": torch.rand(4, 4)}).export(tmp_path / "odd.pt2")
    refuse(odd, "aten.erfinv.default: 2 uses", "aten.logcumsumexp.default: 1 use", "test_import.py:", "2 ops")


def test_unsupported_dtype(tmp_path):
    class Complex(torch.nn.Module):
        def forward(self, x):
            return x.sum()

    bad = models.Model("c", Complex(), {"x": torch.ones(4, dtype=torch.complex64)}).export(tmp_path / "c.pt2")
    refuse(bad, "'x' has the dtype torch.complex64")


def test_buffer_without_data(exports, archive, tmp_path):
    class Buffered(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.ones(4))

        def forward(self, x):
            return (x * self.table).sum()

    good = models.Model("b", Buffered(), {"x": torch.ones(4)}).export(tmp_path / "b.pt2")
    bad = rewrite(good, tmp_path / "bad.pt2", lambda n, d: (n, b"") if n.endswith("weight_0") else (n, d))
    refuse(bad, "buffer or constant 'table' has no data", "meta device")


def test_command_line(archive):
    run_tool("ps-translate", status=2)
    run_tool("ps-translate", "--import-onnx", "x.onnx", "--check", status=2)
    run_tool("ps-translate", "--import-pt2", archive, status=2)
    assert "EXAMPLES" in run_tool("ps-translate", "--help")


def test_output_that_cannot_be_written(archive, tmp_path):
    said = run_tool("ps-translate", "--import-pt2", archive, "-o", tmp_path / "none/x.mlir", status=2)
    assert "does not exist; create it first" in said


class WritesUntracked(torch.nn.Module):
    """In-place writes that autograd does not see. PyTorch passes the gradient to the value before the write."""

    def __init__(self, detached):
        super().__init__()
        self.detached, self.layer = detached, torch.nn.Linear(4, 4)

    def forward(self, x):
        y = self.layer(x)
        if self.detached:
            y.detach().mul_(2)
        else:
            with torch.no_grad():
                y.mul_(2)
        return (y * y).sum()


@pytest.mark.parametrize("detached, words", [(False, "in a no_grad region to"), (True, "through detach() to")])
def test_untracked_writes_are_refused(detached, words, tmp_path):
    module = WritesUntracked(detached)
    refuse(models.Model("untracked", module, {"x": torch.ones(2, 4)}).export(tmp_path / "untracked.pt2"), words)


def test_names_that_the_compiler_uses_itself(tmp_path):
    """A parameter may have the name of an entry or of a variable that training adds."""

    class Odd(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name in ("update", "evaluate", "micro_batch", "forward_", "lr", "mesh"):
                setattr(self, name, torch.nn.Parameter(torch.randn(8)))
            self.register_buffer("count", torch.ones(8))
            self.loss = torch.nn.Linear(8, 8)

        def forward(self, x, y):
            out = x * self.update + self.evaluate * self.micro_batch - self.lr + self.mesh * self.count + self.forward_
            return torch.nn.functional.mse_loss(self.loss(out), y)

    torch.manual_seed(0)
    module, inputs = Odd(), {"x": torch.randn(4, 8), "y": torch.randn(4, 8)}
    torch.export.save(torch.export.export(module, (), inputs), tmp_path / "odd.pt2")
    oracle.compile_model(tmp_path, tmp_path / "odd.pt2", "dp=2", "--optimizer", "sgd(lr=0.1)")
    save_file(inputs, tmp_path / "data.safetensors")
    oracle.run(["./program", "--data", "data.safetensors", "--steps", 1, "--export-weights", "w.safetensors", "--quiet"], tmp_path)
    module(**inputs).backward()
    weights = load_file(tmp_path / "w.safetensors")
    assert set(weights) == set(module.state_dict())
    for name, parameter in module.named_parameters():
        assert torch.allclose(weights[name], (parameter - 0.1 * parameter.grad).detach(), atol=1e-6), name
