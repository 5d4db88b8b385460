"""Documents and comments name files that exist and are plain English, and the README stays short."""
import os
import pathlib
import re
import subprocess

import prose
import pytest
from conftest import ROOT

pytestmark = pytest.mark.quick

PATH = re.compile(
    r"(?<![\w/.<{$-])((?:docs|lib|dialects|runtime|include|test|tools|fuzz|bench|examples|scripts|python-bindings|cmake)/[\w./-]*\w)"
)
LINK = re.compile(r"\]\(([^)#:]+?)(?:#[^)]*)?\)")
# What is generated or installed.
MADE = ("docs/reference", "lib/cmake", "lib/libpsrt", "lib/parashard")
COMMENTS = {".cpp": "//", ".h": "//", ".td": "//", ".py": "#", ".cmake": "#", ".txt": "#", "": "#"}


def list_files():
    return subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()


def read_prose(file):
    """The text of a document, the comments of a source; None of other files."""
    path = ROOT / file
    if file.startswith(("fuzz/corpus", "CHANGELOG")) or path.is_symlink():
        return None
    if path.suffix == ".md":
        return path.read_text()
    if path.suffix not in COMMENTS or (path.suffix == "" and not file.startswith("scripts/")):
        return None
    mark = COMMENTS[path.suffix]
    return "\n".join(line.split(mark, 1)[1] for line in path.read_text().splitlines() if mark in line)


def test_cited_files_exist():
    files = list_files()
    known = {*files, *(str(folder) for file in files for folder in pathlib.PurePath(file).parents)}
    stems = {str(pathlib.PurePath(file).with_suffix("")) for file in files}
    documents = {pathlib.PurePath(file).name for file in files}
    missing, seen = [], 0
    for file in files:
        text = read_prose(file)
        if text is None:
            continue
        links = LINK.findall(re.sub(r"```.*?```", "", text, flags=re.S)) if file.endswith(".md") else []
        cited = [os.path.normpath(pathlib.PurePath(file).parent / link) for link in links]
        cited += [path.rstrip(".") for path in PATH.findall(text)]
        seen += len(cited)
        missing += [f"{file} cites {path}" for path in cited
                    if path not in known and path not in stems and not path.startswith(MADE)
                    and not re.search(r"[A-Z]{4}|FOLDER|do-thing", path)]  # fmt: skip
        missing += [f"{file} cites {name}" for name in re.findall(r"\b\w[\w-]*\.md\b", text) if name not in documents]
    assert not missing, "\n".join(missing)
    assert seen > 100, "the check has found the citations"


def test_readme_is_short():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 120


# ---- language ------------------------------------------------------------------------------------------------------

DOCUMENTS = [file for file in list_files() if file.endswith(".md") and not file.startswith("fuzz/corpus")]


@pytest.mark.parametrize("file", DOCUMENTS)
def test_prose_is_plain(file):
    found = prose.find_constructions(prose.strip_code((ROOT / file).read_text()))
    assert not found, "\n".join(f"{file}:{line}: '{text}': {advice}" for line, text, advice in found)


@pytest.mark.parametrize("file", [file for file in DOCUMENTS if file != "CHANGELOG.md"])
def test_prose_is_wrapped(file):
    text = (ROOT / file).read_text()
    found = [f"{file}:{line}: {length} columns" for line, length in prose.find_long_lines(text)]
    found += [f"{file}:{line}: a paragraph of {length} lines" for line, length in prose.find_long_paragraphs(text)]
    assert not found, "\n".join(found)


SOURCES = (".h", ".cpp", ".c", ".td", ".mlir", ".js", ".css")
SCRIPTS = (".cmake", ".cmake.in", "CMakeLists.txt", ".yml", ".toml", ".clang-tidy", ".clang-format", "requirements.txt")


