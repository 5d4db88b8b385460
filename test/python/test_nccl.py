"""Ranks with one GPU each that communicate by NCCL, as threads and as processes. Uses the fake driver and a fake NCCL.

The fake NCCL performs the collectives among threads or processes of this machine. It adds summands in another order than
communication between threads (`--comm local`).
"""
import json
import os
import random
import re
import subprocess
import time

import cases
import lanes
import oracle
import processes
import pytest
import replay
from conftest import tools_folder
from safetensors.torch import load_file, save_file

pytestmark = pytest.mark.usefixtures("one_thread")
ENVIRONMENT = replay.environment(PSRT_NCCL=str(tools_folder().parent / "lib" / "libpsrt_fake_nccl.so"), PSRT_FAKE_DEVICES="4")


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(processes.BASE, name, value)


CASES = [case for case in cases.CUDA if oracle.ranks_of(case.mesh) in (2, 4)]


@pytest.mark.part(3)
@pytest.mark.parametrize("case", lanes.cover(CASES, strength=1))
def test_threads_with_a_gpu_each_equal_pytorch(tmp_path, exports, monkeypatch, case):
    monkeypatch.setenv("PSRT_FAKE_LOG", str(tmp_path / "log"))
    comparison = oracle.check_case(tmp_path, exports, case)
    print(comparison)
    assert comparison.failures() == []
    assert "kernel nccl" in (tmp_path / "log").read_text()


LAYOUTS = {"dp": ("dp=2", ()), "tp": ("tp=2", ()), "zero3": ("dp=2", ("--zero", "3")), "1f1b": ("pp=2", ("--schedule", "1f1b")),
           "dp-tp": ("dp=2,tp=2", ()), "zb-h1": ("pp=2", ("--schedule", "zb-h1"))}  # fmt: skip


@pytest.fixture(scope="module", params=LAYOUTS)
def compiled(request, tmp_path_factory, exports):
    """Returns (folder with a program and its data, number of ranks)."""
    mesh, flags = LAYOUTS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    model = "gpt2_deep" if "pp" in mesh else "gpt2"
    oracle.compile_model(folder, oracle.export(model, exports), mesh, "--micro-batches", 2, "--optimizer", "adamw", "--target", "cuda:replay", *flags)
    save_file({name: value.contiguous() for name, value in oracle.draw_batches(oracle.zoo(model), 2, steps=5).items()}, folder / "data.safetensors")
    return folder, oracle.ranks_of(mesh)


def line(*more):
    return ["./program", "--data", "data.safetensors", "--quiet", *more]


def outputs(name):
    return ["--losses", f"{name}.txt", "--export-weights", f"{name}.safetensors"]


def results(folder, name):
    return (folder / f"{name}.txt").read_text(), {key: value.numpy().tobytes() for key, value in load_file(folder / f"{name}.safetensors").items()}


def run_all(started):
    for process in started:
        status, said = processes.finish(process)
        assert status == 0, said


@pytest.mark.part(2)
def test_processes_equal_threads(compiled):
    """Processes with torchrun's variables give the same bits as threads. `--comm local` gives the same losses up to a few roundings."""
    folder, ranks = compiled
    oracle.run(line(*outputs("threads")), folder)
    started = [processes.start(line(*outputs("hand")), folder, {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks),
                                                                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "PSRT_FAKE_LOG": f"log{rank}"})
               for port in [processes.free_port()] for rank in range(ranks)]  # fmt: skip
    run_all(started)
    assert results(folder, "hand") == results(folder, "threads")
    for rank in range(ranks):
        assert "kernel nccl" in (folder / f"log{rank}").read_text()
    oracle.run(line("--comm", "local", *outputs("local")), folder)
    for ours, theirs in zip(results(folder, "local")[0].split(), results(folder, "threads")[0].split(), strict=True):
        assert abs(float(ours) - float(theirs)) <= 1e-5 * float(theirs)


