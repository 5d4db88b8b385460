"""Converts the log of a run (`--log FILE.jsonl`) to events of TensorBoard. Needs the package tensorboard.

    python -m parashard.tensorboard log.jsonl -o runs/first
    tensorboard --logdir runs

Each number of a line becomes a scalar with the line's key as its tag, at the line's step. With --follow, waits for further lines of a
run that is still writing, until Ctrl-C. From Python:

    from parashard.tensorboard import write_events
    write_events("log.jsonl", "runs/first")
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import pathlib
import sys
from time import sleep
from typing import TYPE_CHECKING, Any

from parashard.errors import Error

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from parashard.annotations import Path

__all__ = ["BadLog", "write_events"]


class BadLog(Error):
    """The log cannot be read, or the events cannot be written."""


def is_replaced(file: TextIO, log: pathlib.Path) -> bool:
    """Returns whether the path names another file than the open one: a resumed run writes a new log."""
    try:
        return not os.path.samestat(os.fstat(file.fileno()), log.stat())
    except FileNotFoundError:
        return False


def read_lines(log: pathlib.Path) -> Iterator[str | None]:
    """Yields the complete lines of the log, and None at its end. The next line is then read from the file that has the log's path."""
    while True:
        with open(log, encoding="utf-8") as file:
            line = ""
            while line or not is_replaced(file, log):
                line += file.readline()
                if line.endswith("\n"):
                    yield line
                    line = ""
                else:
                    yield None


def read_scalars(line: str) -> tuple[int, dict[str, float]]:
    """Returns the step of a line and its numbers by key. `null` stands for a number that is not finite, and is returned as NaN."""
    values = json.loads(line)
    if not isinstance(values, dict) or not isinstance(values.get("step"), int):
        raise ValueError('expected a JSON object with the key "step"')
    step = values.pop("step")
    if step < 0:
        raise ValueError(f"the step is {step}")
    scalars = {}
    for key, value in values.items():
        if not isinstance(value, (int, float, type(None))):
            raise ValueError(f'the value of "{key}" is not a number')
        scalars[key] = math.nan if value is None else float(value)
    return step, scalars


def open_writer(folder: pathlib.Path) -> Any:
    """Returns a writer of events into the folder. Its events must come from one log, so a folder with events is refused."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise BadLog(f"events of TensorBoard need the package tensorboard (pip install tensorboard): {error}") from error
    if any(folder.glob("events.out.tfevents.*")):
        raise BadLog(f"{folder} has events of TensorBoard; remove them, or choose another folder")
    try:
        return SummaryWriter(os.fspath(folder))
    except OSError as error:
        raise BadLog(f"cannot write to {folder}: {error.strerror}") from error


class EventFile:
    """Writes lines of a log as events of TensorBoard."""

    def __init__(self, folder: pathlib.Path):
        self.writer = open_writer(folder)
        self.last = -1

    def add(self, line: str) -> None:
        """Writes the numbers of a line. Raises ValueError if it is not a line of a log."""
        step, scalars = read_scalars(line)
        if step <= self.last:
            self.drop_from(step)
        for key, value in scalars.items():
            self.writer.add_scalar(key, value, step)
        self.last = step

    def drop_from(self, step: int) -> None:
        """Writes the event after which TensorBoard no longer shows the earlier events of this step and later ones."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # type: ignore[import-untyped]

        self.writer.file_writer.add_event(Event(session_log=SessionLog(status=SessionLog.START)), step)


def write_events(log: Path, folder: Path, *, follow: bool = False, interval: float = 1.0) -> int:
    """Writes the numbers of a log as events of TensorBoard.

    log: the file of `--log`.
    folder: the folder of the events. It is created, and must not have events.
    follow: waits for the log and for further lines, also of a resumed run, until KeyboardInterrupt.
    interval: with follow, the seconds between two looks at the log.

    Returns the number of lines. Raises BadLog if the log or the folder cannot be used; the events of earlier lines are kept.
    """
    log = pathlib.Path(log)
    count = 0
    try:
        while follow and not log.exists():
            sleep(interval)
        if not log.is_file():
            raise BadLog(f"{log} does not exist; a compiled program writes it with --log {log}")
        events = EventFile(pathlib.Path(folder))
        with contextlib.closing(events.writer):
            for line in read_lines(log):
                if line is not None:
                    count += 1
                    events.add(line)
                elif follow:
                    events.writer.flush()
                    sleep(interval)
                else:
                    break
    except ValueError as error:
        raise BadLog(f"{log}: line {count}: {error}; expected the file of --log") from error
    except KeyboardInterrupt:
        if not follow:
            raise
    return count


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m parashard.tensorboard", description=__doc__.split("\n")[0])
    parser.add_argument("log", metavar="LOG.jsonl", help="the file of --log")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="a folder for the events; tensorboard --logdir reads it, or its parent")
    parser.add_argument("--follow", action="store_true", help="wait for further lines of a run, until Ctrl-C")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    try:
        count = write_events(options.log, options.output, follow=options.follow)
    except (BadLog, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    print(f"wrote the numbers of {count} lines to {options.output}")


if __name__ == "__main__":
    main()
