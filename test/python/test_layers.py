"""Folders form layers. A folder may include headers only of folders in earlier lines of the lists below."""
import os
import pathlib
import re

import pytest
from conftest import ROOT, list_files

pytestmark = pytest.mark.quick

# From the lowest layer up. Folders in one line do not include each other.
COMPILER = [
    {"include/shared", "include/psrt"},
    {"dialects/ps"},
    {"dialects/rank"},
    {"include/parashard"},  # declares the interfaces of the libraries
    {"lib/Support"},  # files, JSON: no MLIR
    {"lib/Costs", "lib/Schedules"},  # clusters and their rates; pipeline schedules as data: no MLIR
    {"lib/IR"},
    {"lib/Import"},  # level 0
    {"lib/Training"},  # level 1
    {"lib/Precision", "lib/Sharding"},  # level 2
    {"lib/Partition"},  # level 3
    {"lib/Pipeline"},  # level 2: segments and stages; level 4
    {"lib/Fusion"},  # level 3: kernels
    {"lib/Memory"},  # level 2: recomputation; level 5: addresses of buffers
    {"lib/Planner"},  # level 4: the time of a step
    {"lib/Codegen"},  # level 6
    {"lib/Evaluate"},
    {"lib/Driver"},
    {"lib/Report"},
    {"tools"},
    {"test"},
    {"bench", "fuzz"},
]
RUNTIME = [
    {"include/shared", "include/psrt"},
    {"runtime/core"},
    {"runtime/bootstrap", "runtime/data", "runtime/comm/local", "runtime/device/cpu"},
    {"runtime/comm/process", "runtime/device/cuda"},
    {"runtime/session"},
    {"runtime/main"},
    {"runtime/probe"},
    {"test"},
    {"runtime/conformance", "runtime/testing"},
    {"bench", "fuzz"},
]
# Matches includes in quotes or angle brackets, with spaces wherever the preprocessor allows them.
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.M)
# Matches fakes and fixtures in folders `test` next to the code that they test.
TESTS = re.compile(r"/test/")


MOVE = "Move the code to a higher layer, or what it needs to a lower one (CONTRIBUTING.md has the order; include/shared is for both sides)."


def folder_of(path):
    parts = pathlib.PurePath(path).parts
    depth = 3 if parts[:2] in (("runtime", "comm"), ("runtime", "device")) else 1 if parts[0] in ("tools", "fuzz", "bench", "test") else 2
    return "/".join(parts[:depth])


def list_sources():
    return list_files("*.h", "*.cpp", "*.c")


def find_includes(file, text, known):
    """Yields the headers of this repository that a file includes, as paths from the root."""
    for bracket, target in INCLUDE.findall(text):
        beside = [os.path.normpath(pathlib.PurePath(file).parent / target)] if bracket == '"' else []
        for path in (target, f"include/{target}", *beside):
            if path in known:
                yield path


def list_includes():
    """Returns (file, included header) for all sources."""
    files = list_sources()
    known = set(files)
    return [(file, path) for file in files for path in find_includes(file, (ROOT / file).read_text(), known)]


def test_every_form_of_an_include_is_found():
    known = {"a/A.h", "b/B.h", "include/parashard/C.h"}
    text = '#include "b/B.h"\n#include <b/B.h>\n  #  include "b/B.h"\n#include"../b/B.h"\n# include <parashard/C.h>\n'
    assert list(find_includes("a/A.cpp", text, known)) == ["b/B.h"] * 4 + ["include/parashard/C.h"]
    assert list(find_includes("a/A.cpp", '#include "A.h"\n#include <A.h>\n// #include "b/B.h"\n#include <vector>\n', known)) == ["a/A.h"]


@pytest.mark.parametrize("layers", [COMPILER, RUNTIME], ids=["compiler", "runtime"])
def test_folders_include_what_is_below_them(layers):
    levels = {folder: level for level, folders in enumerate(layers) for folder in folders}
    seen, upward = set(), []
    for file, included in list_includes():
        source, target = folder_of(file), folder_of(included)
        if source not in levels or target not in levels or source == target or TESTS.search(file):
            continue
        seen.add((source, target))
        if levels[target] >= levels[source]:
            upward.append(f"{file} includes {included}: {target} is not in a lower layer than {source}")
    assert not upward, "\n".join([*upward, MOVE])
    assert len(seen) > 10, "the check must find the includes of the repository"


def test_every_folder_has_a_layer():
    folders = {folder_of(file) for file, _ in list_includes() if file.startswith(("lib/", "runtime/", "dialects/", "include/"))}
    assert not (unknown := folders - set().union(*COMPILER, *RUNTIME)), f"add {sorted(unknown)} to COMPILER or RUNTIME in this file"


def test_the_runtime_does_not_include_the_compiler():
    found = [f"{file} includes {path}" for file, path in list_includes() if file.startswith("runtime/") and path.startswith(("lib/", "dialects/"))]
    assert not found, "\n".join([*found, MOVE])


def test_a_library_has_the_namespace_of_its_folder():
    """Example: lib/Fusion and include/parashard/Fusion.h open `parashard::fusion`, or namespaces in it."""
    public = {"Levels", "Version"}  # not part of a library
    wrong, libraries = [], set()
    for file in list_sources():
        parts = pathlib.PurePath(file).parts
        if parts[0] != "lib" and parts[:2] != ("include", "parashard"):
            continue
        library = parts[1] if parts[0] == "lib" else pathlib.PurePath(file).stem
        expected = "parashard" if library in public else f"parashard::{library.lower()}"
        libraries.add(library)
        for opened in re.findall(r"^namespace (parashard[\w:]*) \{", (ROOT / file).read_text(), re.M):
            if opened != expected and not opened.startswith(f"{expected}::"):
                wrong.append(f"{file} opens {opened}, but its folder requires {expected}")
    assert not wrong, "\n".join(wrong)
    assert len(libraries) > 10
