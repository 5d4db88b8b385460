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


# Test files of what the compiler cannot do yet: each leaves this list when it first passes.
collect_ignore = ["test_evaluated.py"]

# Tests that are known to fail: reported as expected failures, and taken out here when they pass.
NOT_YET = {
    # Two forwards pending before two backwards, through the C API.
    "test_two_forwards_before_two_backwards",
    # Torch itself fails to export the model on the meta device here.
    "test_initial_values_are_the_same_on_every_layout",
    # The labels of token files are not read from the graph: --labels is asked for first.
    "test_too_little_data",
    "test_token_outside_the_vocabulary_is_given_with_its_place",
    "test_bad_data[token outside]",
    "test_policy_with_an_unknown_axis",
}


def pytest_collection_modifyitems(items):
    for item in items:
        if item.name in NOT_YET or item.name.split("[")[0] in NOT_YET:
            item.add_marker(pytest.mark.xfail(reason="known: see NOT_YET in conftest.py", strict=False))
