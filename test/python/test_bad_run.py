"""Mistakes of users when running a compiled program: bad flags, data and outputs."""
import json
import os
import re
import resource
import signal
import subprocess
import time

import models
import oracle
import pytest
import torch
from conftest import tools_folder
from processes import finish, start_by_hand
from refusals import PLAIN, data_for, program, refuse, refuse_compile, train  # noqa: F401
from safetensors.torch import load_file, save_file


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
    outputs = ("--export-weights", "weights.safetensors", "--gradients", "gradients.safetensors")
    refuse(train(program, data_for(tmp_path, **changes), *outputs), tmp_path, 1, *words)
    assert not (tmp_path / "weights.safetensors").exists() and not (tmp_path / "gradients.safetensors").exists()


def test_label_outside_the_classes(tmp_path, program):
    labels = torch.full((4, 16), -100)
    labels[2, 3] = -1
    refuse(train(program, data_for(tmp_path, labels=labels)), tmp_path, 1, "-1", "labels", "sample 2, element 3")


def test_value_that_fills_an_input_and_does_not_fit(tmp_path, program):
    refuse(train(program, data_for(tmp_path), "--fill", "labels=-200"), tmp_path, 1, "--fill labels=-200", "not in [0, 96)")


def test_weights_as_torch_saves_them(tmp_path, program):
    torch.save(models.gpt().module.state_dict(), tmp_path / "w.pt")
    refuse(train(program, data_for(tmp_path), "--weights", "w.pt"), tmp_path, 1, "w.pt", "torch.save", "save_file")


@pytest.mark.parametrize("kept", [0, 7, 60, 300, -1])
def test_truncated_data(tmp_path, program, kept):
    path = data_for(tmp_path)
    path.write_bytes(path.read_bytes()[:kept])
    refuse(train(program, path), tmp_path, 1, "data.safetensors")


@pytest.mark.parametrize("flag", ["--data", "--eval-data", "--weights", "--config"])
def test_input_that_does_not_exist(tmp_path, program, flag):
    """The command line is at fault, so the status is 2. The message names the flag."""
    name = "none.bin" if "data" in flag else "none"
    command = train(program, name) if flag == "--data" else train(program, data_for(tmp_path), flag, name)
    refuse(command, tmp_path, 2, flag, f'"{name}"', "No such file")


@pytest.mark.parametrize("arguments,words", [
    (["--stpes", 3], "unknown flag --stpes; did you mean --steps?"), (["--eval-stepz=3"], "unknown flag --eval-stepz; did you mean --eval-steps?"),
    (["extra"], 'unexpected argument "extra"'), (["--data-type", "uint64"], "--data-type: expected uint8, uint16 or uint32, not 'uint64'"),
])  # fmt: skip
def test_misspelt_arguments(tmp_path, program, arguments, words):
    assert "\n1 " not in refuse([program, *arguments], tmp_path, 2, words)


@pytest.mark.parametrize("size,words", [(801, "801 bytes, which is not a multiple of the token size 2"), (800, "value 24929 of input")])
def test_bytes_that_are_read_as_uint16(tmp_path, program, size, words):
    (tmp_path / "text.bin").write_bytes(b"a" * size)
    refuse(train(program, "text.bin", "--data-type", "uint16"), tmp_path, 1, words, "if each byte is a token, give --data-type uint8")


def test_data_without_a_sample(tmp_path, program):
    save_file({name: value[:0] for name, value in oracle.zoo("gpt").inputs.items()}, tmp_path / "data.safetensors")
    refuse(train(program, tmp_path / "data.safetensors"), tmp_path, 1, "no sample")


@pytest.mark.parametrize("flags", [["--losses", ""], ["--log="]])
def test_empty_values_of_flags(tmp_path, program, flags):
    refuse(train(program, data_for(tmp_path), *flags), tmp_path, 2, flags[0].rstrip("="), "empty")


def test_data_of_another_kind(tmp_path, program):
    (tmp_path / "data.txt").write_text("words")
    refuse(train(program, tmp_path / "data.txt"), tmp_path, 2, "data.txt", ".safetensors", ".bin")
    (tmp_path / "data.bin").mkdir()
    refuse(train(program, tmp_path / "data.bin"), tmp_path, 2, "--data", "data.bin", "not a regular file")
    (tmp_path / "odd.bin").write_bytes(b"x" * 1001)
    refuse(train(program, tmp_path / "odd.bin", "--data-type", "uint16"), tmp_path, 1, "odd.bin", "1001", "--data-type")


def test_tensors_in_several_files(tmp_path, program):
    """The samples of several files are read in order. A micro-batch may contain samples of two files."""
    whole = models.gpt().draw_inputs(1, batch=8)
    save_file(whole, tmp_path / "whole.safetensors")
    for i, (low, high) in enumerate([(0, 3), (3, 4), (4, 8)]):
        save_file({n: t[low:high].clone() for n, t in whole.items()}, tmp_path / f"part-{i}.safetensors")
    losses = []
    for data in ("whole.safetensors", "part-*.safetensors"):
        oracle.run([program, "--data", data, "--steps", 4, "--shuffle", "--losses", "losses.txt"], tmp_path)
        losses.append(oracle.read_losses(tmp_path / "losses.txt"))
    assert losses[0] == losses[1] and len(losses[0]) == 4
    tokens = torch.zeros(4, 16, dtype=torch.int64)
    tokens[0, 0] = 96  # only one rank reads a bad token, so that the error is deterministic
    data_for(tmp_path, "part-3.safetensors", input_ids=tokens)
    words = ["96", '"part-3.safetensors", input "input_ids", sample 0, element 0']
    refuse([program, "--data", "part-?.safetensors", "--steps", 3], tmp_path, 1, *words)


