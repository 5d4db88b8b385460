"""Runs commands that must be refused; the program and the data that the tests of bad input use."""
import subprocess
import zipfile

import models
import oracle
import pytest
from conftest import tools_folder
from safetensors.torch import save_file

PLAIN = ("--optimizer", "adamw(lr=1e-3)")


def refuse(command, cwd, status, *words):
    """Runs a command that must end with `status` (one of them) and print all `words`."""
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
    """A copy of an archive with some entries changed: change(name, bytes) gives the new bytes, or None to leave it out."""
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(path, "w") as target:
        for entry in source.infolist():
            data = change(entry.filename, source.read(entry))
            if data is not None:
                target.writestr(entry.filename, data)
    return path


@pytest.fixture(scope="module")
def program(tmp_path_factory, exports):
    """A small GPT compiled for two ranks."""
    folder = tmp_path_factory.mktemp("program")
    return oracle.compile_model(folder, oracle.export("gpt", exports), "dp=2", *PLAIN)


def data_for(folder, name="data.safetensors", **changes):
    """A data file of the GPT's inputs; `changes` replace a tensor, or drop it when None."""
    tensors = {**models.gpt().draw_inputs(1), **changes}
    path = folder / name
    save_file({n: t.contiguous() for n, t in tensors.items() if t is not None}, path)
    return path


def train(program, data, *flags):
    return [program, "--ranks", 2, "--data", data, "--steps", 1, *flags]
