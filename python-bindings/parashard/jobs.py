"""The job of this process: the processes that a launcher (torchrun, mpirun, srun) has started. Each is one rank of every program."""

from __future__ import annotations

import atexit
import os
import pathlib
import sys
from typing import TYPE_CHECKING

from parashard.errors import Error, InputError

try:
    from parashard import _runtime
except ImportError as error:
    raise Error(
        f"the extension module of the runtime cannot be loaded ({error}); install the wheel (docs/python.md), or build Parashard and add "
        "build/release/python to PYTHONPATH"
    ) from error

if TYPE_CHECKING:
    from typing import Literal

__all__ = ["_runtime", "env", "launch"]


def launch(comm: Literal["mpi", "tcp"] | None = None) -> _Environment:
    """Joins the job that a launcher has started, and returns `env`. Without a launcher, the ranks are threads of this process.

    comm: "mpi" or "tcp"; by default, as the launcher needs. `parallelize` calls this function. If an exception ends one process, all
    processes of the job end within seconds, and only this process prints its traceback.
    """
    if env.job is None:
        command = " ".join([pathlib.Path(sys.argv[0]).name, *sys.argv[1:]])
        env.job = _runtime.Job(comm, command=command, exit_after_failure=not hasattr(sys, "ps1"))
        if env.job.size > 1:
            sys.excepthook = _end_job
            atexit.register(_leave_job)
    return env


def find_job(ranks):
    """Joins the job. Returns it, or None if all ranks are threads. Raises InputError if its size is not the number of ranks."""
    size = env.world_size
    if size > 1 and ranks != size:
        raise InputError(f"the plan has {ranks} ranks, but the job has {size} processes; start {ranks}, or choose another mesh")
    return env.job if size > 1 else None


def barrier(purpose):
    """Waits until all processes of the job have called this function."""
    launch()
    env.job.barrier(purpose)


def write_once(path, write):
    """Calls `write()` on rank 0 only. The other processes of the job wait until it has returned."""
    if env.is_master:
        write()
    barrier(f"written {path}")


def share(make):
    """Returns the text that `make()` returns on rank 0, in all processes of the job."""
    text = make() if env.is_master else ""
    return env.job.broadcast(text)


def _end_job(kind, value, trace):
    """Ends the job because of an exception. Prints the traceback if the exception ended the job, not the failure of another rank."""
    if _fail(f"{kind.__name__}: {value}"):
        sys.__excepthook__(kind, value, trace)


def _fail(message):
    """Reports a failure to the job. Returns whether this process must print it: another process may have failed before."""
    if env.job.find_failure()[0] < 0:
        env.job.fail(message)
    rank, reported = env.job.find_failure()
    if rank != env.job.rank and not reported:  # the process of the rank was killed, and printed nothing
        print(f"parashard: {message}", file=sys.stderr)
    return rank == env.job.rank


def _leave_job():
    """Leaves the job when Python exits normally."""
    if env.job.find_failure()[0] >= 0:
        return
    try:
        env.job.leave()
    except Error as error:
        if _fail(str(error)):
            print(f"parashard: {error}", file=sys.stderr)
        sys.stderr.flush()
        os._exit(1)  # an exception in a function of atexit does not change the status


class _Environment:
    """This process in its job. Its properties join the job first."""

    def __init__(self) -> None:
        self.job: _runtime.Job = None  # type: ignore[assignment] # `launch` joins the job

    @property
    def rank(self) -> int:
        """Number of this process, from 0."""
        return launch().job.rank

    @property
    def world_size(self) -> int:
        """Number of processes of the job; 1 without a launcher."""
        return launch().job.size

    @property
    def is_master(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def __repr__(self) -> str:
        return f"env(rank={self.rank}, world_size={self.world_size})"


env = _Environment()
