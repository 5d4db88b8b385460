"""psrt-probe measures this machine and writes a cluster file for the planner. `--cluster cpu` measures once."""
import json
import re
import signal
import time

import pytest
import replay
from conftest import ROOT, tools_folder
from conftest import run_tool as run
from processes import finish, start_by_hand

MODEL = ROOT / "examples/gpt/gpt.pt2"
UNITS = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20}
COLLECTIVES = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute"}


def read_quantity(text):
    number, prefix = re.fullmatch(r"([\d.e+-]+?)([a-zA-Z]{0,2})(?:B|B/s|s|FLOP/s)", text).groups()
    return float(number) * UNITS[prefix]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("probe") / "cluster.json"
    done = run("psrt-probe", "-o", path, "--ranks", 2, "--seconds", 1)
    assert done.returncode == 0 and f'wrote "{path}"' in done.stdout, done.stdout + done.stderr
    return path


@pytest.mark.quick
def test_the_figures_are_plausible(path):
    cluster = json.loads(path.read_text())
    device = cluster["device"]
    assert re.fullmatch(r"psrt-probe, \d{4}-\d\d-\d\d, .+, 2 ranks(; other programs .+)?", cluster["source"])
    assert 0 < read_quantity(device["reserve"]) < read_quantity(device["memory"])
    for bandwidth in ("memory_bandwidth", "host_bandwidth"):
        assert 1e8 < read_quantity(device[bandwidth]) < 1e13, bandwidth
    assert 0 < read_quantity(device["launch"]) < 1e-2
    for share in ("elementwise_efficiency", "attention_forward", "attention_backward"):
        assert 0.01 <= device[share] <= 2, share
    for type, rate in device["matmul"].items():
        assert 1e8 < read_quantity(rate["peak"]) < 1e15, type
        flops = [point[0] for point in rate["efficiency"]]
        assert flops == sorted(flops) and flops[0] < 1e6 and all(0 < point[1] <= 1 for point in rate["efficiency"])
    assert set(device["matmul"]) == {"f32", "bf16", "f16"}
    assert 1 <= cluster["overlap_slowdown"] <= 2


@pytest.mark.quick
def test_collectives_take_no_less_time_with_more_bytes(path):
    cluster = json.loads(path.read_text())
    (tier,) = cluster["tiers"]
    assert tier["ranks"] == 2 and read_quantity(tier["bandwidth"]) > 1e6
    assert set(cluster["measured"]) == COLLECTIVES
    for name, entries in cluster["measured"].items():
        sizes = [read_quantity(size) for _, size, _ in entries]
        times = [read_quantity(seconds) for _, _, seconds in entries]
        assert [ranks for ranks, _, _ in entries] == [2] * len(entries) and len(entries) >= 2
        assert sizes == sorted(set(sizes)) and times == sorted(times) and times[0] > 0, name


@pytest.mark.quick
def test_the_planner_reads_the_file(path):
    flags = [MODEL, "--cluster", path, "--mesh", "dp=2", "--batch", 4]
    done = run("ps-compile", *flags, "--explain", "--no-codegen")
    assert done.returncode == 0 and "predicted step on 2 x " in done.stdout, done.stderr
    done = run("ps-plan", *flags, "--predict")
    assert done.returncode == 0, done.stderr
    assert 1e-4 < json.loads(done.stdout)["step_s"] < 100
    done = run("ps-compile", MODEL, "--cluster", path, "--mesh", "dp=4", "--batch", 4, "--no-codegen")
    assert done.returncode == 2 and "has at most 2 ranks" in done.stderr


@pytest.mark.quick
@pytest.mark.parametrize(
    "flags,status,message",
    [
        ([], 2, "no output given; add -o FILE.json"),
        (["-o", "{}/c.json", "--ranks", "0"], 2, "--ranks: must be at least 1"),
        (["-o", "{}/c.json", "--seconds", "soon"], 2, "--seconds: must be at least 1"),
        (["-o", "{}/c.json", "--target", "tpu"], 2, '--target: "tpu" is not cpu or a GPU'),
        (["-o", "{}/c.json", "--comm", "tcp"], 2, "--comm tcp needs one process per rank"),
        (["-o", "{}/c.json", "--times", "3"], 2, "unknown flag --times"),
        (["-o", "{}/c.json", "--secondz", "3"], 2, "unknown flag --secondz; did you mean --seconds?"),
        (["-o", "{}/none/c.json"], 2, "-o: cannot write"),
        (["-o", "{}"], 2, "-o: "),
    ],
)
def test_bad_flags_are_reported_before_anything_is_measured(tmp_path, flags, status, message):
    begin = time.monotonic()
    done = run("psrt-probe", *[flag.format(tmp_path) for flag in flags])
    assert (done.returncode, list(tmp_path.iterdir())) == (status, []) and message in done.stderr, done.stderr
    assert time.monotonic() - begin < 1