def test_tokens_for_a_model_without_tokens(tmp_path, exports):
    program = oracle.compile_model(tmp_path, oracle.export("mlp", exports), "dp=1", *PLAIN)
    (tmp_path / "tokens.bin").write_bytes(b"x" * 1000)
    refuse([program, "--data", "tokens.bin", "--steps", 1], tmp_path, 1, '"x"', "f32", "--fill x=")


def test_too_little_data(tmp_path, program):
    (tmp_path / "short.bin").write_bytes(b"abc")
    refuse(train(program, tmp_path / "short.bin", "--data-type", "uint8"), tmp_path, (1, 2), "short.bin")


def test_missing_data_file(tmp_path, program):
    refuse(train(program, tmp_path / "none.bin", "--data-type", "uint8"), tmp_path, (1, 2), "none.bin")


def test_token_outside_the_vocabulary_is_reported_with_its_position(tmp_path, program):
    (tmp_path / "tokens.bin").write_bytes(bytes([5] * 40 + [200] + [5] * 500))
    refuse(train(program, tmp_path / "tokens.bin", "--data-type", "uint8"), tmp_path, (1, 2), "200", "40")


def test_log_to_a_pipe_without_reader(tmp_path, program):
    os.mkfifo(tmp_path / "pipe")
    refuse(train(program, data_for(tmp_path), "--log", "pipe"), tmp_path, 1, 'cannot write "pipe"', "start its reader first")


def test_losses_to_the_file_of_standard_output(tmp_path, program):
    """Losses and standard output go to the same file, and do not overwrite each other."""
    command = [program, "--data", data_for(tmp_path), "--steps", "2", "--losses", "/dev/stdout"]
    with open(tmp_path / "both.txt", "w") as both:
        subprocess.run(command, cwd=tmp_path, stdout=both, check=True)
    lines = (tmp_path / "both.txt").read_text().splitlines()
    assert sum(bool(re.fullmatch(r"[\d.e+-]+", line)) for line in lines) == 2, lines
    assert {"step 1/2", "step 2/2"} <= {line.split(":")[0].split("  ")[0].strip() for line in lines}, lines


def test_file_without_tokens_among_others(tmp_path, program):
    (tmp_path / "a.bin").write_bytes(bytes([5] * 500))
    (tmp_path / "b.bin").touch()
    refuse(train(program, "a.bin", "--data", "b.bin", "--data-type", "uint8"), tmp_path, 1, '"b.bin" has no tokens; remove the file')


@pytest.mark.parametrize("name,default,other", [("gpt", "next", "same"), ("gpt2", "same", "next"), ("llama", "same", "next")])
def test_label_shift_is_read_from_the_graph(tmp_path, exports, name, default, other):
    """The shift of labels is read from the graph. --info prints it, token files are read accordingly, and another --labels is an error."""
    program = oracle.compile_model(tmp_path, oracle.export(name, exports), "dp=2", *PLAIN)
    said = oracle.run([program, "--info"], tmp_path)
    assert f"labels      {default} " in said
    tokens = torch.randint(0, 96, (200,), generator=torch.Generator().manual_seed(3), dtype=torch.uint8)
    (tmp_path / "tokens.bin").write_bytes(tokens.numpy().tobytes())
    losses = []
    for flags in ([], ["--labels", default]):
        line = [*train(program, "tokens.bin", "--data-type", "uint8", "--losses", "losses.txt"), *flags]
        oracle.run(line, tmp_path)
        losses.append(oracle.read_losses(tmp_path / "losses.txt"))
    assert losses[0] == losses[1]
    windows = tokens.long()[:64].reshape(4, 16)
    shifted = tokens.long()[1:65].reshape(4, 16)
    expected = models.MODELS[name]().loss({"input_ids": windows, "labels": windows if default == "same" else shifted})
    assert losses[0][0] == pytest.approx(expected.item(), rel=1e-5)
    refuse(train(program, "tokens.bin", "--labels", other), tmp_path, 2, f"--labels {other}", "contradicts", default)


@pytest.mark.parametrize("flag", ["--losses", "--export-weights", "--gradients", "--log", "--trace"])
def test_output_that_cannot_be_written(tmp_path, program, flag):
    path = tmp_path / "no/such/file.safetensors"
    refuse(train(program, data_for(tmp_path), flag, path), tmp_path, 2, flag, "no/such/file.safetensors", "does not exist; create it first")


def list_files(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "output"}


