"""Helpers of the tests of bad input: run commands that must be refused, and make a program and data."""
import subprocess
import zipfile

import models
import oracle
import pytest
from conftest import tools_folder
from safetensors.torch import save_file

PLAIN = ("--optimizer", "adamw(lr=1e-3)")


def refuse(command, cwd, status, *words):
    """Runs a command that must end with `status` (or one of several) and print all `words`. Returns the output."""
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, timeout=120)
    said = done.stdout + done.stderr
    allowed = status if isinstance(status, tuple) else (status,)
    assert done.returncode in allowed, f"exit status {done.returncode}\n{said}"
    for word in words:
        assert word in said, f"'{word}' not in:\n{said}"
    assert "json.exception" not in said, "the name of a library's exception:\n" + said
    return said


def refuse_compile(cwd, archive, *flags_and_words, status=(1, 2), words=()):
    return refuse([tools_folder() / "ps-compile", archive, "-o", cwd / "out", *flags_and_words], cwd, status, *words)


def damage(archive, path, change):
    """Copies an archive to `path` with changed entries: change(name, bytes) returns the new bytes, or None to omit the entry."""
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(path, "w") as target:
        for entry in source.infolist():
            data = change(entry.filename, source.read(entry))
            if data is not None:
                target.writestr(entry.filename, data)
    return path


# Damage to the bytes of a file.
DAMAGES = {"cut": lambda data: data[: len(data) // 2], "empty": lambda data: b"", "flipped": lambda data: data[:-1] + bytes([data[-1] ^ 1])}


@pytest.fixture(scope="module")
def program(tmp_path_factory, exports):
    """A small GPT compiled for two ranks."""
    folder = tmp_path_factory.mktemp("program")
    return oracle.compile_model(folder, oracle.export("gpt", exports), "dp=2", *PLAIN)


def data_for(folder, name="data.safetensors", **changes):
    """Writes a data file with inputs of the GPT. `changes` replaces tensors by name, and omits those that are None."""
    tensors = {**models.gpt().draw_inputs(1), **changes}
    path = folder / name
    save_file({n: t.contiguous() for n, t in tensors.items() if t is not None}, path)
    return path


def train(program, data, *flags):
    return [program, "--ranks", 2, "--data", data, "--steps", 1, *flags]
