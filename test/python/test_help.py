"""The --help of each tool and of a compiled program is the text in test/help: a change of a flag or its help shows in review.

To rewrite the files: python test/python/test_help.py
"""
import pathlib
import re
import subprocess
import tempfile

import pytest
from conftest import ROOT, tools_folder

FOLDER = ROOT / "test/help"
TOOLS = ["ps-compile", "ps-run", "ps-translate", "ps-timeline"]


def read_help(program):
    done = subprocess.run([program, "--help"], check=True, capture_output=True, text=True, timeout=60)
    return done.stdout


def compile_program(folder):
    subprocess.run([tools_folder() / "ps-compile", ROOT / "examples/gpt/gpt.pt2", "-o", folder / "program", "--batch", "4", "--mesh", "dp=2"], check=True,
                   capture_output=True, timeout=120)  # fmt: skip
    return folder / "program"


@pytest.mark.quick
@pytest.mark.parametrize("tool", TOOLS)
def test_help_of_tools(tool):
    assert read_help(tools_folder() / tool) == (FOLDER / f"{tool}.txt").read_text(), "rewrite the files with: python test/python/test_help.py"


@pytest.mark.quick
def test_help_of_a_program(tmp_path):
    assert read_help(compile_program(tmp_path)) == (FOLDER / "program.txt").read_text(), "rewrite the files with: python test/python/test_help.py"


@pytest.mark.quick
def test_ps_opt_shows_passes_first():
    """Options of LLVM's libraries are hidden, so that our passes stand on the first page."""
    text = read_help(tools_folder() / "ps-opt")
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if re.match(r" +--ps-\w", line))
    ours = re.findall(r"^ +--(ps-[\w-]+)", text, re.MULTILINE)
    assert first < 120 and len(ours) > 40 and len(lines) < 400
    assert "--amdgpu" not in text


def write_files():
    FOLDER.mkdir(exist_ok=True)
    for tool in TOOLS:
        (FOLDER / f"{tool}.txt").write_text(read_help(tools_folder() / tool))
    with tempfile.TemporaryDirectory() as folder:
        (FOLDER / "program.txt").write_text(read_help(compile_program(pathlib.Path(folder))))


if __name__ == "__main__":
    write_files()
