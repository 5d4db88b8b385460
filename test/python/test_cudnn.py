"""Convolutions and attention by cuDNN's graph API, on a fake cuDNN that checks and executes the graph descriptors.

The runtime compares each cuDNN plan with the fallback kernels before it uses the plan. The fallback kernels are used if the library is
missing, refuses the problem, or computes another result.
"""
import importlib.util
import json
import os
import pathlib
import subprocess

import lanes
import oracle
import pytest
import replay
from cases import Case
from conftest import tools_folder
from safetensors.torch import save_file

pytestmark = pytest.mark.usefixtures("one_thread")
EXECUTED = "cudnnBackendExecute"


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    for name, value in replay.environment().items():
        monkeypatch.setenv(name, value)


@pytest.mark.part(3)
@pytest.mark.parametrize("name,mesh", [("resnet", "dp=1"), ("mobile", "dp=2"), ("unet", "dp=1")])
def test_equals_pytorch(tmp_path, exports, monkeypatch, name, mesh):
    """Models with strided, depthwise, dilated and transposed convolutions."""
    monkeypatch.setenv("PSRT_FAKE_LOG", str(tmp_path / "log"))
    comparison = oracle.check_case(tmp_path, exports, Case(name, "pt2", mesh, 1, "adamw", target="cuda:replay"))
    print(comparison)
    assert comparison.failures() == []
    assert EXECUTED in (tmp_path / "log").read_text()


@pytest.mark.part(2)
@pytest.mark.parametrize("precision", ["bf16", "half"])
def test_sixteen_bits_equal_the_cpu(tmp_path, exports, precision):
    batches, found = oracle.draw_batches(oracle.zoo("resnet"), 1), {}
    for target in ["cpu", "cuda:replay"]:
        folder = tmp_path / target.replace(":", "-")
        folder.mkdir()
        found[target] = oracle.train_compiled(folder, oracle.export("resnet", exports), batches, "dp=1", 1, "adamw(lr=1e-3)",
                                              ("--precision", precision, "--target", target))  # fmt: skip
    for ours, cpu in zip(found["cuda:replay"].losses, found["cpu"].losses, strict=True):
        assert abs(ours - cpu) <= 1e-2 * abs(cpu)


@pytest.mark.part(3)
@pytest.mark.cover(1)
@pytest.mark.parametrize("version", ["92800", "91900"])
@pytest.mark.parametrize("name,mesh,flags", [
    ("gpt2", "dp=2,tp=2", ()),
    lanes.full("gpt2", "dp=4", ()),  # one sample per rank
    lanes.full("gpt2", "tp=4", ()),  # one head per rank
    ("llama", "tp=2", ("--sharding-policy", "megatron+sp")),
    ("gpt2_deep", "dp=2,pp=2", ("--schedule", "1f1b", "--recompute", "full")),
    lanes.full("bert", "dp=2", ()),
    ("bart", "dp=1", ()),
    lanes.full("qwen", "dp=1", ()),
    lanes.full("opt", "dp=1", ()),
    lanes.full("bert", "dp=1", ("--precision", "half")),
    lanes.full("gpt_dropout", "dp=2,tp=2", ()),
    ("gpt_dropout", "dp=1", ("--precision", "half")),
], ids=lambda value: value if isinstance(value, str) else "-".join(value))  # fmt: skip
def test_attention(tmp_path, exports, monkeypatch, name, mesh, flags, version):
    """Losses with cuDNN's attention equal those of the fallback kernels, up to roundings.

    The models have causal attention, grouped queries, padding, queries and keys of different lengths, windows and dropout.
    Attention is described to cuDNN as one operation or, for older versions, as a graph of operations.
    """
    monkeypatch.setenv("PSRT_FAKE_CUDNN_VERSION", version)
    micro_batches, found = 4 if "pp" in mesh else 1, []
    batches = oracle.draw_batches(oracle.zoo(name), micro_batches)
    monkeypatch.setenv("PSRT_FAKE_LOG", str(tmp_path / "log"))
    for library in ["off", replay.environment()["PSRT_CUDNN"]]:
        monkeypatch.setenv("PSRT_CUDNN", library)
        (tmp_path / "log").unlink(missing_ok=True)
        folder = tmp_path / ("without" if library == "off" else "with")
        folder.mkdir()
        trained = oracle.train_compiled(folder, oracle.export(name, exports), batches, mesh, micro_batches, "adamw(lr=1e-3)",
                                        ("--target", "cuda:replay", *(() if "--precision" in flags else ("--precision", "bf16")), *flags))  # fmt: skip
        assert "note:" not in trained.output
        log = (tmp_path / "log").read_text()
        found.append((trained.losses, log.count("psrt_attention_dq"), log.count(EXECUTED)))
    (without, gradients, none), (losses, compared, executed) = found
    assert none == 0 and executed > 2 * gradients  # forward and backward of each step, and comparisons
    assert 0 < compared < gradients / 2  # only in comparisons
    for ours, wanted in zip(losses, without, strict=True):
        assert abs(ours - wanted) <= 2e-3 * abs(wanted)