def test_output_that_is_an_input_or_another_output(tmp_path):
    """An output cannot overwrite an input of the run or another output, under any spelling of the path."""
    archive = models.mlp().export(tmp_path / "model.pt2")
    program = oracle.compile_model(tmp_path, archive, "dp=1", *PLAIN)
    save_file(models.mlp().draw_inputs(1), tmp_path / "data.safetensors")
    os.symlink(archive, tmp_path / "model.safetensors")
    (tmp_path / "links").mkdir()
    os.symlink("../data.safetensors", tmp_path / "links/model.safetensors")
    (tmp_path / "run.json").write_text("{}")
    run = [program, "--data", "data.safetensors", "--quiet", "--steps", 1]
    oracle.run([*run, "--save", "saved", "--export-weights", "hf"], tmp_path)
    os.link(tmp_path / "hf/model.safetensors", tmp_path / "weights.safetensors")
    load, given = ["--load", "saved"], ["--weights", "weights.safetensors"]
    shard = "saved/step-000001/rank-00000.safetensors"
    before = list_files(tmp_path)
    for more, outputs in (
        ([], ["data.safetensors", "model.safetensors"]),
        (load, [shard]),
        (given, ["weights.safetensors", "hf/../hf/model.safetensors"]),
        (["--weights", "hf"], ["weights.safetensors", "hf/model.safetensors"]),
    ):
        for flag in ("--losses", "--log", "--gradients", "--export-weights", "--trace"):
            for output in outputs:
                refuse([*run, *more, flag, output], tmp_path, 2, output, flag, "is read as", "another file")
    for flags in (
        ["--log", "model.pt2"], ["--trace", "program"], ["--config", "run.json", "--log", "run.json"],
        ["--export-weights", "links"], [*given, "--export-weights", "hf"], [*load, "--log", "saved/latest"],
        [*load, "--save", "saved", "--log", "saved/latest"],
        [*load, "--save", "saved", "--losses", "saved/step-000001/index.json"],
    ):  # fmt: skip
        refuse([*run, *flags], tmp_path, 2, flags[-2], "another file")
    refuse([program, "--eval", *given, *run[1:4], "--outputs", "./weights.safetensors"], tmp_path, 2, "another file")
    (tmp_path / "linked").symlink_to("output")
    for one, other in (
        (["--log", "./output"], ["--losses", "output"]), (["--log", "linked"], ["--losses", "output"]),
        (["--export-weights", "new"], ["--log", "links/../new/model.safetensors"]),
        (["--export-weights", "new"], ["--log", "new/model-00001-of-00002.safetensors"]),
    ):  # fmt: skip
        refuse([*run, *one, *other], tmp_path, 2, "cannot be written by --lo", "is also written by --", "another file")
    assert before == list_files(tmp_path)
    oracle.run([*run, *load, "--save", "saved", "--log", "/dev/stdout", "--losses", "/dev/stderr"], tmp_path)


def test_output_that_is_a_model_with_external_data(tmp_path):
    graph = models.mlp().export_onnx(tmp_path / "model.onnx", external_data=True)
    program = oracle.compile_model(tmp_path, graph, "dp=1", *PLAIN)
    before = list_files(tmp_path)
    save_file(models.mlp().draw_inputs(1), tmp_path / "data.safetensors")
    for output in ("model.onnx", "model.onnx.data"):
        refuse([program, "--data", "data.safetensors", "--steps", 1, "--log", output], tmp_path, 2, output, "read as the model")
    assert before.items() <= list_files(tmp_path).items()


@pytest.mark.parametrize("flag", ["--losses", "--log"])
def test_losses_and_log_on_a_full_disk(tmp_path, program, flag):
    os.symlink("/dev/full", tmp_path / "full")
    run = [program, "--ranks", 2, "--data", data_for(tmp_path), "--steps", 5, "--save", "saved"]
    failing = [*run, flag, "full", "--export-weights", "no.safetensors"]
    refuse(failing, tmp_path, 1, "full", "No space left", 'saved "saved/step-000001"')
    assert not (tmp_path / "no.safetensors").exists()
    oracle.run([*run, flag, "lines", "--load", "latest"], tmp_path)
    assert len((tmp_path / "lines").read_text().splitlines()) == 4


def test_output_that_is_a_folder_of_the_program(tmp_path, program):
    (tmp_path / "there").mkdir()
    refuse(train(program, data_for(tmp_path), "--gradients", "there"), tmp_path, 2, "there", "folder")


