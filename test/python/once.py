"""Coordinates the workers of a test run: files that one worker creates for all, and turns in which a test runs alone."""
import contextlib
import fcntl
import pathlib
import shutil
import tempfile


@contextlib.contextmanager
def lock(path):
    """Holds an exclusive lock for a file, which need not exist yet. The lock ends with the process that holds it."""
    with open(f"{path}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def hold_turn(folder, is_alone):
    """Holds a turn, in which a test runs. With `is_alone`, no other process holds a turn at the same time.

    A process that waits to be alone holds the lock `door`, so no other process can begin a turn. The waiting process therefore
    waits only for the turns that have already begun.
    """
    with open(pathlib.Path(folder) / "turn", "w") as turn:
        with open(pathlib.Path(folder) / "door", "w") as door:
            fcntl.flock(door, fcntl.LOCK_EX)
            fcntl.flock(turn, fcntl.LOCK_EX if is_alone else fcntl.LOCK_SH)
        yield


def make(path, build):
    """Returns `path`. If it does not exist, calls `build` with a path in a temporary folder, and moves the result to `path`."""
    path = pathlib.Path(path)
    if path.exists():
        return path
    with lock(path):
        if not path.exists():
            folder = pathlib.Path(tempfile.mkdtemp(prefix="part-", dir=path.parent))
            try:
                build(folder / path.name)
                (folder / path.name).rename(path)
            finally:
                shutil.rmtree(folder)
    return path
