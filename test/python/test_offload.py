"""--offload: what is not used for long lies in the host's memory; every bit stays, and the device has that much less."""
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
    """A folder with a model, its batches, and a function that compiles a plan with and without the flag."""
    folder = tmp_path_factory.mktemp("offload")
    model = models.gpt2(dropout=0.1, layers=4, batch=8)  # activations are more than what the update holds
    archive = model.export(folder / "model.pt2")
    save_file({n: v.contiguous() for n, v in oracle.draw_batches(model, 2, STEPS).items()}, folder / "data.safetensors")
    known = {}

    def compile_plan(plan, what, *flags):
        """`what`: to offload; True for the optimizer."""
        key = (plan, what, *flags)
        if key not in known:
            mesh, own = PLANS[plan]
            what = ("--offload", "optimizer" if what is True else what) if what else ()
            known[key] = oracle.compile_model(folder, archive, mesh, *ADAM, *own, *what, *flags, out=f"program{len(known)}")
        return known[key]

    return folder, compile_plan


def train(folder, program, *flags):
    """Losses, weights (and averages), and what was said."""
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


@pytest.mark.parametrize("plan", lanes.some(PLANS, ["averages", "zero 1", "zero 3", "1f1b", "dp and tp", "zb-h1"]))
def test_every_bit_stays(made, plan):
    folder, compile_plan = made
    plain = train(folder, compile_plan(plan, False), "--steps", STEPS)
    assert_same(train(folder, compile_plan(plan, True), "--steps", STEPS), plain)


@pytest.mark.parametrize("plan", ["whole", "bf16", "zero 3", "gpipe", "1f1b", "zb-h1", "dp and tp"])
def test_every_bit_stays_with_activations(made, plan):
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


# ---- the account ---------------------------------------------------------------------------------------------------


def table_of(program):
    """The table that a program carries."""
    text = program.read_bytes()
    start = text.index(b'{"version":1,"parashard"')
    return json.JSONDecoder().raw_decode(text[start:].decode("latin-1"))[0]


@pytest.mark.parametrize("plan", ["whole", "bf16", "zero 3"])
def test_the_device_has_less_by_what_the_host_has(made, plan):
    """Less what is on its way: three pieces of an eighth, and no less than the largest variables."""
    _, compile_plan = made
    plain, ours = table_of(compile_plan(plan, False)), table_of(compile_plan(plan, True))
    in_host = [v for v in ours["variables"] if v["address"] >= ours["host_base"]]
    assert sum(-(-v["bytes"] // 64) * 64 for v in in_host) == ours["host_bytes"]
    assert {v["kind"] for v in in_host} == ({"optimizer", "parameter"} if plan == "bf16" else {"optimizer"})
    # What waits for its use at the fullest moment is in neither: the update is not that moment.
    assert plain["arena_bytes"] - ours["arena_bytes"] >= 0.95 * ours["host_bytes"]


def list_stashes(table):
    """Of each program of a step: the ends of the copies to the host's memory that stand in front of the update."""
    found = []
    for program in table["programs"]:
        if program["name"] == "step":
            found.append([op for op in program["code"][: program["update_from"]] if op.get("op") == "offload"])
    return found


@pytest.mark.parametrize("plan,least", [("whole", 0.3), ("gpipe", 0.3)])
def test_the_device_has_less_by_what_waits_in_the_host(made, plan, least):
    """Of what the device has beside its variables, which stay, by `least` less; the host has what is stashed at once."""
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


def test_what_is_not_hidden_stays(made):
    """A model this small computes too little beside its copies."""
    folder, _ = made
    said = subprocess.run([tools_folder() / "ps-compile", folder / "model.pt2", "-o", "hidden", "--offload", "activations", "--target", "cuda:replay"],
                          cwd=folder, capture_output=True, text=True)  # fmt: skip
    assert said.returncode == 0 and "--offload activations changes nothing" in said.stderr and "activations=all" in said.stderr


@pytest.mark.parametrize("plan", ["averages", "bf16", "1f1b"])
def test_the_plan_is_what_is_used(made, plan):
    folder, compile_plan = made
    plain = train(folder, compile_plan(plan, True), "--steps", 2)
    checked = train(folder, compile_plan(plan, True), "--steps", 2, "--check-memory")
    assert_same(checked, plain)
    found = re.findall(r"^memory.*: (\d+) bytes planned, (\d+) measured; host: (\d+) planned, (\d+) measured$", checked[2], re.M)
    assert len(found) == (2 if plan == "1f1b" else 1), checked[2]
    assert all(one[0] == one[1] and one[2] == one[3] for one in found), found


def test_info_and_explain_tell_both(made, exports):
    folder, compile_plan = made
    said = oracle.run([compile_plan("whole", True), "--info"], folder)
    table = table_of(compile_plan("whole", True))
    assert re.search(r"^host memory .* per rank, including:\n  optimizer ", said, re.M), said
    assert table["host_bytes"] > 0
    explained = subprocess.run([tools_folder() / "ps-compile", oracle.export("gpt2", exports), "--no-codegen", "--explain", "--offload", "optimizer"],
                               capture_output=True, text=True, check=True, cwd=folder).stdout  # fmt: skip
    assert "host memory per rank: " in explained


# ---- beside other features -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("first,second", [(True, False), (False, True)], ids=["to plain", "from plain"])
def test_checkpoints_fit_both(made, first, second):
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


def test_the_evaluator_means_the_same(made):
    """What level 4 says with fetches is what it says without."""
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


# ---- where nothing can be ------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("what", ["optimizer", "activations=all"])
def test_a_copy_that_is_not_waited_for_is_noticed(made, fake, what):
    """Of the waits that order copies: by name in the log, each left out once."""
    folder, compile_plan = made
    program = compile_plan("whole", what, "--target", "cuda:replay")

    def run(number, **more):
        done = subprocess.run([program, "--data", "data.safetensors", "--steps", "2", "--quiet"], cwd=folder, capture_output=True, text=True,
                              timeout=120, env={**os.environ, "PSRT_FAKE_DROP": str(number), **more})  # fmt: skip
        return done.returncode, done.stderr

    log = folder / f"{what}.log"  # is added to
    assert run(0, PSRT_FAKE_LOG=str(log)) == (0, "")
    waits = len(re.findall(r": wait \d+$", log.read_text(), re.M))
    noticed = 0
    for number in random.Random(0).sample(range(1, waits + 1), min(20, waits)):
        status, said = run(number)
        assert status == (3 if said else 0)
        assert not said or "no order between" in said
        noticed += status == 3
    print(f"{noticed} noticed, of {waits} waits")
    assert noticed >= min(20, waits) // 2


def test_checkpoints_go_between_devices(made, fake):
    folder, compile_plan = made
    gpu = compile_plan("whole", True, "--target", "cuda:replay")
    unbroken = train(folder, gpu, "--steps", STEPS)
    train(folder, gpu, "--steps", 2, "--save", "from-gpu")
    assert_same((unbroken[0][2:], unbroken[1]), train(folder, gpu, "--steps", STEPS, "--load", "from-gpu"))
    train(folder, compile_plan("whole", False), "--steps", STEPS, "--load", "from-gpu")