@pytest.mark.parametrize(
    "flags,words",
    [
        (("--nonsense",), ["--nonsense"]),
        (("--steps", "many"), ["--steps", "many"]),
        (("--steps", "-1"), ["--steps", "-1"]),
        (("--steps", "1", "--epochs", "1"), ["--steps", "--epochs"]),
        (("--threads", "0"), ["--threads"]),
        (("--data-type", "int4"), ["--data-type", "int4", "uint8"]),
        (("--labels", "prior"), ["--labels", "prior", "next"]),
        (("--lr-schedule", "spiral"), ["spiral", "cosine"]),
        (("--set", "lr=1", "--set", "lr=2"), ["--set", "lr=2", "twice"]),
        (("--lr-schedule", "cosine(warmup=1,warmup=2)"), ["--lr-schedule", "warmup", "twice"]),
        (("--lr-schedule", "cosine(warmup=x)"), ["warmup"]),
        (("--lr-schedule", "cosine(warmup=10,steps=10)"), ["steps=10", "above warmup=10"]),
        (("--lr-schedule", "cosine(min=2)"), ["min=2", "at most 1"]),
        (("--lr-schedule", "linear(warmup=inf)"), ["warmup=inf"]),
        (("--labels", "next"), ["--labels", ".bin", "remove the flag"]),
        (("--data-type", "uint8"), ["--data-type", ".bin", "remove the flag"]),
        (("--data", "data.safetensors", "--data", "b.bin"), ["data.safetensors", "b.bin", "one kind"]),
        (("--output", "logits"), ["--output", "--outputs"]),
        (("--eval", "--eval-data", "data.safetensors", "--gradients", "g.safetensors"), ["--gradients", "--eval"]),
        (("--eval", "--eval-data", "data.safetensors", "--log", "log.jsonl"), ["--log", "--eval"]),
        (("--eval", "--eval-data", "data.safetensors", "--lr-schedule", "constant"), ["--lr-schedule", "--eval"]),
        (("--eval-data", "none*.npz"), ['--eval-data: no file matches "none*.npz"']),
        (("--fill", "labels"), ["--fill", "NAME=VALUE"]),
        (("--fill", "masks=1"), ["masks"]),
        (("--fill", "labels=1e30"), ["--fill labels=1e+30", "i64", "a whole number from -9223372036854775808 to"]),
        (("--fill", "labels=1.5"), ["--fill labels=1.5", "i64", "a whole number"]),
        (("--lr-schedule", "cosine(steps)"), ["steps", "KEY=NUMBER"]),
        (("--eval-every", "5"), ["--eval-data"]),
        (("--outputs", "out.safetensors"), ["--eval"]),
        (("--eval", "--eval-data", "data.safetensors", "--outputs", "o.safetensors", "--output", "none"), ["none", "cross_entropy_loss"]),
        (("--set", "momentum=1"), ["momentum", "lr"]),
        (("--config", "no.json"), ["no.json"]),
        (("--check",), ["ps-compile --check"]),
    ],
)
def test_bad_flag_of_the_program(tmp_path, program, flags, words):
    line = [program, "--data", data_for(tmp_path)]
    refuse([*line, *flags], tmp_path, 2, *words)


def test_evaluation_without_data(tmp_path, program):
    refuse([program, "--eval"], tmp_path, 2, "--eval has no data", "give --eval-data FILE or --data FILE")


@pytest.mark.parametrize(
    "flags,words",
    [
        (("--ranks", "-1"), ["--ranks", "-1", "must be at least 1"]),
        (("--threads", "30000"), ["--threads", "30000", "must be at most 1024"]),
        (("--eval-every", "0"), ["--eval-every", "must be at least 1"]),
        (("--steps", "three"), ["--steps", "three", "must be at least 0"]),
        (("--steps", "12345678901234567890123"), ["--steps", "must be at most 9223372036854775807"]),
        (("--seed", "12345678901234567890123"), ["--seed", "must be at most 18446744073709551615"]),
        (("--seed", "-1"), ["--seed", "-1", "must be at least 0"]),
        (("--set", "lr=-1"), ["--set", "lr=-1", "from 0 to"]),
        (("--set", "lr=nan"), ["--set", "lr=nan", "from 0 to"]),
        (("--set", "lr=1e39"), ["--set", "lr=1e39", "from 0 to 3.40282e+38"]),
        (("--set", "*bias=lr=-1"), ["--set", "*bias=lr=-1", "from 0 to"]),
    ],
)
def test_number_out_of_range(tmp_path, program, flags, words):
    said = refuse([program, "--data", data_for(tmp_path), *flags], tmp_path, 2, *words)
    assert len(said) < 250, "the message is short"


def test_number_out_of_range_in_a_config(tmp_path, program):
    (tmp_path / "run.json").write_text('{"steps": "three", "data": "data.safetensors"}')
    said = refuse([program, "--config", "run.json"], tmp_path, 2, "--steps", "three", "at least 0")
    assert len(said) < 250, "the message is short"


def test_data_for_no_input(tmp_path, program):
    path = data_for(tmp_path)
    save_file({**load_file(path), "extra\n": torch.zeros(3)}, path)
    assert 'note: the data has "extra\\x0a", which the model' in oracle.run(train(program, path), tmp_path)


@pytest.mark.parametrize("key", ["log", "export-weights", "set"])
def test_nul_byte_in_a_config(tmp_path, program, key):
    (tmp_path / "run.json").write_text(json.dumps({key: "lr=1\0", "data": "data.safetensors"}))
    refuse([program, "--config", "run.json"], tmp_path, 2, "run.json", f'"{key}" contains a NUL byte')
    assert not (tmp_path / "lr=1").exists()


