"""Several processes drive the Python package: they equal threads bit by bit, and a failure of one ends all."""
import os
import pathlib
import sys

import pytest
from conftest import package_folder
from processes import TORCHRUN, finish, launch, start, start_by_hand

os.environ["PARASHARD_PACKAGE"] = str(package_folder())
import job_script

pytestmark = pytest.mark.usefixtures("one_thread", "shared_programs")
SCRIPT = pathlib.Path(job_script.__file__)


def pass_on():
    """Returns the environment variables of the processes, besides those of the launcher."""
    return {"OMP_NUM_THREADS": "1", **{name: os.environ[name] for name in ("PARASHARD_PACKAGE", "XDG_CACHE_HOME")}}


def run_with_threads(folder, monkeypatch, mesh):
    """Returns the line that the script prints with ranks as threads of this process."""
    monkeypatch.chdir(folder)
    return f"result {job_script.train(mesh)}"


def run_processes(folder, how):
    """Runs the script as two processes. Returns the exit status and the messages of each."""
    return [finish(job) for job in start_by_hand([sys.executable, SCRIPT, "dp=2", how], folder, 2, **pass_on())]


def list_results(text):
    return [line for line in text.splitlines() if line.startswith("result")]


def test_torchrun_equals_threads(tmp_path, monkeypatch):
    _, variables = launch("torchrun", 4)
    command = [TORCHRUN, "--standalone", "--nproc-per-node", 4, SCRIPT, "dp=2,pp=2"]
    status, text = finish(start(command, tmp_path, {**variables, **pass_on()}))
    assert status == 0, text
    assert list_results(text) == [run_with_threads(tmp_path, monkeypatch, "dp=2,pp=2")]


def test_different_calls_fail_in_all_processes(tmp_path, monkeypatch):
    """The processes can continue after such an error. Under mpirun."""
    launcher, variables = launch("mpirun", 2)
    status, text = finish(start([*launcher, sys.executable, SCRIPT, "dp=2", "wrong"], tmp_path, {**variables, **pass_on()}))
    assert status == 0, text
    for rank in range(2):
        assert f'reads {rank}: the processes of the job make different calls: rank 0 reads "0.weight", and rank 1 begins' in text
        assert f"batch {rank}: rank 1 begins a training step with other tensors than rank 0" in text
        assert f"rows {rank}: rank 1: the inputs have 6 rows" in text
        assert f"waits {rank}: the processes of the job make different calls: rank 0 waits at the barrier" in text
    assert list_results(text) == [run_with_threads(tmp_path, monkeypatch, "dp=2")]


def test_an_exception_ends_all_processes(tmp_path):
    (first, quiet), (second, text) = run_processes(tmp_path, "raise")
    assert first != 0 and second != 0
    assert "Traceback" not in quiet and "ValueError: row 7 of the dataset is bad" in text, quiet + text


@pytest.mark.full
def test_a_killed_process_ends_the_others(tmp_path):
    (status, text), _ = run_processes(tmp_path, "kill")
    assert status != 0 and "rank 1 was lost" in text and "Traceback" not in text


def test_a_process_that_leaves_early_ends_the_others(tmp_path):
    (first, one), (second, two) = run_processes(tmp_path, "exit")
    assert first != 0 and second != 0
    assert "rank 0 begins a training step, and rank 1 leaves the job" in one + two
