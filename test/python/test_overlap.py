"""--overlap: tensor-parallel collectives run in parallel with matmuls, and do not change a bit of the results."""
import json
import pathlib
import re

import lanes
import models
import oracle
import processes
import pytest
import replay
import test_pipelines
from conftest import tools_folder
from safetensors.torch import load_file, save_file

pytestmark = pytest.mark.usefixtures("one_thread")

SP = ("--sharding-policy", "megatron+sp")
STEPS = 2
FILES = ("losses.txt", "gradients.safetensors", "weights.safetensors")
LAYOUTS = {
    "tp": ("gpt2", "tp=2", ()), "four": ("llama", "tp=4", ()), "one sample": ("gpt2", "dp=4,tp=2", SP),
    "sp": ("llama", "tp=2", SP), "sp and zero": ("gpt2", "dp=2,tp=2", (*SP, "--zero", "3")),
    "recompute": ("gpt2", "tp=2", (*SP, "--recompute", "full+communication")),
    "1f1b": ("gpt2_deep", "pp=2,tp=2", ("--schedule", "1f1b")), "zb-h1": ("gpt2_deep", "pp=2,tp=2", (*SP, "--schedule", "zb-h1")),
    "bf16": ("gpt2", "tp=2", ("--precision", "bf16")), "dropout": ("gpt_dropout", "tp=2", SP),
}  # fmt: skip


def export(folder, name):
    model = oracle.zoo(name)
    batches = oracle.draw_batches(model, 2, STEPS)
    save_file({n: v.contiguous() for n, v in batches.items()}, folder / "data.safetensors")
    return model.export(folder / "model.pt2")


def compile_overlap(folder, archive, overlap, mesh, *flags):
    return oracle.compile_model(folder, archive, mesh, "--micro-batches", "2", "--optimizer", "adamw(lr=1e-3)", "--overlap", overlap,
                                *flags, out=f"program-{overlap}")  # fmt: skip


def run_line(program, name, *flags):
    return [program, "--data", "data.safetensors", "--steps", STEPS, "--quiet", "--losses", f"{name}-losses.txt",
            "--gradients", f"{name}-gradients.safetensors", "--export-weights", f"{name}-weights.safetensors", *flags]  # fmt: skip


def read(folder, name):
    return [(folder / f"{name}-{file}").read_bytes() for file in FILES]


def check_same(folder, overlap):
    """Checks that results have the same bits as without overlap.

    Without AVX-512, oneDNN calls a GEMM whose order of additions depends on the number of rows. Therefore, results of matmuls that are
    split into chunks may then differ by a few roundings.
    """
    if overlap in ("off", "1") or " avx512bw" in pathlib.Path("/proc/cpuinfo").read_text():
        assert read(folder, overlap) == read(folder, "off"), overlap
        return
    losses, expected = (oracle.read_losses(folder / f"{name}-losses.txt") for name in (overlap, "off"))
    assert losses == pytest.approx(expected, rel=1e-6)
    gradients, expected = (load_file(folder / f"{name}-gradients.safetensors") for name in (overlap, "off"))
    assert gradients.keys() == expected.keys()
    for name, value in expected.items():
        assert (gradients[name] - value).abs().max() <= 1e-5 * value.abs().max(), name


def count_marks(folder, archive, overlap, mesh, *flags):
    """Returns the numbers of (waits, collectives that are split into chunks) in the class functions."""
    tool = tools_folder() / "ps-compile"
    oracle.run([tool, archive, "-o", "parts.mlir", "--stop-after", "partitioned", "--mesh", mesh, "--overlap", overlap, *flags], folder)
    text = (folder / "parts.mlir").read_text()
    return len(re.findall(r"ps\.wait ", text)), len(re.findall(r"ps\.chunks = ", text))


@pytest.mark.part(3)
@pytest.mark.parametrize("layout", lanes.some(LAYOUTS, ["four", "one sample", "recompute", "zb-h1", "dropout"]))
def test_bits_are_the_same_without_overlap(tmp_path, layout):
    name, mesh, flags = LAYOUTS[layout]
    archive = export(tmp_path, name)
    for overlap in ["off", "1", "2"]:
        program = compile_overlap(tmp_path, archive, overlap, mesh, *flags)
        oracle.run([*run_line(program, overlap), "--ranks", oracle.ranks_of(mesh)], tmp_path)
        check_same(tmp_path, overlap)
    assert count_marks(tmp_path, archive, "auto", mesh, *flags) == (0, 0), "on CPUs, auto does not overlap, because the cores that compute also communicate"
    waits, chunks = count_marks(tmp_path, archive, "auto", mesh, "--target", "cuda:sm_90", *flags)
    assert waits > 0 and chunks == 0, "the collectives are too small to be split"
    waits, chunks = count_marks(tmp_path, archive, "1", mesh, *flags)
    assert waits > 0 and chunks == 0
    waits, chunks = count_marks(tmp_path, archive, "2", mesh, *flags)
    assert 0 < chunks <= waits


def is_beside(events):
    """Returns whether a matmul is between the start of a collective and the next wait."""
    started = False
    for event in events:
        if event["name"] in ("all_reduce", "reduce_scatter", "all_gather"):
            started = True
        elif event["name"] == "wait" and started:
            started = False
        elif event["cat"] == "matmul" and started:
            return True
    return False


