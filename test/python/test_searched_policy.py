"""`--sharding-policy searched`: the splits that the search finds are correct, and as fast as those of known patterns."""

import json

import cases
import lanes
import models
import oracle
import pytest
import torch
from conftest import run_tool as run

pytestmark = pytest.mark.usefixtures("one_thread")

H100 = ("--cluster", "h100-sxm", "--target", "cuda:sm_90")


@pytest.mark.part(3)
@pytest.mark.parametrize("case", lanes.cover(cases.SEARCHED, strength=1))
def test_equals_pytorch(tmp_path, exports, case):
    comparison = oracle.check_case(tmp_path, exports, case)
    print(comparison)
    assert comparison.failures() == []


class NormedPairs(torch.nn.Module):
    """Pairs of linear layers with a norm between the two layers. The policy megatron finds no pairs in this model."""

    def __init__(self, width, hidden, layers):
        super().__init__()
        self.blocks = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.Linear(width, hidden), torch.nn.LayerNorm(hidden), torch.nn.GELU(), torch.nn.Linear(hidden, width))
            for _ in range(layers)
        )  # fmt: skip

    def forward(self, x, target):
        for block in self.blocks:
            x = x + block(x)
        return torch.nn.functional.mse_loss(x, target)


def export_large(folder, name):
    """Exports a model that is large enough to run faster on GPUs when it is split."""
    path = folder / f"{name}.pt2"
    if name == "gpt":
        models.gpt(batch=8, length=256, vocabulary=2048, width=256, layers=3, heads=8).export(path)
    elif name == "llama":
        models.llama(batch=8, length=256, vocabulary=2048, width=256, hidden=688, layers=3, heads=8, groups=4).export(path)
    else:
        inputs = (torch.randn(256, 512), torch.randn(256, 512))
        torch.export.save(torch.export.export(NormedPairs(512, 2048, 3), inputs).run_decompositions({}), path)
    return path


def predict(folder, model, policy):
    plan = folder / "plan.json"
    plan.write_text(json.dumps({"mesh": "tp=2", "sharding-policy": policy}))
    return json.loads(run("ps-plan", model, "--plan", plan, *H100, "--predict").stdout)


@pytest.mark.part(2)
@pytest.mark.parametrize("name", ["gpt", "llama"])
def test_finds_megatron_with_sequence_parallelism(tmp_path, name):
    """The plan of searched+memory has the step time and the memory of megatron+sp. The plan of searched is at least as fast."""
    model = export_large(tmp_path, name)
    known, lean, fastest = (predict(tmp_path, model, policy) for policy in ("megatron+sp", "searched+memory", "searched"))
    assert lean["step_s"] == pytest.approx(known["step_s"], rel=1e-3)
    assert lean["memory_bytes"] == pytest.approx(known["memory_bytes"], rel=1e-3)
    assert fastest["step_s"] <= lean["step_s"]


def test_splits_parameters_that_megatron_does_not_split(tmp_path):
    model = export_large(tmp_path, "pairs")
    whole, known, found = (predict(tmp_path, model, policy) for policy in ("replicated", "megatron", "searched"))
    assert known["step_s"] == pytest.approx(whole["step_s"], rel=1e-3)
    assert found["step_s"] < 0.95 * whole["step_s"] and found["memory_bytes"] < 0.6 * whole["memory_bytes"]


def test_a_plan_file_holds_the_shardings(tmp_path):
    """ps-plan writes the splits that it found; equal blocks share an entry. ps-compile reads them."""
    model, plan = export_large(tmp_path, "pairs"), tmp_path / "plan.json"
    done = run("ps-plan", model, "--cluster", "h100-sxm:2", "--mesh", "tp=2", "--global-batch", 256, "-o", plan)
    assert any("searched" in line.split() for line in done.stdout.splitlines()), done.stdout
    splits = json.loads(plan.read_text())["sharding-policy"]
    assert splits.get("blocks.*.0.weight") == {"0": ["tp"]}, splits
    told = run("ps-compile", model, "--plan", plan, "--no-codegen", "--explain", "-o", tmp_path / "out").stdout
    split = [line for line in told.splitlines() if line.split()[:1] and line.split()[0] in [f"blocks.{i}.0.weight" for i in range(3)]]
    assert len(split) == 3 and all('[{"tp"}, {}]' in line for line in split), told
    run("ps-compile", model, "--mesh", "tp=2", "--batch", 256, "--sharding-policy", "searched", *H100, "--no-codegen", "--write-plan", plan)
    assert json.loads(plan.read_text())["sharding-policy"] == splits


