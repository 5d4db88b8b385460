"""The examples of the Python package run, and the models learn. (test_python_jobs.py starts processes.)"""

import importlib.util
import sys

import pytest
from conftest import ROOT, package_folder

sys.path.insert(0, str(package_folder()))
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def programs(shared, monkeypatch):
    """All tests of a run share the compiled programs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared / "cache"))


def load_example(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / f"examples/python/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_plain_loop(capsys):
    losses = load_example("plain").main()
    assert losses[-1] < 0.5 * losses[0]
    assert "of new points are right" in capsys.readouterr().out


def test_ppo():
    """A uniform policy adds four even tokens."""
    rewards = load_example("ppo").main()
    assert rewards[-1] > 5.5


def test_three_axes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    losses = load_example("three_axes").main()
    assert losses[-1] < 0.7 * losses[0]
