"""Later compiles reuse the objects of equal kernels, and give the same program as a compile without them."""

import models
import pytest
from conftest import run_tool as run
from refusals import DAMAGES


class Compiler:
    """Compiles one model file, with a separate cache."""

    def __init__(self, folder):
        self.folder, self.model = folder, folder / "mlp.pt2"
        models.mlp().export(self.model)

    def compile(self, *flags, cache="cache", program="program"):
        """Compiles the model. Returns the bytes of the program."""
        flags = ["-o", self.folder / program, "--optimizer", "adamw(lr=1e-3)", *flags]
        done = run("ps-compile", self.model, *flags, XDG_CACHE_HOME=str(self.folder / cache))
        assert done.returncode == 0, done.stderr
        return (self.folder / program).read_bytes()

    def read(self, cache="cache"):
        return {path.name: path.read_bytes() for path in (self.folder / cache / "parashard/kernels").iterdir()}


@pytest.fixture
def compiler(tmp_path):
    return Compiler(tmp_path)


def test_a_second_compile_adds_no_kernels(compiler):
    first, kernels = compiler.compile(), compiler.read()
    assert kernels and compiler.compile() == first and compiler.read() == kernels
    # Another schedule needs the same kernels in part, and gives the same program as without a cache.
    flags = ["--mesh", "pp=2", "--micro-batches", 2]
    assert compiler.compile(*flags) == compiler.compile(*flags, cache="other")
    assert compiler.read("other").keys() <= compiler.read().keys()
    assert len(compiler.read()) < len(kernels) + len(compiler.read("other"))


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_kernels_are_replaced(compiler, damage):
    first, kernels = compiler.compile(), compiler.read()
    for name, data in kernels.items():
        (compiler.folder / "cache/parashard/kernels" / name).write_bytes(damage(data))
    assert compiler.compile() == first and compiler.read() == kernels


def test_kernels_of_another_cpu_are_not_used(compiler):
    compiler.compile()
    kernels = compiler.read()
    assert compiler.compile("--target", "cpu:x86-64") == compiler.compile("--target", "cpu:x86-64", cache="other")
    assert compiler.read().keys() == kernels.keys() | compiler.read("other").keys()
    assert not kernels.keys() & compiler.read("other").keys()


def test_a_folder_that_cannot_be_written_changes_nothing(compiler):
    first = compiler.compile()
    (compiler.folder / "file").touch()
    assert compiler.compile(cache="file") == first
