"""The sources are formatted, linted and spelled according to .clang-format, ruff.toml and _typos.toml."""
import pathlib
import subprocess
import sys

import pytest
from conftest import ROOT, list_files

LLVM = 22
PYTHON_TOOLS = pathlib.Path(sys.executable).parent  # where pip installs ruff and typos


def check(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[:5000] + done.stderr[:5000]


def test_cpp_is_formatted():
    sources = list_files("*.cpp", "*.h")
    assert len(sources) > 500
    check(f"clang-format-{LLVM}", "--style=file", "--dry-run", "-Werror", *sources)


def test_no_line_ends_in_blanks():
    found = subprocess.run(["git", "grep", "-IlP", r"[ \t]+$", "--", ".", ":!fuzz/corpus", ":!*.svg", ":!*.patch"], cwd=ROOT, capture_output=True, text=True)
    assert found.stdout == "" and found.returncode == 1, found.stderr  # status 1: no matches


def test_python_is_linted():
    check(PYTHON_TOOLS / "ruff", "check", "--no-cache", "--quiet", ".")


def test_scripts_in_python_are_linted_too():
    """ruff.toml lists the Python scripts, because their file names have no ending."""
    scripts = [file for file in list_files() if "." not in pathlib.PurePath(file).name and is_python(ROOT / file)]
    assert scripts
    listed = (ROOT / "ruff.toml").read_text()
    assert [file for file in scripts if f'"{file}"' not in listed] == []


def is_python(path):
    return path.is_file() and path.read_bytes()[:40].startswith((b"#!/usr/bin/env python", b"#!/usr/bin/python"))


def test_words_are_spelled():
    check(PYTHON_TOOLS / "typos", "--format", "brief")


@pytest.mark.parametrize(
    "tool,file,text",
    [
        (f"clang-format-{LLVM}", "a.cpp", "int  x;\n"),
        (PYTHON_TOOLS / "ruff", "a.py", "import os\n"),
        (PYTHON_TOOLS / "typos", "a.md", "Re" "cieves a message.\n"),
    ],
    ids=["clang-format", "ruff", "typos"],
)
def test_mistakes_are_found(tmp_path, tool, file, text):
    """The configuration files do not disable the tools."""
    for name in (".clang-format", "ruff.toml", "_typos.toml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / file).write_text(text)
    arguments = {"a.cpp": ["--style=file", "--dry-run", "-Werror", file], "a.py": ["check", "--no-cache", file], "a.md": [file]}
    assert subprocess.run([tool, *arguments[file]], cwd=tmp_path, capture_output=True).returncode
