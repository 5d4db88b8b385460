"""Files that a program reads and writes: NumPy data, damaged weights, partial exports, and files of the user that must be kept."""
import os
import shutil
import stat
import subprocess

import numpy
import oracle
import pytest
import torch
from conftest import tools_folder
from refusals import refuse
from safetensors.torch import load_file, save_file


class Adapter(torch.nn.Module):
    """A model with a frozen base and a trained part."""

    def __init__(self):
        super().__init__()
        self.base, self.adapter, self.norm = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8, bias=False), torch.nn.BatchNorm1d(8)
        self.base.requires_grad_(False)

    def forward(self, x):
        return self.norm(self.base(x) + self.adapter(x)).sin().square().mean()


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(8, 4)

    def forward(self, x, y):
        return torch.nn.functional.cross_entropy(self.net(x), y)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a program `one` of the model Adapter, a program `two` of the model Two, and data for both; the tensors of the data."""
    folder = tmp_path_factory.mktemp("files")
    torch.manual_seed(0)
    x, y = torch.randn(24, 8), torch.randint(0, 4, (24,))
    for name, module, inputs in [("one", Adapter(), (x[:4],)), ("two", Two(), (x[:4], y[:4]))]:
        torch.export.save(torch.export.export(module, inputs), folder / f"{name}.pt2")
        oracle.run([tools_folder() / "ps-compile", f"{name}.pt2", "-o", name, "--optimizer", "sgd(lr=0.1)"], folder)
    save_file({"x": x, "y": y}, folder / "data.safetensors")
    save_file({"x": x}, folder / "x.safetensors")
    numpy.savez(folder / "data.npz", x=x.numpy(), y=y.numpy())
    numpy.save(folder / "x.npy", x.numpy())
    return folder, x.numpy(), y.numpy()


def losses_of(folder, program, data):
    oracle.run([f"./{program}", "--data", data, "--quiet", "--losses", "l.txt"], folder)
    return oracle.read_losses(folder / "l.txt")


def test_numpy_data_is_read_as_safetensors(made):
    folder, x, _ = made
    assert losses_of(folder, "two", "data.npz") == losses_of(folder, "two", "data.safetensors")
    assert losses_of(folder, "one", "x.npy") == losses_of(folder, "one", "x.safetensors")
    for i in range(3):
        numpy.save(folder / f"part-{i}.npy", x[8 * i : 8 * i + 8])
    assert losses_of(folder, "one", "part-*.npy") == losses_of(folder, "one", "x.safetensors")


def change_a_byte(path):
    """Changes one byte in the data of the first array."""
    data = bytearray(path.read_bytes())
    data[256] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("write, words", [
    (lambda path, x, y: numpy.savez(path, x=x), ['has no tensor "y"', "it has: x"]),
    (lambda path, x, y: numpy.savez(path, x=x.astype("f8"), y=y), ['tensor "x" is f64', "f32; convert it"]),
    (lambda path, x, y: numpy.savez(path, x=x.astype(">f4"), y=y), ["has the array \"x\", which has the unsupported dtype '>f4'", "astype"]),
    (lambda path, x, y: numpy.savez(path, x=numpy.asfortranarray(x), y=y), ['has the array "x", which is in Fortran order', "ascontiguousarray"]),
    (lambda path, x, y: numpy.savez_compressed(path, x=x, y=y), ["compressed", "numpy.savez"]),
    (lambda path, x, y: numpy.savez(path, x=x[:5], y=y), ["samples"]),
    (lambda path, x, y: path.write_bytes(b"PK" * 50), ["is not an .npz file"]),
    (lambda path, x, y: (numpy.savez(path, x=x, y=y), change_a_byte(path)), ['the array "x.npy" was changed after it was written', "CRC-32"]),
])  # fmt: skip
def test_numpy_data_that_does_not_fit(made, write, words):
    folder, x, y = made
    write(folder / "bad.npz", x, y)
    refuse(["./two", "--data", "bad.npz"], folder, 1, "bad.npz", *words)


def test_one_array_for_two_inputs(made):
    folder, _, _ = made
    refuse(["./two", "--data", "x.npy"], folder, 2, "x.npy", "the inputs x, y", ".npz")
    (folder / "short.npy").write_bytes((folder / "x.npy").read_bytes()[:-1])
    refuse(["./one", "--data", "short.npy"], folder, 1, "short.npy", "truncated")
    refuse(["./one", "--data", "x.npy,x.safetensors"], folder, 2, "files of one kind")


def test_exported_tensors_and_messages(made):
    folder, *_ = made
    line = ["./one", "--data", "x.npy", "--steps", "2"]
    said = oracle.run([*line, "--export-weights", "all.safetensors", "--save", "saved", "--gradients", "g.safetensors", "--trace", "t.json"], folder)
    for name in ('wrote "all.safetensors" (', 'saved "saved/step-000002" (', 'wrote "g.safetensors" (', 'wrote "t.json" ('):
        assert said.count(name) == 1, said
    whole = load_file(folder / "all.safetensors")
    for only, names in [("trained", {"adapter.weight", "norm.weight", "norm.bias"}), ("base.*", {"base.weight", "base.bias"})]:
        said = oracle.run([*line, "--export-weights", "part.safetensors", "--export-only", only, "--quiet"], folder)
        part = load_file(folder / "part.safetensors")
        assert part.keys() == names and all(torch.equal(part[name], whole[name]) for name in names) and "wrote" not in said
    refuse([*line, "--export-weights", "part.safetensors", "--export-only", "bse.*"], folder, 2, '--export-only "bse.*" matches no tensor')
    refuse([*line, "--export-only", "trained"], folder, 2, "--export-only needs --export-weights")
    refuse([*line, "--export-weights", "n" * 300 + ".safetensors"], folder, 2, "File name too long")
    refuse([*line, "--export-weights", "n" * 300], folder, 2, "File name too long")


def damage(folder, path):
    """Sets the bytes of the base's weight in an archive to zero."""
    content = bytearray((folder / path).read_bytes())
    weight = torch.export.load(folder / "one.pt2").state_dict["base.weight"].detach().numpy().tobytes()
    at = content.find(weight)
    assert at > 0
    content[at : at + len(weight)] = bytes(len(weight))
    (folder / path).write_bytes(content)