@pytest.mark.part(2)
def test_under_mpirun(compiled):
    folder, ranks = compiled
    launcher, environment = processes.launch("mpirun", ranks)
    oracle.run(line(*outputs("threads")), folder)
    run_all([processes.start([*launcher, *line(*outputs("mpirun"))], folder, environment)])
    assert results(folder, "mpirun") == results(folder, "threads")


@pytest.mark.part(2)
def test_a_trace_shows_the_queues(compiled):
    """A trace contains NCCL's collectives in separate threads, timed by events of their streams."""
    folder, _ = compiled
    oracle.run(line("--trace", "trace.json"), folder)
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    assert processes.check_started(events) or "tp" in folder.name


@pytest.mark.part(2)
def test_steps_are_graphs(compiled):
    """Steps are recorded as CUDA graphs that include NCCL's collectives. Results have the same bits without graphs."""
    folder, _ = compiled
    plain = {**os.environ, "PSRT_CUDA_GRAPHS": "0"}
    said = subprocess.run(line(*outputs("graphs")), cwd=folder, capture_output=True, text=True, check=True).stderr
    assert "instruction by instruction" not in said
    subprocess.run(line(*outputs("plain")), cwd=folder, env=plain, check=True)
    assert results(folder, "graphs") == results(folder, "plain")


def test_a_wait_that_is_left_out_is_noticed(compiled):
    folder, _ = compiled
    oracle.run(["env", "PSRT_FAKE_LOG=waits", *line("--steps", "2")], folder)
    waits = len(re.findall(r": wait \d+$", (folder / "waits").read_text(), re.M))
    noticed, wanted = 0, 3
    for number in random.Random(1).sample(range(1, waits + 1), min(16, waits)):
        done = subprocess.run(line("--steps", "2"), cwd=folder, env={**os.environ, "PSRT_FAKE_DROP": str(number)}, capture_output=True, text=True, timeout=120)
        assert done.returncode == (3 if done.stderr else 0)
        assert not done.stderr or "no order between" in done.stderr
        noticed += done.returncode == 3
        if noticed == wanted:
            break
    assert noticed == wanted, f"{noticed} omitted waits were detected; the program has {waits}"


# ---- faults --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair(tmp_path_factory, exports):
    """A folder with a program for tp=2, and data for many steps."""
    folder = tmp_path_factory.mktemp("pair")
    oracle.compile_model(folder, oracle.export("gpt2", exports), "tp=2", "--micro-batches", 2, "--optimizer", "adamw", "--target", "cuda:replay")
    save_file({name: value.contiguous() for name, value in oracle.draw_batches(oracle.zoo("gpt2"), 2, steps=8).items()}, folder / "data.safetensors")
    return folder


def start_pair(folder, *flags, ranks=({}, {}), **shared):
    shared = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(processes.free_port()), **shared}
    return [processes.start(line(*flags), folder, {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank), **own}) for rank, own in enumerate(ranks)]


@pytest.mark.alone
def test_a_rank_that_hangs_ends_all(pair):
    """An NCCL operation that never ends is an error on both ranks, within a few seconds after PSRT_TIMEOUT. The errors name the operation."""
    begin = time.monotonic()
    ends = [processes.finish(process) for process in start_pair(pair, PSRT_TIMEOUT="2", PSRT_FAKE_NCCL_HANG="1:30")]
    assert time.monotonic() - begin < 20
    assert [status for status, _ in ends] == [3, 3], ends
    said = "".join(text for _, text in ends)
    assert "all_reduce of" in said and "over tp" in said and "rank 1" in said and "PSRT_TIMEOUT" in said


