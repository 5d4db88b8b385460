"""Training on a GPU equals PyTorch, without a GPU: the whole of the CUDA runtime on a driver that stands in for NVIDIA's.

Kernels are the bodies that PTX is made of, as code of this machine. The driver's streams are threads; it fails where two accesses to the
same memory are not ordered by streams and events.
"""
import os
import subprocess

import cases
import oracle
import pytest
import replay
from safetensors.torch import save_file

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def standin(monkeypatch):
    for name, value in replay.environment().items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("case", cases.CUDA, ids=str)
def test_equals_pytorch(tmp_path, exports, case):
    comparison = oracle.check_case(tmp_path, exports, case)
    print(comparison)
    assert comparison.failures() == []


@pytest.mark.parametrize("model,precision", [("gpt", "bf16"), ("llama", "bf16"), ("gpt", "fp16"), ("gpt", "half"), ("gpt_dropout", "fp32"), ("gpt", "fp8")])
def test_equals_the_cpu(tmp_path, exports, model, precision):
    """16-bit types, dropout's masks: what the CPU computes, to a few roundings."""
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


def run_without_wait(program, data, number):
    """(exit status, what it says) of a run whose wait with that number is left out."""
    done = subprocess.run([program, "--data", data, "--steps", "2", "--quiet"], cwd=program.parent, capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PSRT_STANDIN_DROP": str(number)})  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize("mesh,flags,first", [
    ("dp=2", (), 1), ("tp=2", (), 1), ("dp=2", ("--zero", "3"), 177), ("pp=2", ("--schedule", "1f1b"), 3), ("pp=2", ("--schedule", "zb-h1"), 3),
], ids=["dp", "tp", "zero3", "1f1b", "zb-h1"])  # fmt: skip
def test_a_wait_that_is_left_out_is_noticed(tmp_path, exports, mesh, flags, first):
    """Ten of the next waits, at least; what a wait guards may be guarded by another as well."""
    model = oracle.zoo("gpt2_deep")
    program = oracle.compile_model(tmp_path, oracle.export("gpt2_deep", exports), mesh, "--micro-batches", 2, "--optimizer", "adamw",
                                   "--target", "cuda:replay", *flags)  # fmt: skip
    data = tmp_path / "data.safetensors"
    save_file({name: value.contiguous() for name, value in oracle.draw_batches(model, 2).items()}, data)
    assert run_without_wait(program, data, 0) == (0, "")
    noticed = 0
    for number in range(first, first + 60):
        status, said = run_without_wait(program, data, number)
        assert status == (3 if said else 0)
        if status:
            assert "no order between" in said
            noticed += 1
        if noticed == 10:
            return
    assert noticed == 10