@pytest.mark.parametrize("mesh", ["dp=1", "dp=2"])
def test_threads_that_the_system_refuses(tmp_path, exports, mesh):
    """The stacks of 1024 threads do not fit into the memory that this process may map."""

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

    program = oracle.compile_model(tmp_path, oracle.export("gpt", exports), mesh, *PLAIN)
    done = subprocess.run(
        [program, "--data", data_for(tmp_path), "--threads", "1024"], cwd=tmp_path, capture_output=True, text=True,
        timeout=60, preexec_fn=limit,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "cannot start thread" in done.stderr and "--threads" in done.stderr


def test_ranks_that_the_system_refuses(tmp_path, exports):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

    program = oracle.compile_model(tmp_path, oracle.export("mlp", exports), "tp=4096", "--sharding-policy", "replicated")
    save_file(models.mlp().draw_inputs(1), tmp_path / "data.safetensors")
    done = subprocess.run(
        [program, "--data", "data.safetensors"], cwd=tmp_path, capture_output=True, text=True, timeout=60, preexec_fn=limit
    )
    assert done.returncode == 3, done.stderr
    assert "cannot start the thread of rank" in done.stderr and "of 4096" in done.stderr


@pytest.mark.parametrize(
    "environment",
    [
        {"RANK": "0", "WORLD_SIZE": "1"},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "7"},  # the batch script itself
        {"PMI_RANK": "0", "PMI_SIZE": "1"},
    ],
    ids=" ".join,
)
def test_job_of_one_process(tmp_path, program, environment):
    command = [str(c) for c in train(program, data_for(tmp_path))]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, env={**os.environ, **environment})


def test_nothing_to_do(tmp_path, program):
    refuse([program], tmp_path, 2, "--data", "--info")


@pytest.mark.alone
@pytest.mark.parametrize("how", ["", ",throw"], ids=["status", "exception"])
def test_failing_rank_ends_all(tmp_path, exports, how):
    """One of four ranks fails in step 2 while the others wait for it. The run ends within 5 seconds with status 3, rank, step and reason."""
    program = oracle.compile_model(tmp_path, oracle.export("gpt", exports), "dp=2,tp=2", *PLAIN, can_fail=True)
    command = [program, "--ranks", "4", "--data", data_for(tmp_path), "--steps", "100000", "--quiet"]
    environment = {**os.environ, "PSRT_TEST_FAIL": f"rank=2,step=2{how}"}
    begin = time.monotonic()
    done = subprocess.run(
        [str(c) for c in command], cwd=tmp_path, capture_output=True, text=True, timeout=60, env=environment
    )
    assert time.monotonic() - begin < 5
    assert done.returncode == 3, done.stderr
    assert "rank 2, step 2" in done.stderr and "as PSRT_TEST_FAIL asked" in done.stderr


def test_programs_contain_no_test_switches(tmp_path, program):
    """PSRT_TEST_FAIL has no effect on a program that is linked in the usual way."""
    assert b"PSRT_TEST_" not in program.read_bytes()
    command = [str(c) for c in [*train(program, data_for(tmp_path)), "--quiet"]]
    environment = {**os.environ, "PSRT_TEST_FAIL": "rank=0,step=0"}
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, env=environment)


def test_error_of_a_model_without_a_loss_says_what_to_do(tmp_path):
    archive = models.gpt(loss=False).export(tmp_path / "model.pt2")
    words = ["the model has no floating-point scalar output", "--loss cross_entropy, causal_lm or mse", "--loss none"]
    refuse_compile(tmp_path, archive, status=1, words=words)


class Regularised(torch.nn.Module):
    """A model with two dropouts."""

    def __init__(self, p):
        super().__init__()
        self.linear, self.dropout = torch.nn.Linear(8, 8), torch.nn.Dropout(p)

    def forward(self, x):
        return self.dropout(self.dropout(self.linear(x)).relu()).square().mean()