def test_a_search_that_finds_no_gain_gives_the_replicated_plan(tmp_path, exports):
    """The tensors are so small that their exchange takes longer than the work it saves."""
    flags = ("--cluster", "h100-sxm:2", "--global-batch", 8)
    for policy in (["--mesh", "tp=2", "--sharding-policy", "searched"], ["--mesh", "tp=2"], []):  # dp=2 exchanges gradients, so tp=2 is faster
        done = run("ps-plan", oracle.export("mlp", exports), *flags, *policy, "-o", tmp_path / "plan.json")
        assert done.returncode == 0 and "warning: all ranks of the tensor axis do the same work" in done.stderr, done.stderr
        assert json.loads((tmp_path / "plan.json").read_text())["sharding-policy"] == "replicated"


def test_repeated_blocks_are_searched_once(tmp_path):
    """The shardings that the search finds for a deep model are those of a model with few blocks."""
    texts = []
    for layers in (3, 8):
        archive = models.gpt(batch=8, length=256, vocabulary=2048, width=256, layers=layers, heads=8).export(tmp_path / f"{layers}.pt2")
        dump = tmp_path / str(layers)
        run("ps-compile", archive, "--mesh", "tp=2", "--sharding-policy", "searched", *H100, "--dump-dir", dump, "--no-codegen", "-o", tmp_path / "out")
        texts.append((dump / "2-planned.mlir").read_text().partition("ps-seed-shardings{")[2].partition("},ps-align")[0])
    assert texts[0] == texts[1] and "blocks.*.attention.qkv.weight" in texts[0]


def test_the_text_of_a_sharding_file_is_a_policy(tmp_path, exports):
    """The text is accepted by ps-compile, and as a constraint by ps-plan. An unknown name is an error, also if the name contains braces."""
    gpt = oracle.export("gpt", exports)
    compile_it = ("ps-compile", gpt, "--mesh", "tp=2", "--no-codegen", "--explain", "-o", tmp_path / "out", "--sharding-policy")
    told = run(*compile_it, '{"blocks.*.up.weight": {"0": ["tp"]}, "wte:embedding": {"1": ["tp"]}}').stdout
    assert told.count('policy: "blocks.*.up.weight"') == 2 and 'policy: "wte:embedding"' in told
    for name in ("x", "a}b", "a{"):
        refused = run(*compile_it, json.dumps({name: {"0": ["tp"]}}))
        assert refused.returncode == 2 and f'--sharding-policy: no parameter matches "{name}"; the nearest names are' in refused.stderr
    fixed = '{"wte.weight": {"0": ["tp"]}, "wpe.weight": {"1": ["tp"]}}'
    planned = run("ps-plan", gpt, "--cluster", "cpu-mpi:2", "--mesh", "tp=2", "--sharding-policy", fixed, "-o", tmp_path / "plan.json", "--global-batch", 4)
    assert " {...} " in planned.stdout, planned.stderr
    assert json.loads((tmp_path / "plan.json").read_text())["sharding-policy"] == fixed  # the order of the keys is kept


def test_a_program_that_only_evaluates_is_split(tmp_path):
    told = run("ps-compile", export_large(tmp_path, "gpt"), "--mesh", "tp=2", "--inference", "--sharding-policy", "searched", *H100,
               "--no-codegen", "--explain", "-o", tmp_path / "out")  # fmt: skip
    assert 'policy: "blocks.*.attention.qkv.weight"' in told.stdout, told.stderr
