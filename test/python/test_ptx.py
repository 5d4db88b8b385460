"""Kernels for GPUs as PTX. For every model of the zoo, ptxas accepts the PTX for each architecture; no kernel spills registers or calls a library.

Without ptxas (from a CUDA toolkit), only the text of the PTX is checked. test_kernels.py and test_cuda.py check the results of the kernels.
"""
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
    """Returns the path of ptxas, the assembler of a CUDA toolkit; None if there is none or it does not run."""
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
    """Returns [(kernel, line of ptxas about it)] for the kernels that spill registers."""
    kernels = re.findall(r"Function properties for (\w+)\n\s*(.*?)\n", log)
    return [(name, said) for name, said in kernels if "0 bytes spill stores, 0 bytes spill loads" not in said]


def test_ptxas_is_installed():
    """Skipped without ptxas, so that the summary of the tests shows what was not checked."""
    if not PTXAS:
        pytest.skip("ptxas (of a CUDA toolkit) is neither on PATH nor in /usr/local/cuda/bin: only the text of the PTX is checked")


# The middle lane has each model in one precision and for one architecture, both in turns.
CELLS = [
    (name, precision, architecture)
    if (number % 2, number % 3) == (i, k) or (name, precision, architecture) == ("llama", "fp8", "sm_90")
    else lanes.full(name, precision, architecture)
    for number, name in enumerate(MODELS)
    for i, precision in enumerate(["fp32", "bf16", "fp8"])
    for k, architecture in enumerate(ARCHITECTURES)
    if precision != "fp8" or name in ("gpt2", "llama")
]


@pytest.mark.part(3)
@pytest.mark.parametrize("name, precision, architecture", CELLS)
def test_model(exports, tmp_path, name, precision, architecture):
    path = compile_ptx(tmp_path, exports(name), architecture, "--precision", precision)
    text = path.read_text()
    assert f".target {architecture}" in text
    assert not re.findall(r"\.extern .*", text)  # libdevice, printf, ...
    assert len(re.findall(r"\.entry ", text)) > 5
    if not PTXAS:
        return
    done = subprocess.run([PTXAS, f"-arch={architecture}", "-v", path, "-o", tmp_path / "cubin"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]
    assert len(re.findall("Function properties", done.stderr)) == len(re.findall(r"\.entry ", text))
    assert spills(done.stderr) == []


@pytest.mark.part(2)
@pytest.mark.parametrize("architecture", ["sm_86", "sm_88", "sm_89", "sm_103", "sm_110", "sm_120", "sm_121"])
def test_other_architectures(exports, tmp_path, architecture):
    """Each of these architectures needs another version of PTX."""
    path = compile_ptx(tmp_path, exports("gpt"), architecture)
    assert f".target {architecture}" in path.read_text()
    if PTXAS:
        done = subprocess.run([PTXAS, f"-arch={architecture}", path, "-o", tmp_path / "cubin"], capture_output=True, text=True)
        assert done.returncode == 0 or "is not defined for option 'gpu-name'" in done.stderr, done.stderr[:2000]  # an older toolkit


def test_a_spill_is_detected():
    log = "ptxas info    : Function properties for k1\n    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
    assert spills(log) == [("k1", "8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads")]


def ptx_of(folder, shape, dtype):
    """Returns the PTX of a program that adds two tensors."""
    folder.mkdir()
    case = op_cases.OpCase("group", f"%r0 = ps.add %a, %b ATTRIBUTES : tensor<{shape}x{dtype}>",
                           {"a": f"tensor<{shape}x{dtype}>", "b": f"tensor<{shape}x{dtype}>"}, [f"tensor<{shape}x{dtype}>"])  # fmt: skip
    module = folder / "planned.mlir"
    module.write_text(joined.module([joined.Call("group", case)], '"dp" = 1 : data'))
    oracle.run([oracle.tools_folder() / "ps-compile", module, "-o", folder / "program.so", "--target", "cuda:sm_90", "--dump-dir", folder], folder)
    return (folder / "6-native.ptx").read_text()


def test_accesses_are_of_16_bytes_where_sizes_allow_it(tmp_path):
    """With odd row lengths, each access is one element."""
    for dtype, access in {"f32": "v4.b32", "bf16": "v4.b32", "i64": "v2.b64"}.items():
        text = ptx_of(tmp_path / dtype, "64x128", dtype)
        assert f"ld.global.{access}" in text and f"st.global.{access}" in text, text
        odd = ptx_of(tmp_path / f"{dtype}-odd", "63x127", dtype)
        assert "ld.global.v" not in odd and "st.global.v" not in odd


def find_kernels(text):
    """Returns the text of each kernel by its name."""
    return dict(re.findall(r"\.entry (\w+)\((.*?)^}", text, re.M | re.S))


def test_no_kernel_transposes_heads(exports, tmp_path):
    """Attention reads and writes what the matmuls around it write and read."""
    compile_ptx(tmp_path, exports("gpt2"), "sm_90", "--precision", "bf16")
    placed = (tmp_path / "5-placed.mlir").read_text()
    assert "ps.attention_grad" in placed and not re.search(r"^      %\d+ = ps.transpose", placed, re.M)  # ops of kernels are indented by 6 blanks


def test_activations_use_instructions(exports, tmp_path):
    """A GELU needs one power of two and one approximate reciprocal per element, and no division."""
    kernels = find_kernels(compile_ptx(tmp_path, exports("gpt2"), "sm_90", "--precision", "bf16").read_text())
    gelus = [text for kernel, text in kernels.items() if kernel.startswith("k_gelu_") and "gelu_grad" not in kernel]
    assert gelus
    for text in gelus:
        assert text.count("ex2.approx") == text.count("rcp.approx") > 0 and "div." not in text
