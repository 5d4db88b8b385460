"""Documents and comments refer only to files that exist, and are in plain English. The README is short."""
import os
import pathlib
import re

import prose
import pytest
from conftest import ROOT, list_files

pytestmark = pytest.mark.quick

FOLDERS = "docs|lib|clusters|dialects|runtime|include|test|tools|fuzz|bench|examples|scripts|python-bindings|cmake|\\.ci|\\.github"
PATH = re.compile(rf"(?:(?<![\w/.<{{$-])|(?<=[\s`(]\./))((?:{FOLDERS})/[\w./-]*\w)")
# Matches a path with a placeholder for a name.
PLACEHOLDER = r"\b(NAME|FAMILY|FILE|FOLDER|TARGET|PRESET|NUMBER)|do-thing"
# Matches a Markdown link: its path and its anchor. Web addresses have a colon and do not match.
LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)")
# Paths of generated or installed files, which are not in the repository.
MADE = ("docs/reference", "lib/cmake", "lib/libpsrt", "lib/parashard")
SOURCES = (".h", ".cpp", ".c", ".def", ".mlir", ".js", ".css")
SCRIPTS = (".cmake", ".cmake.in", "CMakeLists.txt", ".yml", ".yaml", ".toml", ".clang-tidy", ".clang-format", "requirements.txt")


def find_kind(file, text):
    """Returns how prose.py reads the comments of a file: "sources", "python" or "scripts"; None for other files."""
    first = text.split("\n", 1)[0]
    if file.endswith(".td"):
        return "tablegen"
    if file.endswith(SOURCES):
        return "sources"
    if file.endswith(".py") or (first.startswith("#!") and "python" in first):
        return "python"
    return "scripts" if file.endswith(SCRIPTS) or first.startswith("#!") else None


def read_prose(file, text):
    """Returns the text of a document or workflow, or the comments and docstrings of a source; None for other files."""
    if file.endswith(".md") or file.startswith(".github/"):
        return text
    kind = find_kind(file, text)
    if kind == "python":
        docstrings, comments, _ = prose.read_python(text)
        return f"{docstrings}\n{comments}"
    return kind and getattr(prose, f"read_{kind}")(text)


def strip_fences(text):
    return re.sub(r"^( *)```.*?^ *```", "", text, flags=re.S | re.M)


def find_anchors(text):
    """Returns GitHub's anchors for the headings of a document. Example: "## Level 0: `imported`" has the anchor level-0-imported."""
    anchors = []
    for heading in re.findall(r"^#{1,6} +(.*?)[ #]*$", strip_fences(text), re.M):
        words = re.sub(r"\]\([^)]*\)", "]", heading).lower()
        anchor = re.sub(r"[^\w -]", "", words).replace(" ", "-")
        anchors.append(f"{anchor}-{anchors.count(anchor)}" if anchor in anchors else anchor)
    return set(anchors)


def find_missing(texts, known):
    """Returns (cited files and anchors that do not exist, the number of citations). `texts` has the text of each file to check."""
    stems = {os.path.splitext(file)[0] for file in known}
    documents = {pathlib.PurePath(file).name for file in known}
    missing, seen = [], 0
    for file, text in texts.items():
        prose = read_prose(file, text)
        if prose is None:
            continue
        cited = [path.rstrip(".") for path in PATH.findall(prose)]
        for link, anchor in LINK.findall(strip_fences(text)) if file.endswith(".md") else []:
            target = os.path.normpath(pathlib.PurePath(file).parent / link) if link else file
            cited.append(target)
            if anchor and target.endswith(".md") and anchor not in find_anchors(texts.get(target, "")):
                missing.append(f"{file} cites #{anchor} of {target}")
        seen += len(cited)
        missing += [f"{file} cites {path}" for path in cited
                    if path not in known and path not in stems and not path.startswith(MADE)
                    and not re.search(PLACEHOLDER, path)]  # fmt: skip
        missing += [f"{file} cites {name}" for name in re.findall(r"\b\w[\w-]*\.md\b", prose) if name not in documents]
    return missing, seen


def read_texts(files):
    """Returns the text of each file, except for data files and the changelog."""
    own = [file for file in files if not file.startswith(("fuzz/corpus", "CHANGELOG")) and not (ROOT / file).is_symlink()]
    return {file: data.decode() for file in own if b"\0" not in (data := (ROOT / file).read_bytes())}