def real_library(where):
    """Returns (path of cuDNN in PyTorch's packages or a CUDA toolkit, folders of the libraries that it loads), or None without cuDNN."""
    if where == "toolkit":
        folders = [pathlib.Path(os.environ.get("CUDA_PATH", "/usr/local/cuda")) / "lib64"]
        library = folders[0] / "libcudnn.so.9"
    else:
        found = importlib.util.find_spec("nvidia") and importlib.util.find_spec("nvidia.cudnn")
        library = pathlib.Path(found.submodule_search_locations[0]) / "lib/libcudnn.so.9" if found else pathlib.Path("/nowhere")
        folders = sorted(library.parents[2].glob("*/lib"))
    return (library, ":".join(map(str, folders))) if library.exists() else None


CUDNN_PLANS = ["CompositeAttention", "Dropout", "OtherLengths", "Convolutions"]


@pytest.mark.part(2)
@pytest.mark.parametrize("where, name, gpu", [
    *[("package", name, "sm_90") for name in CUDNN_PLANS],
    *[pytest.param(where, "*", "*", marks=pytest.mark.full) for where in ("package", "toolkit")]])  # fmt: skip
def test_the_real_library_accepts_our_graphs(where, name, gpu):
    """The real cuDNN (9.10 or later) builds plans for GPUs that this machine does not have: convolutions, and attention as a graph of operations."""
    if not (found := real_library(where)):
        pytest.skip("there is no cuDNN")
    environment = {**os.environ, "PSRT_TEST_CUDNN": str(found[0]), "LD_LIBRARY_PATH": found[1], "GTEST_FILTER": f"*CudnnPlans.{name}/{gpu}"}
    done = subprocess.run([tools_folder() / "psrt-cudnn-plans-test"], capture_output=True, text=True, timeout=600, env=environment)
    print(done.stdout[-3000:])
    assert done.returncode == 0
    assert all(f"OK ] Gpus/CudnnPlans.{each}/sm_90" in done.stdout for each in (CUDNN_PLANS if name == "*" else [name]))


# ---- messages that a user may see ------------------------------------------------------------------------------------------


def compile_folder(folder, exports, name, *flags):
    """Compiles a program into a folder, and writes its data. Returns the folder."""
    oracle.compile_model(folder, oracle.export(name, exports), "dp=1", "--optimizer", "sgd(lr=0.1)", "--target", "cuda:replay", *flags)
    batches = oracle.draw_batches(oracle.zoo(name), 1, steps=4)
    save_file({name: value.contiguous() for name, value in batches.items()}, folder / "data.safetensors")
    return folder


@pytest.fixture(scope="module")
def compiled(tmp_path_factory, exports):
    return compile_folder(tmp_path_factory.mktemp("compiled"), exports, "unet")


