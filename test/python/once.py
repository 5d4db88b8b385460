"""What several workers share: files that only one of them makes, and turns that a test may hold alone."""
import contextlib
import fcntl
import pathlib
import shutil
import tempfile


@contextlib.contextmanager
def lock(path):
    """Holds the lock of a file that need not exist yet. The lock ends with its holder."""
    with open(f"{path}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def hold_turn(folder, is_alone):
    """Holds a turn beside other turns, or alone.

    Who waits for a turn alone holds the door: no new turn begins, so that the wait ends with the turns that are held.
    """
    with open(pathlib.Path(folder) / "turn", "w") as turn:
        with open(pathlib.Path(folder) / "door", "w") as door:
            fcntl.flock(door, fcntl.LOCK_EX)
            fcntl.flock(turn, fcntl.LOCK_EX if is_alone else fcntl.LOCK_SH)
        yield


def make(path, build):
    """Returns `path`. Where it does not exist, calls `build` with a path of the same name in a folder of its own, and moves that."""
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
