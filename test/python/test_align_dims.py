"""`--align-dims`: dims of weights are padded, and results do not change."""
import re

import cases
import lanes
import models
import oracle
import pytest
import replay
from conftest import tools_folder
from safetensors import safe_open
from safetensors.torch import load_file, save_file

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.part(3)
@pytest.mark.parametrize("case", lanes.cover(cases.ALIGNED, strength=1))
def test_equals_pytorch(tmp_path, exports, case):
    comparison = replay.run(oracle.check_case, tmp_path, exports, case)
    print(comparison)
    assert comparison.failures() == []


def odd_gpt():
    return models.gpt(vocabulary=2001, width=32, heads=4)


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A model with a vocabulary of 2001, which is slow on GPUs, and its data."""
    folder = tmp_path_factory.mktemp("odd")
    model = odd_gpt()
    save_file({n: v.contiguous() for n, v in oracle.draw_batches(model, 1).items()}, folder / "data.safetensors")
    return folder, model.export(folder / "model.pt2")


def products(folder, archive, *flags):
    """Returns the operand and result types of the matmuls of one rank, and the text of the module."""
    oracle.run([tools_folder() / "ps-compile", archive, "-o", "local.mlir", "--stop-after", "partitioned", *flags], folder)
    text = (folder / "local.mlir").read_text()
    return "\n".join(re.findall(r"ps\.contract .*: (\(.*\) -> \S+)", text)), text


def test_gpus_get_an_aligned_vocabulary(odd):
    folder, archive = odd
    gpu = ("--target", "cuda:sm_90")
    for flags, size in [(gpu, 2016), ((*gpu, "--align-dims", "off"), 2001), ((), 2001), (("--align-dims", "64"), 2048), ((*gpu, "--mesh", "tp=2"), 1008)]:
        found, _ = products(folder, archive, *flags)
        assert {int(n) for n in re.findall(r"\d+", found) if int(n) > 1000} == {size}, (flags, found)


def test_the_loss_stays_one_op_and_its_gradient_is_not_masked_again(odd):
    """Padded logits act as minus infinity. Their gradients are zero without a mask, and so are results of matmuls with these gradients."""
    folder, archive = odd
    for flags in [(), ("--precision", "bf16")]:
        _, text = products(folder, archive, "--align-dims", "16", *flags)
        functions = dict(re.findall(r"func\.func @(\S+?)\((.*?)\n  }", text, re.S))
        assert "ps.cross_entropy " in functions["norm.forward"] and "ps.reduce max" not in functions["norm.forward"]
        assert functions["norm.backward_input"].count("x2016xi1>, ") == 1, "only the logits are masked"
        for name in ["norm.backward_weight", "wte.backward_input"]:
            assert "2016x32" in functions[name] and "ps.select" not in functions[name], name


def test_dims_that_would_grow_too_much_are_not_padded(tmp_path, exports):
    """97 rows would grow to 112, and 30 columns to 32: by more than 2 %."""
    model = cases.ODD["gpt"]()
    found, text = products(tmp_path, model.export(tmp_path / "model.pt2"), "--target", "cuda:sm_90")
    assert "pad.16" not in text and "x97x" in found


def test_files_have_the_models_shapes(odd):
    """A padded and a plain program exchange weights and checkpoints without changing a bit. Files contain no padding."""
    folder, archive = odd
    plain = oracle.compile_model(folder, archive, "dp=1", "--optimizer", "adamw(lr=1e-3)", out="plain")
    padded = oracle.compile_model(folder, archive, "tp=2", "--optimizer", "adamw(lr=1e-3)", "--align-dims", "16", out="padded")
    line = ["--data", "data.safetensors", "--quiet"]
    oracle.run([padded, *line, "--ranks", 2, "--steps", 1, "--save", "saved", "--save-every", 1, "--gradients", "g.safetensors"], folder)
    oracle.run([plain, *line, "--steps", 1, "--load", "saved", "--export-weights", "from-padded.safetensors"], folder)
    oracle.run([padded, *line, "--ranks", 2, "--steps", 1, "--load", "saved", "--export-weights", "padded.safetensors"], folder)
    with safe_open(folder / "g.safetensors", "pt") as file:
        assert {2001} == {size for key in file.keys() for size in file.get_slice(key).get_shape() if size > 1000}
    mine, other = load_file(folder / "padded.safetensors"), load_file(folder / "from-padded.safetensors")
    assert mine.keys() == other.keys() and all(mine[key].equal(other[key]) for key in mine)


def test_explain_and_info_report_padded_dims(odd):
    folder, archive = odd
    tool = tools_folder() / "ps-compile"
    said = oracle.run([tool, archive, "-o", "explained", "--align-dims", "16", "--explain"], folder)
    assert "padded to 2016 elements per rank, a multiple of 16 (--align-dims)" in said
    assert "[2001 padded to 2016 per rank, 32]" in oracle.run([folder / "explained", "--info"], folder)


@pytest.mark.parametrize("value", ["0", "-3", "often", "5000", "1.5"])
def test_bad_values(odd, value):
    folder, archive = odd
    said = oracle.run([tools_folder() / "ps-compile", archive, "-o", "never", f"--align-dims={value}"], folder, expect=2)
    assert f"--align-dims takes auto, off, or a number from 1 to 4096, not '{value}'" in said
    assert not (folder / "never").exists()


@pytest.mark.parametrize("text", ["dp=2,pad:multiple=4"])
def test_a_mesh_axis_of_unknown_kind_is_refused(odd, text):
    folder, archive = odd
    said = oracle.run([tools_folder() / "ps-compile", archive, "-o", "never", "--mesh", text], folder, expect=2)
    assert 'unknown kind "multiple"' in said