def test_ranks_as_processes(tmp_path):
    ranks = start_by_hand([tools_folder() / "psrt-probe", "-o", "cluster.json", "--seconds", "1"], tmp_path, 2)
    assert [finish(rank)[0] for rank in ranks] == [0, 0]
    cluster = json.loads((tmp_path / "cluster.json").read_text())
    assert ", 2 ranks" in cluster["source"] and set(cluster["measured"]) == COLLECTIVES


def test_a_gpu_is_measured_by_the_fake_driver(tmp_path):
    """The cluster file has the memory of the GPU. Kernels are not measured, because they are not part of the runtime."""
    path = tmp_path / "gpu.json"
    done = run("psrt-probe", "-o", path, "--ranks", 1, "--seconds", 1, "--target", "cuda:replay", **replay.environment())
    assert done.returncode == 0, done.stderr
    device = json.loads(path.read_text())["device"]
    assert device["memory"] == "68.72GB" and "elementwise_efficiency" not in device
    assert {"f32", "bf16", "f16"} == set(device["matmul"])
    done = run("psrt-probe", "-o", path, "--target", "cuda:sm_90", PSRT_CUDA_DRIVER="")
    assert done.returncode == 3 and "no CUDA driver" in done.stderr


def test_a_killed_rank_ends_the_others(tmp_path):
    ranks = start_by_hand([tools_folder() / "psrt-probe", "-o", "cluster.json"], tmp_path, 2)
    time.sleep(1)
    ranks[1].send_signal(signal.SIGKILL)
    status, said = finish(ranks[0], timeout=20)
    ranks[1].communicate()
    assert status == 3 and "rank 1" in said and list(tmp_path.iterdir()) == [], said


@pytest.mark.quick
def test_this_machine_is_measured_once(tmp_path):
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PSRT_PROBE_SECONDS": "1", "WORLD_SIZE": "3"}
    flags = [MODEL, "--mesh", "dp=2", "--batch", 4, "--explain", "--no-codegen", "--cluster"]
    first = run("ps-compile", *flags, "cpu", **environment)
    assert first.returncode == 0 and "note: measuring this machine with 2 ranks (about 1 s) ..." in first.stderr, first.stderr
    (cached,) = (tmp_path / "cache/parashard").iterdir()
    second = run("ps-compile", *flags, "cpu:2", **environment)
    assert (second.returncode, second.stdout) == (0, first.stdout) and "measuring" not in second.stderr, second.stderr
    plan = tmp_path / "plan.json"
    third = run("ps-plan", MODEL, "--cluster", "cpu:2", "--global-batch", 4, "--mesh", "dp=2", "-o", plan, **environment)
    assert third.returncode == 0 and "measuring" not in third.stderr, third.stderr
    assert json.loads(plan.read_text())["cluster"] == "cpu" and cached.exists()


@pytest.mark.quick
@pytest.mark.parametrize("note", ["", "; other programs used 1.6 of 2 cores"])
def test_figures_of_a_disturbed_machine_have_a_warning(tmp_path, path, note):
    """Each use of the stored file warns, since its figures are too slow. Figures of a quiet machine have no warning."""
    environment = {"XDG_CACHE_HOME": str(tmp_path), "PSRT_PROBE_SECONDS": "1"}
    flags = [MODEL, "--mesh", "dp=2", "--batch", 4, "--no-codegen", "--cluster", "cpu"]
    assert run("ps-compile", *flags, **environment).returncode == 0
    (cached,) = (tmp_path / "parashard").iterdir()
    cluster = json.loads(path.read_text())
    cluster["source"] = "psrt-probe, 2026-11-26, host, CPU, 2 ranks" + note
    cached.write_text(json.dumps(cluster))
    done = run("ps-compile", *flags, **environment)
    assert done.returncode == 0 and "measuring" not in done.stderr, done.stderr
    warning = f'warning: --cluster cpu{note.replace(";", ":")}; the figures may be several times too slow; remove "{cached}" when the machine is idle, '
    assert (warning in done.stderr) if note else ("other programs" not in done.stderr), done.stderr


@pytest.mark.quick
@pytest.mark.parametrize(
    "cluster,environment,message",
    [
        ("cpu:4", {}, "--cluster cpu:4 has 4 ranks, but --mesh dp=2 has 2"),
        ("cpu:many", {}, '--cluster: "many" is not a number of ranks; example: cpu:4'),
        ("cpu", {"PSRT_PROBE_SECONDS": "x"}, '--cluster cpu: psrt-probe failed: PSRT_PROBE_SECONDS is "x"'),
        ("cpu", {"XDG_CACHE_HOME": "/proc"}, "--cluster cpu: cannot create /proc/parashard for the measured figures: "),
    ],
)
def test_a_machine_that_cannot_be_measured(tmp_path, cluster, environment, message):
    environment = {"XDG_CACHE_HOME": str(tmp_path), **environment}
    done = run("ps-compile", MODEL, "--mesh", "dp=2", "--batch", 4, "--no-codegen", "--cluster", cluster, **environment)
    assert done.returncode == 2 and message in done.stderr, done.stderr
