"""Starts compiled programs as several processes: by mpirun, by torchrun, or with the variables that torchrun gives."""
import itertools
import os
import pathlib
import shutil
import socket
import subprocess
import sys

import pytest
from conftest import tools_folder

BASE = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}
TORCHRUN = pathlib.Path(sys.executable).parent / "torchrun"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def need_mpi():
    if not shutil.which("mpirun"):
        pytest.skip("there is no mpirun")
    if not (tools_folder() / "../lib/libpsrt_comm_mpi.so").exists():
        pytest.skip("built without MPI")


def launch(how, ranks):
    """Returns the command and the environment that start a program as `ranks` processes by mpirun or torchrun."""
    environment = {**BASE, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    if how == "mpirun":
        need_mpi()
        return ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", ranks], environment
    flags = ["--standalone"] if how == "standalone" else ["--master-addr", "127.0.0.1", "--master-port", free_port()]
    return [TORCHRUN, *flags, "--nproc-per-node", ranks, "--no-python", "--"], environment


def start(command, cwd, environment):
    return subprocess.Popen(
        [str(c) for c in command], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def by_hand(ranks, **more):
    """Returns the environment of a job: torchrun's variables that are equal on all ranks."""
    return {**BASE, "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), **more}


def start_by_hand(command, cwd, ranks, **more):
    """Starts one process per rank with torchrun's variables, so that a test can check how each process ends."""
    shared = by_hand(ranks, **more)
    return [start(command, cwd, {**shared, "RANK": str(rank)}) for rank in range(ranks)]


def finish(process, timeout=60):
    """Waits for a process. Returns (exit status, output)."""
    out, err = process.communicate(timeout=timeout)
    assert "json.exception" not in err, "the name of a library's exception:\n" + err
    return process.returncode, out + err


def check_started(events):
    """Checks the events of asynchronous collectives in a trace, and returns their number.

    Each event is in the trace thread of its queue. The events of a queue do not overlap. Each begins after an instruction
    of its rank has begun (the start), and ends before an instruction ends (the wait).
    """
    started = [event for event in events if event.get("cat") == "communication"]
    queues = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    assert {(event["pid"], event["tid"]) for event in started} == queues
    for pid, tid in queues:
        times = [(event["ts"], event["ts"] + event["dur"]) for event in started if (event["pid"], event["tid"]) == (pid, tid)]
        assert times == sorted(times) and all(end <= begin for (_, end), (begin, _) in itertools.pairwise(times))
        own = [event for event in events if event["ph"] == "X" and event["pid"] == pid and event["tid"] == 0]
        assert all(any(event["ts"] <= begin for event in own) and any(end <= event["ts"] + event["dur"] for event in own) for begin, end in times)
    return len(started)
