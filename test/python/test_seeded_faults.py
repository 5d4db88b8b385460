"""The seeded faults of test/faults: each still applies, is small, and names the tests that should detect it."""
import re
import subprocess
import sys

import pytest
from conftest import ROOT

pytestmark = pytest.mark.quick

FOLDER = ROOT / "test/faults"
FAULTS = sorted(FOLDER.glob("*.patch"))
PRODUCT = ("lib/", "dialects/", "runtime/", "include/", "tools/")


def test_faults_are_numbered():
    assert [path.name[:2] for path in FAULTS] == [f"{n:02}" for n in range(1, len(FAULTS) + 1)] and len(FAULTS) >= 20


@pytest.mark.parametrize("path", FAULTS, ids=lambda path: path.stem)
def test_a_fault_applies_and_is_small(path):
    text = path.read_text()
    done = subprocess.run(["git", "apply", "--check", path], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    files = re.findall(r"^\+\+\+ b/(\S+)$", text, re.M)
    assert files and all(file.startswith(PRODUCT) and "/testing/" not in file for file in files)
    for sign in "+-":
        assert len(re.findall(rf"^\{sign}(?!\{sign}\{sign})", text, re.M)) <= 3
    _, look = re.match(r"([A-Z][^\n]+\.)\nLook: ([^\n]+)\n", text).groups()
    for name in look.split():
        assert not name.endswith(".py") or (ROOT / "test/python" / name).exists(), name


@pytest.mark.parametrize("numbers", ["99", "6", "06,", ""])
def test_an_unknown_number_is_refused(tmp_path, numbers):
    """The error comes before the clone is made and built."""
    done = subprocess.run([sys.executable, FOLDER / "try", "--only", numbers, "--tree", tmp_path / "tree"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "the numbers are 01, 02, " in done.stderr
    assert repr(numbers.split(",")[-1]) in done.stderr and not (tmp_path / "tree").exists()
