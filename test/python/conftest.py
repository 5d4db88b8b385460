"""What all tests against PyTorch share: where the tools are."""
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
ROOT = pathlib.Path(__file__).resolve().parents[2]


def tools_folder():
    """bin/ of the build under test: PARASHARD_BIN, else the release build."""
    return pathlib.Path(os.environ.get("PARASHARD_BIN", ROOT / "build/release/bin"))


@pytest.fixture(scope="session")
def exports(tmp_path_factory):
    """The folder of the zoo's archives, each made when it is first asked for."""
    return tmp_path_factory.mktemp("exports")


@pytest.fixture(scope="module")
def one_thread():
    """For tensors so small that PyTorch's threads would only wait for one another."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def pytest_configure(config):
    """Gives each of several workers one PyTorch thread: waiting threads spin and take the cores from the others."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_addoption(parser):
    parser.addoption("--repeat", type=int, default=1, help="run each test so many times (faults: what one rank does "
                     "meets the others at other places each time)")  # fmt: skip


def pytest_generate_tests(metafunc):
    if (count := metafunc.config.getoption("repeat")) > 1:
        metafunc.fixturenames.append("repetition")
        metafunc.parametrize("repetition", range(count))
