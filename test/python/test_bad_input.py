"""What users get wrong: each case ends with exit status 1 or 2 and a message that says what to do."""
import os
import subprocess
import zipfile

import models
import oracle
import pytest
import torch
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
    return said


def refuse_compile(cwd, archive, *flags_and_words, status=(1, 2), words=()):
    return refuse([tools_folder() / "ps-compile", archive, "-o", cwd / "out", *flags_and_words], cwd, status, *words)


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


# ---- the model's file ----------------------------------------------------------------------------------------------


def test_truncated_archive(tmp_path, exports):
    whole = oracle.export("mlp", exports).read_bytes()
    path = tmp_path / "cut.pt2"
    path.write_bytes(whole[: len(whole) // 2])
    refuse_compile(tmp_path, path, status=1, words=["cut.pt2"])


def test_foreign_file(tmp_path):
    path = tmp_path / "notes.pt2"
    path.write_text("not an archive")
    refuse_compile(tmp_path, path, status=1, words=["notes.pt2"])


def test_archive_of_something_else(tmp_path):
    path = tmp_path / "other.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    refuse_compile(tmp_path, path, status=1, words=["other.pt2"])


def test_entry_that_leaves_the_archive(tmp_path, exports):
    path = tmp_path / "escape.pt2"
    with zipfile.ZipFile(oracle.export("mlp", exports)) as source, zipfile.ZipFile(path, "w") as target:
        for entry in source.infolist():
            target.writestr(entry, source.read(entry))
        target.writestr("../outside", "x")
    refuse_compile(tmp_path, path, status=1, words=["../outside"])
    assert not (tmp_path.parent / "outside").exists()


def test_missing_file(tmp_path):
    refuse_compile(tmp_path, tmp_path / "nothing.pt2", words=["nothing.pt2"])


class Unsupported(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = torch.linalg.det(self.linear(x))
        return torch.special.bessel_j0(y).sum() + torch.special.bessel_j0(y * 2).sum()


def test_unsupported_ops_are_listed_all_at_once(tmp_path):
    program = torch.export.export(Unsupported(), (torch.randn(2, 4, 4),))
    torch.export.save(program, tmp_path / "model.pt2")
    refuse_compile(
        tmp_path, tmp_path / "model.pt2", status=1, words=["det", "bessel_j0", "2", "test_bad_input.py"]
    )


class Complex(torch.nn.Module):
    def forward(self, x):
        return x.abs().sum()


def test_unsupported_dtype(tmp_path):
    program = torch.export.export(Complex(), (torch.randn(4, dtype=torch.complex64),))
    torch.export.save(program, tmp_path / "model.pt2")
    refuse_compile(tmp_path, tmp_path / "model.pt2", status=1, words=["complex64"])


# ---- dims ----------------------------------------------------------------------------------------------------------


def test_batch_of_a_static_export_shows_the_line_to_add(tmp_path, exports):
    refuse_compile(tmp_path, oracle.export("gpt", exports), "--batch", 16, words=["dynamic_shapes"])


def test_dim_out_of_the_range_of_the_export(tmp_path, exports):
    refuse_compile(tmp_path, oracle.export("gpt_dynamic", exports), "--batch", 4096, words=["4096", "1024"])


def test_unknown_dim(tmp_path, exports):
    refuse_compile(tmp_path, oracle.export("gpt_dynamic", exports), "--dim", "nothing.0=4", words=["nothing"])


# ---- mesh and policy -----------------------------------------------------------------------------------------------


def test_axis_used_twice(tmp_path, exports):
    refuse_compile(tmp_path, oracle.export("mlp", exports), "--mesh", "dp=2,dp=2", words=["dp"])


def test_mesh_that_is_none(tmp_path, exports):
    refuse_compile(tmp_path, oracle.export("mlp", exports), "--mesh", "dp=two", words=["two"])


def test_batch_that_does_not_divide(tmp_path, exports):
    refuse_compile(tmp_path, oracle.export("gpt", exports), "--mesh", "dp=3", words=["3", "4"])


def test_policy_with_an_unknown_parameter(tmp_path, exports):
    policy = tmp_path / "policy.json"
    policy.write_text('{"layers.17.weight": [["tp"], []]}')
    refuse_compile(
        tmp_path, oracle.export("mlp", exports), "--mesh", "tp=2", "--sharding-policy", policy,
        words=["layers.17.weight"],
    )  # fmt: skip


def test_policy_with_an_unknown_axis(tmp_path, exports):
    policy = tmp_path / "policy.json"
    policy.write_text('{"layers.0.weight": [["cp"], []]}')
    refuse_compile(
        tmp_path, oracle.export("mlp", exports), "--mesh", "tp=2", "--sharding-policy", policy, words=["cp"]
    )


@pytest.mark.parametrize(
    "flags,words",
    [
        (("--optimizer", "lion(lr=1)"), ["lion"]),
        (("--optimizer", "adamw(rate=1)"), ["rate"]),
        (("--freeze", "no.such.parameter"), ["no.such.parameter"]),
        (("--zero", "2"), ["zero"]),
        (("--target", "tpu"), ["tpu"]),
        (("--no-such-flag",), ["no-such-flag"]),
        (("--micro-batches", "0"), ["micro-batches"]),
    ],
)
def test_bad_flag(tmp_path, exports, flags, words):
    refuse_compile(tmp_path, oracle.export("mlp", exports), *flags, words=words)


def test_output_folder_that_is_not_there(tmp_path, exports):
    command = [tools_folder() / "ps-compile", oracle.export("mlp", exports), "-o", tmp_path / "no/such/out"]
    refuse(command, tmp_path, (1, 2), "no/such")


# ---- the program's own flags and data ------------------------------------------------------------------------------


def test_ranks_other_than_the_mesh_show_the_compile_line(tmp_path, program):
    command = [program, "--ranks", 4, "--data", data_for(tmp_path), "--steps", 1]
    refuse(command, tmp_path, 2, "ps-compile", "--mesh")


@pytest.mark.parametrize(
    "changes,words",
    [
        ({"labels": None}, ["labels"]),
        ({"input_ids": torch.zeros(8, 5, dtype=torch.int64)}, ["input_ids", "5", "16"]),
        ({"input_ids": torch.zeros(8, 16)}, ["input_ids", "i64"]),
        ({"input_ids": torch.full((4, 16), 96)}, ["96", "input_ids"]),
        ({"input_ids": torch.zeros(3, 16, dtype=torch.int64)}, ["input_ids"]),
    ],
    ids=["missing", "shape", "dtype", "token outside", "unequal amounts"],
)
def test_bad_data(tmp_path, program, changes, words):
    refuse(train(program, data_for(tmp_path, **changes)), tmp_path, (1, 2), *words)


def test_too_little_data(tmp_path, program):
    (tmp_path / "short.bin").write_bytes(b"abc")
    refuse(train(program, tmp_path / "short.bin", "--data-type", "uint8"), tmp_path, (1, 2), "short.bin")


def test_data_that_is_not_there(tmp_path, program):
    refuse(train(program, tmp_path / "none.bin", "--data-type", "uint8"), tmp_path, (1, 2), "none.bin")


def test_token_outside_the_vocabulary_is_given_with_its_place(tmp_path, program):
    (tmp_path / "tokens.bin").write_bytes(bytes([5] * 40 + [200] + [5] * 500))
    refuse(train(program, tmp_path / "tokens.bin", "--data-type", "uint8"), tmp_path, (1, 2), "200", "40")


@pytest.mark.parametrize("flag", ["--losses", "--export-weights", "--gradients", "--log"])
def test_output_that_cannot_be_written(tmp_path, program, flag):
    refuse(train(program, data_for(tmp_path), flag, tmp_path / "no/such/file"), tmp_path, (1, 2), "no/such/file")


def test_unknown_flag(tmp_path, program):
    refuse([program, "--nonsense"], tmp_path, 2, "--nonsense")


def test_loss_that_is_not_a_number_names_the_step(tmp_path, exports):
    program = oracle.compile_model(tmp_path, oracle.export("mlp", exports), "dp=1", *PLAIN)
    batch = models.mlp().draw_inputs(1)
    x = torch.cat([batch["x"], batch["x"]])
    x[9] = float("nan")
    save_file({"x": x, "labels": torch.cat([batch["labels"]] * 2)}, tmp_path / "data.safetensors")
    refuse([program, "--data", "data.safetensors", "--steps", 2], tmp_path, 1, "step 1", "nan")


def test_moved_weights_are_named(tmp_path):
    """Weights are referenced in the model's file: without it the program says which file it misses."""
    archive = models.mlp().export(tmp_path / "model.pt2")
    program = oracle.compile_model(tmp_path, archive, "dp=1", *PLAIN)
    os.remove(archive)
    save_file(models.mlp().draw_inputs(1), tmp_path / "data.safetensors")
    refuse([program, "--data", "data.safetensors", "--steps", 1], tmp_path, (1, 2), "model.pt2")
