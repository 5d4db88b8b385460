"""--check-memory: all accesses match the memory plan, and the program uses exactly the planned bytes."""
import json
import re

import models
import oracle
import processes
import pytest
import torch
import vision
from safetensors.torch import load_file, save_file

pytestmark = pytest.mark.usefixtures("one_thread")

STEPS = 3
FLAGS = ("--micro-batches", "2", "--optimizer", "adamw(lr=1e-3,betas=(0.9,0.95),eps=1e-8,weight_decay=0.1)", "--clip-norm", "1.0")
MODELS = {"gpt2": lambda: models.gpt2(dropout=0.1), "llama": models.llama, "resnet": vision.resnet}
PLANS = {
    "whole": ("dp=1", ()), "1f1b": ("pp=2", ("--schedule", "1f1b")), "recompute": ("dp=1", ("--recompute", "full")),
    "zero 3": ("dp=2", ("--zero", "3")), "dp and tp": ("dp=2,tp=2", ()),
}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder per model, with its archive and batches."""
    folders = {}
    for name, make in MODELS.items():
        model, folders[name] = make(), tmp_path_factory.mktemp(name)
        model.export(folders[name] / "model.pt2")
        batches = oracle.draw_batches(model, 2, STEPS)
        save_file({n: v.contiguous() for n, v in batches.items()}, folders[name] / "data.safetensors")
    return folders


def train(folder, program, name, *flags, launcher=(), environment=None):
    """Trains with a program. Returns losses, weights and output."""
    line = [*launcher, program, "--data", folder / "data.safetensors", "--steps", STEPS, "--eval-data", folder / "data.safetensors",
            "--quiet", "--losses", f"{name}.txt", "--export-weights", f"{name}.safetensors", *flags]  # fmt: skip
    status, said = processes.finish(processes.start(line, folder, environment))
    assert status == 0, said
    return oracle.read_losses(folder / f"{name}.txt"), load_file(folder / f"{name}.safetensors"), said


def check_all_is_used(said, coordinates=1):
    found = re.findall(r"^memory.*: (\d+) bytes planned, (\d+) measured$", said, re.M)
    assert len(found) == coordinates and all(planned == measured for planned, measured in found), said


@pytest.mark.part(2)
@pytest.mark.cover(1)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("model", MODELS)
def test_used_memory_equals_the_plan(data, model, plan):
    folder, (mesh, flags) = data[model], PLANS[plan]
    program = oracle.compile_model(folder, folder / "model.pt2", mesh, *FLAGS, *flags, out=plan.replace(" ", "-"))
    losses, weights, _ = train(folder, program, "plain")
    found, after, said = train(folder, program, "checked", "--check-memory")
    assert found == losses and weights.keys() == after.keys()
    assert all(torch.equal(after[name], weights[name]) for name in weights)
    check_all_is_used(said, 2 if mesh == "pp=2" else 1)


@pytest.mark.parametrize("plan", ["1f1b", "zero 3"])
def test_used_memory_equals_the_plan_in_processes(data, plan):
    """With processes, messages and collectives arrive while other instructions run."""
    folder, (mesh, flags) = data["gpt2"], PLANS[plan]
    program = oracle.compile_model(folder, folder / "model.pt2", mesh, *FLAGS, *flags, out="processes")
    launcher, environment = processes.launch("mpirun", 2)
    losses, weights, _ = train(folder, program, "plain")
    found, after, said = train(folder, program, "checked", "--check-memory", launcher=launcher, environment=environment)
    assert found == losses and all(torch.equal(after[name], weights[name]) for name in weights)
    check_all_is_used(said, 2 if mesh == "pp=2" else 1)


def test_a_lifetime_that_ends_too_early_is_found(data):
    """Changes the list of buffers in the program's table, so that the lifetime of one value ends before its last use."""
    folder = data["gpt2"]
    program = oracle.compile_model(folder, folder / "model.pt2", "dp=1", *FLAGS, out="early")
    text = program.read_bytes()
    start = text.index(b'"buffers":[[', text.index(b'"programs":['))
    buffers = json.JSONDecoder().raw_decode(text[start + len('"buffers":') :].decode(errors="ignore"))[0]
    wrong = next(list(b) for b in buffers if 0 <= b[2] < b[3] < 20 and len(str(b[3])) == len(str(b[2])))
    right = json.dumps(wrong, separators=(",", ":")).encode()
    wrong[3] = wrong[2]
    program.write_bytes(text.replace(right, json.dumps(wrong, separators=(",", ":")).encode()))
    line = [program, "--data", folder / "data.safetensors", "--steps", 1, "--quiet", "--check-memory"]
    said = oracle.run(line, folder, expect=3)
    assert re.search(rf"error: .* uses arena address {wrong[0]}: there is no buffer at this time", said), said
