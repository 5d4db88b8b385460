"""Documents and comments name files that exist, and the README stays short."""
import os
import pathlib
import re
import subprocess

from conftest import ROOT

PATH = re.compile(
    r"(?<![\w/.<{$-])((?:docs|lib|dialects|runtime|include|test|tools|fuzz|bench|examples|scripts|python-bindings|cmake)/[\w./-]*\w)"
)
LINK = re.compile(r"\]\(([^)#:]+?)(?:#[^)]*)?\)")
# What is generated or installed.
MADE = ("docs/reference", "lib/parashard")
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
        links = LINK.findall(text) if file.endswith(".md") else []
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
    assert [line for line in lines if len(line) > 100 and not line.startswith("|")] == []
