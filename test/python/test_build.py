"""The default target builds what is installed. The target `tests` builds the rest."""
import subprocess

import pytest
from conftest import tools_folder

INSTALLED = ["bin/ps-compile", "bin/ps-timeline", "lib/libpsrt_main.a", "lib/libpsrt.so"]
OF_TESTS = ["bin/psrt-tiny", "bin/psrt-core-test", "bin/ps-json-test", "lib/libpsrt_fake_cuda.so", "bin/ps-fuzz-plan", "bin/contraction-rate"]


def list_made(target):
    """Returns the words of all commands that build a target, which include the files that they build."""
    build = tools_folder().parent
    if not (build / "build.ninja").exists():
        pytest.skip("the build does not use ninja")
    return set(subprocess.run(["ninja", "-C", build, "-t", "commands", target], capture_output=True, text=True, check=True).stdout.split())


def test_default_target_has_no_tests():
    made = list_made("all")
    assert not set(INSTALLED) - made and not set(OF_TESTS) & made


def test_target_of_tests():
    assert not set(OF_TESTS) - list_made("tests")


def test_target_ps_compile_builds_the_libraries_it_links():
    """scripts/quickstart builds only this target and a few other ones, and then links a program."""
    assert {"lib/libpsrt_main.a", "lib/libpsrt_builtins.a", "bin/psrt-probe"} <= list_made("ps-compile")
