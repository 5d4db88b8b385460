"""The default target has what is installed; `tests` has the rest."""
import subprocess

import pytest
from conftest import tools_folder

INSTALLED = ["bin/ps-compile", "bin/ps-timeline", "lib/libpsrt_main.a", "lib/libpsrt.so"]
OF_TESTS = ["bin/psrt-tiny", "bin/psrt-core-test", "bin/ps-json-test", "lib/libpsrt_fake_cuda.so", "bin/ps-fuzz-plan", "bin/contraction-rate"]


def list_made(target):
    """The words of all commands that make a target; what they make is among these."""
    build = tools_folder().parent
    if not (build / "build.ninja").exists():
        pytest.skip("the build is not one of ninja")
    return set(subprocess.run(["ninja", "-C", build, "-t", "commands", target], capture_output=True, text=True, check=True).stdout.split())


def test_default_target_has_no_tests():
    made = list_made("all")
    assert not set(INSTALLED) - made and not set(OF_TESTS) & made


def test_target_of_tests():
    assert not set(OF_TESTS) - list_made("tests")


def test_ps_compile_comes_with_what_it_links():
    """scripts/quickstart builds this target alone, and then links a program."""
    assert {"lib/libpsrt_main.a", "lib/libpsrt_builtins.a", "bin/psrt-probe"} <= list_made("ps-compile")