@pytest.mark.part(2)
@pytest.mark.parametrize("flags", [(), SP], ids=["tp", "sp"])
def test_processes_and_their_trace(tmp_path, flags):
    """With processes over TCP, results have the same bits, --check-memory passes, and collectives run during matmuls."""
    archive = export(tmp_path, "gpt2")
    oracle.run([*run_line(compile_overlap(tmp_path, archive, "off", "tp=2", *flags), "off"), "--ranks", "2"], tmp_path)
    for overlap in ["1", "2"]:
        program = compile_overlap(tmp_path, archive, overlap, "tp=2", *flags)
        for process in processes.start_by_hand(run_line(program, overlap, "--check-memory", "--trace", "trace.json"), tmp_path, 2):
            status, said = processes.finish(process)
            assert status == 0, said
        check_same(tmp_path, overlap)
        events = [event for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if event["ph"] == "X"]
        for rank in range(2):
            mine = [event for event in events if event["pid"] == rank]
            assert is_beside([event for event in mine if event["tid"] == 0])
            assert any(event["tid"] == 1 and event["cat"] == "communication" and event["args"]["axes"] == "tp" for event in mine)


def test_over_mpi(tmp_path):
    launcher, environment = processes.launch("mpirun", 2)
    program = compile_overlap(tmp_path, export(tmp_path, "llama"), "2", "tp=2", *SP)
    oracle.run([*run_line(program, "one"), "--ranks", "2"], tmp_path)
    status, said = processes.finish(processes.start([*launcher, *run_line(program, "mpi")], tmp_path, environment))
    assert status == 0, said
    assert read(tmp_path, "mpi") == read(tmp_path, "one")


def test_used_memory_equals_the_plan(tmp_path):
    """Buffers of running collectives are not reused: --check-memory passes with four ranks as threads."""
    archive = export(tmp_path, "llama")
    for overlap in ["1", "2"]:
        program = compile_overlap(tmp_path, archive, overlap, "dp=2,tp=2", *SP, "--zero", "3")
        said = oracle.run([*run_line(program, overlap, "--check-memory"), "--ranks", "4"], tmp_path)
        assert re.search(r": (\d+) bytes planned, \1 measured", said), said


@pytest.mark.parametrize("mesh,overlap", [("tp=2", "4"), ("dp=2,tp=2", "2")])
def test_the_evaluator_agrees(tmp_path, mesh, overlap):
    """In ps-run, level 3 with waits and chunks equals level 1."""
    archive, data = test_pipelines.prepare(tmp_path, models.gpt2(), 2)
    flags = ["--optimizer", "sgd(lr=0.1)", "--micro-batches", "2"]
    tool = tools_folder() / "ps-compile"
    oracle.run([tool, archive, "-o", "whole.mlir", "--stop-after", "training", *flags], tmp_path)
    oracle.run([tool, archive, "-o", "parts.mlir", "--stop-after", "partitioned", "--mesh", mesh, "--overlap", overlap, *SP, *flags], tmp_path)
    assert "ps.chunks" in (tmp_path / "parts.mlir").read_text()
    whole = test_pipelines.evaluate(tmp_path, tmp_path / "whole.mlir", data, 2)
    test_pipelines.check(tmp_path, whole, tmp_path / "parts.mlir", data, 2)


# ---- streams -------------------------------------------------------------------------------------------------------


@pytest.fixture
def fake(monkeypatch):
    for name, value in replay.environment().items():
        monkeypatch.setenv(name, value)


@pytest.mark.part(3)
@pytest.mark.parametrize("mesh,flags", [("tp=2", ()), ("tp=2", SP), ("dp=4,tp=2", SP)], ids=["tp", "sp", "one sample"])
def test_streams_compute_the_same(tmp_path, fake, mesh, flags):
    """A separate communication stream does not change results, except for a few roundings with chunks."""
    archive, found = export(tmp_path, "gpt2"), {}
    for overlap in ["off", "auto", "2"]:
        program = compile_overlap(tmp_path, archive, overlap, mesh, "--target", "cuda:replay", *flags)
        oracle.run([*run_line(program, overlap), "--ranks", oracle.ranks_of(mesh)], tmp_path)
        found[overlap] = oracle.read_losses(tmp_path / f"{overlap}-losses.txt")
    assert found["auto"] == found["off"]
    assert found["2"] == pytest.approx(found["off"], rel=1e-6)


# ---- errors of users -------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlap", ["0", "-1", "some", "2.5"])
def test_bad_values_of_overlap(tmp_path, overlap):
    (tmp_path / "model.mlir").write_text("module {}\n")
    process = processes.start([tools_folder() / "ps-compile", "model.mlir", "-o", "out", "--overlap", overlap], tmp_path, processes.BASE)
    status, said = processes.finish(process)
    assert status == 2 and "--overlap takes auto, off, or a number of chunks" in said


def test_chunks_that_do_not_fit(tmp_path):
    """An attribute that was edited by hand in a dump gives an error at the collective."""
    archive = export(tmp_path, "gpt2")
    tool = tools_folder() / "ps-compile"
    oracle.run([tool, archive, "-o", "parts.mlir", "--stop-after", "partitioned", "--mesh", "tp=2", "--overlap", "2"], tmp_path)
    text = (tmp_path / "parts.mlir").read_text()
    (tmp_path / "parts.mlir").write_text(text.replace("ps.chunks = 2", "ps.chunks = 5"))
    status, said = processes.finish(processes.start([tool, "parts.mlir", "-o", "out"], tmp_path, processes.BASE))
    assert status == 1 and "ps.chunks = 5" in said and "the dim to split has size" in said
    assert not (tmp_path / "out").exists()