@pytest.mark.part(3)
@pytest.mark.parametrize("p,mode,warns", [(0.25, "eval", True), (0.25, "train", False), (0.0, "eval", False)])
def test_export_in_eval_mode_warns_once(tmp_path, p, mode, warns):
    module = getattr(Regularised(p), mode)()
    torch.export.save(torch.export.export(module, (torch.randn(4, 8),)), tmp_path / "model.pt2")
    command = [tools_folder() / "ps-compile", tmp_path / "model.pt2", "-o", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("warning") == int(warns), done.stderr
    if warns:
        checked = subprocess.run([*command, "--check"], cwd=tmp_path, capture_output=True, text=True)
        assert checked.stderr.count("warning") == 1, checked.stderr
        assert "eval mode" in done.stderr and "dropout off (p = 0.25 here, 2 dropouts in total)" in done.stderr


def test_program_without_a_loss_cannot_train_by_itself(tmp_path, exports):
    program = oracle.compile_model(tmp_path, oracle.export("mlp", exports), "dp=1", "--loss", "none")
    save_file(models.mlp().draw_inputs(1), tmp_path / "data.safetensors")
    refuse([program, "--data", "data.safetensors"], tmp_path, 2, "--loss none", "psrt_backward")


def test_nan_loss_names_the_step(tmp_path, exports):
    program = oracle.compile_model(tmp_path, oracle.export("mlp", exports), "dp=1", *PLAIN)
    batch = models.mlp().draw_inputs(1)
    x = torch.cat([batch["x"], batch["x"]])
    x[9] = float("nan")
    save_file({"x": x, "labels": torch.cat([batch["labels"]] * 2)}, tmp_path / "data.safetensors")
    command = [program, "--data", "data.safetensors", "--steps", 2, "--export-weights", "weights.safetensors"]
    refuse(command, tmp_path, 1, "step 1", "nan", '"data.safetensors", input "x", sample 9, element 0', "fix the data")
    assert not (tmp_path / "weights.safetensors").exists()


class Picks(torch.nn.Module):
    """Selects one element of each row, at an index from the data plus `shift`."""

    def __init__(self, shift, of_classes):
        super().__init__()
        self.linear, self.shift, self.of_classes = torch.nn.Linear(5, 4), shift, of_classes

    def forward(self, x, index):
        rows = self.linear(x)
        rows = rows.log_softmax(-1) if self.of_classes else rows
        return -rows.gather(1, (index + self.shift if self.shift else index)[:, None]).mean()


@pytest.mark.part(2)
@pytest.mark.parametrize("of_classes", [False, True], ids=["elements", "classes"])
@pytest.mark.parametrize("value", [4, -1, -100, 2**40])
def test_index_outside_of_a_row(tmp_path, value, of_classes):
    """An index from the data is an error, as in PyTorch. An index that the model computes gives a NaN loss."""
    x, index = torch.randn(4, 5), torch.tensor([0, 3, 1, 2])
    for name, shift, words in [("read", 0, ["sample 2", str(value), '"index"']), ("computed", 1, ["step 0 is nan", "a computed index out of range"])]:
        archive = models.Model(name, Picks(shift, of_classes), {"x": x, "index": index - shift}).export(tmp_path / "model.pt2")
        program = oracle.compile_model(tmp_path, archive, "dp=1", *PLAIN)
        save_file({"x": x, "index": torch.where(torch.arange(4) == 2, value, index) - shift}, tmp_path / "data.safetensors")
        refuse([program, "--data", "data.safetensors", "--steps", 1], tmp_path, 1, *words)


def test_nan_eval_loss(tmp_path, exports):
    """A NaN loss is printed and ends the run. The error names the cause: a sample, the weights, or labels that are all ignored."""
    program = oracle.compile_model(tmp_path, oracle.export("mlp", exports), "dp=1", *PLAIN)
    batch = models.mlp().draw_inputs(1)
    oracle.run([program, "--export-weights", "w.safetensors"], tmp_path)
    good = {"x": torch.cat([batch["x"]] * 2), "labels": torch.cat([batch["labels"]] * 2)}
    bad = {**good, "x": good["x"].clone(), "labels": good["labels"][:13]}
    bad["x"] = bad["x"][:13]
    bad["x"][9, 2] = float("nan")
    weights = {name: tensor * float("nan") for name, tensor in load_file(tmp_path / "w.safetensors").items()}
    none = {**good, "labels": torch.full_like(good["labels"], -100)}
    for name, tensors in (("good", good), ("bad", bad), ("none", none), ("w", weights)):
        save_file(tensors, tmp_path / f"{name}.safetensors")
    run = [program, "--eval", "--outputs", "o.safetensors", "--eval-data"]
    said = refuse([*run, "bad.safetensors"], tmp_path, 1, "eval loss nan over 13 samples", "first in batch 1 (samples 8 to 12)")
    assert '"bad.safetensors", input "x", sample 9, element 2 is nan' in said and (tmp_path / "o.safetensors").exists()
    refuse([*run, "good.safetensors", "--weights", "w.safetensors"], tmp_path, 1, "eval loss nan", "batch 0", "inputs are finite")
    refuse([*run, "none.safetensors"], tmp_path, 1, "eval loss nan", "all labels of the 16 samples are ignored or masked")
    oracle.run([*run, "good.safetensors"], tmp_path)


@pytest.mark.parametrize("row,ranks", [(1, "rank 0"), (6, "rank 1"), (None, "")])
def test_nan_loss_names_the_ranks(tmp_path, exports, row, ranks):
    """The error names the rank with the bad part of the batch. If the data is good, it says what helps against diverging weights."""
    program = oracle.compile_model(tmp_path, oracle.export("mlp", exports), "dp=2", "--optimizer", "sgd(lr=1e30)")
    batch = models.mlp().draw_inputs(1)
    if row is not None:
        batch["x"][row, 2] = float("inf")
    save_file(batch, tmp_path / "data.safetensors")
    words = [f"in the part of {ranks})", f'input "x", sample {row}, element 2'] if ranks else ["inputs are finite", "--set lr", "--clip-norm"]
    said = refuse([program, "--data", "data.safetensors", "--steps", 20], tmp_path, 1, "the loss of step", *words)
    assert ("in the part of" in said) == (ranks != "")


@pytest.mark.parametrize("mesh", ["dp=1", "dp=2"])
def test_weights_that_the_last_update_made_infinite_are_not_saved(tmp_path, exports, mesh):
    """Infinite weights are noticed although the last loss is finite: the loss is computed before the update."""
    program = oracle.compile_model(tmp_path, oracle.export("mlp", exports), mesh, "--optimizer", "sgd(lr=0.1)")
    batch = [models.mlp().draw_inputs(seed) for seed in range(3)]
    batch[2]["x"] *= 1000
    save_file({n: torch.cat([one[n] for one in batch]) for n in batch[0]}, tmp_path / "data.safetensors")
    line = [program, "--data", "data.safetensors", "--quiet"]
    oracle.run([*line, "--steps", 2, "--save", "saved"], tmp_path)
    wild = [*line, "--steps", 3, "--load", "saved", "--set", "lr=3e38"]
    words = ["after 3 steps the weight \"", "nan or infinite values and is not saved", "--set lr", "--clip-norm"]
    refuse([*wild, "--save", "saved", "--keep", 1, "--export-weights", "w.safetensors"], tmp_path, 1, *words)
    assert sorted(path.name for path in (tmp_path / "saved").iterdir()) == ["latest", "step-000002"]
    for path in ("w.safetensors", "folder"):
        refuse([*wild, "--export-weights", path], tmp_path, 1, *words)
    assert not list(tmp_path.glob("w.*")) and not list((tmp_path / "folder").iterdir())
    oracle.run([*line, "--steps", 3, "--save", "saved", "--load", "latest", "--keep", 1], tmp_path)


def test_loaded_nan_weights_are_named(tmp_path, exports):
    program = oracle.compile_model(tmp_path, oracle.export("mlp", exports), "dp=2", *PLAIN)
    save_file(models.mlp().draw_inputs(1), tmp_path / "data.safetensors")
    state = {n: v.clone() for n, v in models.mlp().module.state_dict().items()}
    name = sorted(state)[-1]
    state[name].view(-1)[1] = float("nan")
    save_file(state, tmp_path / "bad.safetensors")
    said = refuse([program, "--data", "data.safetensors", "--weights", "bad.safetensors", "--steps", 2], tmp_path, 1,
                  "the loss of step 0 is nan", f'the weight "{name}" that the run started from', "load an earlier checkpoint")  # fmt: skip
    assert "learning rate" not in said


@pytest.mark.parametrize("samples,steps,left", [(19, 3, 3), (16, 9, 0), (19, 1, 0)])
def test_samples_that_do_not_fill_a_step_are_reported(tmp_path, samples, steps, left):
    """A model without labels cannot ignore rows, so the last samples of an epoch are skipped. A message reports this."""
    model = models.regressor()
    program = oracle.compile_model(tmp_path, model.export(tmp_path / "model.pt2"), "dp=2")
    save_file(model.draw_inputs(1, batch=samples), tmp_path / "data.safetensors")
    said = oracle.run([program, "--data", "data.safetensors", "--steps", steps, "--quiet"], tmp_path)
    words = f"note: the last {left} of the {samples} samples of the data are skipped: a step takes 8"
    assert (words in said) == (left > 0) and ("are skipped" in said) == (left > 0)


@pytest.mark.parametrize("name,status", [("w.bin", 2), ("w.pt", 2), ("deep/w.pth", 2), ("taken", 2), ("device", 2)])
def test_bad_names_for_exported_weights(tmp_path, exports, name, status):
    """The program neither creates a folder w.bin nor replaces a device by a file. The message says which names are possible."""
    program = oracle.compile_model(tmp_path, oracle.export("mlp", exports), "dp=1")
    (tmp_path / "taken").write_text("a file")
    os.symlink("/dev/full", tmp_path / "device")
    said = refuse([program, "--export-weights", name], tmp_path, status, f'--export-weights "{name}"', ".safetensors", "folder")
    assert not (tmp_path / "w.bin").exists() and not (tmp_path / "deep").exists()
    assert ('"w.safetensors" or "w"' in said) == (name in ("w.bin", "w.pt"))


@pytest.mark.parametrize("name", ["lr", "optimizer.0.count", "optimizer.adamw.mean.layers.0.weight", "grad.layers.0.weight", "loss.sum"])
def test_weights_cannot_set_training_state(tmp_path, exports, name):
    program = oracle.compile_model(tmp_path, oracle.export("mlp", exports), "dp=1", "--optimizer", "adamw(lr=0.01)")
    oracle.run([program, "--export-weights", "w.safetensors"], tmp_path)
    weights = load_file(tmp_path / "w.safetensors")
    value = torch.zeros_like(weights["layers.0.weight"]) if "layers" in name else torch.tensor(0.0)
    save_file({**weights, name: value}, tmp_path / "more.safetensors")
    refuse([program, "--weights", "more.safetensors", "--export-weights", "out.safetensors"], tmp_path, 1, f'"{name}"', "no variable of that name")
    assert not (tmp_path / "out.safetensors").exists()


def test_weights_into_a_folder_whose_name_has_a_dot(tmp_path, exports):
    program = oracle.compile_model(tmp_path, oracle.export("mlp", exports), "dp=1")
    oracle.run([program, "--export-weights", "llama-3.2-1B"], tmp_path)
    assert (tmp_path / "llama-3.2-1B/model.safetensors").exists()


@pytest.mark.parametrize("flag", ["--export-weights", "--gradients"])
def test_full_disk(tmp_path, exports, flag):
    """A limit on the size of files simulates a full disk. The message names the file, and no partial file remains."""
    program = oracle.compile_model(tmp_path, oracle.export("gpt", exports), "dp=1")
    command = [program, "--data", data_for(tmp_path), "--steps", 1, flag, "out.safetensors", "--quiet"]

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    done = subprocess.run([str(c) for c in command], cwd=tmp_path, capture_output=True, text=True, timeout=60, preexec_fn=limit)
    assert done.returncode == 1 and 'cannot write "out.safetensors": File too large' in done.stderr, done.stderr
    assert not list(tmp_path.glob("out*"))


def test_missing_weights_file_is_named(tmp_path):
    """A program reads its weights from the model's file. If the file is missing, the error names it."""
    archive = models.mlp().export(tmp_path / "model.pt2")
    program = oracle.compile_model(tmp_path, archive, "dp=1", *PLAIN)
    os.remove(archive)
    save_file(models.mlp().draw_inputs(1), tmp_path / "data.safetensors")
    refuse([program, "--data", "data.safetensors", "--steps", 1], tmp_path, (1, 2), "model.pt2")


def share_bytes(header, data):
    header["labels"]["data_offsets"] = header["input_ids"]["data_offsets"]
    return data


def shift_end(header, data):
    header["labels"]["data_offsets"][1] -= 8
    return data


@pytest.mark.part(3)
@pytest.mark.parametrize("change,words", [
    (lambda header, data: data + b"12345678", "8 bytes after its last tensor"), (share_bytes, "begins at byte"),
    (shift_end, "which does not match its shape [4,16] of I64"),
])  # fmt: skip
def test_safetensors_that_do_not_cover_their_bytes(tmp_path, program, change, words):
    path = data_for(tmp_path)
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    data = change(header, content[8 + length :])
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    refuse(train(program, path), tmp_path, 1, "data.safetensors", "damaged", words)


def start_long_run(program, folder, *flags):
    """Starts a run that does not end by itself, and waits for its first step. Returns the process."""
    save_file(oracle.draw_batches(models.gpt(), 1, steps=4000), folder / "long.safetensors")
    command = [program, "--ranks", "2", "--data", "long.safetensors", "--epochs", "1000000", "--quiet", "--log", "log.jsonl", *flags]
    process = subprocess.Popen([str(c) for c in command], cwd=folder, stderr=subprocess.PIPE, text=True)
    log = folder / "log.jsonl"
    while process.poll() is None and not (log.exists() and log.stat().st_size):
        time.sleep(0.01)
    return process


def test_data_that_becomes_shorter(tmp_path, program):
    """Data files are memory-mapped. If a file is truncated during the run, the error says so."""
    process = start_long_run(program, tmp_path)
    os.truncate(tmp_path / "long.safetensors", 8192)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1 and said.count("was truncated during the run") == 1, said


def test_log_of_a_run_that_is_still_writing(tmp_path, program):
    (tmp_path / "link").symlink_to("log.jsonl")
    process = start_long_run(program, tmp_path, "--losses", "losses")
    try:
        for flag, path in ("--log", "log.jsonl"), ("--losses", "losses"), ("--losses", "link"):
            refuse(train(program, data_for(tmp_path), flag, path), tmp_path, 2, flag, path, "another run is writing it")
        assert process.poll() is None
    finally:
        process.terminate()
        process.communicate(timeout=60)
    steps = [json.loads(line)["step"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert steps == list(range(steps[0], steps[0] + len(steps)))
    oracle.run([*train(program, data_for(tmp_path)), "--log", "log.jsonl"], tmp_path)


@pytest.mark.parametrize("what, processes", [("evaluation", 1), ("training", 1), ("evaluation", 2), ("training", 2)])
def test_bad_data_loses_no_steps(tmp_path, what, processes):
    """A run with bad data ends with an error, but first saves the steps before it.

    If one of several processes reads the bad sample, all processes end in this way.
    """
    model = models.mlp()
    batches = oracle.draw_batches(model, 1, 4)
    bad = {n: v.clone() for n, v in batches.items()}
    bad["labels"].view(-1)[-1] = 10**6
    save_file(bad if what == "training" else batches, tmp_path / "data.safetensors")
    save_file(bad, tmp_path / "eval.safetensors")
    program = oracle.compile_model(tmp_path, model.export(tmp_path / "model.pt2"), "dp=2", "--optimizer", "sgd(lr=0.1)")
    line = [program, "--data", "data.safetensors", "--save", "state", "--export-weights", "w.safetensors", "--log", "log.jsonl"]
    steps, more = (3, []) if what == "training" else (2, ["--eval-data", "eval.safetensors", "--eval-every", "2"])
    line += ["--steps", "4", *more]
    if processes == 1:
        said = oracle.run(line, tmp_path, expect=1)
    else:
        ends = [finish(one) for one in start_by_hand(line, tmp_path, processes)]
        assert [status for status, _ in ends] == [1] * processes, ends
        said = "".join(text for _, text in ends)
        assert said.count("error: ") == 1, said
    assert "1000000" in said and f"step-{steps:06}" in said, said
    assert (tmp_path / "state/latest").read_text() == f"step-{steps:06}\n"
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == steps
    weights = load_file(tmp_path / "w.safetensors")
    oracle.run([program, "--data", "data.safetensors", "--steps", steps, "--export-weights", "again.safetensors", "--quiet"], tmp_path)
    again = load_file(tmp_path / "again.safetensors")
    assert weights.keys() == again.keys() and all(torch.equal(weights[n], again[n]) for n in again)
