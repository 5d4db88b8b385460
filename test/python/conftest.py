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
