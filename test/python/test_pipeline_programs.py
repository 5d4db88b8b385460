"""Pipeline programs equal PyTorch on every layout. All schedules over the same stages give the same bits."""
import dataclasses
import re
import xml.etree.ElementTree

import cases
import lanes
import language
import models
import oracle
import pytest
import torch
from conftest import tools_folder
from safetensors.torch import save_file

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("case", lanes.cover(cases.PIPELINES))
def test_equals_pytorch(tmp_path, exports, case):
    comparison = oracle.check_case(tmp_path, exports, case)
    print(comparison)
    assert comparison.failures() == []


@pytest.mark.part(3)
@pytest.mark.parametrize("name, mesh, schedule", [("gpt2_deep", "pp=4", "1f1b"), ("bert", "dp=2,pp=2", "zb-h1"), ("bart", "pp=2,tp=2", "gpipe")])
def test_the_same_tokens_in_2_and_in_8_micro_batches(tmp_path, name, mesh, schedule):
    """Losses are divided by the number of labels in the whole step, for any number of micro-batches. Half of the samples have no labels."""
    flag, make_optimizer, tolerance = oracle.OPTIMIZERS["adamw"]
    model = oracle.zoo(name)
    batches = oracle.draw_batches(dataclasses.replace(model, inputs=model.draw_inputs(1, batch=8)), 2)
    ref = oracle.train_in_torch(model, batches, make_optimizer)
    for micro_batches in (2, 8):
        part = dataclasses.replace(model, inputs=model.draw_inputs(1, batch=16 // micro_batches))
        folder = tmp_path / str(micro_batches)
        folder.mkdir()
        found = oracle.train_compiled(folder, part.export(folder / "model.pt2"), batches, mesh, micro_batches, flag,
                                      ("--schedule", schedule))  # fmt: skip
        assert oracle.compare(ref, found, tolerance).failures() == []


class Counting(torch.nn.Module):
    """A model with a counter that only the loss uses."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()) for _ in range(4))
        self.out = torch.nn.Linear(8, 1)
        self.register_buffer("seen", torch.tensor(0.0))

    def forward(self, x, y):
        for layer in self.layers:
            x = x + layer(x)
        self.seen.add_(1.0)
        return ((self.out(x) - y) ** 2).mean() * (1 + 0.02 * self.seen)


@pytest.mark.parametrize("flags", [(), ("--split-method", "layers.3")])
def test_state_is_on_the_stages_that_use_it(tmp_path, flags):
    torch.manual_seed(0)
    model = models.Model("counting", Counting(), {"x": torch.randn(4, 8), "y": torch.randn(4, 1)})
    results = []
    for mesh, more in (("dp=1", ()), ("pp=2", flags)):
        folder = tmp_path / mesh
        folder.mkdir()
        archive = model.export(folder / "model.pt2")
        results.append(oracle.train_compiled(folder, archive, oracle.draw_batches(model, 2), mesh, 2, oracle.OPTIMIZERS["sgd"][0], more))
    one, cut = results
    assert cut.losses == one.losses and torch.equal(cut.after["seen"], one.after["seen"]) and one.after["seen"] == 16


def test_a_mask_does_not_become_a_layer(tmp_path):
    """Eager attention computes the padding mask before the embeddings. The mask does not become a separate layer."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=96, n_embd=32, n_layer=4, n_head=4, n_positions=12, use_cache=False, attn_implementation="eager",
                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0)  # fmt: skip
    model = language.make("padded", GPT2LMHeadModel(config), shifts_labels=True)
    said = oracle.run([tools_folder() / "ps-compile", model.export(tmp_path / "m.pt2"), "--mesh", "pp=6", "--no-codegen", "--explain",
                       "--micro-batches", "2"], tmp_path)  # fmt: skip
    rows = re.findall(r"^  (transformer\.\S+) +(\d) +\d ", said.split("pipeline: ")[1], re.M)
    assert [name for name, _ in rows] == ["transformer.wte", *(f"transformer.h.{i}" for i in range(4)), "transformer.ln_f"]
    assert [stage for _, stage in rows] == list("012345")
    assert re.search(r"transformer.wte.weight.grad +0, 5$", said.split("reduced over pipeline coordinates, once per step")[1], re.M)


def bits(result):
    """Returns all results of a run, by name."""
    return {"losses": torch.tensor(result.losses), **result.after, **{f"grad.{n}": g for n, g in result.gradients.items()}}


def differing(a, b):
    return [name for name in a if not torch.equal(a[name], b[name])] + sorted(a.keys() ^ b.keys())


def train(folder, archive, model, mesh, schedule, chunks, *flags, micro_batches=4, run_flags=()):
    folder.mkdir(exist_ok=True)
    batches = oracle.draw_batches(model, micro_batches)
    return oracle.train_compiled(folder, archive, batches, mesh, micro_batches, oracle.OPTIMIZERS["adamw"][0],
                                 ("--schedule", schedule, "--num-chunks", chunks, *flags), run_flags=run_flags)  # fmt: skip


@pytest.mark.part(2)
@pytest.mark.parametrize("name", ["gpt2_deep", "unet"])
@pytest.mark.parametrize("mesh, chunks, schedules", [
    ("pp=2", 1, ["gpipe", "1f1b", "zb-h1"]), ("dp=2,pp=2", 1, ["gpipe", "zb-h1"]), ("pp=2", 2, ["interleaved"])])  # fmt: skip
def test_schedules_over_the_same_stages_give_the_same_bits(tmp_path, exports, name, mesh, chunks, schedules):
    archive, found = oracle.export(name, exports), []
    for schedule in schedules:
        found.append(bits(train(tmp_path / schedule, archive, oracle.zoo(name), mesh, schedule, chunks)))
    again = bits(train(tmp_path / "again", archive, oracle.zoo(name), mesh, schedules[0], chunks))
    for other in [*found[1:], again]:
        assert differing(found[0], other) == []


@pytest.fixture(scope="module", params=[models.gpt_dropout, lambda: language.bart(dropout=0.1)], ids=["gpt", "bart"])
def with_dropout(request, tmp_path_factory):
    """Returns (a model's file, samples, results of one rank)."""
    folder = tmp_path_factory.mktemp("dropout")
    model = request.param()
    archive, batches = model.export(folder / "model.pt2"), oracle.draw_batches(model, 4)
    return archive, batches, oracle.train_compiled(folder, archive, batches, "dp=1", 4, oracle.OPTIMIZERS["sgd"][0])


@pytest.mark.part(3)
@pytest.mark.parametrize("mesh, schedule, chunks", [("pp=2", "1f1b", 1), ("dp=2,pp=2", "zb-h1", 1), ("pp=2", "interleaved", 2)])
def test_dropout_equals_one_rank(tmp_path, with_dropout, mesh, schedule, chunks):
    """Dropout masks are the same for any placement of layers, and in both halves of the backward pass."""
    archive, batches, whole = with_dropout
    cut = oracle.train_compiled(tmp_path, archive, batches, mesh, 4, oracle.OPTIMIZERS["sgd"][0],
                                ("--schedule", schedule, "--num-chunks", chunks))  # fmt: skip
    assert cut.losses == pytest.approx(whole.losses, rel=1e-5)
    for name, gradient in whole.gradients.items():
        if gradient.dim():
            assert (cut.gradients[name] - gradient).norm() <= 1e-4 * gradient.norm() + 1e-7, name


@pytest.mark.part(2)
@pytest.mark.parametrize("mesh, schedule, chunks", [("pp=2", "1f1b", 1), ("pp=4", "zb-h1", 1), ("pp=2", "zb-v", 2), ("dp=2,pp=2", "gpipe", 1)])
def test_the_measured_step(tmp_path, exports, mesh, schedule, chunks):
    """The number of micro-batches with saved activations in a trace equals the plan. ps-timeline draws the step like the plan."""
    archive = oracle.export("gpt2_deep", exports)
    trace = ("--trace", "trace.json")
    train(tmp_path, archive, oracle.zoo("gpt2_deep"), mesh, schedule, chunks, micro_batches=8, run_flags=trace)
    timeline = [tools_folder() / "ps-timeline", "trace.json"]
    said = oracle.run([*timeline, "-o", "step.svg", "--schedule", schedule, "--hop", "0.01"], tmp_path)
    held = [int(n) for n in re.findall(r"pp \d: saved activations of at most (\d+) micro-batches", said)]
    plan = re.findall(r"^  \d +[\d, ]+?  +(\d+) +", oracle.run(["./program", "--info"], tmp_path).split("micro-batches held")[1], re.M)
    assert held == [int(n) for n in plan], said
    assert f"simulated {schedule}, 8 micro-batches" in said and "8 steps" in said
    root = xml.etree.ElementTree.parse(tmp_path / "step.svg").getroot()
    texts = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"pp 0", "7"} <= texts and any(text and "measured step" in text for text in texts)
    assert "the trace has steps 0 to 7" in oracle.run([*timeline, "--step", "8"], tmp_path, expect=2)


