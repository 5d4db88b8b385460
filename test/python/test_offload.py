"""--offload keeps unused tensors in host memory. Results do not change by a bit, and the device needs less memory."""
import json
import os
import random
import re
import subprocess

import lanes
import models
import oracle
import pytest
import replay
import torch
from conftest import tools_folder
from safetensors.torch import load_file, save_file

pytestmark = pytest.mark.usefixtures("one_thread")

STEPS = 4
ADAM = ("--micro-batches", "2", "--optimizer", "adamw(lr=1e-2,betas=(0.9,0.95),eps=1e-8,weight_decay=0.1)", "--clip-norm", "1.0")
PLANS = {
    "whole": ("dp=1", ()), "averages": ("dp=1", ("--ema", "0.9")), "bf16": ("dp=1", ("--precision", "bf16")),
    "zero 1": ("dp=2", ("--zero", "1", "--precision", "bf16")), "zero 2": ("dp=2", ("--zero", "2")), "zero 3": ("dp=2", ("--zero", "3")),
    "1f1b": ("pp=2", ("--schedule", "1f1b", "--recompute", "full")), "dp and tp": ("dp=2,tp=2", ()), "gpipe": ("pp=2", ("--schedule", "gpipe")),
    "zb-h1": ("pp=2", ("--schedule", "zb-h1")), "blocks": ("dp=1", ("--recompute", "full")),
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Returns (a folder with a model and its batches, a function that compiles a plan with or without --offload)."""
    folder = tmp_path_factory.mktemp("offload")
    model = models.gpt2(dropout=0.1, layers=4, batch=8)  # activations need more memory than the update
    archive = model.export(folder / "model.pt2")
    save_file({n: v.contiguous() for n, v in oracle.draw_batches(model, 2, STEPS).items()}, folder / "data.safetensors")
    known = {}

    def compile_plan(plan, what, *flags):
        """Compiles a plan. `what` is the value of --offload; True means optimizer, False means no flag."""
        key = (plan, what, *flags)
        if key not in known:
            mesh, own = PLANS[plan]
            what = ("--offload", "optimizer" if what is True else what) if what else ()
            known[key] = oracle.compile_model(folder, archive, mesh, *ADAM, *own, *what, *flags, out=f"program{len(known)}")
        return known[key]

    return folder, compile_plan


def train(folder, program, *flags):
    """Trains with a program. Returns (losses, weights and averages, output)."""
    (folder / "losses.txt").unlink(missing_ok=True)  # a resumed run would append to it
    said = oracle.run([program, "--data", "data.safetensors", "--seed", "5", "--quiet", "--losses", "losses.txt", "--export-weights",
                       "weights.safetensors", *flags], folder)  # fmt: skip
    weights = load_file(folder / "weights.safetensors")
    if (folder / "weights.ema.safetensors").exists():
        weights |= {f"ema.{n}": v for n, v in load_file(folder / "weights.ema.safetensors").items()}
        (folder / "weights.ema.safetensors").unlink()
    return oracle.read_losses(folder / "losses.txt"), weights, said


def assert_same(one, other):
    assert one[0] == other[0] and one[1].keys() == other[1].keys()
    assert all(torch.equal(one[1][name], other[1][name]) for name in one[1])


@pytest.mark.part(2)
@pytest.mark.parametrize("plan", lanes.some(PLANS, ["averages", "zero 1", "zero 3", "1f1b"]))
def test_every_bit_is_the_same(made, plan):
    folder, compile_plan = made
    plain = train(folder, compile_plan(plan, False), "--steps", STEPS)
    assert_same(train(folder, compile_plan(plan, True), "--steps", STEPS), plain)


@pytest.mark.part(2)
@pytest.mark.parametrize("plan", lanes.some(["whole", "bf16", "zero 3", "gpipe", "1f1b", "zb-h1", "dp and tp"], ["bf16", "gpipe", "zb-h1", "dp and tp"]))
def test_every_bit_is_the_same_with_activations(made, plan):
    folder, compile_plan = made
    plain = train(folder, compile_plan(plan, False), "--steps", STEPS)
    program = compile_plan(plan, "activations=all,optimizer")
    assert sum(len(moves) for moves in list_stashes(table_of(program))) > 0
    assert_same(train(folder, program, "--steps", STEPS, "--check-memory"), plain)


def test_equals_pytorch(tmp_path, exports):
    model = oracle.zoo("gpt2")
    batches = oracle.draw_batches(model, 2)
    ours = oracle.train_compiled(tmp_path, oracle.export("gpt2", exports), batches, "dp=1", 2, oracle.OPTIMIZERS["adamw"][0], ("--offload", "optimizer"))
    theirs = oracle.train_in_torch(model, batches, oracle.OPTIMIZERS["adamw"][1], micro_batches=2)
    assert all(abs(a - b) <= oracle.LOSS_TOLERANCE * abs(b) for a, b in zip(ours.losses, theirs.losses, strict=True))


# ---- sizes of memory ---------------------------------------------------------------------------------------------------


def table_of(program):
    """Returns the table of a program, as JSON."""
    text = program.read_bytes()
    start = text.index(b'{"version":1,"parashard"')
    return json.JSONDecoder().raw_decode(text[start:].decode("latin-1"))[0]


@pytest.mark.parametrize("plan", ["whole", "bf16", "zero 3"])
def test_the_device_needs_less_by_the_variables_in_the_host(made, plan):
    """The device needs less memory, by at least 95 % of the bytes in host memory. The rest are buffers of running copies."""
    _, compile_plan = made
    plain, ours = table_of(compile_plan(plan, False)), table_of(compile_plan(plan, True))
    in_host = [v for v in ours["variables"] if v["address"] >= ours["host_base"]]
    assert sum(-(-v["bytes"] // 64) * 64 for v in in_host) == ours["host_bytes"]
    assert {v["kind"] for v in in_host} == ({"optimizer", "parameter"} if plan == "bf16" else {"optimizer"})
    # Copies that wait for their use are not part of the peak, since the peak is not in the update.
    assert plain["arena_bytes"] - ours["arena_bytes"] >= 0.95 * ours["host_bytes"]


def list_stashes(table):
    """Returns, for each step program, the offload instructions before the update."""
    found = []
    for program in table["programs"]:
        if program["name"] == "step":
            found.append([op for op in program["code"][: program["update_from"]] if op.get("op") == "offload"])
    return found


@pytest.mark.parametrize("plan,least", [("whole", 0.3), ("gpipe", 0.3)])
def test_the_device_needs_less_by_the_activations_in_the_host(made, plan, least):
    """Offloaded activations reduce the device memory without variables by at least the fraction `least`. Host memory grows by at least as much."""
    _, compile_plan = made
    plain, ours = table_of(compile_plan(plan, False)), table_of(compile_plan(plan, "activations=all"))
    coordinates = 2 if plan == "gpipe" else 1
    for pp in range(coordinates):
        def at(value):
            return value[pp] if isinstance(value, list) else value

        variables = sum(-(-v["bytes"] // 64) * 64 for v in plain["variables"] if at(v["address"]) is not None)
        before, after, host = at(plain["arena_bytes"]) - variables, at(ours["arena_bytes"]) - variables, at(ours["host_bytes"])
        print(f"{plan} {pp}: {before} -> {after}, {host} in the host's memory")
        assert after <= (1 - least) * before and host >= before - after
        stashes = list_stashes(ours)[pp]
        assert all(size > 0 for op in stashes for size in op["sizes"])


def test_copies_that_cannot_be_hidden_are_not_offloaded(made):
    """In a small model, the computation is too short to hide copies of activations."""
    folder, _ = made
    said = subprocess.run([tools_folder() / "ps-compile", folder / "model.pt2", "-o", "hidden", "--offload", "activations", "--target", "cuda:replay"],
                          cwd=folder, capture_output=True, text=True)  # fmt: skip
    assert said.returncode == 0 and "--offload activations changes nothing" in said.stderr and "activations=all" in said.stderr


@pytest.mark.part(3)
@pytest.mark.parametrize("plan", ["averages", "bf16", "1f1b"])
def test_used_memory_equals_the_plan(made, plan):
    folder, compile_plan = made
    plain = train(folder, compile_plan(plan, True), "--steps", 2)
    checked = train(folder, compile_plan(plan, True), "--steps", 2, "--check-memory")
    assert_same(checked, plain)
    found = re.findall(r"^memory.*: (\d+) bytes planned, (\d+) measured; host: (\d+) planned, (\d+) measured$", checked[2], re.M)
    assert len(found) == (2 if plan == "1f1b" else 1), checked[2]
    assert all(one[0] == one[1] and one[2] == one[3] for one in found), found


def test_info_and_explain_report_host_memory(made, exports):
    folder, compile_plan = made
    said = oracle.run([compile_plan("whole", True), "--info"], folder)
    table = table_of(compile_plan("whole", True))
    assert re.search(r"^host memory .* per rank, including:\n  optimizer ", said, re.M), said
    assert table["host_bytes"] > 0
    explained = subprocess.run([tools_folder() / "ps-compile", oracle.export("gpt2", exports), "--no-codegen", "--explain", "--offload", "optimizer"],
                               capture_output=True, text=True, check=True, cwd=folder).stdout  # fmt: skip
    assert "host memory per rank: " in explained


# ---- with other features -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("first,second", [(True, False), (False, True)], ids=["to plain", "from plain"])
def test_checkpoints_load_with_and_without_offload(made, first, second):
    folder, compile_plan = made
    unbroken = train(folder, compile_plan("averages", False), "--steps", STEPS)
    saved = f"saved-{first}"
    train(folder, compile_plan("averages", first), "--steps", 2, "--save", saved)
    losses, weights, _ = train(folder, compile_plan("averages", second), "--steps", STEPS, "--load", saved)
    assert_same((unbroken[0][2:], unbroken[1]), (losses, weights))


def test_averages_are_evaluated(made):
    folder, compile_plan = made
    figures = []
    for offloads in [False, True]:
        said = oracle.run([compile_plan("averages", offloads), "--data", "data.safetensors", "--steps", STEPS, "--eval-data", "data.safetensors"], folder)
        figures.append(re.findall(r"eval loss ([\d.]+)", said))
    assert figures[0] and figures[0] == figures[1]


def test_the_evaluator_agrees(made):
    """In ps-run, level 4 with fetches and stashes gives the same results as without."""
    folder, _ = made
    found = []
    for name, flags in {"plain": (), "offloaded": ("--offload", "activations=all,optimizer")}.items():
        module = folder / f"{name}.mlir"
        oracle.run([tools_folder() / "ps-compile", folder / "model.pt2", "-o", module, "--stop-after", "scheduled", *ADAM, *flags], folder)
        oracle.run([tools_folder() / "ps-run", module, "--entry", "step", "--micro-batches", 2, "--steps", 2, "--inputs", "data.safetensors",
                    "--outputs", f"{name}.safetensors"], folder)  # fmt: skip
        found.append(load_file(folder / f"{name}.safetensors"))
    assert found[0].keys() == found[1].keys() and all(torch.equal(found[0][n], found[1][n]) for n in found[0])
    text = (folder / "offloaded.mlir").read_text()
    assert "rank.fetch" in text and "rank.unstash" in text


# ---- errors and flags without effect ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags,words", [
    (("--optimizer", "sgd(lr=0.1)"), ["--offload optimizer changes nothing", "used by the update alone"]),
    (("--inference",), ["--offload has no effect", "--inference"]),
], ids=["no state", "inference"])  # fmt: skip
def test_nothing_to_offload(tmp_path, exports, flags, words):
    done = subprocess.run([tools_folder() / "ps-compile", oracle.export("mlp", exports), "-o", "program", "--offload", "optimizer", *flags],
                          cwd=tmp_path, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0 and all(word in done.stderr for word in words), done.stderr


@pytest.mark.parametrize("what,words", [("state", "takes none"), ("activations,", "takes none"), ("optimizer,optimizer", "twice"),
                                        ("activations,activations=all", "twice")])
def test_unknown_choices_are_refused(tmp_path, exports, what, words):
    done = subprocess.run([tools_folder() / "ps-compile", oracle.export("mlp", exports), "-o", "program", "--offload", what],
                          cwd=tmp_path, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 2 and "--offload" in done.stderr and words in done.stderr
    assert not (tmp_path / "program").exists()


# ---- on a fake GPU -------------------------------------------------------------------------------------------


@pytest.fixture
def fake(monkeypatch):
    for name, value in replay.environment().items():
        monkeypatch.setenv(name, value)


@pytest.mark.part(3)
@pytest.mark.cover(1)
@pytest.mark.parametrize("graphs", ["0", "1"])
@pytest.mark.parametrize("plan,what", [("averages", "optimizer"), ("bf16", "optimizer"), ("1f1b", "optimizer"), ("whole", "activations=all"),
                                       ("zb-h1", "activations=all,optimizer")])  # fmt: skip
def test_gpus_keep_every_bit(made, fake, monkeypatch, plan, what, graphs):
    folder, compile_plan = made
    monkeypatch.setenv("PSRT_CUDA_GRAPHS", graphs)
    target = ("--target", "cuda:replay")
    plain = train(folder, compile_plan(plan, False, *target), "--steps", STEPS)
    assert_same(train(folder, compile_plan(plan, what, *target), "--steps", STEPS), plain)


@pytest.mark.part(2)
@pytest.mark.parametrize("what", ["optimizer", "activations=all"])
def test_a_missing_wait_for_a_copy_is_detected(made, fake, what):
    """Omits waits one at a time. The fake driver must detect at least half of the omitted waits."""
    folder, compile_plan = made
    program = compile_plan("whole", what, "--target", "cuda:replay")

    def run(number, **more):
        done = subprocess.run([program, "--data", "data.safetensors", "--steps", "2", "--quiet"], cwd=folder, capture_output=True, text=True,
                              timeout=120, env={**os.environ, "PSRT_FAKE_DROP": str(number), **more})  # fmt: skip
        return done.returncode, done.stderr

    log = folder / f"{what}.log"  # the fake driver appends to the log
    assert run(0, PSRT_FAKE_LOG=str(log)) == (0, "")
    waits = len(re.findall(r": wait \d+$", log.read_text(), re.M))
    noticed = 0
    for number in random.Random(0).sample(range(1, waits + 1), min(20, waits)):
        status, said = run(number)
        assert status == (3 if said else 0)
        assert not said or "no order between" in said
        noticed += status == 3
    print(f"{noticed} omitted waits detected; the program has {waits}")
    assert noticed >= min(20, waits) // 2


def test_checkpoints_go_between_devices(made, fake):
    folder, compile_plan = made
    gpu = compile_plan("whole", True, "--target", "cuda:replay")
    unbroken = train(folder, gpu, "--steps", STEPS)
    train(folder, gpu, "--steps", 2, "--save", "from-gpu")
    assert_same((unbroken[0][2:], unbroken[1]), train(folder, gpu, "--steps", STEPS, "--load", "from-gpu"))
    train(folder, compile_plan("whole", False), "--steps", STEPS, "--load", "from-gpu")
