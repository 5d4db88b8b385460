"""Kernels for GPUs as PTX: what every model of the zoo is compiled to assembles for each architecture, spills nothing and calls nothing.

Where there is no ptxas (of a CUDA toolkit), only the text is looked at. Whether they compute the right thing: test_kernels.py, test_cuda.py.
"""
import itertools
import os
import re
import shutil
import subprocess

import joined
import lanes
import op_cases
import oracle
import pytest

MODELS = ["mlp", "gpt", "gpt_dropout", "gpt2", "llama", "bert", "resnet", "mobile", "unet", "vit"]
ARCHITECTURES = ["sm_80", "sm_90", "sm_100"]


def find_ptxas():
    """The assembler of a CUDA toolkit; None where there is none, or one that does not run."""
    for path in [shutil.which("ptxas"), "/usr/local/cuda/bin/ptxas"]:
        if path and os.access(path, os.X_OK) and subprocess.run([path, "--version"], capture_output=True).returncode == 0:
            return path
    return None


PTXAS = find_ptxas()


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports")
    made = {}

    def export(name):
        if name not in made:
            made[name] = oracle.export(name, folder)
        return made[name]

    return export


def compile_ptx(folder, model, architecture, *flags):
    oracle.run([oracle.tools_folder() / "ps-compile", model, "-o", folder / "program", "--mesh", "dp=1", "--target", f"cuda:{architecture}",
                "--optimizer", "adamw", "--clip-norm", "1", "--dump-dir", folder, *flags], folder)
    return folder / "6-native.ptx"


def spills(log):
    """[(kernel, what ptxas says)] of those that spill."""
    kernels = re.findall(r"Function properties for (\w+)\n\s*(.*?)\n", log)
    return [(name, said) for name, said in kernels if "0 bytes spill stores, 0 bytes spill loads" not in said]


def test_there_is_an_assembler():
    """Else a run of the tests says what it left out."""
    if not PTXAS:
        pytest.skip("there is no ptxas of a CUDA toolkit, on PATH or in /usr/local/cuda/bin: of PTX only the text is looked at")


# The middle lane has each model, every second one in fp32.
CELLS = [
    (name, precision) if (precision == "fp32") == (number % 2 == 0) else lanes.full(name, precision)
    for (number, name), precision in itertools.product(enumerate(MODELS), ["fp32", "bf16"])
]


@pytest.mark.parametrize("name, precision", [*CELLS, lanes.full("gpt2", "fp8"), ("llama", "fp8")])
def test_model(exports, tmp_path, name, precision):
    for architecture in ARCHITECTURES:
        path = compile_ptx(tmp_path, exports(name), architecture, "--precision", precision)
        text = path.read_text()
        assert f".target {architecture}" in text
        assert not re.findall(r"\.extern .*", text)  # libdevice, printf, ...
        assert len(re.findall(r"\.entry ", text)) > 5
        if not PTXAS:
            continue
        done = subprocess.run([PTXAS, f"-arch={architecture}", "-v", path, "-o", tmp_path / "cubin"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:2000]
        assert len(re.findall("Function properties", done.stderr)) == len(re.findall(r"\.entry ", text))
        assert spills(done.stderr) == []


@pytest.mark.parametrize("architecture", ["sm_86", "sm_88", "sm_89", "sm_103", "sm_110", "sm_120", "sm_121"])
def test_other_architectures(exports, tmp_path, architecture):
    """Each begins with a version of PTX of its own."""
    path = compile_ptx(tmp_path, exports("gpt"), architecture)
    assert f".target {architecture}" in path.read_text()
    if PTXAS:
        done = subprocess.run([PTXAS, f"-arch={architecture}", path, "-o", tmp_path / "cubin"], capture_output=True, text=True)
        assert done.returncode == 0 or "is not defined for option 'gpu-name'" in done.stderr, done.stderr[:2000]  # an older toolkit


def test_a_spill_is_noticed():
    log = "ptxas info    : Function properties for k1\n    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
    assert spills(log) == [("k1", "8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads")]


def ptx_of(folder, shape, dtype):
    """PTX of one group: two additions and a product."""
    folder.mkdir()
    case = op_cases.OpCase("group", f"%r0 = ps.add %a, %b ATTRIBUTES : tensor<{shape}x{dtype}>",
                           {"a": f"tensor<{shape}x{dtype}>", "b": f"tensor<{shape}x{dtype}>"}, [f"tensor<{shape}x{dtype}>"])  # fmt: skip
    module = folder / "planned.mlir"
    module.write_text(joined.module([joined.Call("group", case)], '"dp" = 1 : data'))
    oracle.run([oracle.tools_folder() / "ps-compile", module, "-o", folder / "program.so", "--target", "cuda:sm_90", "--dump-dir", folder], folder)
    return (folder / "6-native.ptx").read_text()


def test_accesses_are_of_16_bytes_where_sizes_allow_it(tmp_path):
    """And of one element where rows are odd."""
    for dtype, access in {"f32": "v4.b32", "bf16": "v4.b32", "i64": "v2.b64"}.items():
        text = ptx_of(tmp_path / dtype, "64x128", dtype)
        assert f"ld.global.{access}" in text and f"st.global.{access}" in text, text
        odd = ptx_of(tmp_path / f"{dtype}-odd", "63x127", dtype)
        assert "ld.global.v" not in odd and "st.global.v" not in odd
