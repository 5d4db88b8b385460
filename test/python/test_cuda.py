"""Training with the CUDA runtime equals PyTorch. Runs without a GPU, on a fake driver.

The bodies of the kernels, from which PTX is generated, are compiled for this CPU instead. The fake driver runs streams as threads. It fails
if two accesses to the same memory are not ordered by streams and events.
"""
import json
import os
import pathlib
import random
import re
import subprocess

import cases
import lanes
import oracle
import pytest
import replay
import torch
from safetensors.torch import save_file

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    for name, value in replay.environment().items():
        monkeypatch.setenv(name, value)


@pytest.mark.part(2)
@pytest.mark.parametrize("case", lanes.cover(cases.CUDA, strength=1))
def test_equals_pytorch(tmp_path, exports, case):
    comparison = oracle.check_case(tmp_path, exports, case)
    print(comparison)
    assert comparison.failures() == []


@pytest.mark.part(3)
@pytest.mark.parametrize("model,precision", [("gpt", "bf16"), ("llama", "bf16"), ("gpt", "fp16"), ("gpt", "half"), ("gpt_dropout", "fp32"), ("gpt", "fp8")])
def test_equals_the_cpu(tmp_path, exports, model, precision):
    """Losses with 16-bit types and dropout equal the losses of the CPU target, up to a few roundings."""
    found = {}
    for target in ["cpu", "cuda:replay"]:
        folder = tmp_path / target.replace(":", "-")
        folder.mkdir()
        batches = oracle.draw_batches(oracle.zoo(model), 2)
        found[target] = oracle.train_compiled(folder, oracle.export(model, exports), batches, "dp=1", 2, "adamw(lr=1e-3)",
                                              ("--precision", precision, "--target", target))  # fmt: skip
    tolerance = {"fp32": 1e-6, "half": 1e-2}.get(precision, 2e-3)
    for ours, cpu in zip(found["cuda:replay"].losses, found["cpu"].losses, strict=True):
        assert abs(ours - cpu) <= tolerance * abs(cpu)