@pytest.mark.alone
def test_a_step_longer_than_the_time_allowed_is_healthy(tmp_path, exports):
    """A step that computes for longer than PSRT_TIMEOUT before it communicates is not an error."""
    oracle.compile_model(tmp_path, oracle.export("gpt2", exports), "dp=2", "--micro-batches", 2, "--optimizer", "sgd(lr=0.1)", "--target", "cuda:replay")
    save_file({name: value.contiguous() for name, value in oracle.draw_batches(oracle.zoo("gpt2"), 2, steps=1).items()}, tmp_path / "data.safetensors")
    begin = time.monotonic()
    environment = {**os.environ, "PSRT_TIMEOUT": "1", "PSRT_FAKE_KERNEL_TIME": "10000"}
    done = subprocess.run(line("--steps", "1"), cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and time.monotonic() - begin > 1.5, done.stderr


@pytest.mark.alone
def test_a_thread_that_hangs_ends_all(pair):
    done = subprocess.run(line(), cwd=pair, env={**os.environ, "PSRT_TIMEOUT": "2", "PSRT_FAKE_NCCL_HANG": "1:30"}, capture_output=True, text=True, timeout=30)
    assert done.returncode == 3 and "over tp" in done.stderr, done.stderr


@pytest.mark.alone
def test_a_rank_that_is_killed_ends_all(pair):
    first, second = start_pair(pair, "--epochs", "1000000", PSRT_FAKE_DELAY="200")
    time.sleep(3)
    second.kill()
    begin = time.monotonic()
    status, said = processes.finish(first)
    second.wait()
    assert status == 3 and "rank 1 was lost" in said, said
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize("environment,words", [
    ({"PSRT_NCCL": "/nowhere/libnccl.so"}, ["/nowhere/libnccl.so", "LD_LIBRARY_PATH", "PSRT_NCCL"]),
    ({"PSRT_FAKE_NCCL_VERSION": "21700"}, ["NCCL 2.17.0", "2.18.0"]),
    ({"PSRT_FAKE_DEVICES": "1"}, ["1 GPU", "rank 1", "process 1", "--ranks 2"]),
], ids=["no NCCL", "old", "few GPUs"])  # fmt: skip
def test_processes_that_cannot_run(pair, environment, words):
    ends = [processes.finish(process) for process in start_pair(pair, "--losses", "none.txt", **environment)]
    assert [status for status, _ in ends] == [3, 3], ends
    said = "".join(text for _, text in ends)
    assert all(word in said for word in words), said
    assert not (pair / "none.txt").exists()


def test_versions_that_differ(pair):
    ends = [processes.finish(process) for process in start_pair(pair, ranks=({}, {"PSRT_FAKE_NCCL_VERSION": "22705"}))]
    assert [status for status, _ in ends] == [3, 3], ends
    assert "rank 0 has NCCL 2.28.0, but this rank has 2.27.5" in "".join(text for _, text in ends)


def test_which_gpus_threads_have(pair, tmp_path):
    """Threads use one GPU each if there are enough GPUs and NCCL is found. Otherwise, they share one GPU."""
    def devices(*flags, **environment):
        log = tmp_path / "log"
        log.unlink(missing_ok=True)
        done = subprocess.run(line("--steps", "1", *flags), cwd=pair, env={**os.environ, "PSRT_FAKE_LOG": str(log), **environment}, capture_output=True,
                              text=True, timeout=60)
        return set(re.findall(r"^device (\d)", log.read_text(), re.M)) if log.exists() else set(), done.returncode, done.stderr

    assert devices() == ({"0", "1"}, 0, "")
    assert devices("--comm", "nccl") == ({"0", "1"}, 0, "")
    assert devices("--comm", "local") == ({"0"}, 0, "")
    assert devices(PSRT_FAKE_DEVICES="1") == ({"0"}, 0, "")
    found, status, said = devices(PSRT_NCCL="/nowhere")
    assert (found, status) == ({"0"}, 0) and "share GPU 0" in said and "PSRT_NCCL" in said
    for environment in [{"PSRT_FAKE_DEVICES": "1"}, {"PSRT_NCCL": "/nowhere"}]:
        found, status, said = devices("--comm", "nccl", **environment)
        assert status == 3 and "error: " in said, said


def test_nccl_is_for_gpus(tmp_path, exports):
    oracle.compile_model(tmp_path, oracle.export("mlp", exports), "dp=2", "--optimizer", "sgd")
    done = subprocess.run([tmp_path / "program", "--comm", "nccl", "--data", "none"], capture_output=True, text=True)
    assert done.returncode == 2 and "--target cuda" in done.stderr, done.stderr