def find_finder(file):
    """Returns the function of prose.py that reads a source or a script, or None."""
    if file.endswith(SOURCES):
        return prose.find_constructions_of_comments
    if file.endswith(".py"):
        return prose.find_constructions_of_python
    if file.endswith(SCRIPTS):
        return prose.find_constructions_of_scripts
    if "." in pathlib.PurePath(file).name:
        return None
    with open(ROOT / file, "rb") as opened:
        first = opened.readline()
    if not first.startswith(b"#!"):
        return None
    return prose.find_constructions_of_python if b"python" in first else prose.find_constructions_of_scripts


FINDERS = {file: find_finder(file) for file in list_files() if not file.startswith("fuzz/corpus") and not (ROOT / file).is_symlink()}


@pytest.mark.parametrize("kind", ["comments", "python", "scripts"])
def test_comments_are_plain(kind):
    """Also docstrings and names of tests."""
    finder = getattr(prose, f"find_constructions_of_{kind}")
    files = [file for file, one in FINDERS.items() if one is finder]
    found = [f"{file}:{line}: '{text}': {advice}" for file in files for line, text, advice in finder((ROOT / file).read_text())]
    assert not found, "\n".join(found)
    assert len(files) > 50, "the check has found the files"


@pytest.mark.parametrize("file", ["mkdocs.yml", *(file for file in list_files() if file.startswith("test/help/"))])
def test_printed_text_is_plain(file):
    """The text of --help, and the title and descriptions of the site."""
    found = prose.find_constructions((ROOT / file).read_text())
    assert not found, "\n".join(f"{file}:{line}: '{text}': {advice}" for line, text, advice in found)


BAD = """It is no op, and goes
on behind the product.

* One entry a dim. What is kept is small. `is no code`
* It comes
  behind.
"""


def test_constructions_are_found():
    """Also over the end of a line; not in code, nor where the words are part of plain English."""
    found = prose.find_constructions(prose.strip_code(BAD))
    assert [(line, text) for line, text, _ in found] == [
        (1, "goes on"), (1, "is no"), (2, "behind"), (2, "product"), (4, ". What is kept is"), (4, "entry a dim"),
        (6, "behind")]  # fmt: skip
    assert not prose.find_constructions("There is no deadlock. It is no longer used.\n\n1. A dot product per rank.")


BAD_SOURCE = """/// What is here.
int a; // it is no number
/// Returns the product. `is no code` ///< goes

// What is kept is the loss.
char b[] = "// is no comment";
/// It is
/// no number.
int c;  // It goes
        // on.
int d = '"'; /* It is told. */ /* It goes */
/**
 * It stands
 * in for another.
 */
// CHECK: is told
"""


def test_constructions_of_comments_are_found():
    """Also over the end of a line, and in block comments. A product may be one of numbers; code spans do not count."""
    found = prose.find_constructions_of_comments(BAD_SOURCE)
    assert [(line, text) for line, text, _ in found] == [
        (1, "What"), (2, "is no"), (5, "What is kept is"), (7, "is no"), (9, "goes on"), (11, "is told"),
        (13, "stands in for")]  # fmt: skip


BAD_PYTHON = '''"""It is
no number."""
A = "# is no comment"  # It goes
# on.
class B:
    """It is `is no code`."""
    def test_what_is_here_is_no_number(self):
        """One entry
        per rank, then behind."""
        return """
# is told"""
'''


def test_constructions_of_python_are_found():
    """In docstrings, comments, and names of tests; not in strings."""
    found = prose.find_constructions_of_python(BAD_PYTHON)
    assert [(line, text) for line, text, _ in found] == [
        (1, "is no"), (3, "goes on"), (7, "is no"), (7, "what is here is"), (9, "behind")]  # fmt: skip


def test_constructions_of_scripts_are_found():
    found = prose.find_constructions_of_scripts("#!/bin/sh\n# It is\n# no part of that.\necho a#goes on ${#behind} # is told\n")
    assert [(line, text) for line, text, _ in found] == [(2, "is no"), (3, "no part of"), (4, "is told")]


def test_wrapping_is_checked():
    line = "word " * 21
    assert prose.find_long_lines(f"{line}\n| {line}\n```\n{line}\n```\n") == [(1, 105)]
    assert prose.find_long_paragraphs("a\n" * 7 + "\n" + "* a\n  b\n" * 5) == [(1, 7)]
