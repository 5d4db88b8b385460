"""ps-plan: the plans that it finds compile, train and fit into memory. Its prices agree with those of the compiled programs."""

import itertools
import json
import math
import re
import signal
import subprocess

import lanes
import models
import numpy as np
import oracle
import pytest
from conftest import ROOT, tools_folder
from conftest import run_tool as run

# The dropout of PyTorch has other random numbers.
AUTOMATIC = lanes.some([name for name in oracle.ZOO if name != "gpt_dropout"], ["gpt2", "llama", "resnet"])


@pytest.fixture(scope="module")
def gpt(tmp_path_factory):
    archive = tmp_path_factory.mktemp("gpt") / "gpt.pt2"
    models.gpt_dynamic(layers=4).export(archive)
    return archive


@pytest.fixture(scope="module")
def fixed(tmp_path_factory):
    archive = tmp_path_factory.mktemp("fixed") / "gpt.pt2"
    models.gpt(layers=4, batch=8).export(archive)
    return archive


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A model in which kernels and transfers take more time than launches and latencies."""
    archive = tmp_path_factory.mktemp("large") / "gpt.pt2"
    models.gpt_dynamic(layers=6, width=512, length=256, vocabulary=4096, heads=8).export(archive)
    return archive


def test_a_searched_plan_trains_like_one_rank(gpt, tmp_path):
    plan = tmp_path / "plan.json"
    done = run("ps-plan", gpt, "--cluster", "cpu-mpi:4", "--global-batch", 16, "--mesh", "tp=2", "-o", plan)
    assert done.returncode == 0, done.stderr
    flags = json.loads(plan.read_text())
    assert "tp=2" in flags["mesh"] and flags["batch"] * flags["micro-batches"] == 16
    done = run("ps-compile", gpt, "--plan", plan, "--check", "-o", tmp_path / "program")
    assert done.returncode == 0, done.stderr
    (np.arange(4096, dtype=np.uint16) % 96).tofile(tmp_path / "data.bin")
    command = [tmp_path / "program", "--check", "--ranks", "4", "--data", tmp_path / "data.bin"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.part(3)
@pytest.mark.parametrize("name", AUTOMATIC)
@pytest.mark.usefixtures("one_thread")
def test_an_automatic_plan_equals_pytorch(tmp_path, exports, name):
    # AdamW also moves weights whose gradients are rounding errors, and running statistics depend on these weights.
    optimizer = "sgd" if oracle.zoo(name).has_statistics else "adamw"
    flag, _, tolerance = oracle.OPTIMIZERS[optimizer]
    batches = oracle.draw_batches(oracle.zoo(name), 2)
    samples = len(next(iter(batches.values()))) // oracle.STEPS
    program = tmp_path / "program"
    done = run("ps-compile", oracle.export(name, exports), "--auto", "--ranks", 4, "--cluster", "cpu-mpi", "--global-batch", samples,
               "--optimizer", flag, "-o", program, "--write-plan", tmp_path / "plan.json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "plan.json").read_text())["predicted"]["ranks"] == 4
    assert re.search(r"^\d+ plans? priced in ", done.stdout)
    found = oracle.train_program(tmp_path, program, batches, 4)
    assert oracle.compare(oracle.reference(name, 2, optimizer), found, tolerance).failures() == []


def test_a_predicted_price_equals_that_of_explain(gpt):
    flags = ["--cluster", "h100-sxm", "--mesh", "pp=2,tp=2", "--micro-batches", 4]
    done = run("ps-plan", gpt, "--predict", *flags)
    assert done.returncode == 0, done.stderr
    price = json.loads(done.stdout)
    assert set(price) == {"step_s", "breakdown", "memory_bytes", "mfu", "limits"}
    assert sum(price["breakdown"].values()) == pytest.approx(price["step_s"])
    assert price["breakdown"][price["limits"]] == max(price["breakdown"].values())
    explained = run("ps-compile", gpt, *flags, "--target", "cuda:sm_90", "--explain", "--no-codegen", "--weights", "none").stdout
    number, unit = re.search(r"predicted step on 4 x h100-sxm: ([\d.]+) (us|ms)", explained).groups()
    assert float(number) * {"us": 1e-6, "ms": 1e-3}[unit] == pytest.approx(price["step_s"], rel=0.005)
    assert 0 < price["mfu"] < 1 and price["memory_bytes"] > 0


SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1}
BYTES = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def read_rows(text):
    """Returns (seconds, bytes, estimated seconds, estimated bytes) of each plan that was compiled."""
    rows = re.findall(r"^ +([\d.]+) (us|ms|s) +(\d+) (\w+) +([\d.]+) (us|ms|s), (\d+) (\w+) ", text, re.M)
    return [(float(r[0]) * SECONDS[r[1]], int(r[2]) * BYTES[r[3]], float(r[4]) * SECONDS[r[5]], int(r[6]) * BYTES[r[7]]) for r in rows]


@pytest.mark.part(4)
@pytest.mark.parametrize("constraints", [
    ["--mesh", "dp=4", "--zero", "0"], ["--mesh", "dp=4", "--zero", "1"], ["--mesh", "tp=4"],
    ["--mesh", "dp=8", "--zero", "3", "--micro-batches", "1", "--precision", "bf16"],  # the compute hides a part of the gathers
    ["--mesh", "dp=4", "--zero", "0", "--recompute", "full"], ["--mesh", "dp=2,tp=2", "--recompute", "full"],
    ["--mesh", "pp=2,tp=2", "--schedule", "1f1b"], ["--mesh", "pp=2,dp=2", "--schedule", "zb-h1"],
    ["--mesh", "pp=4", "--schedule", "1f1b", "--micro-batches", "4"], ["--mesh", "pp=2,dp=2", "--schedule", "interleaved"],
    ["--mesh", "pp=4", "--schedule", "1f1b", "--split-method", "blocks.1,blocks.2,blocks.3"],
    ["--mesh", "dp=4", "--keep-outputs", "all", "--zero", "0"],
], ids=lambda constraints: "-".join(constraints[1::2]))  # fmt: skip
def test_estimates_agree_with_programs(large, constraints):
    ranks = math.prod(int(size) for size in re.findall(r"=(\d+)", constraints[1]))
    done = run("ps-plan", large, "--cluster", f"h100-sxm:{ranks}", "--global-batch", 8 * ranks, *constraints)
    assert done.returncode == 0, done.stderr
    rows = read_rows(done.stdout)
    assert rows
    for seconds, memory, fast_seconds, fast_memory in rows:
        assert fast_seconds == pytest.approx(seconds, rel=0.05)
        assert fast_memory == pytest.approx(memory, rel=0.08)


def test_no_plan_exceeds_the_memory(gpt):
    free = run("ps-plan", gpt, "--cluster", "cpu-mpi:4", "--global-batch", 16, "--mesh", "dp=4")
    least = min(row[1] for row in read_rows(free.stdout))
    done = run("ps-plan", gpt, "--cluster", "cpu-mpi:4", "--global-batch", 16, "--memory", int(0.6 * least))
    assert done.returncode == 0, done.stderr
    rows = read_rows(done.stdout)
    assert rows and all(row[1] <= 0.6 * least for row in rows)


def test_a_static_export_keeps_its_batch(fixed, tmp_path):
    done = run("ps-plan", fixed, "--cluster", "cpu-mpi:2", "--global-batch", 16, "-o", tmp_path / "plan.json")
    assert done.returncode == 0, done.stderr
    flags = json.loads((tmp_path / "plan.json").read_text())
    assert flags["batch"] == 8 and flags["micro-batches"] == 2
    assert "note: other sizes of micro-batches are not searched: the export fixes the batch to 8; export with " in done.stderr


def test_the_leanest_plan_needs_the_least_memory(gpt):
    fixed = ["--mesh", "dp=4", "--micro-batches", 1]
    done = run("ps-plan", gpt, "--cluster", "cpu-mpi:4", "--global-batch", 16, *fixed, "--memory", "100KiB")
    named = int(re.search(r"the leanest needs (\d+) KiB", done.stderr).group(1))
    needs = []
    for zero, recompute in itertools.product(range(4), ["none", "selective", "full"]):
        priced = run("ps-plan", gpt, "--predict", "--cluster", "cpu-mpi:4", *fixed, "--batch", 16, "--zero", zero, "--recompute", recompute)
        needs.append(json.loads(priced.stdout)["memory_bytes"])
    assert named <= 1.02 * min(needs) / 1024


@pytest.mark.full
def test_the_leanest_plan_may_have_any_mesh(gpt):
    done = run("ps-plan", gpt, "--cluster", "cpu-mpi:4", "--global-batch", 8, "--memory", "100KiB")
    named = int(re.search(r"the leanest needs (\d+) KiB", done.stderr).group(1))
    needs = []
    for mesh, batch, zero in [("dp=4", 4, 3), ("dp=2,tp=2", 4, 3), ("tp=4", 2, 0), ("pp=4", 2, 0)]:
        flags = ["--mesh", mesh, "--batch", batch, "--micro-batches", 8 // batch, "--zero", zero, "--recompute", "full"]
        priced = run("ps-plan", gpt, "--predict", "--cluster", "cpu-mpi:4", *flags, "--sharding-policy", "megatron+sp")
        needs.append(json.loads(priced.stdout)["memory_bytes"])
    assert named <= 1.02 * min(needs) / 1024


@pytest.mark.parametrize(("flags", "status", "words"), [
    (["--cluster", "cpu-mpi"], 2, "the number of ranks is missing; give --cluster NAME:RANKS or --ranks N"),
    (["--cluster", "cpu-mpi:4", "--ranks", "8"], 2, "--ranks 8 contradicts --cluster cpu-mpi:4 with 4 ranks"),
    (["--cluster", "h100"], 2, "unknown cluster \"h100\"; the presets are 'a100-40g'"),
    ([], 2, "no cluster given; add --cluster NAME:RANKS or FILE.json"),
    (["--cluster", "cpu-mpi:4", "--mesh", "ep=2"], 2, "--mesh: 'ep=2': expected pp=SIZES, dp=SIZES or tp=SIZES"),
    (["--cluster", "cpu-mpi:4", "--zero", "3..1"], 2, "--zero: '3..1': the range is empty"),
    (["--cluster", "cpu-mpi:4", "--mesh", "tp=3"], 2, "--mesh tp=3 and --cluster cpu-mpi:4 contradict each other"),
    (["--cluster", "cpu-mpi:4", "--plan", "x.json"], 2, "--plan gives the plan to price and needs --predict"),
    (["--cluster", "cpu-mpi:4", "--time-limit", "0"], 2, "--time-limit takes a number of at least 1, not '0'"),
])  # fmt: skip
def test_the_error_names_the_cause(gpt, flags, status, words):
    done = run("ps-plan", gpt, "--global-batch", 16, *flags)
    assert words in done.stderr
    assert done.returncode == status


def test_a_batch_that_the_export_fixes(fixed):
    done = run("ps-plan", fixed, "--cluster", "cpu-mpi:2", "--global-batch", 12)
    assert done.returncode == 1
    assert "the export fixes the samples per micro-batch over all data-parallel ranks at 8; export with a dynamic batch dim" in done.stderr


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """A model with more bytes of activations than of weights."""
    archive = tmp_path_factory.mktemp("long") / "gpt.pt2"
    models.gpt(layers=2, batch=8, length=64).export(archive)
    return archive


def search_two_ranks(model, memory, *flags):
    return run("ps-plan", model, "--cluster", "cpu-mpi:2", "--global-batch", 8, "--memory", memory, *flags)


def list_changes(done):
    """Returns the printed changes with which a plan fits: {change: plan}. Example: {"with 4 ranks": "--mesh dp=4 ..."}."""
    assert done.returncode == 1 and "; a plan fits\n" in done.stderr, done.stdout + done.stderr
    return dict(line.strip().split(": ", 1) if ": " in line else (line.strip(), "") for line in done.stderr.splitlines()[1:])


def check_fit(done, memory, plan):
    """Checks that the first plan of a search is `plan`, and that it fits into `memory`."""
    assert done.returncode == 0, done.stderr
    rows = read_rows(done.stdout)
    assert rows and all(row[1] <= memory for row in rows)
    first = next(line.split() for line in done.stdout.splitlines() if " MiB  " in line or " KiB  " in line)
    assert plan.split()[1] in first, (plan, first)


def test_bf16_is_listed_where_a_plan_fits_with_it(long):
    memory = 1300 * 2**10
    changes = list_changes(search_two_ranks(long, memory, "--mesh", "dp=2,tp=1"))
    more = next(change for change in changes if change.startswith("with --memory "))
    assert search_two_ranks(long, int(more.split()[-1]), "--mesh", "dp=2,tp=1").returncode == 0
    check_fit(search_two_ranks(long, memory, "--mesh", "dp=2,tp=1", "--precision", "bf16"), memory, changes["with --precision bf16"])


def test_bf16_is_not_listed_where_no_plan_fits_with_it(long):
    changes = list_changes(search_two_ranks(long, "300KiB", "--mesh", "dp=2"))
    assert not [change for change in changes if "--precision" in change]


def test_smaller_micro_batches_of_another_export_are_listed(fixed, gpt):
    """`gpt` is another export of the same model, with a dynamic batch dim."""
    memory = 700 * 2**10
    changes = list_changes(search_two_ranks(fixed, memory))
    plan, reason = changes["with another export and --batch 4"].split(" (")
    assert reason.startswith("--batch 4: the export fixes the batch to 8; export with dynamic_shapes={")
    check_fit(search_two_ranks(gpt, memory, "--batch", 4), memory, plan)


@pytest.mark.parametrize("flags", [["--batch", "8"], ["--micro-batches", "1"]])
def test_micro_batches_that_a_constraint_fixes_are_not_listed(fixed, flags):
    changes = list_changes(search_two_ranks(fixed, "700KiB", *flags))
    assert not [change for change in changes if "export" in change or "micro-batches could" in change]


def test_smaller_micro_batches_that_cannot_be_tried_are_not_promised(fixed):
    """With ZeRO, the states of a rank depend on the number of data-parallel ranks."""
    changes = list_changes(search_two_ranks(fixed, "700KiB", "--zero", "1", "--mesh", "dp=2"))
    assert not [change for change in changes if "another export" in change]
    assert next(change for change in changes if change.startswith("smaller micro-batches could not be searched (--batch 4"))


def test_an_interrupt_ends_the_search_with_the_best_plan(large, tmp_path):
    """After Ctrl-C, the best plan so far is written completely. Without a plan, the error says that none was found."""
    plan = tmp_path / "plan.json"
    command = [tools_folder() / "ps-plan", large, "--cluster", "h100-sxm:4096", "--global-batch", "8192", "--time-limit", "300", "-o", plan]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with pytest.raises(subprocess.TimeoutExpired):  # the search takes longer
        process.wait(timeout=2)
    process.send_signal(signal.SIGINT)
    told, errors = process.communicate(timeout=120)
    if process.returncode == 0:
        assert "; interrupted\n" in told and json.loads(plan.read_text())["predicted"]["ranks"] == 4096
    else:
        assert process.returncode == 1 and "interrupted before the search found a plan" in errors and not plan.exists()


def test_a_cluster_may_have_no_more_ranks_than_the_tensor_axis(gpt, tmp_path):
    """A cluster file of one host, as psrt-probe writes it, may limit the ranks. Class tables must not need more ranks."""
    cluster = json.loads((ROOT / "test/clusters/fast-network.json").read_text())
    cluster["tiers"][0]["ranks"] = 2
    (tmp_path / "host.json").write_text(json.dumps(cluster))
    done = run("ps-plan", gpt, "--cluster", f"{tmp_path}/host.json:2", "--global-batch", 8, "--mesh", "tp=2", "-o", tmp_path / "plan.json")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "plan.json").read_text())["mesh"] == "tp=2"


@pytest.mark.parametrize("text, words", [
    ("mesh=tp=4", "takes an axis or a searched flag"), ("zero=7", "zero '7' is not searched; the search tries 0, 1, 2 and 3"),
    ("tp", "'tp': expected pp=SIZES, dp=SIZES or tp=SIZES"), ("dp=two", "dp=two"),
])  # fmt: skip
def test_why_not_checks_its_choice(gpt, text, words):
    done = run("ps-plan", gpt, "--cluster", "cpu-mpi:2", "--global-batch", 8, "--mesh", "dp=2", "--why-not", text)
    assert done.returncode == 2 and f'--why-not "{text}"' in done.stderr and words in done.stderr


def test_why_not_explains_each_choice(gpt):
    choices = ["tp=3", "dp=4", "tp=4"]
    done = run("ps-plan", gpt, "--cluster", "cpu-mpi:4", "--global-batch", 16, "--mesh", "pp=1", *(word for c in choices for word in ("--why-not", c)))
    reasons = {line.split()[0]: line for line in done.stdout.partition("--why-not")[2].splitlines()[2:]}
    assert "--mesh tp=3 and --cluster cpu-mpi:4 contradict each other" in reasons["tp=3"], done.stdout + done.stderr
    assert reasons["dp=4"].endswith("is the first plan") and " % slower: " in reasons["tp=4"]
