"""Pipeline programs in the reference evaluator equal the model on one rank, for various stages, chunks, schedules and meshes."""
import json
import re
import subprocess
import xml.etree.ElementTree

import lanes
import language
import models
import oracle
import pytest
import torch
import vision
from conftest import tools_folder
from safetensors.torch import load_file, save_file

# (mesh, schedule, chunks, split method). MIDDLE has the plans of the middle lane. PLANS has each schedule, method and kind of mesh.
MIDDLE = [
    ("pp=2", "gpipe", 1, "uniform"),
    ("pp=2", "zb-h1", 1, "parameters"),
    ("pp=2", "interleaved", 2, "uniform"),
    ("pp=4", "1f1b", 1, "uniform"),
    ("pp=4", "1f1b-eager", 1, "uniform"),
    ("dp=2,pp=2,tp=2", "gpipe", 1, "uniform"),
]
PLANS = [
    *MIDDLE,
    ("pp=2", "1f1b", 1, "flops"),
    ("pp=2", "zb-v", 2, "flops"),
    ("dp=2,pp=2", "1f1b", 1, "uniform"),
    ("pp=2,tp=2", "zb-h1", 1, "flops"),
]
LAYERS = 4
# Models with enough layers for four stages. They have tied weights, rotary tables, and a padding mask.
DEEP = {
    "gpt2": lambda: models.gpt2(layers=LAYERS),
    "llama": lambda: models.llama(layers=LAYERS),
    "bert": language.bert,
}


def evaluate(folder, module, data, micro_batches):
    """Runs one step in ps-run. Returns every variable, by symbol."""
    out = folder / f"{module.stem}.safetensors"
    oracle.run(
        [tools_folder() / "ps-run", module, "--entry", "step", "--micro-batches", micro_batches, "--inputs", data,
         "--outputs", out], folder,
    )  # fmt: skip
    return load_file(out)


def compile_plan(folder, archive, plan, micro_batches, *flags):
    mesh, schedule, chunks, method = plan
    said = oracle.run(
        [tools_folder() / "ps-compile", archive, "-o", folder / "out.mlir", "--stop-after", "placed", "--dump-dir", folder,
         "--mesh", mesh, "--schedule", schedule, "--num-chunks", chunks, "--split-method", method, "--micro-batches",
         micro_batches, "--optimizer", oracle.OPTIMIZERS["sgd"][0], "--clip-norm", "0.5", *flags], folder,
    )  # fmt: skip
    return (folder / "4-scheduled.mlir").read_text(), said


def check(folder, whole, module, data, micro_batches):
    found = evaluate(folder, module, data, micro_batches)
    assert found.keys() == whole.keys()
    for variable, value in whole.items():
        if not value.numel():
            continue
        scale = max(1e-3, value.abs().max().item())
        error = (found[variable] - value).abs().max().item() / scale
        assert error <= 1e-4, f"{module.stem}: {variable} differs by {error:.1e} of its largest element"
    return found


def prepare(folder, model, micro_batches):
    data = folder / "data.safetensors"
    save_file({n: v.contiguous() for n, v in oracle.draw_batches(model, micro_batches, 1).items()}, data)
    return model.export(folder / "model.pt2"), data


@pytest.mark.parametrize("name, plans", [("bert", MIDDLE), *(lanes.full(name, PLANS) for name in DEEP)],
                         ids=lambda part: part if isinstance(part, str) else f"{len(part)}plans")  # fmt: skip
def test_a_pipeline_equals_one_rank(tmp_path, name, plans):
    """Weights, gradients and loss after a step of 4 micro-batches are equal. Tests uneven masks, tied parameters, and clipping over all stages."""
    micro_batches = 4
    archive, data = prepare(tmp_path, DEEP[name](), micro_batches)
    whole, same_cuts = None, {}
    for i, plan in enumerate(plans):
        folder = tmp_path / str(i)
        folder.mkdir()
        compile_plan(folder, archive, plan, micro_batches)
        whole = whole or evaluate(folder, folder / "1-training.mlir", data, micro_batches)
        check(folder, whole, folder / "3-partitioned.mlir", data, micro_batches)
        found = check(folder, whole, folder / "5-placed.mlir", data, micro_batches)
        cuts = re.search(r"ps.stage_cuts = array<i64: ([\d, ]*)>", (folder / "2-planned.mlir").read_text())[1]
        known = same_cuts.setdefault((plan[0], plan[2], cuts), found)
        assert all(known[n].equal(v) for n, v in found.items()), f"{plan}: the bits differ from those of another schedule"


