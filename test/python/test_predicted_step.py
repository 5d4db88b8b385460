"""`ps-compile --cluster C --explain` predicts the time of a step. Tests properties of the prediction, and measured steps."""

import json
import re
import subprocess

import lanes
import models
import pytest
from conftest import ROOT, tools_folder

UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
IDEAL = {
    "name": "ideal", "source": "made up for this test",
    "device": {"target": "cpu", "memory": "1TB", "memory_bandwidth": "1000000TB/s", "launch": "0s", "host_bandwidth": "1TB/s",
               "matmul": {"f32": {"peak": "1TFLOP/s"}}},
    "tiers": [{"name": "network", "bandwidth": "1000000TB/s", "latency": "0s"}],
}  # fmt: skip


def write_cluster(folder, **device):
    path = folder / f"{'-'.join(device) or 'ideal'}.json"
    path.write_text(json.dumps(IDEAL | {"device": IDEAL["device"] | device}))
    return path


def plan(archive, *flags):
    optimizer = [] if "--optimizer" in flags else ["--optimizer", "sgd(lr=0.1)"]
    line = [tools_folder() / "ps-compile", archive, *optimizer, "--no-codegen", "--explain", *flags]
    return subprocess.run(line, capture_output=True, text=True, timeout=120)


def predict(archive, *flags):
    """Returns the predicted seconds of the step and of each part."""
    done = plan(archive, *flags)
    assert done.returncode == 0, done.stderr
    text = done.stdout
    lines = text[text.index("predicted step") :].splitlines()
    step = re.search(r": ([\d.]+) (us|ms|s),", lines[0])
    parts = {}
    for line in lines[1:]:
        if found := re.fullmatch(r"  (\S.*?)  +([\d.]+) (us|ms|s) +[\d.]+ %", line):
            parts[found[1]] = float(found[2]) * UNITS[found[3]]
    return float(step[1]) * UNITS[step[2]], parts


@pytest.fixture(scope="module")
def gpt(tmp_path_factory):
    archive = tmp_path_factory.mktemp("gpt") / "gpt.pt2"
    models.gpt(layers=8, batch=8).export(archive)
    return archive


PLANS = [
    ("--mesh", "dp=1"), ("--mesh", "dp=2,tp=2"), ("--mesh", "pp=2,tp=2", "--micro-batches", "4"), ("--mesh", "dp=4", "--zero", "3"),
    ("--mesh", "pp=4", "--micro-batches", "8", "--recompute", "full"), ("--mesh", "dp=2,pp=2", "--micro-batches", "4", "--zero", "1"),
]  # fmt: skip


@pytest.mark.parametrize("flags", PLANS, ids=lambda flags: "-".join(flags[1::2]))
def test_the_parts_sum_to_the_step(gpt, flags):
    step, parts = predict(gpt, "--cluster", "h100-sxm", *flags)
    assert sum(parts.values()) == pytest.approx(step, rel=0.01)


def test_without_a_network_cost_only_compute_and_the_bubble_remain(gpt, tmp_path):
    cluster = write_cluster(tmp_path)
    alone, _ = predict(gpt, "--cluster", cluster, "--mesh", "dp=1")
    step, parts = predict(gpt, "--cluster", cluster, "--mesh", "pp=2", "--micro-batches", "4")
    spent = {name for name, seconds in parts.items() if seconds > 1e-4 * step}
    assert spent <= {"matmuls", "kernels", "imbalance", "bubble", "update"}
    assert parts["matmuls"] == pytest.approx(4 * alone / 2, rel=0.01)  # each of the 4 micro-batches has the samples of one step on one rank
    # Two stages of 1f1b are idle for one forward and one backward of a micro-batch.
    assert parts["bubble"] + parts["imbalance"] >= 0.9 * alone / 2


@pytest.mark.part(2)
@pytest.mark.parametrize("faster", [{"matmul": {"f32": {"peak": "2TFLOP/s"}}}, {"memory_bandwidth": "2000000TB/s"}])
def test_a_faster_device_is_never_slower(gpt, tmp_path, faster):
    for flags in PLANS:
        before, after = (predict(gpt, "--cluster", write_cluster(tmp_path, **device), *flags)[0] for device in ({}, faster))
        assert after <= before


def test_axes_within_a_node_are_faster(gpt):
    inner, outer = (predict(gpt, "--cluster", "h100-sxm", "--mesh", mesh)[1]["tensor-parallel communication"] for mesh in ["dp=8,tp=2", "tp=2,dp=8"])
    assert inner < outer


def test_recomputed_matmuls_count_as_recomputation(gpt):
    kept, again = (predict(gpt, "--cluster", "h100-sxm", "--mesh", "dp=1", "--recompute", mode)[1] for mode in ["none", "full"])
    assert again["matmuls"] == pytest.approx(kept["matmuls"], rel=0.01)
    assert "recomputation" not in kept
    assert again["recomputation"] > 0.1 * again["matmuls"]


# docs/gpu-checks.md has these measurements. The step of Llama was measured once.
@pytest.mark.parametrize(("name", "seconds"), [("gpt2-124m", 37.8e-3), lanes.full("llama-1.1b", 74.3e-3)])
def test_a_measured_step_of_an_h100(tmp_path, name, seconds, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    from gpu_checks import cases, prepare

    archive = tmp_path / "model.pt2"
    prepare.export_bench(cases.BENCHES[name], archive)
    step, _ = predict(archive, "--cluster", "h100-sxm", "--target", "cuda:sm_90", "--precision", "bf16", "--init", "*=normal(0.02)",
                      "--weights", "none", "--optimizer", "adamw(lr=3e-4,weight_decay=0.01)")  # fmt: skip
    assert step == pytest.approx(seconds, rel=0.08)


@pytest.mark.parametrize(("cluster", "words"), [
    ("h100", "unknown cluster \"h100\"; the presets are 'a100-40g', 'a100-80g'"), ("a100-80g:none", '"none" is not a number of ranks'),
    ("missing.json", "missing.json cannot be read"),
])  # fmt: skip
def test_the_error_names_the_cause(gpt, cluster, words):
    done = plan(gpt, "--cluster", cluster)
    assert words in done.stderr
    assert done.returncode == 2
