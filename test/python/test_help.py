"""The --help of each tool and of a compiled program equals the text in test/help, so that reviewers see changes of flags.

test/help/ps-opt.txt has only Parashard's passes.
docs/ps-compile-flags.md is generated from test/help/ps-compile.txt.
To rewrite the files: build/venv/bin/python test/python/test_help.py
"""
import pathlib
import re
import subprocess
import sys
import tempfile

import pytest
from conftest import ROOT, tools_folder

sys.path.insert(0, str(ROOT / "cmake"))
import help_pages

FOLDER = ROOT / "test/help"
REFRESH = "rewrite the files with: build/venv/bin/python test/python/test_help.py"
PAGE = ROOT / "docs/ps-compile-flags.md"
ABOUT = """\
# Flags of ps-compile

`ps-compile --help` prints these flags. A plan file (`--plan`) may set `--batch`, `--target` and the
flags of the section Plan.
`build/venv/bin/python test/python/test_help.py` makes this page from `ps-compile --help`.
[program-flags.md](program-flags.md) has the flags of a compiled program.

"""
TOOLS = ["ps-compile", "ps-plan", "ps-run", "ps-translate", "ps-timeline", "psrt-probe"]


def read_help(program):
    done = subprocess.run([program, "--help"], check=True, capture_output=True, text=True, timeout=60)
    return done.stdout


def read_passes():
    """Returns the part of the help of ps-opt that describes Parashard's passes and their options. LLVM's part changes with its releases.

    Spaces between columns depend on the longest name, which may be LLVM's. They are reduced to two.
    """
    lines, is_ours, column = [], False, 0
    for line in read_help(tools_folder() / "ps-opt").splitlines():
        option = re.match(r"( *)--([\w-]+)", line)
        if option and option[2].startswith("ps-"):
            is_ours, column = True, len(option[1])
        elif option and len(option[1]) <= column:
            is_ours = False
        if is_ours:
            lines.append(re.sub(r" +- +", "  - ", line[column:], count=1))
    return "\n".join(lines) + "\n"


def compile_program(folder):
    subprocess.run([tools_folder() / "ps-compile", ROOT / "examples/gpt/gpt.pt2", "-o", folder / "program", "--batch", "4", "--mesh", "dp=2"], check=True,
                   capture_output=True, timeout=120)  # fmt: skip
    return folder / "program"


@pytest.mark.quick
@pytest.mark.parametrize("tool", TOOLS)
def test_help_of_tools(tool):
    assert read_help(tools_folder() / tool) == (FOLDER / f"{tool}.txt").read_text(), REFRESH


@pytest.mark.quick
def test_help_of_passes():
    assert read_passes() == (FOLDER / "ps-opt.txt").read_text(), REFRESH


@pytest.mark.quick
def test_help_of_a_program(tmp_path):
    assert read_help(compile_program(tmp_path)) == (FOLDER / "program.txt").read_text(), REFRESH


def make_page():
    return ABOUT + help_pages.write_markdown(help_pages.Help((FOLDER / "ps-compile.txt").read_text()))


@pytest.mark.quick
def test_the_page_has_every_flag():
    assert PAGE.read_text() == make_page(), REFRESH
    flags = re.findall(r"^  (--?[a-zA-Z][\w-]*)", (FOLDER / "ps-compile.txt").read_text(), re.M)
    assert len(flags) > 40 and flags == re.findall(r"^\| `(--?[\w-]+)", PAGE.read_text(), re.M)


@pytest.mark.quick
def test_ps_opt_shows_passes_first():
    """Options of LLVM's libraries are hidden, so that Parashard's passes are on the first page."""
    text = read_help(tools_folder() / "ps-opt")
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if re.match(r" +--ps-\w", line))
    ours = re.findall(r"^ +--(ps-[\w-]+)", text, re.MULTILINE)
    assert first < 40 and len(ours) > 40 and len(lines) < 400
    assert "--amdgpu" not in text


def write_files():
    FOLDER.mkdir(exist_ok=True)
    for tool in TOOLS:
        (FOLDER / f"{tool}.txt").write_text(read_help(tools_folder() / tool))
    (FOLDER / "ps-opt.txt").write_text(read_passes())
    PAGE.write_text(make_page())
    with tempfile.TemporaryDirectory() as folder:
        (FOLDER / "program.txt").write_text(read_help(compile_program(pathlib.Path(folder))))


if __name__ == "__main__":
    write_files()