@pytest.mark.part(2)
@pytest.mark.parametrize("name", lanes.some(["bart", "unet", "resnet"], ["bart", "unet"]))
def test_long_skips_cross_attention_and_statistics(tmp_path, name):
    """Tests values that pass several stages, several tensors between two stages, and running statistics."""
    micro_batches = 2
    model = (language.MODELS | vision.MODELS)[name]()
    archive, data = prepare(tmp_path, model, micro_batches)
    for plan in [("pp=2", "1f1b", 1, "flops"), ("pp=2", "interleaved", 2, "uniform"), ("dp=2,pp=2", "zb-h1", 1, "uniform")]:
        compile_plan(tmp_path, archive, plan, micro_batches)
        whole = evaluate(tmp_path, tmp_path / "1-training.mlir", data, micro_batches)
        check(tmp_path, whole, tmp_path / "4-scheduled.mlir", data, micro_batches)


@pytest.mark.part(3)
@pytest.mark.parametrize("name", DEEP)
def test_one_tensor_crosses_each_boundary(tmp_path, name):
    """Only the [B, T, H] tensor and its cotangent are sent. Masks, positions and rotary tables are computed where they are used."""
    model = DEEP[name]()
    archive, _ = prepare(tmp_path, model, 2)
    text, _ = compile_plan(tmp_path, archive, ("pp=4", "1f1b", 1, "uniform"), 2)
    step = text[: text.index("entry \"evaluate\"")]
    sends = re.findall(r'rank.send .* queue "(\S+)" message\(value = \d+, micro_batch = (\d+)\) : tensor<(\d+)x(\d+)x\d+xf32>', step)
    expected = {(f"act.{i}-{i + 1}", m) for i in range(3) for m in "01"} | {(f"grad.{i + 1}-{i}", m) for i in range(3) for m in "01"}
    assert len(sends) == len(expected) == step.count("rank.send") and {s[:2] for s in sends} == expected
    batch, length = next(iter(model.inputs.values())).shape[:2]
    assert {(int(s[2]), int(s[3])) for s in sends} == {(batch, length)}


def test_programs_do_not_grow_with_ranks(tmp_path):
    """With thousands of data-parallel ranks, the programs are the same except for shapes."""
    archive = models.gpt2(batch=8192).export(tmp_path / "model.pt2")
    texts = []
    for ranks in (2, 8192):
        text, _ = compile_plan(tmp_path, archive, (f"dp={ranks},pp=2", "1f1b", 1, "uniform"), 2)
        program = text[text.index("rank.program") :]
        texts.append(re.sub(r"tensor<[^>]*>|loc\(.*?\)|#loc\d*", "", program).split("\n#loc")[0])
    assert texts[0] == texts[1]


def test_evaluation_over_stages(tmp_path):
    model = DEEP["gpt2"]()
    archive, _ = prepare(tmp_path, model, 1)
    compile_plan(tmp_path, archive, ("pp=2", "interleaved", 2, "uniform"), 2)
    inputs = model.draw_inputs(3)
    save_file(inputs, tmp_path / "one.safetensors")
    for level in ("3-partitioned", "5-placed"):
        oracle.run([tools_folder() / "ps-run", tmp_path / f"{level}.mlir", "--entry", "evaluate", "--inputs", "one.safetensors",
                    "--outputs", "out.safetensors"], tmp_path)  # fmt: skip
        losses = [v.item() for n, v in load_file(tmp_path / "out.safetensors").items() if "loss" in n and not v.dim()]
        assert model.loss(inputs).item() == pytest.approx(losses[0], rel=1e-5) or model.loss(inputs).item() in losses


def test_a_schedule_from_a_file(tmp_path):
    """A schedule from a file runs like a built-in schedule."""
    archive, data = prepare(tmp_path, DEEP["gpt2"](), 2)
    table = tmp_path / "table.json"
    table.write_text(json.dumps({"rows": [["F0", "F1", "B0", "B1"], ["F0", "B0", "F1", "B1"]]}))
    compile_plan(tmp_path, archive, ("pp=2", table, 1, "uniform"), 2)
    whole = evaluate(tmp_path, tmp_path / "1-training.mlir", data, 2)
    check(tmp_path, whole, tmp_path / "4-scheduled.mlir", data, 2)