def test_bad_traces_are_refused(tmp_path):
    tool = tools_folder() / "ps-timeline"
    other = "is not a trace; a program writes a trace with --trace FILE.json"
    for text, words in [("", f"{other} (the file is empty"), ("\0", other), ('{"traceEvents": []}', "the trace is not of a pipeline")]:
        (tmp_path / "trace.json").write_text(text)
        assert words in oracle.run([tool, "trace.json", "-o", "t.svg"], tmp_path, expect=1)
    assert "output 'trace.json' is the trace itself; give another name" in oracle.run([tool, "trace.json", "-o", "trace.json"], tmp_path, expect=2)
    assert "no trace given" in oracle.run([tool], tmp_path, expect=2)
    assert "missing.json\": cannot be read" in oracle.run([tool, "missing.json"], tmp_path, expect=2)
    assert "need --schedule" in oracle.run([tool, "trace.json", "--hop", "1"], tmp_path, expect=2)
    for flags, words in [(["--hop", "1e308"], "--hop takes milliseconds from 0 to"), (["--hop", "nan"], "--hop takes milliseconds"),
                         (["--micro-batches", "99999999"], "--micro-batches takes a number from 1 to 16384")]:  # fmt: skip
        assert words in oracle.run([tool, "trace.json", "--schedule", "1f1b", *flags], tmp_path, expect=2)
    assert not (tmp_path / "t.svg").exists()