def run(compiled, **environment):
    """Runs the program of a folder. Returns (status, stderr, losses, log of the executed operations)."""
    for name in ["losses", "log"]:
        (compiled / name).unlink(missing_ok=True)
    done = subprocess.run([compiled / "program", "--data", "data.safetensors", "--steps", "4", "--quiet", "--losses", "losses"], cwd=compiled,
                          capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PSRT_FAKE_LOG": str(compiled / "log"), **environment})  # fmt: skip
    losses = (compiled / "losses").read_text().split() if done.returncode == 0 else []
    return done.returncode, done.stderr, losses, (compiled / "log").read_text() if (compiled / "log").exists() else ""


@pytest.fixture(scope="module")
def without(compiled):
    """Returns the losses of the fallback kernels."""
    status, said, losses, log = run(compiled, **replay.environment(PSRT_CUDNN="off"))
    assert (status, said) == (0, "") and EXECUTED not in log
    return losses


def test_cudnn_equals_the_fallback_kernels(compiled, without):
    status, said, losses, log = run(compiled)
    assert (status, said) == (0, "")
    assert EXECUTED in log
    assert max(abs(float(a) - float(b)) for a, b in zip(losses, without, strict=True)) <= 1e-5


def test_the_fake_driver_without_cudnn(compiled, without):
    """With the fake driver, the runtime does not search for a cuDNN for real GPUs."""
    status, said, losses, log = run(compiled, PSRT_CUDNN="")
    assert (status, said, losses) == (0, "", without) and EXECUTED not in log


def test_tf32_only_on_request(compiled, without):
    """cuDNN's heuristic lists an engine with TF32 first. The runtime skips this engine unless PSRT_TF32 is 1."""
    status, said, losses, _ = run(compiled, PSRT_TF32="1")
    assert (status, said) == (0, "")
    differences = [abs(float(a) - float(b)) / abs(float(b)) for a, b in zip(losses, without, strict=True)]
    assert 1e-6 < max(differences) < 1e-2


@pytest.mark.parametrize("fault,words", [
    ("wrong", ["convolution forward, f32, x 8x", "element 1 is"]),
    ("refuses", ["convolution weight gradient, f32", "no engine"]),
    ("fails", ["convolution input gradient, f32", "CUDNN_STATUS_EXECUTION_FAILED", "as PSRT_FAKE_CUDNN requests"]),
    ("unstartable", ["convolutions run on slower fallback kernels", "CUDNN_STATUS_NOT_INITIALIZED"]),
])  # fmt: skip
def test_fallback_kernels_replace_a_failing_cudnn(compiled, without, fault, words):
    """The results have the same bits as without cuDNN. A note reports the fallback once per kind of convolution."""
    status, said, losses, _ = run(compiled, PSRT_FAKE_CUDNN=fault)
    assert status == 0 and losses == without
    lines = said.splitlines()
    assert all(line.startswith("note: ") for line in lines) and len(set(lines)) == len(lines)
    assert all(word in said for word in words), said


@pytest.mark.parametrize("environment,words", [
    ({"PSRT_FAKE_CUDNN_VERSION": "8907"}, ["cuDNN 8.9.7", "9.0 or later", "off"]),
    ({"PSRT_CUDNN": "/nowhere/libcudnn.so.9"}, ["/nowhere/libcudnn.so.9", "No such file", "off"]),
    ({"PSRT_CUDNN": os.path.join(os.path.dirname(replay.environment()["PSRT_CUDA_DRIVER"]), "libpsrt_fake_cuda.so")}, ["cuDNN 0.0.0"]),
], ids=["old", "absent", "another library"])  # fmt: skip
def test_a_library_that_was_named_must_be_one(compiled, environment, words):
    status, said, _, _ = run(compiled, **environment)
    assert status == 3 and said.startswith("error: ") and "PSRT_CUDNN=" in said
    assert all(word in said for word in words), said


@pytest.fixture(scope="module")
def transformer(tmp_path_factory, exports):
    """Returns (folder of a program with attention, its losses without cuDNN)."""
    folder = compile_folder(tmp_path_factory.mktemp("transformer"), exports, "opt", "--precision", "bf16")
    status, said, losses, log = run(folder, **replay.environment(PSRT_CUDNN="off"))
    assert (status, said) == (0, "") and EXECUTED not in log
    return folder, losses


COMPOSITE = {"PSRT_FAKE_CUDNN_VERSION": "91900"}


@pytest.mark.part(2)
@pytest.mark.parametrize("environment,words", [
    ({"PSRT_FAKE_CUDNN": "wrong"}, ["attention value, bf16, ", "attention gradient, bf16, ", "with the fallback kernels"]),
    ({"PSRT_FAKE_CUDNN": "refuses"}, ["attention gradient, bf16, ", "no engine"]),
    ({"PSRT_FAKE_CUDNN": "fails"}, ["attention value, bf16, ", "CUDNN_STATUS_EXECUTION_FAILED"]),
    ({"PSRT_FAKE_CUDNN": "nan"}, ["attention value, bf16, ", "f32 mask", "is nan, but "]),
    ({"PSRT_FAKE_CUDNN": "unrepeatable"}, ["attention gradient, bf16, ", "two runs differ", "PSRT_NONDETERMINISTIC=1"]),
    ({"PSRT_FAKE_CUDNN_VERSION": "91001"}, ["attention value, bf16, ", "cuDNN 9.10.1 is too old; attention needs 9.10.2"]),
    ({"PSRT_FAKE_CUDNN": "wrong", **COMPOSITE}, ["attention value, bf16, ", "attention gradient, bf16, ", "with the fallback kernels"]),
    ({"PSRT_FAKE_CUDNN": "refuses", **COMPOSITE}, ["attention gradient, bf16, ", "no engine"]),
    ({"PSRT_FAKE_CUDNN": "unrepeatable", **COMPOSITE}, ["attention gradient, bf16, ", "two runs differ", "PSRT_NONDETERMINISTIC=1"]),
], ids=lambda value: "-".join(value.values()) if isinstance(value, dict) else "")  # fmt: skip
def test_fallback_attention_replaces_a_failing_cudnn(transformer, environment, words):
    """The fallback kernels run if cuDNN refuses attention or computes other values. Queries that attend to no key are compared, too."""
    folder, without = transformer
    status, said, losses, _ = run(folder, **environment)
    assert status == 0 and losses == without
    lines = said.splitlines()
    assert all(line.startswith("note: ") for line in lines) and len(set(lines)) == len(lines)
    assert all(word in said for word in words), said


def test_gradients_over_some_lengths_need_a_later_cudnn(transformer):
    """If the number of keys is not a multiple of 128, cuDNN 9.10 supports only the forward."""
    folder, without = transformer
    status, said, losses, log = run(folder, PSRT_FAKE_CUDNN_VERSION="91002")
    assert status == 0 and EXECUTED in log and "attention value" not in said
    assert all("attention gradient" in line and "not a multiple of 128 needs 9.16.0" in line for line in said.splitlines())
    assert max(abs(float(a) - float(b)) for a, b in zip(losses, without, strict=True)) <= 2e-3


@pytest.mark.parametrize("more", [{"PSRT_FAKE_CUDNN": "unrepeatable"}, COMPOSITE], ids=["unrepeatable", "composite"])
def test_nondeterministic_engines_only_on_request(transformer, more):
    """With PSRT_NONDETERMINISTIC, a composite graph may accumulate gradients of queries in any order. cuDNN does not report this for its engines."""
    folder, without = transformer
    status, said, losses, log = run(folder, PSRT_NONDETERMINISTIC="1", **more)
    assert (status, said) == (0, "") and log.count(EXECUTED) > 4
    assert max(abs(float(a) - float(b)) for a, b in zip(losses, without, strict=True)) <= 2e-3


# ---- which is faster -----------------------------------------------------------------------------------------------

# Times in microseconds, larger than those of both implementations on a busy machine.
SLOW_CUDNN, SLOW_KERNELS = {"PSRT_FAKE_CUDNN_TIME": "300000"}, {"PSRT_FAKE_KERNEL_TIME": "30000"}


@pytest.fixture
def measured(tmp_path):
    return {"PSRT_ALGORITHM_TIMING": "1", "PSRT_ALGORITHM_CACHE": str(tmp_path / "cache.json")}


def chosen(measured):
    """Returns the chosen implementation per problem: "cudnn" or "own"."""
    return json.loads(pathlib.Path(measured["PSRT_ALGORITHM_CACHE"] + ".cudnn").read_text())["algorithms"]


def test_the_faster_kernel_is_chosen_and_remembered(transformer, measured):
    folder, without = transformer
    status, said, losses, _ = run(folder, **measured, **SLOW_CUDNN)
    assert (status, said, losses) == (0, "", without)
    assert set(chosen(measured).values()) == {"own"} and all("attention" in problem for problem in chosen(measured))
    # The stored choice is used, although the other implementation is faster now: two runs give the same bits.
    status, said, losses, _ = run(folder, **measured, PSRT_FAKE_KERNEL_TIME="5000")
    assert (status, said, losses) == (0, "", without)


def test_cudnn_is_taken_where_it_is_faster(compiled, measured):
    status, said, losses, _ = run(compiled, **measured, **SLOW_KERNELS)
    assert (status, said) == (0, "") and set(chosen(measured).values()) == {"cudnn"}
    assert all("convolution" in problem for problem in chosen(measured))
    again, plain = run(compiled, **measured), run(compiled)
    assert losses == again[2] == plain[2]
    calls = [[log.count(name) for name in (EXECUTED, "psrt_convolution")] for _, _, _, log in (again, plain)]
    assert calls[0] == calls[1] and calls[0][0] > 4 * calls[0][1]  # fallback kernels run only in comparisons


def test_without_timing_cudnn_is_used(transformer, measured):
    """Without timing, cuDNN is used wherever its results are correct. Stored times are not read."""
    folder, without = transformer
    run(folder, **measured, **SLOW_CUDNN)
    status, said, losses, _ = run(folder, **{**measured, "PSRT_ALGORITHM_TIMING": "0"})
    assert (status, said, losses) == (0, "", run(folder)[2]) and losses != without


def test_a_wrong_cudnn_is_not_measured(transformer, measured):
    folder, without = transformer
    status, said, losses, _ = run(folder, **measured, PSRT_FAKE_CUDNN="wrong")
    assert status == 0 and losses == without and "with the fallback kernels" in said
    assert not os.path.exists(measured["PSRT_ALGORITHM_CACHE"] + ".cudnn")


def test_a_program_without_convolutions_needs_no_cudnn(tmp_path, exports):
    program = oracle.compile_model(tmp_path, oracle.export("mlp", exports), "dp=1", "--optimizer", "sgd(lr=0.1)", "--target", "cuda:replay")
    save_file({name: value.contiguous() for name, value in oracle.draw_batches(oracle.zoo("mlp"), 1).items()}, tmp_path / "data.safetensors")
    done = subprocess.run([program, "--data", "data.safetensors", "--steps", "1", "--quiet"], cwd=tmp_path, capture_output=True, text=True,
                          timeout=60, env={**os.environ, "PSRT_CUDNN": "/nowhere"})  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