@pytest.mark.parametrize(
    "flags, words",
    [
        (("--mesh", "pp=2", "--schedule", "1f2b"), ["unknown schedule '1f2b'", "1f1b"]),
        (("--mesh", "pp=2", "--schedule", "interleaved"), ["--schedule interleaved needs at least 2 chunks", "--num-chunks is 1; add --num-chunks 2"]),
        (("--mesh", "pp=2", "--schedule", "zb-v", "--num-chunks", "3"), ["--schedule zb-v takes at most 2 chunks", "use --num-chunks 2"]),
        (("--mesh", "pp=2", "--schedule", "1f1b", "--num-chunks", "2"), ["1f1b", "1 chunk"]),
        (("--mesh", "dp=2", "--num-chunks", "2"), ["--num-chunks 2", "pipeline axis"]),
        (("--mesh", "pp=2", "--num-chunks", "none"), ["--num-chunks takes a number"]),
        (("--mesh", "pp=2", "--schedule", "missing.json"), ["missing.json", "cannot be read"]),
    ],
)
def test_plans_that_do_not_fit_are_refused(tmp_path, exports, flags, words):
    said = oracle.run([tools_folder() / "ps-compile", oracle.export("gpt2", exports), "-o", "out.mlir", "--stop-after",
                       "scheduled", *flags], tmp_path, expect=2)  # fmt: skip
    assert all(word in said for word in words), said
    assert not (tmp_path / "out.mlir").exists()


@pytest.mark.parametrize(
    "flags, words",
    [
        (("--mesh", "pp=8"), ["8 stages", "4 layers"]),
        (("--mesh", "pp=2", "--split-method", "transformer.h.11"), ["transformer.h.11", "transformer.h.1"]),
        (("--mesh", "pp=2", "--split-method", "transformer.h.1,transformer.ln_f"), ["2 stages"]),
    ],
)
def test_cuts_that_do_not_exist_are_refused(tmp_path, exports, flags, words):
    said = oracle.run([tools_folder() / "ps-compile", oracle.export("gpt2", exports), "-o", "out.mlir", "--stop-after",
                       "scheduled", *flags], tmp_path, expect=2)  # fmt: skip
    assert all(word in said for word in words), said


@pytest.mark.parametrize(
    "rows, words",
    [
        ([["F0", "F1", "B0"], ["F0", "B0", "F1", "B1"]], ["row 0"]),
        ([["F0", "F1", "B0", "B1"], ["F0", "F1", "B1", "B0"]], ["B1", "gradients are added in the order"]),
        ([["F0", "F1", "B0", "B1"], ["F1", "F0", "B0", "B1"]], ["F1", "order of the micro-batches"]),
        ([["F0", "B0", "F1", "B1"], ["F0", "F1", "B0", "B1"]], ["deadlocks", "pipeline coordinate 0", "waits for the backward of stage 1"]),
    ],
)
def test_tables_that_cannot_run_are_refused(tmp_path, exports, rows, words):
    table = tmp_path / "table.json"
    table.write_text(json.dumps({"rows": rows}))
    done = subprocess.run([tools_folder() / "ps-compile", oracle.export("gpt2", exports), "-o", "out.mlir", "--stop-after",
                           "scheduled", "--mesh", "pp=2", "--schedule", table, "--micro-batches", "2"], cwd=tmp_path,
                          capture_output=True, text=True, timeout=60)  # fmt: skip
    assert done.returncode in (1, 2) and all(word in done.stderr for word in words), done.stderr