def test_weights_that_were_changed_in_place(made):
    """Changed weights are detected at the start of a program, and when the compiler copies them."""
    folder, *_ = made
    (folder / "changed.pt2").write_bytes((folder / "one.pt2").read_bytes())
    oracle.run([tools_folder() / "ps-compile", "changed.pt2", "-o", "changed", "--mesh", "dp=2"], folder)
    run = ["./changed", "--data", "x.npy", "--steps", "1"]
    oracle.run(run, folder)
    damage(folder, "changed.pt2")
    refuse(run, folder, 1, 'changed.pt2" is damaged or has changed since it was compiled', '"base.weight"', "CRC")
    refuse([tools_folder() / "ps-compile", "changed.pt2", "-o", "copied", "--weights", "copy"], folder, 1, "damaged entry", "CRC")


def test_files_of_the_user_are_kept(made):
    folder, *_ = made
    (folder / "kept.tmp").write_text("important")
    oracle.run([tools_folder() / "ps-compile", "one.pt2", "-o", "kept"], folder)
    assert (folder / "kept.tmp").read_text() == "important" and os.access(folder / "kept", os.X_OK)
    assert stat.S_IMODE((folder / "kept").stat().st_mode) & 0o022 == 0
    before = {p.name for p in folder.iterdir()}
    oracle.run(["./kept", "--data", "x.npy", "--steps", "1", "--export-weights", "kept.safetensors"], folder)
    assert {p.name for p in folder.iterdir()} - before == {"kept.safetensors"}


@pytest.mark.parametrize("driver", ["clang++-22", "g++"])
def test_linkers_work_where_nobody_else_writes(made, tmp_path, driver):
    """Linkers open the object file and the output by name. Both are in a temporary folder of mode 0700, which is removed afterwards."""
    folder, *_ = made
    if not shutil.which(driver):
        pytest.skip(f"there is no {driver}")
    linker, temporary = tmp_path / "linker", tmp_path / "temporary"
    look = 'case $file in "$TMPDIR"/*/*) stat -c "%a %F" "${file%/*}";; esac'
    linker.write_text(f'#!/bin/sh\nfor file; do {look}; done >"$0.said"\nexec {driver} "$@"\n')
    linker.chmod(0o755)
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary), "PARASHARD_LINKER": str(linker)}
    line = [tools_folder() / "ps-compile", "one.pt2", "-o", "linked"]
    subprocess.run(line, cwd=folder, env=environment, check=True, capture_output=True)
    assert (tmp_path / "linker.said").read_text().splitlines() == ["700 directory"] * 2
    assert not list(temporary.iterdir()) and "one.pt2" in oracle.run(["./linked", "--info"], folder)


def test_a_planted_link_is_not_followed(made):
    """A link that has the predictable name of a temporary file (with a process id) is not followed. Earlier versions used such names."""
    folder, *_ = made
    (folder / "victim").write_text("mine")
    for pid in range(os.getpid(), os.getpid() + 300):
        os.symlink("victim", folder / f"w.safetensors.tmp{pid}")
    subprocess.run(["./one", "--data", "x.npy", "--steps", "1", "--export-weights", "w.safetensors"], cwd=folder, check=True, capture_output=True)
    assert (folder / "victim").read_text() == "mine"
