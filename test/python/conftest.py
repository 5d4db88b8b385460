"""Fixtures and hooks of all Python tests: the tools under test, shared folders, and lanes."""
import contextlib
import gc
import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import lanes
import once

ROOT = pathlib.Path(__file__).resolve().parents[2]


def tools_folder():
    """Returns bin/ of the build under test: PARASHARD_BIN, or bin/ of the release build."""
    return pathlib.Path(os.environ.get("PARASHARD_BIN", ROOT / "build/release/bin"))


def package_folder():
    """Returns the folder of the Python package with its extension module, in the build under test."""
    return tools_folder().parent / "python"


def run_tool(tool, *arguments, **environment):
    """Runs a tool of the build under test, with further environment variables. Returns the completed process."""
    command = [tools_folder() / tool, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **environment})


IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ
SHARED = pytest.StashKey[pathlib.Path]()


@pytest.fixture(scope="session", autouse=True)
def shared(request, tmp_path_factory):
    """The folder that all workers of this run share, for files that are created once (once.py)."""
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if IS_WORKER else folder) / "shared"
    same = folder / "same-exports"
    same.mkdir(exist_ok=True, parents=True)
    os.environ["PARASHARD_TEST_EXPORTS"] = str(same)  # same_exports.py
    request.config.stash[SHARED] = folder
    return folder


@pytest.fixture(scope="session")
def exports(shared):
    """The folder of the exported models. Each model is exported when a test first needs it."""
    folder = shared / "exports"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def shared_programs(shared, monkeypatch):
    """Lets all tests of a run share the programs that the Python package compiles."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared / "cache"))


@pytest.fixture(scope="module")
def one_thread():
    """Limits PyTorch to one thread, for tests whose tensors are too small for several threads."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def pytest_configure(config):
    """Registers the marks, and makes Python and the linker fast.

    torch.export makes so many objects that Python spent a third of its time in garbage collections. A compiler driver takes
    as long to start as the linker takes to link; test_install.py also links with compiler drivers. With several workers, limits
    PyTorch to one thread per worker, because waiting threads spin.
    """
    for mark, meaning in lanes.MARKS.items():
        config.addinivalue_line("markers", f"{mark}: {meaning}")
    gc.set_threshold(50_000, 10, 10)
    os.environ.setdefault("PARASHARD_LINKER", str(tools_folder().parent / "lib/ld.lld"))
    if IS_WORKER:
        os.environ.setdefault("OMP_NUM_THREADS", "1")


def list_files(*patterns):
    """Returns the files of the repository that match patterns of git, or all files: also new files that git does not ignore."""
    line = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns]
    names = subprocess.run(line, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted(name for name in set(names) if name and os.path.lexists(ROOT / name))


def pytest_sessionstart(session):
    """Fails with the build command if the programs of the tests are missing. The default target does not build them."""
    folder = tools_folder()
    if folder.is_dir() and not (folder / "psrt-tiny").exists():
        raise pytest.UsageError(f"{folder} has no programs of the tests; build them: cmake --build --preset release --target all tests")


def pytest_addoption(parser):
    parser.addoption("--repeat", type=int, default=1, help="run each test this many times (faults: each time, "
                     "a fault finds the other ranks in other states)")  # fmt: skip


    parser.addoption("--lane", choices=lanes.LANES, default="middle", help="quick: one rank per model and importer; middle: "
                     "a pairwise cover of each table; all: every cell (docs/testing.md)")  # fmt: skip


def pytest_collection_modifyitems(config, items):
    """Selects the tests of the lane, and the tests that the command line names (FILE::TEST)."""
    named = [argument.split("::", 1)[1] for argument in config.args if "::" in argument]
    lane = config.getoption("lane")
    lanes.thin(items)
    if lane != "all":
        lanes.take_parts(items, lanes.find_commit())

    def is_kept(item):
        is_named = any(item.nodeid.split("::", 1)[1].startswith(name) for name in named)
        return is_named or lanes.is_in(lane, {mark.name for mark in item.iter_markers()})

    kept = [item for item in items if is_kept(item)]
    config.hook.pytest_deselected(items=[item for item in items if not is_kept(item)])
    items[:] = kept


def pytest_generate_tests(metafunc):
    if (count := metafunc.config.getoption("repeat")) > 1:
        metafunc.fixturenames.append("repetition")
        metafunc.parametrize("repetition", range(count))


def hold_turn(item, is_alone):
    """Holds the lock that all workers share: exclusively with `is_alone`, otherwise together with other workers."""
    folder = item.config.stash.get(SHARED, None)
    return once.hold_turn(folder, is_alone) if IS_WORKER and folder else contextlib.nullcontext()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    with hold_turn(item, False):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Runs a test that measures time (the mark `alone`) while the other workers wait."""
    with hold_turn(item, item.get_closest_marker("alone") is not None):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    with hold_turn(item, False):
        return (yield)
