"""Runs ps-compile as a child process, and keeps the programs that it writes."""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
import zipfile

from parashard.errors import CompileError, Diagnostic, Error
from parashard.tools import find_tool

__all__ = ["compile_archive"]


def cache_folder():
    """Returns the folder of compiled programs: $XDG_CACHE_HOME/parashard/programs."""
    root = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(root) / "parashard/programs"


def make_cache_folder():
    """Creates the folder of compiled programs. Raises Error if it cannot be written to."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise Error(f"compiled programs cannot be written to {folder}: {error.strerror}; set XDG_CACHE_HOME to another folder") from None
    return folder


def write_cached(kind, text):
    """Writes a text to the cache, in a JSON file named after the kind and the hash of the text. Returns its path."""
    path = make_cache_folder() / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"
    if not path.exists():
        written = path.with_suffix(f".{os.getpid()}")
        written.write_text(text)
        written.replace(path)
    return path


def find_installed(name):
    """Returns the path of a tool. Raises Error if it is not installed."""
    tool = find_tool(name)
    if not tool:
        raise Error(f"{name} is not found: add the folder of the tools to PATH, or set PARASHARD_BIN")
    return tool


def run(tool, archive, arguments, kept, repeated, entries=None):
    """Runs a tool on an archive. Emits the warnings of the tool as Python warnings. Returns what it prints to the standard output.

    If the tool fails, copies the archive to the path `kept`, and raises CompileError. The error has a command line that reproduces
    the failure, with the copied archive and the arguments `repeated`. entries: the archives of further entries, by name.
    """
    arguments = [*arguments, *flag_entries(entries)]
    done = subprocess.run([tool, str(archive), *arguments, "--messages", "json"], capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        copies = {name: shutil.copy(path, kept.with_suffix(f".{name}.pt2")) for name, path in (entries or {}).items()}
        repeated = [*repeated, *flag_entries(copies)]
        kept = str(shutil.copy(archive, kept))
        diagnostics = read_diagnostics(done.stderr.replace(str(archive), kept))
        raise CompileError(diagnostics, shlex.join([str(tool), kept, *repeated]))
    for diagnostic in read_diagnostics(done.stderr):
        if diagnostic.severity == "warning":
            warnings.warn(str(diagnostic), stacklevel=count_own_frames())
    return done.stdout


def read_diagnostics(text):
    """Returns the diagnostics that a tool printed with `--messages json`. Other lines, such as those of a crash, become errors."""
    result = []
    for line in text.splitlines():
        try:
            values = json.loads(line)
        except ValueError:
            values = None
        if not isinstance(values, dict):
            values = {"severity": "error", "text": line}
        if values["severity"] != "progress":
            result.append(Diagnostic.from_values(values))
    return result


def flag_entries(entries):
    """Returns the arguments of ps-compile for further entries."""
    return [flag for name, path in (entries or {}).items() for flag in ("--entry", f"{name}={path}")]


def count_own_frames():
    """Returns the level of the user's line for a warning of the caller: the number of frames of this package, and one."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("parashard."):
        frame, level = frame.f_back, level + 1
    return level


def run_planner(archive, arguments):
    """Runs ps-plan on an archive. Raises CompileError if no plan fits."""
    run(find_installed("ps-plan"), archive, arguments, make_cache_folder() / "planned.pt2", arguments)


@contextlib.contextmanager
def lock(path):
    """Locks a file among processes. The first process that needs a program compiles it, and the others wait."""
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def describe_plan(archive, arguments):
    """Compiles a plan for an archive, without a program.

    Returns {"data": the data of the report (docs/report.md), "report": its HTML page, "explanation": the text of --explain,
    "timeline": the SVG of --write-timeline, only if the mesh has a pipeline axis}.
    """
    tool, kept = find_installed("ps-compile"), make_cache_folder() / "planned.pt2"
    with tempfile.TemporaryDirectory() as folder:
        data, report, timeline, module = (pathlib.Path(folder) / name for name in ("data.json", "report.html", "timeline.svg", "planned.mlir"))
        flags = [*arguments, "--weights", "none", "--init", "zeros"]
        outputs = ["--explain", "--plan-data", str(data), "--report", str(report)]
        explanation = run(tool, archive, [*flags, "--no-codegen", *outputs], kept, arguments)
        found = {"data": json.loads(data.read_text()), "report": report.read_text(), "explanation": explanation}
        if any(axis["kind"] == "pipeline" for axis in found["data"]["mesh"]):
            run(tool, archive, [*flags, "--stop-after", "planned", "-o", str(module), "--write-timeline", str(timeline)], kept, arguments)
            found["timeline"] = timeline.read_text()
        return found


def hash_program(archives, flags, tool):
    """Returns the name of a program in the cache.

    The name depends on all parts of the archives except the values of weights and of the examples, on the flags, and on the file of
    ps-compile, which each build changes.
    """
    state = hashlib.sha256()
    for archive in archives:
        with zipfile.ZipFile(archive) as parts:
            for entry in sorted(parts.infolist(), key=lambda part: part.filename):
                name = entry.filename.split("/", 1)[-1]  # without the folder, which has the archive's name
                if not name.startswith(("data/weights/", "data/sample_inputs/", ".data/serialization_id")):
                    state.update(f"{name} {entry.CRC} {entry.file_size}\n".encode())
    build = os.stat(tool)
    state.update(repr((flags, str(tool), build.st_size, build.st_mtime_ns)).encode())
    return state.hexdigest()[:32]


def compile_archive(archive, flags, entries=None):
    """Compiles an archive (.pt2) to a library, or finds the library in the cache. Returns the path.

    flags: arguments of ps-compile. entries: the archives of further entries, by name. The library has no weights. Raises CompileError
    if ps-compile refuses the model or a flag.
    """
    tool = find_installed("ps-compile")
    flags = [*flags, "--weights", "none", "--init", "zeros"]
    library = cache_folder() / f"{hash_program([archive, *(entries or {}).values()], flags + list(entries or {}), tool)}.so"
    if library.exists():
        return library
    with tempfile.TemporaryDirectory(dir=make_cache_folder()) as folder, lock(library.with_suffix(".lock")):
        if library.exists():
            return library
        output = pathlib.Path(folder) / library.name
        run(tool, archive, ["-o", str(output), *flags], library.with_suffix(".pt2"), ["-o", "model.so", *flags], entries)
        os.replace(output, library)
    return library