def test_cited_files_exist():
    files = list_files()
    missing, seen = find_missing(read_texts(files), {*files, *(str(folder) for file in files for folder in pathlib.PurePath(file).parents)})
    assert not missing, "\n".join(missing)
    assert seen > 100, "the check has found the citations"


@pytest.mark.parametrize(
    "file,text,cited",
    [
        ("a.md", "See [b](lib/a.h) and [c](scripts).", "scripts"),
        ("a.md", "# Level 0: `x`\n[here](#level-0-x), [there](b.md#level-0-x)", "#level-0-x of b.md"),
        ("a.md", "```sh\n# Code\n```\n[here](#code)", "#code of a.md"),
        ("b.md", "# Two\n# Two\n[here](#two-1), [there](#two-2)", "#two-2 of b.md"),
        ("a.cpp", "int a; // lib/a.h, lib/none.h", "lib/none.h"),
        ("a.h", "/* In lib/a.h\n * and lib/none.h. */", "lib/none.h"),
        ("a.py", "a = 'lib/other.h'  # lib/none.h", "lib/none.h"),
        ("a.py", "class A:\n    def f():\n        '''As in\n        lib/none.h'''", "lib/none.h"),
        ("a", "#!/usr/bin/env python3\n'''Reads lib/none.h.'''", "lib/none.h"),
        ("a", "#!/bin/sh\necho lib/other.h # lib/none.h", "lib/none.h"),
        (".github/workflows/a.yml", "run: scripts/none --quick", "scripts/none"),
        (".github/workflows/a.yml", "run: .ci/none", ".ci/none"),
    ],
)
def test_missing_files_are_found(file, text, cited):
    missing, _ = find_missing({"b.md": "# Other", file: text}, {"a.md", "b.md", "lib/a.h"})
    assert missing == [f"{file} cites {cited}"]


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


@pytest.mark.parametrize("kind", ["sources", "tablegen", "python", "scripts"])
def test_comments_are_plain(kind):
    """Checks comments, docstrings and names of tests."""
    find = getattr(prose, f"find_constructions_of_{kind}")
    files = {file: text for file, text in read_texts(list_files()).items() if find_kind(file, text) == kind}
    found = [f"{file}:{line}: '{words}': {advice}" for file, text in files.items() for line, words, advice in find(text)]
    assert not found, "\n".join(found)
    assert len(files) > (20 if kind == "tablegen" else 50), "the check has found the files"


@pytest.mark.parametrize("file", ["mkdocs.yml", *(file for file in list_files() if file.startswith("test/help/"))])
def test_printed_text_is_plain(file):
    """Checks the text of --help, and the title and descriptions of the documentation site."""
    found = prose.find_constructions((ROOT / file).read_text())
    assert not found, "\n".join(f"{file}:{line}: '{text}': {advice}" for line, text, advice in found)


BAD = """It is no op, and goes
on behind the product.

* One entry a dim. What is kept is small. `is no code`
* It comes
  behind.
"""


def test_constructions_are_found():
    """Constructions are found also across line ends, but not in code. Similar words in plain English are not reported."""
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
    """Constructions are found also across line ends and in block comments, but not in code spans. Comments may say "product"."""
    found = prose.find_constructions_of_sources(BAD_SOURCE)
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
    """Constructions are found in docstrings, comments and names of tests, but not in strings."""
    found = prose.find_constructions_of_python(BAD_PYTHON)
    assert [(line, text) for line, text, _ in found] == [
        (1, "is no"), (3, "goes on"), (7, "is no"), (7, "what is here is"), (9, "behind")]  # fmt: skip


def test_constructions_of_tablegen_are_found():
    text = 'def A {\n  let summary = "is no op"; // goes on\n  let description = [{\n    It is\n    told.\n    ```mlir\n    is no\n    ```\n  }];\n}\n'
    found = prose.find_constructions_of_tablegen(text)
    assert [(line, text) for line, text, _ in found] == [(2, "goes on"), (2, "is no"), (4, "is told")]


def test_constructions_of_scripts_are_found():
    found = prose.find_constructions_of_scripts("#!/bin/sh\n# It is\n# no part of that.\necho a#goes on ${#behind} # is told\n")
    assert [(line, text) for line, text, _ in found] == [(2, "is no"), (3, "no part of"), (4, "is told")]


def test_wrapping_is_checked():
    line = "word " * 21
    assert prose.find_long_lines(f"{line}\n| {line}\n```\n{line}\n```\n") == [(1, 105)]
    assert prose.find_long_paragraphs("a\n" * 7 + "\n" + "* a\n  b\n" * 5) == [(1, 7)]
