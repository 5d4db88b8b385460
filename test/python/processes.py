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
    """The command and the environment that start a program as `ranks` processes (for `hand`: see start_by_hand)."""
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
    """The variables of torchrun that all ranks of a job have in common."""
    return {**BASE, "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), **more}


def start_by_hand(command, cwd, ranks, **more):
    """One process for each rank, with the variables of torchrun: each one's end can be looked at."""
    shared = by_hand(ranks, **more)
    return [start(command, cwd, {**shared, "RANK": str(rank)}) for rank in range(ranks)]


def finish(process, timeout=60):
    """(status, what it printed)"""
    out, err = process.communicate(timeout=timeout)
    assert "json.exception" not in err, "the name of a library's exception:\n" + err
    return process.returncode, out + err


def check_started(events):
    """How many were started; each is in a thread of its queue: after its start, over when its wait ends, one after the other."""
    started = [event for event in events if event.get("cat") == "communication"]
    queues = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    assert {(event["pid"], event["tid"]) for event in started} == queues
    for pid, tid in queues:
        times = [(event["ts"], event["ts"] + event["dur"]) for event in started if (event["pid"], event["tid"]) == (pid, tid)]
        assert times == sorted(times) and all(end <= begin for (_, end), (begin, _) in itertools.pairwise(times))
        own = [event for event in events if event["ph"] == "X" and event["pid"] == pid and event["tid"] == 0]
        assert all(any(event["ts"] <= begin for event in own) and any(end <= event["ts"] + event["dur"] for event in own) for begin, end in times)
    return len(started)