def test_info_has_a_section_for_each_coordinate(tmp_path, exports):
    oracle.compile_model(tmp_path, oracle.export("gpt2_deep", exports), "dp=2,pp=2", "--micro-batches", "2")
    said = oracle.run(["./program", "--info"], tmp_path)
    for coordinate in "01":
        assert f"per rank of pipeline coordinate {coordinate}, including:" in said
        assert f"communication per step (operand bytes per rank of pipeline coordinate {coordinate})\n" in said
    assert re.search(r"transformer.wte.weight +f32 +\[96, 32\].*tied: lm_head.weight", said), said
    assert re.search(r"transformer.h.0.ln_1.weight .* pp 0\n", said) and re.search(r"transformer.ln_f.weight .* pp 1\n", said)
    assert re.search(r"send act.0-1 +2 ", said) and re.search(r"recv grad.1-0 +2 ", said) and "all_reduce over pipeline coordinates" in said


def test_check_compares_with_one_rank(tmp_path, exports):
    model = oracle.zoo("llama_deep")
    oracle.compile_model(tmp_path, oracle.export("llama_deep", exports), "pp=2,tp=2", "--micro-batches", "2", "--check")
    save_file({n: v.contiguous() for n, v in oracle.draw_batches(model, 2).items()}, tmp_path / "data.safetensors")
    said = oracle.run(["./program", "--check", "--data", "data.safetensors"], tmp_path)
    assert "check passed" in said, said