def test_the_timeline_as_a_picture_and_as_text(tmp_path, exports):
    """--write-timeline draws a box per task, with one row per pipeline coordinate. --explain prints the bubble and the micro-batches with saved activations."""
    said = oracle.run([tools_folder() / "ps-compile", oracle.export("gpt2", exports), "-o", "out.mlir", "--stop-after", "planned",
                       "--mesh", "pp=2", "--micro-batches", "4", "--schedule", "gpipe", "--explain", "--write-timeline",
                       "step.svg"], tmp_path)  # fmt: skip
    root = xml.etree.ElementTree.parse(tmp_path / "step.svg").getroot()
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"pp 0", "pp 1", "3"} <= set(texts)
    idle = float(re.search(r"bubble ([\d.]+) %", said)[1])
    assert any(text and f"{idle} %" in text for text in texts), texts
    assert re.search(r"\n  0   0       4 .*\n  1   1       4 ", said), said  # gpipe saves the activations of all micro-batches


@pytest.mark.parametrize("flags, words", [
    (("--mesh", "dp=2", "--write-timeline", "t.svg"), ["--write-timeline", "no pipeline axis"]),
    (("--mesh", "pp=2", "--write-timeline", "missing/t.svg"), ["--write-timeline", "missing"]),
    (("--mesh", "pp=2", "--write-timeline", "out.mlir"), ["--write-timeline", "out.mlir"]),
])  # fmt: skip
def test_timelines_that_cannot_be_drawn_are_refused(tmp_path, exports, flags, words):
    said = oracle.run([tools_folder() / "ps-compile", oracle.export("gpt2", exports), "-o", "out.mlir", "--stop-after",
                       "scheduled", *flags], tmp_path, expect=2)  # fmt: skip
    assert all(word in said for word in words), said
    assert not list(tmp_path.glob("*.svg"))


def test_compiles_resume_from_dumps_of_pipelines(tmp_path):
    """Decisions recorded in a dump have priority over the defaults of flags. All dumps compile to the same program."""
    archive, data = prepare(tmp_path, DEEP["gpt2"](), 4)
    compile_plan(tmp_path, archive, ("pp=2", "zb-v", 2, "uniform"), 4)
    for level in ("2-planned", "4-scheduled", "5-placed"):
        flags = ["--micro-batches", 4] if level == "2-planned" else []
        said = oracle.run([tools_folder() / "ps-compile", f"{level}.mlir", "-o", "next.mlir", "--stop-after", "placed", *flags,
                           "--explain"], tmp_path)  # fmt: skip
        assert "schedule: zb-v, 4 stages on 2 pipeline coordinates, 4 micro-batches" in said, said
        oracle.run([tools_folder() / "ps-compile", f"{level}.mlir", "-o", "program", *flags], tmp_path)
        oracle.run(["./program", "--data", data, "--steps", 1, "--losses", f"{level}.txt", "--quiet"], tmp_path)
    assert len({(tmp_path / f"{level}.txt").read_text() for level in ("2-planned", "4-scheduled", "5-placed")}) == 1


class Shared(torch.nn.Module):
    """A summed loss, and two matrices of one shape that the first and the last stage use."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = torch.nn.Parameter(torch.randn(8, 8) / 3), torch.nn.Parameter(torch.randn(8, 8) / 3)
        self.layers = torch.nn.ModuleList([torch.nn.Linear(8, 8) for _ in range(3)])

    def forward(self, x, y):
        x = torch.tanh(x @ self.a) @ self.b * self.a.mean()
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return ((torch.tanh(x @ self.a) @ self.b - y) ** 2).sum()


def export_small(folder, module):
    inputs = {"x": torch.randn(4, 8), "y": torch.randn(4, 8)}
    torch.export.save(torch.export.export(module, (), inputs), folder / "model.pt2")
    save_file({n: torch.randn(8, 8, generator=torch.Generator().manual_seed(i)) for i, n in enumerate(inputs)}, folder / "data.safetensors")
    return folder / "model.pt2", folder / "data.safetensors"


@pytest.mark.parametrize("mesh, chunks", [("pp=2", 1), ("pp=4", 1), ("pp=2", 2)])
def test_parameters_of_several_stages(tmp_path, mesh, chunks):
    """If several stages use a parameter, all coordinates reduce its gradients in the same order, and know the count of the loss."""
    archive, data = export_small(tmp_path, Shared())
    compile_plan(tmp_path, archive, (mesh, "interleaved" if chunks > 1 else "1f1b", chunks, "uniform"), 2)
    whole = evaluate(tmp_path, tmp_path / "1-training.mlir", data, 2)
    check(tmp_path, whole, tmp_path / "5-placed.mlir", data, 2)