def run_without_wait(program, data, number, **environment):
    """Runs a program and omits the wait with this number. Returns (exit status, stderr)."""
    done = subprocess.run([program, "--data", data, "--steps", "2", "--quiet"], cwd=program.parent, capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PSRT_FAKE_DROP": str(number), **environment})  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.part(2)
@pytest.mark.parametrize("mesh,flags", [lanes.full("dp=2", ()), lanes.full("tp=2", ()), ("dp=2", ("--zero", "3")),
                                        lanes.full("pp=2", ("--schedule", "1f1b")), ("pp=2", ("--schedule", "zb-h1"))],
                         ids=["dp", "tp", "zero3", "1f1b", "zb-h1"])  # fmt: skip
def test_a_wait_that_is_left_out_is_noticed(tmp_path, exports, mesh, flags):
    """Omits waits one at a time, in random order, until the fake driver has detected five of them.

    Not every wait is needed, since another wait may guard the same data. Example: with ZeRO 3, about one in six of 5,080 waits is needed.
    """
    model = oracle.zoo("gpt2_deep")
    program = oracle.compile_model(tmp_path, oracle.export("gpt2_deep", exports), mesh, "--micro-batches", 2, "--optimizer", "adamw",
                                   "--target", "cuda:replay", *flags)  # fmt: skip
    data = tmp_path / "data.safetensors"
    save_file({name: value.contiguous() for name, value in oracle.draw_batches(model, 2).items()}, data)
    assert run_without_wait(program, data, 0, PSRT_FAKE_LOG=str(tmp_path / "log")) == (0, "")
    waits = len(re.findall(r": wait \d+$", (tmp_path / "log").read_text(), re.M))
    noticed = tried = 0
    for number in random.Random(0).sample(range(1, waits + 1), min(200, waits)):
        status, said = run_without_wait(program, data, number)
        assert status == (3 if said else 0)
        assert not said or "no order between" in said
        tried += 1
        noticed += status == 3
        if noticed == 5:
            break
    assert noticed == 5, f"{noticed} of {tried} omitted waits were detected; the program has {waits}"


# ---- errors that a user may see ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compiled(tmp_path_factory, exports):
    """A folder with programs for a GPU and for the fake driver, and their data."""
    folder = tmp_path_factory.mktemp("compiled")
    for name, target in {"program": "cuda:sm_90", "replayed": "cuda:replay"}.items():
        oracle.compile_model(folder, oracle.export("mlp", exports), "dp=1", "--optimizer", "sgd(lr=0.1)", "--target", target, out=name)
    batches = oracle.draw_batches(oracle.zoo("mlp"), 1)
    save_file({name: value.contiguous() for name, value in batches.items()}, folder / "data.safetensors")
    return folder


@pytest.mark.parametrize("program,environment,words", [
    ("program", {"PSRT_CUDA_DRIVER": ""}, ["no CUDA driver", "--target cpu"]),
    ("program", {"PSRT_CUDA_DRIVER": "/nowhere/libcuda.so"}, ["/nowhere/libcuda.so"]),
    ("program", {}, ["fake", "sm_90", "--target cuda:replay"]),
    ("replayed", {"PSRT_FAKE_DEVICES": "0"}, ["GPU"]),
    ("replayed", {"PSRT_FAKE_MEMORY": "100000"}, ["GPU 0", "needs", "free"]),
], ids=["no driver", "another path", "another architecture", "no GPU", "little memory"])  # fmt: skip
def test_machines_that_cannot_run_a_gpu_program(compiled, program, environment, words):
    done = subprocess.run([compiled / program, "--data", "data.safetensors", "--steps", "1", "--losses", "losses"], cwd=compiled, capture_output=True,
                          text=True, timeout=60, env={**os.environ, **environment})  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert done.stderr.startswith("error: ")
    assert all(word in done.stderr for word in words), done.stderr
    assert not (compiled / "losses").exists()


STUB = pathlib.Path(os.environ.get("CUDA_PATH", "/usr/local/cuda")) / "lib64/stubs/libcuda.so"


@pytest.mark.skipif(not STUB.exists(), reason=f"there is no {STUB} of a CUDA toolkit")
def test_the_stub_of_a_toolkit_is_not_a_driver(compiled):
    line = [compiled / "program", "--data", "data.safetensors", "--steps", "1"]
    done = subprocess.run(line, cwd=compiled, capture_output=True, text=True, timeout=60, env={**os.environ, "PSRT_CUDA_DRIVER": str(STUB)})
    assert done.returncode == 3, done.stderr
    assert re.fullmatch(r"error: no CUDA driver on this machine \(.* is the toolkit's stub\): .*--target cpu\n", done.stderr), done.stderr


@pytest.mark.parametrize("variable", ["PSRT_ALGORITHM_TIMING", "PSRT_CUDA_GRAPHS", "PSRT_TF32"])
def test_a_switch_is_0_or_1(compiled, variable):
    done = subprocess.run([compiled / "replayed", "--data", "data.safetensors", "--steps", "1"], cwd=compiled, capture_output=True, text=True, timeout=60,
                          env={**os.environ, variable: "yes"})  # fmt: skip
    assert done.returncode in (2, 3) and f'{variable} is "yes"; expected 0 or 1' in done.stderr, done.stderr


def test_info_needs_no_gpu(compiled):
    said = oracle.run([compiled / "program", "--info"], compiled)
    assert "parameters" in said


@pytest.mark.parametrize("target", ["cuda:sm_70", "cuda:sm_1", "cuda:sm_199", "cuda:sm_90a", "cuda:", "cuda:hopper", "cuda", "gpu"])
def test_unknown_targets(tmp_path, exports, target):
    archive = oracle.export("mlp", exports)
    done = subprocess.run([oracle.tools_folder() / "ps-compile", archive, "-o", tmp_path / "program", "--target", target], capture_output=True, text=True)
    assert done.returncode in (1, 2)
    assert "--target" in done.stderr and "sm_" in done.stderr and "recognized processor" not in done.stderr
    assert not (tmp_path / "program").exists()


# ---- other parts of a run ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory, exports):
    """A folder with programs for the CPU, for a GPU, and for two ranks that share a GPU, and their data."""
    folder = tmp_path_factory.mktemp("runs")
    for name, flags in {"cpu": ("--mesh", "dp=1"), "gpu": ("--mesh", "dp=1", "--target", "cuda:replay", "--check"),
                        "ranks": ("--mesh", "dp=2", "--zero", "2", "--target", "cuda:replay", "--check")}.items():
        oracle.run([oracle.tools_folder() / "ps-compile", oracle.export("gpt_dropout", exports), "-o", folder / name, "--micro-batches", "2",
                    "--optimizer", "adamw", "--ema", "0.9", *flags], folder)
    batches = oracle.draw_batches(oracle.zoo("gpt_dropout"), 2, steps=8)
    save_file({name: value.contiguous() for name, value in batches.items()}, folder / "data.safetensors")
    return folder


def losses_of(runs, program, *flags):
    (runs / "losses").unlink(missing_ok=True)  # a resumed run would append to it
    oracle.run([runs / program, "--data", "data.safetensors", "--quiet", "--losses", "losses", *flags], runs)
    return (runs / "losses").read_text().split()


def test_checkpoints_go_between_devices(runs):
    """A resumed run has the same bits on the device that saved the checkpoint, and equal losses up to a few roundings on other devices."""
    unbroken = losses_of(runs, "gpu", "--steps", "8")
    assert losses_of(runs, "gpu", "--steps", "4", "--save", "saved") == unbroken[:4]
    assert losses_of(runs, "gpu", "--steps", "8", "--load", "saved") == unbroken[4:]
    for program in ["cpu", "ranks"]:
        for ours, theirs in zip(losses_of(runs, program, "--steps", "8", "--load", "saved"), unbroken[4:], strict=True):
            assert abs(float(ours) - float(theirs)) <= 1e-5 * float(theirs)
    losses_of(runs, "cpu", "--steps", "5", "--load", "saved", "--save", "fifth")
    losses_of(runs, "cpu", "--steps", "5", "--save", "fifth", "--load", "fifth")
    evaluated = {program: oracle.run([runs / program, "--data", "data.safetensors", "--eval", "--load", "fifth"], runs) for program in ["cpu", "gpu", "ranks"]}
    figures = [float(re.search(r"eval loss ([\d.]+)", said)[1]) for said in evaluated.values()]
    assert max(figures) - min(figures) <= 1e-6 * figures[0]


@pytest.mark.parametrize("program", ["gpu", "ranks"])
def test_check_compares_with_one_rank(runs, program):
    said = oracle.run([runs / program, "--data", "data.safetensors", "--check"], runs)
    assert "worst" in said or "equal" in said, said


def test_a_trace_has_times(runs):
    losses_of(runs, "gpu", "--steps", "2", "--trace", "trace.json")
    events = json.loads((runs / "trace.json").read_text())["traceEvents"]
    timed = [event for event in events if event["ph"] == "X"]
    assert {"kernel", "matmul", "attention"} <= {event["cat"] for event in timed}
    assert all(event["dur"] >= 0 for event in timed)
    assert all(event["args"]["bytes"] > 0 for event in timed if event["cat"] == "kernel")


def test_check_memory_is_refused_on_gpus(runs):
    done = subprocess.run([runs / "gpu", "--data", "data.safetensors", "--steps", "1", "--check-memory"], cwd=runs, capture_output=True, text=True)
    assert done.returncode == 2 and "--check-memory" in done.stderr and "--target cpu" in done.stderr


# ---- biases and bias gradients of matmuls -----------------------------------------------------------------------------------


def split_fused(folder, archive, flags, option):
    """Compiles with and without a fusion option of the pass pipeline. Returns the level 3 file of each compile."""
    oracle.compile_model(folder, archive, "dp=1", *flags, "--dump-dir", folder)
    made = (folder / "3-partitioned.mlir").read_text()
    passes = re.match(r"// passes: (.*)\n", made)[1].replace(f" {option}=true", "")
    oracle.run([oracle.tools_folder() / "ps-opt", f"--pass-pipeline=builtin.module({passes})", "--mlir-print-debuginfo", folder / "2-planned.mlir",
                "-o", folder / "without.mlir"], folder)  # fmt: skip
    return folder / "3-partitioned.mlir", folder / "without.mlir"


def train_level(folder, level, precision):
    folder.mkdir()
    batches = oracle.draw_batches(oracle.zoo("gpt2"), 2)
    return oracle.train_compiled(folder, level, batches, "dp=1", 2, "adamw(lr=1e-3)", ("--target", "cuda:replay", "--precision", precision))


def flags_of(precision):
    return ("--micro-batches", "2", "--optimizer", "adamw(lr=1e-3)", "--target", "cuda:replay", "--precision", precision)


@pytest.mark.part(2)
@pytest.mark.parametrize("precision,tolerance", [("fp32", 1e-6), ("bf16", 2e-3)])
def test_matmuls_add_biases(tmp_path, exports, precision, tolerance):
    """Matmuls that add biases train as separate kernels do, except for one rounding of 16-bit sums."""
    flags = flags_of(precision)
    levels = split_fused(tmp_path, oracle.export("gpt2", exports), flags, "biases")
    losses = [train_level(tmp_path / str(number), level, precision).losses for number, level in enumerate(levels)]
    with_biases, without = [[line for line in path.read_text().splitlines() if " ps.contract " in line] for path in levels]
    biased = [line for line in with_biases if " bias %" in line]
    assert len(with_biases) == len(without)
    assert len(biased) >= 6 and not any(" bias %" in line for line in without)
    for ours, other in zip(*losses, strict=True):
        assert abs(ours - other) <= tolerance * abs(other)


@pytest.mark.part(2)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_matmuls_sum_cotangents(tmp_path, exports, monkeypatch, precision):
    """Matmuls compute bias gradients as separate kernels do: by cuBLASLt's epilogue or, without it, by a matmul with ones."""
    levels = split_fused(tmp_path, oracle.export("gpt2", exports), flags_of(precision), "sums")
    counts = [path.read_text().count(" sums of ") for path in levels]
    assert counts[0] >= 3 and counts[1] == 0
    found = [train_level(tmp_path / str(number), level, precision) for number, level in enumerate(levels)]
    monkeypatch.setenv("PSRT_FAKE_SUMS", "0")
    found.append(train_level(tmp_path / "ones", levels[0], precision))
    for other in found[1:]:
        assert found[0].losses == pytest.approx(other.losses, rel=1e-6)
        for name, gradient in found[0].gradients.items():
            torch.testing.assert_close(gradient, other.gradients[name], rtol=1e-4, atol=1e-6)
