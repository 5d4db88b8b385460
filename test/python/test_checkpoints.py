"""--save and --load: a stopped run resumes with the results of an uninterrupted run, under the same or another plan."""
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import time

import models
import oracle
import processes
import pytest
import torch
from safetensors.torch import load_file, save_file
from shards import join

pytestmark = pytest.mark.usefixtures("one_thread")

STEPS = 8
ADAM = ("--optimizer", "adamw(lr=1e-2,betas=(0.9,0.95),eps=1e-8,weight_decay=0.1)", "--ema", "0.9")
PLANS = {
    "whole": ("dp=1", ()), "dp": ("dp=2", ("--zero", "1")), "tp": ("tp=2", ()), "pp": ("pp=2", ("--schedule", "zb-h1")),
    "zero": ("dp=4", ("--zero", "3")), "all": ("dp=2,pp=2,tp=2", ("--zero", "2", "--recompute", "full")),
}  # fmt: skip


def compile_plan(folder, archive, plan):
    folder.mkdir(exist_ok=True)
    mesh, flags = PLANS[plan]
    return oracle.compile_model(folder, archive, mesh, "--micro-batches", "2", *ADAM, *flags)


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A folder with data, and one program per plan. The model has dropout and a tied head."""
    folder = tmp_path_factory.mktemp("checkpoints")
    model = models.gpt2(dropout=0.1)
    archive = model.export(folder / "model.pt2")
    save_file({n: v.contiguous() for n, v in oracle.draw_batches(model, 2, STEPS).items()}, folder / "data.safetensors")
    return folder, {plan: compile_plan(folder / plan, archive, plan) for plan in PLANS}


def train(folder, program, name, *flags, expect=0, launcher=(), environment=None):
    """Trains with a program. Returns (losses, weights and averages), or the output if the run must fail."""
    line = [*launcher, program, "--data", "data.safetensors", "--shuffle", "--seed", "5", "--quiet", "--losses", f"{name}.txt",
            "--export-weights", f"{name}.safetensors", *flags]  # fmt: skip
    if launcher:
        status, said = processes.finish(processes.start([str(part) for part in line], folder, environment))
        assert status == expect, said
    else:
        said = oracle.run(line, folder, expect=expect)
    if expect:
        return said
    averages = {f"ema.{n}": v for n, v in load_file(folder / f"{name}.ema.safetensors").items()}
    return oracle.read_losses(folder / f"{name}.txt"), {**load_file(folder / f"{name}.safetensors"), **averages}


def differing(a, b):
    return [name for name in a if not torch.equal(a[name], b[name])] + sorted(a.keys() ^ b.keys())


@pytest.mark.part(3)
@pytest.mark.parametrize("plan", ["whole", "dp", "all"])
def test_a_run_resumes_with_the_same_bits(programs, plan):
    folder, made = programs
    losses, weights = train(folder, made[plan], f"{plan}-unbroken", "--steps", STEPS)
    state = f"{plan}-state"
    first, _ = train(folder, made[plan], f"{plan}-first", "--steps", 3, "--save", state, "--load", "latest")
    assert (folder / state / "latest").read_text() == "step-000003\n"
    rest, found = train(folder, made[plan], f"{plan}-rest", "--steps", STEPS, "--save", state, "--load", "latest", "--save-every", 2)
    assert first + rest == losses and differing(weights, found) == []
    assert sorted(p.name for p in (folder / state).iterdir()) == ["latest", *(f"step-00000{i}" for i in (3, 4, 6, 8))]
    train(folder, made[plan], f"{plan}-again", "--steps", STEPS, "--save", state, "--load", "latest", "--keep", 1)
    assert len(list((folder / state).iterdir())) == 5, "without a training step, nothing is saved"


def test_processes_save_and_load_the_same(programs):
    folder, made = programs
    launcher, environment = processes.launch("mpirun", 8)
    for name, start in (("threads", ()), ("mpi", launcher)):
        train(folder, made["all"], f"{name}-first", "--steps", 2, "--save", name, launcher=start, environment=environment)
    assert contents(folder / "threads/step-000002") == contents(folder / "mpi/step-000002")
    a = train(folder, made["all"], "threads-rest", "--steps", 4, "--load", "mpi")
    b = train(folder, made["all"], "mpi-rest", "--steps", 4, "--load", "threads", launcher=launcher, environment=environment)
    assert a[0] == b[0] and differing(a[1], b[1]) == []


def contents(step):
    """Returns the files of a checkpoint, without the id of the run and the hash of the index, which differ between runs."""
    files = {path.name: path.read_bytes() for path in step.iterdir()}
    index = json.loads(files["index.json"])
    assert len(index.pop("run")) == 16 and index.pop("sum")
    return {**files, "index.json": index}


@pytest.mark.parametrize("plan, ranks", [("zero", 4), ("all", 8)])
def test_each_process_writes_its_share(programs, plan, ranks):
    folder, made = programs
    launcher, environment = processes.launch("mpirun", ranks)
    train(folder, made[plan], f"share-{plan}", "--steps", 1, "--save", f"share-{plan}", launcher=launcher, environment=environment)
    step = folder / f"share-{plan}/step-000001"
    sizes = {file.name: sum(v.nbytes for v in load_file(file).values()) for file in step.glob("*.safetensors")}
    assert sorted(sizes) == [f"rank-{rank:05}.safetensors" for rank in range(ranks)]
    whole = sum(value.nbytes for value in join(step).values())
    assert sum(sizes.values()) == whole and max(sizes.values()) <= 1.3 * whole / ranks, "all files have about the same size"


@pytest.mark.part(3)
@pytest.mark.parametrize("saved", PLANS)
def test_any_plan_loads_what_another_saved(programs, saved):
    folder, made = programs
    source = folder / f"of-{saved}"
    train(folder, made[saved], f"of-{saved}-first", "--steps", 2, "--save", source, "--max-file-size", "60000")
    losses, weights = train(folder, made[saved], f"of-{saved}-unbroken", "--steps", STEPS, "--load", source)
    assert len(list((source / "step-000002").glob("*.safetensors"))) > 3
    state = join(source / "step-000002")
    assert sum(name.startswith("optimizer.adamw.") for name in state) == 2 * sum(name.startswith("ema.") for name in state) > 0
    for plan, program in made.items():
        name = f"{saved}-in-{plan}"
        again = folder / name
        found, after = train(folder, program, name, "--steps", STEPS, "--load", source)
        assert found == pytest.approx(losses, rel=1e-5)
        for tensor, value in weights.items():
            if tensor.endswith("c_attn.bias"):
                continue  # softmax does not depend on the key bias: its gradient is only rounding errors, and Adam uses their sign
            assert (after[tensor] - value).norm() <= 1e-3 * value.norm(), tensor
        train(folder, program, name, "--steps", 2, "--load", source, "--save", again)
        assert differing(state, join(again / "step-000002")) == [], "saving a loaded checkpoint must not change it"


def wait_for(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def saved_step(state):
    """Returns the step of the checkpoint that `latest` names, or 0 without a checkpoint."""
    if not (state / "latest").exists():
        return 0
    named = (state / "latest").read_text().strip()
    try:
        return json.loads((state / named / "index.json").read_text())["step"]
    except FileNotFoundError:  # removed in the meantime: `latest` now names a later checkpoint
        return saved_step(state)


def test_a_kill_at_any_moment_leaves_a_complete_checkpoint(programs, repeat=12):
    folder, made = programs
    state = folder / "killed"
    generator = random.Random(3)
    line = [made["whole"], "--data", "data.safetensors", "--epochs", "1000", "--save", "killed", "--save-every", "1", "--keep", "3",
            "--load", "latest", "--quiet", "--seed", "5", "--shuffle"]  # fmt: skip
    last = 0
    for _ in range(repeat):
        running = subprocess.Popen(line, cwd=folder, stderr=subprocess.PIPE, text=True)
        wait_for(lambda: saved_step(state) > last)  # it has resumed
        time.sleep(0.1 * generator.random())
        running.kill()
        assert "error" not in running.communicate()[1]
        last = saved_step(state)
    train(folder, made["whole"], "after-kills", "--steps", last + 1, "--load", "killed")
    assert len([p for p in state.iterdir() if p.name.startswith("step-")]) <= 5, "the 3 kept checkpoints, the loaded one and the new one"


def test_a_kill_of_any_process_leaves_a_complete_checkpoint(programs, repeat=4):
    folder, made = programs
    state = folder / "killed-rank"
    generator = random.Random(4)
    line = [made["tp"], "--data", "data.safetensors", "--epochs", "1000", "--save", state.name, "--save-every", "1", "--keep", "2",
            "--load", "latest", "--quiet", "--seed", "5", "--shuffle"]  # fmt: skip
    last = 0
    for turn in range(repeat):
        ranks = processes.start_by_hand(line, folder, 2)
        wait_for(lambda: saved_step(state) > last)  # it has resumed
        time.sleep(0.05 * generator.random())
        ranks[turn % 2].kill()
        for rank in ranks:
            processes.finish(rank)
        last = saved_step(state)
    train(folder, made["all"], "after-killed-rank", "--steps", last + 1, "--load", state.name)


def test_sigterm_saves(programs):
    folder, made = programs
    line = [made["dp"], "--data", "data.safetensors", "--epochs", "100000", "--save", "ended", "--quiet", "--losses", "ended.txt"]
    (folder / "ended.txt").unlink(missing_ok=True)
    running = subprocess.Popen(line, cwd=folder, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: (folder / "ended.txt").exists() and (folder / "ended.txt").read_text())
    running.send_signal(signal.SIGTERM)
    assert running.wait(30) == 0, running.stderr.read()
    named = (folder / "ended/latest").read_text().strip()
    assert json.loads((folder / "ended" / named / "index.json").read_text())["step"] > 0


# ---- which checkpoints are kept -------------------------------------------------------------------------------------------


def names_in(state):
    return sorted(path.name for path in state.iterdir())


def save_in(programs, state, *flags, expect=0):
    folder, made = programs
    line = [made["whole"], "--data", "data.safetensors", "--shuffle", "--seed", "5", "--quiet", "--save", state, *flags]
    return oracle.run(line, folder, expect=expect)


def test_keep_counts_by_the_order_of_saving(programs):
    """A run that resumes from an early step saves lower steps than an earlier run did. Its own checkpoints are kept."""
    state = programs[0] / "kept-back"
    save_in(programs, "kept-back", "--steps", 4, "--save-every", 1)
    save_in(programs, "kept-back", "--steps", 2, "--load", "kept-back/step-000001", "--keep", 2)
    assert names_in(state) == ["latest", "step-000001", "step-000002-2", "step-000004"], "two checkpoints and the loaded one"
    assert (state / "latest").read_text() == "step-000002-2\n"
    save_in(programs, "kept-back", "--steps", 3, "--load", "latest", "--keep", 1)
    assert names_in(state) == ["latest", "step-000002-2", "step-000003"]
    save_in(programs, "kept-back", "--steps", 3, "--save-every", 1, "--keep", 1)
    assert names_in(state) == ["latest", "step-000002-2", "step-000003", "step-000003-2"], "checkpoints of another run are kept"
    assert (state / "latest").read_text() == "step-000003-2\n"
    save_in(programs, "kept-back", "--steps", 4, "--load", "latest", "--keep", 1)
    assert names_in(state) == ["latest", "step-000002-2", "step-000003", "step-000003-2", "step-000004"]
    save_in(programs, "kept-back", "--steps", 5, "--load", "latest", "--keep", 1)
    assert names_in(state) == ["latest", "step-000002-2", "step-000003", "step-000004", "step-000005"]


def test_keep_removes_only_complete_checkpoints(programs):
    state = programs[0] / "kept-others"
    save_in(programs, "kept-others", "--steps", 2, "--save-every", 1)
    (state / "step-000000").mkdir()
    (state / "step-000000/notes.txt").write_text("mine")
    shutil.copytree(state / "step-000002", state / "step-000009")
    (state / "step-000009/index.json").write_text("{}")
    (state / "step-000008").symlink_to("step-000002")
    save_in(programs, "kept-others", "--steps", 3, "--keep", 1, "--load", "latest")
    assert names_in(state) == ["latest", "step-000000", "step-000002", "step-000003", "step-000008", "step-000009"]
    assert (state / "step-000000/notes.txt").read_text() == "mine"


def test_latest_without_a_pointer_loads_the_last_checkpoint(programs):
    """`latest` may be missing after a kill, or in a copy of the folder."""
    state = programs[0] / "no-pointer"
    save_in(programs, "no-pointer", "--steps", 2, "--save-every", 1)
    (state / "latest").unlink()
    said = save_in(programs, "no-pointer", "--steps", 3, "--load", "latest", "--losses", "no-pointer.txt")
    assert 'has no pointer "latest"; loading the checkpoint that was saved last' in said, said
    assert names_in(state) == ["latest", "step-000001", "step-000002", "step-000003"]
    assert len(oracle.read_losses(programs[0] / "no-pointer.txt")) == 1
    (state / "latest").unlink()
    for step in state.iterdir():
        (step / "index.json").write_text("{}")
    assert "index.json" in save_in(programs, "no-pointer", "--steps", 4, "--load", "latest", expect=1), "all checkpoints are damaged"


# ---- logs and losses of resumed runs ------------------------------------------------------------------------------------------------------


def read_lines(folder):
    return [json.loads(line)["step"] for line in (folder / "go-on.jsonl").read_text().splitlines()], oracle.read_losses(folder / "go-on.txt")


def test_log_and_losses_continue(programs):
    """Lines of repeated steps are replaced; earlier lines are kept. Runs that fail or train no step do not change the files."""
    folder, made = programs
    line = [made["whole"], "--data", "data.safetensors", "--shuffle", "--seed", "5", "--quiet", "--log", "go-on.jsonl", "--losses", "go-on.txt"]
    saving = [*line, "--save", "go-on", "--load", "latest", "--save-every", "2"]
    (folder / "go-on.txt").write_text("9\n" * 20)  # from another run, which is not resumed
    oracle.run([*line, "--steps", 8], folder)
    steps, unbroken = read_lines(folder)
    assert steps == list(range(8)) and len(unbroken) == 8
    oracle.run([*saving, "--steps", 3], folder)
    assert read_lines(folder) == ([0, 1, 2], unbroken[:3])
    oracle.run([*saving, "--steps", 5], folder)
    assert read_lines(folder) == ([0, 1, 2, 3, 4], unbroken[:5])
    with open(folder / "go-on.jsonl", "a") as log:
        log.write('{"step": 5, "lo')  # an incomplete line, as after a kill
    oracle.run([*line, "--load", "go-on/step-000002", "--steps", 4], folder)
    assert read_lines(folder) == ([0, 1, 2, 3], unbroken[:4])
    before = contents_of(folder)
    oracle.run([*saving, "--steps", 5], folder)
    oracle.run([*line, "--load", "go-on/step-000002", "--steps", 8, "--weights", "data.safetensors"], folder, expect=2)
    save_file({n: v[:, :3].contiguous() for n, v in load_file(folder / "data.safetensors").items()}, folder / "wrong.safetensors")
    oracle.run([*(str(part).replace("data.", "wrong.") for part in line), "--steps", 8], folder, expect=1)
    save_file({n: v + 1000 for n, v in load_file(folder / "data.safetensors").items()}, folder / "wrong.safetensors")
    oracle.run([*(str(part).replace("data.", "wrong.") for part in line), "--steps", 8], folder, expect=1)
    assert contents_of(folder) == before
    assert not list(folder.glob("*.tmp"))


def test_a_log_with_few_lines_continues(programs):
    """The log of resumed runs equals the log of an uninterrupted run.

    A run also writes the line of its last step. The next run removes this line if it is not due with --log-every.
    """
    folder, made = programs
    line = [made["whole"], "--data", "data.safetensors", "--shuffle", "--seed", "5", "--quiet", "--log", "few.jsonl", "--log-every", 3]

    def read():
        entries = [json.loads(text) for text in (folder / "few.jsonl").read_text().splitlines()]
        return [(entry["done"], entry["loss"]) for entry in entries]

    oracle.run([*line, "--steps", 10], folder)
    unbroken = read()
    assert [done for done, _ in unbroken] == [3, 6, 9, 10]
    saving = [*line, "--save", "few", "--load", "latest"]
    for steps, expected in [(4, [3, 4]), (5, [3, 5]), (6, [3, 6]), (8, [3, 6, 8]), (10, [3, 6, 9, 10])]:
        oracle.run([*saving, "--steps", steps], folder)
        assert [done for done, _ in read()] == expected
        assert not set(read()[:-1]) - set(unbroken)
    assert read() == unbroken
    before = (folder / "few.jsonl").read_bytes()
    oracle.run([*saving, "--steps", 10], folder)
    assert (folder / "few.jsonl").read_bytes() == before, "no step is trained"
    with open(folder / "few.jsonl", "a") as log:
        log.write('{"step": 10, "done": 11}\n{"step": 11, "done": 12, "lo')  # from a killed run that trained more steps
    oracle.run([*saving, "--steps", 13], folder)
    assert [done for done, _ in read()] == [3, 6, 9, 12, 13]


def test_a_signal_logs_the_last_step(programs):
    folder, made = programs
    outputs = ["--log", "signal.jsonl", "--log-every", 10**9, "--losses", "signal.txt"]
    line = [made["whole"], "--data", "data.safetensors", "--epochs", 1000000, "--quiet", *outputs]
    running = subprocess.Popen([str(part) for part in line], cwd=folder)
    wait_for(lambda: (folder / "signal.txt").exists() and (folder / "signal.txt").read_text().count("\n") > 5)
    running.send_signal(signal.SIGTERM)
    assert running.wait(30) == 0
    (entry,) = [json.loads(text) for text in (folder / "signal.jsonl").read_text().splitlines()]
    losses = oracle.read_losses(folder / "signal.txt")
    assert entry["done"] == len(losses) and entry["loss"] == losses[-1]


def contents_of(folder):
    return (folder / "go-on.jsonl").read_bytes(), (folder / "go-on.txt").read_bytes()


def test_losses_that_begin_at_a_later_step_continue(programs):
    """A checkpoint records the number of lines at its step."""
    folder, made = programs
    line = [made["whole"], "--data", "data.safetensors", "--shuffle", "--seed", "5", "--quiet", "--save", "later", "--load", "latest"]
    oracle.run([*line, "--steps", 3], folder)
    oracle.run([*line, "--steps", 6, "--save-every", 2, "--losses", "later.txt"], folder)
    losses = oracle.read_losses(folder / "later.txt")
    oracle.run([*line[:-2], "--load", "later/step-000004", "--steps", 5, "--losses", "later.txt"], folder)
    assert oracle.read_losses(folder / "later.txt") == losses[:2] and len(losses) == 3


# ---- two runs ---------------------------------------------------------------------------------------------------------


def start_endless(folder, program, name, *launcher):
    line = [program, "--data", "data.safetensors", "--shuffle", "--seed", "5", "--epochs", "1000000", "--save", name, "--quiet"]
    running = subprocess.Popen([str(part) for part in line], cwd=folder, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: (folder / name / ".lock").exists() and (folder / name / ".lock").read_text())
    return running


def test_a_second_run_into_the_folder_ends_at_once(programs):
    folder, made = programs
    first = start_endless(folder, made["whole"], "shared")
    try:
        second = [made["whole"], "--data", "data.safetensors", "--steps", 2, "--save", "shared", "--losses", "second.txt"]
        said = oracle.run(second, folder, expect=2)
        assert f'--save "shared": another run saves to this folder: process {first.pid} on host "{os.uname().nodename}"' in said
        ended = [processes.finish(rank) for rank in processes.start_by_hand([made["tp"], *second[1:]], folder, 2)]
        assert [status for status, _ in ended] == [2, 2] and f"process {first.pid} on host" in ended[0][1] + ended[1][1]
        assert not (folder / "second.txt").exists()
    finally:
        first.send_signal(signal.SIGTERM)
    assert first.wait(30) == 0
    assert len(list((folder / "shared").iterdir())) == 2, "latest and one checkpoint: the lock file is removed"
    oracle.run([*second[:-2], "--load", "latest", "--seed", 5, "--shuffle"], folder)


def test_files_of_a_killed_run_do_not_block_the_next(programs):
    folder, made = programs
    first = start_endless(folder, made["whole"], "stale")
    first.kill()
    first.wait()
    (folder / "stale/.partial.0123456789abcdef").mkdir()
    (folder / "stale/latest.0123456789abcdef.tmp").write_text("step-000001")
    (folder / "stale/notes.tmp").write_text("mine")
    oracle.run([made["whole"], "--data", "data.safetensors", "--steps", 2, "--save", "stale"], folder)
    assert sorted(p.name for p in (folder / "stale").iterdir()) == ["latest", "notes.tmp", "step-000002"]


# ---- damaged checkpoints and bad flags --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(programs):
    folder, made = programs
    train(folder, made["whole"], "saved-run", "--steps", 2, "--save", "saved")
    return folder, made, folder / "saved/step-000002"


def refuse(saved, words, *flags, change=lambda step: None, plan="whole", status=1):
    folder, made, step = saved
    shutil.rmtree(folder / "changed", ignore_errors=True)
    shutil.copytree(step.parent, folder / "changed")
    change(folder / "changed" / step.name)
    said = train(folder, made[plan], "refused", "--steps", 4, "--load", "changed", *flags, expect=status)
    for word in words:
        assert word in said, said


def flip(step):
    path = step / "rank-00000.safetensors"
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)


def write_index(step, index):
    """Writes an index with a correct hash, so that its contents are checked, too."""
    index.pop("sum", None)
    index["sum"] = sum_of(json.dumps(index, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode())
    (step / "index.json").write_text(json.dumps(index))


def change_index(change):
    def apply(step):
        index = json.loads((step / "index.json").read_text())
        change(index)
        write_index(step, index)

    return apply


def change_shard(change):
    return change_index(lambda index: change(index["tensors"]["transformer.wte.weight"]["shards"][0]))


def change_tensor(**values):
    return change_index(lambda index: index["tensors"]["transformer.wte.weight"].update(values))


def remove_the_sum(step):
    index = json.loads((step / "index.json").read_text())
    del index["sum"]
    (step / "index.json").write_text(json.dumps(index))


def move_a_shard(step):
    """Changes one digit of an offset."""
    text = (step / "index.json").read_text()
    at = re.search(r'"offset":\d+', text).end() - 1
    (step / "index.json").write_text(text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :])


def give_twice(key):
    """Repeats a key of the index with the same value. The hash of the parsed index stays the same."""

    def apply(step):
        text = (step / "index.json").read_text()
        value = json.dumps(json.loads(text)[key])
        (step / "index.json").write_text(f'{text.rstrip()[:-1]},"{key}":{value}}}')

    return apply


@pytest.mark.parametrize("change, words", [
    (move_a_shard, ["index.json\" was changed after it was written: its hash differs"]),
    (lambda step: os.truncate(step / "rank-00000.safetensors", 5000), ["rank-00000.safetensors\" has 5000 bytes", "the file is incomplete"]),
    (flip, ["rank-00000.safetensors\" was changed after it was written"]),
    (lambda step: (step / "rank-00000.safetensors").unlink(), ["has no file \"rank-00000.safetensors\""]),
    (lambda step: (step / "index.json").write_text("{"), ["index.json\" is not a valid index of a checkpoint: parse error"]),
    (give_twice("step"), ["is not a valid index of a checkpoint: \"step\" is given twice in one object; the first would be lost"]),
    (give_twice("tensors"), ["\"tensors\" is given twice"]),
    (lambda step: (step / "index.json").unlink(), ["is not a checkpoint: it has neither index.json"]),
    (lambda step: (step / "index.json").rename(step / "checkpoint.json"), ["saved by an earlier version"]),
    (remove_the_sum, ["index.json\" has no \"sum\""]),
    (change_shard(lambda shard: shard.update(offset=10**9)), ["\"offset\" is 1000000000; expected an integer from 0 to"]),
    (change_shard(lambda shard: shard.update(offset=0)), ["rank-00000.safetensors\" does not match the", "(12288 bytes of f32) is expected at offset 0;"]),
    (change_shard(lambda shard: shard.update(file="other")), ["\"file\" is \"other\"; expected one of \"files\""]),
    (change_shard(lambda shard: shard["ranges"][0][0].__setitem__(1, 10**6)), ["\"ranges\" is array; expected ascending ranges"]),
    (change_shard(lambda shard: shard["ranges"][0][0].__setitem__(0, 1)), ["do not cover each element once"]),
    (change_tensor(dtype="f64"), ["transformer.wte.weight"]),
    (change_tensor(dtype="i32"), ["the checkpoint has i32 [96, 32], the program has f32 [96, 32]"]),
    (change_tensor(dtype="f33"), ["\"dtype\" is \"f33\"; expected a dtype"]),
    (change_tensor(shape=[-1, 32]), ["\"shape\" has the element -1"]),
    (change_index(lambda index: index.update(step=1.5)), ["\"step\" is 1.5; expected an integer from 0 to"]),
    (change_index(lambda index: index.update(step=2**63 - 1)), ["\"step\" is 9223372036854775807; expected an integer from 0 to"]),
    (change_index(lambda index: index.update(step=7)), ["\"step\" is 7; expected 2, as in the name of its folder"]),
    (change_index(lambda index: index.update(shuffle=1)), ["\"shuffle\" is 1; expected true or false"]),
    (change_index(lambda index: index.update(other=1)), ["has the unknown key \"other\"; expected version, step"]),
    (change_index(lambda index: index.update(files={"..": {"bytes": 1, "sum": "0"}})), ["\"files\" names \"..\", which is outside of the checkpoint"]),
    (lambda step: (step.parent / "latest").write_text("../x"), ["latest\" does not name a checkpoint"]),
])  # fmt: skip
def test_changed_checkpoint_files(saved, change, words):
    refuse(saved, words, change=change)


def test_missing_checkpoint(saved):
    folder, made, _ = saved
    line = [made["whole"], "--data", "data.safetensors", "--load"]
    assert '--load "saved/step-2": no such folder; "saved" has step-000002' in oracle.run([*line, "saved/step-2"], folder, expect=2)
    assert "give a folder that --save has written" in oracle.run([*line, "no/such"], folder, expect=2)


@pytest.mark.parametrize("flags, words", [
    (("--seed", "6"), ["--seed 5; give the same seed"]), (("--weights", "saved-run.safetensors"), ["--load and --weights"]),
    (("--save-every", "2"), ["--save-every needs --save FOLDER"]), (("--check",), ["remove --load or --check"]),
])  # fmt: skip
def test_flags_that_contradict_a_checkpoint(saved, flags, words):
    folder, made, _ = saved
    line = [made["whole"], "--data", "data.safetensors", "--shuffle", "--steps", "4", "--load", "saved", *flags]
    said = oracle.run(line + ([] if "--seed" in flags else ["--seed", "5"]), folder, expect=2)
    for word in words:
        assert word in said, said
    assert "give --save" in oracle.run([made["whole"], "--data", "data.safetensors", "--load", "latest"], folder, expect=2)
    assert "without --shuffle" not in said and "remove --shuffle" not in said


def test_another_model_or_another_batch(saved, tmp_path):
    folder, _, _ = saved
    model = models.gpt2(width=64)
    program = oracle.compile_model(tmp_path, model.export(tmp_path / "m.pt2"), "dp=1", "--micro-batches", "2")
    said = train(folder, program, "other", "--steps", 4, "--load", "saved", expect=1)
    assert "from another model or optimizer" in said and said.count("the checkpoint has f32") == 3 and "[96, 64]" in said
    program = oracle.compile_model(tmp_path, folder / "model.pt2", "dp=1", "--micro-batches", "4", *ADAM)
    said = train(folder, program, "other", "--steps", 4, "--load", "saved", expect=2)
    assert "its steps read 8 samples and this program's steps 16" in said


def sum_of(data):
    """Returns the hash of a file, as the runtime computes it: similar to FNV-1a, first over words of 8 bytes, then over the remaining bytes."""
    mask, prime, total = 2**64 - 1, 0x100000001B3, 0xCBF29CE484222325
    for (word,) in struct.iter_unpack("<Q", data[: len(data) // 8 * 8]):
        total = ((total ^ word) * prime) & mask
        total ^= total >> 29
    for byte in data[len(data) // 8 * 8 :]:
        total = ((total ^ byte) * prime) & mask
    return f"{total:016x}"


def offsets_in(data):
    """Returns the offset of each tensor of a safetensors file."""
    size = int.from_bytes(data[:8], "little")
    return {n: 8 + size + t["data_offsets"][0] for n, t in json.loads(data[8 : 8 + size]).items() if n != "__metadata__"}


def test_floats_of_another_dtype_are_converted(saved):
    """A checkpoint with f64 tensors has the same values, and gives the same run."""
    folder, made, step = saved
    shutil.rmtree(folder / "wide", ignore_errors=True)
    shutil.copytree(step.parent, folder / "wide")
    path = folder / "wide" / step.name / "rank-00000.safetensors"
    old = {offset: name for name, offset in offsets_in(path.read_bytes()).items()}
    save_file({name: value.double() if value.is_floating_point() else value for name, value in load_file(path).items()}, path)
    index, data = json.loads((path.parent / "index.json").read_text()), path.read_bytes()
    for tensor in index["tensors"].values():
        tensor["dtype"] = tensor["dtype"].replace("f32", "f64")
        for shard in tensor["shards"]:
            shard["offset"] = offsets_in(data)[old[shard["offset"]]]
    index["files"][path.name] = {"bytes": len(data), "sum": sum_of(data)}
    write_index(path.parent, index)
    losses, weights = train(folder, made["tp"], "narrow", "--steps", 4, "--load", "saved")
    found, after = train(folder, made["tp"], "wide-run", "--steps", 4, "--load", "wide")
    assert found == losses and differing(weights, after) == []


def test_a_full_disk_of_one_process_keeps_the_old_checkpoint(saved):
    folder, made, step = saved
    before = contents(step)
    limited = ["bash", "-c", 'if [ $RANK = 1 ]; then ulimit -f 20; fi; exec "$@"', "bash"]
    line = [*limited, made["tp"], "--data", "data.safetensors", "--shuffle", "--seed", "5", "--steps", "4", "--load", "saved", "--save", "saved",
            "--quiet"]  # fmt: skip
    ended = [processes.finish(rank) for rank in processes.start_by_hand(line, folder, 2)]
    said = "".join(text for _, text in ended)
    assert [status for status, _ in ended] == [1, 1] and "cannot write" in said and "rank-00001.safetensors" in said, ended
    assert sorted(p.name for p in step.parent.iterdir()) == ["latest", step.name] and contents(step) == before


def test_a_full_disk_keeps_the_old_checkpoint(saved):
    """A limit on the size of files simulates a full disk."""
    folder, made, step = saved
    before = {p.relative_to(step.parent): p.read_bytes() for p in step.parent.rglob("*") if p.is_file()}
    line = [made["whole"], "--data", "data.safetensors", "--shuffle", "--seed", "5", "--steps", "4", "--load", "saved", "--save", "saved", "--quiet"]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=60,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000)))  # fmt: skip
    assert done.returncode == 1 and "error" in done.stderr and "saved" in done.stderr, done.stderr
    assert {p.relative_to(step.parent): p.read_bytes() for p in step.parent.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize("ranks, flags", [(1, ("--save-every", "2")), (1, ()), (2, ())])
def test_weights_are_written_if_the_checkpoint_fails(saved, ranks, flags):
    folder, made, _ = saved
    run = [made["tp"], "--data", "data.safetensors", "--shuffle", "--seed", "5", "--steps", "2", "--quiet"]
    oracle.run([*run, "--export-weights", "expected.safetensors"], folder)
    (folder / "full").mkdir(exist_ok=True)
    (folder / "found.safetensors").unlink(missing_ok=True)
    disk = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=64k none full && exec "$@"', "sh"]
    if subprocess.run([*disk, "true"], cwd=folder, capture_output=True).returncode:
        pytest.skip("user namespaces are not allowed")
    if ranks == 2:
        disk += ["sh", "-c", 'RANK=1 "$@" & RANK=0 "$@"; status=$?; wait $! && exit 0; exit $status', "sh"]
    job = processes.by_hand(ranks) if ranks > 1 else None
    done = subprocess.run([*disk, *run, "--save", "full/saved", *flags, "--export-weights", "found.safetensors"], cwd=folder, env=job,
                          capture_output=True, text=True, timeout=60)  # fmt: skip
    assert done.returncode == 1 and "full/saved" in done.stderr and "No space" in done.stderr, done.stderr
    assert (folder / "found.safetensors").read_bytes() == (folder / "expected.safetensors").read_bytes()


class Gain(torch.nn.Module):
    """A model with a scalar parameter, like CLIP's logit_scale."""

    def __init__(self):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.tensor(2.0))
        self.net = torch.nn.Linear(8, 8)

    def forward(self, x):
        return (self.gain * self.net(x)).square().mean()


@pytest.mark.parametrize("flags", [(), ("--mesh", "dp=2", "--zero", "1")])
def test_a_parameter_without_dims_resumes_too(tmp_path, flags):
    """The optimizer's count of steps is a scalar, too. It is not mistaken for the state of a scalar parameter."""
    torch.manual_seed(0)
    x = torch.randn(4, 8)
    torch.export.save(torch.export.export(Gain(), (x,)), tmp_path / "model.pt2")
    save_file({"x": torch.randn(24, 8)}, tmp_path / "data.safetensors")
    oracle.run([oracle.tools_folder() / "ps-compile", "model.pt2", "-o", "program", "--optimizer", "adamw(lr=0.05)", *flags], tmp_path)
    run = ["./program", "--data", "data.safetensors", "--quiet"]
    oracle.run([*run, "--steps", "6", "--losses", "whole.txt", "--save", "saved", "--save-every", "3"], tmp_path)
    oracle.run([*run, "--steps", "6", "--losses", "rest.txt", "--load", "saved/step-000003"], tmp_path)
    assert oracle.read_losses(tmp_path / "rest.txt") == oracle.read_losses(tmp_path / "whole.txt")[3:]


@pytest.mark.parametrize("optimizer", ["adamw(lr=0.05)", "sgd(lr=0.05,momentum=0.9)"])
def test_inference_reads_what_training_saved(tmp_path, optimizer):
    """The optimizer's state and the averages are ignored, and a message reports this."""
    torch.manual_seed(0)
    x = torch.randn(4, 8)
    torch.export.save(torch.export.export(Gain(), (x,)), tmp_path / "model.pt2")
    save_file({"x": torch.randn(24, 8)}, tmp_path / "data.safetensors")
    compile_ = [oracle.tools_folder() / "ps-compile", "model.pt2", "-o"]
    oracle.run([*compile_, "train", "--optimizer", optimizer, "--ema", "0.9"], tmp_path)
    oracle.run([*compile_, "infer", "--inference"], tmp_path)
    trained = oracle.run(["./train", "--data", "data.safetensors", "--quiet", "--steps", "6", "--save", "saved", "--eval-data", "data.safetensors",
                          "--eval-every", "6"], tmp_path)
    said = oracle.run(["./infer", "--eval", "--eval-data", "data.safetensors", "--load", "saved"], tmp_path)
    assert "which this program lacks; they are ignored" in said
    found = [float(re.search(r"eval loss ([\d.]+)", text)[1]) for text in (trained, said)]
    assert found[0] == pytest.approx(found[1], rel=1e-5), (trained, said)


class NamesOfTheRuntime(torch.nn.Module):
    """Parameters whose names equal names of gradients and averages of other parameters, such as grad.proj.weight."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.proj = torch.nn.Linear(6, 6)
        self.grad, self.ema = (torch.nn.ModuleDict({"proj": torch.nn.Linear(6, 6)}) for _ in range(2))

    def forward(self, x):
        hidden = self.ema["proj"](self.proj(x)).tanh()
        return {"loss": (self.grad["proj"](hidden) - x).square().mean(), "step": hidden.mean(), "lr": hidden.std()}


class NamesOfState(torch.nn.Module):
    """Parameters whose names equal names of the runtime's training state, such as loss_scale."""

    def __init__(self):
        super().__init__()
        self.proj, self.loss_scale = torch.nn.Linear(6, 6), torch.nn.Parameter(torch.ones(6))
        self.optimizer = torch.nn.ModuleList([torch.nn.Module()])
        self.optimizer[0].count = torch.nn.Parameter(torch.zeros(6))

    def forward(self, x):
        return ((self.proj(x) + self.optimizer[0].count) * self.loss_scale - x).square().mean()


def test_parameters_with_names_of_training_state(tmp_path):
    """A checkpoint has both the parameters and the training state, under different names."""
    torch.manual_seed(0)
    models.Model("names", NamesOfState(), {"x": torch.randn(8, 6)}).export(tmp_path / "m.pt2")
    save_file({"x": torch.randn(64, 6)}, tmp_path / "data.safetensors")
    flags = ["--optimizer", "adamw(lr=0.05)", "--precision", "fp16"]
    run = [oracle.compile_model(tmp_path, "m.pt2", "dp=2", *flags), "--data", "data.safetensors", "--quiet"]
    oracle.run([*run, "--steps", 8, "--losses", "whole.txt", "--export-weights", "whole.safetensors"], tmp_path)
    oracle.run([*run, "--steps", 4, "--save", "saved"], tmp_path)
    said = oracle.run([*run, "--steps", 8, "--load", "saved", "--losses", "rest.txt", "--export-weights", "rest.safetensors"], tmp_path)
    assert "initial value" not in said, said
    assert oracle.read_losses(tmp_path / "rest.txt") == oracle.read_losses(tmp_path / "whole.txt")[4:]
    assert (tmp_path / "rest.safetensors").read_bytes() == (tmp_path / "whole.safetensors").read_bytes()
    tensors = json.loads((tmp_path / "saved/step-000004/index.json").read_text())["tensors"]
    assert tensors["optimizer.0.count"]["shape"] == [6] and tensors["state.optimizer.0.count"]["shape"] == []
    assert tensors["loss_scale"]["shape"] == [6] and tensors["state.loss_scale"]["shape"] == []


def test_parameters_with_names_of_gradients_and_averages(tmp_path):
    """The model's tensors keep their names in every file, and a run resumes from its checkpoint."""
    module = NamesOfTheRuntime()
    model = models.Model("names", module, {"x": torch.randn(8, 6)})
    data = {"x": torch.randn(32, 6)}
    save_file(data, tmp_path / "data.safetensors")
    program = oracle.compile_model(tmp_path, model.export(tmp_path / "m.pt2"), "dp=2", "--optimizer", "sgd(lr=0.1)", "--ema", "0.5")
    run = [program, "--data", "data.safetensors", "--quiet", "--save", "saved"]
    oracle.run([*run, "--steps", 2, "--gradients", "g.safetensors"], tmp_path)
    oracle.run([*run, "--steps", 4, "--load", "latest", "--export-weights", "w.safetensors", "--log", "log"], tmp_path)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    averages = torch.optim.swa_utils.AveragedModel(module, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.5))
    for step in range(4):
        optimizer.zero_grad()
        module(data["x"][8 * step : 8 * step + 8])["loss"].backward()
        if step == 0:
            found = load_file(tmp_path / "g.safetensors")
            assert torch.allclose(found["grad.self.proj.weight"], module.proj.weight.grad, atol=1e-6)
        optimizer.step()
        averages.update_parameters(module)
    for file, expected in ("w.safetensors", module), ("w.ema.safetensors", averages.module):
        for name, value in load_file(tmp_path / file).items():
            assert torch.allclose(value, expected.state_dict()[name], atol=1e-5), (file, name)
    line = json.loads((tmp_path / "log").read_text().splitlines()[-1], object_pairs_hook=lambda pairs: pairs)
    keys = [key for key, _ in line]
    assert len(keys) == len(set(keys)) and {"output.step", "output.lr"} <= set(keys) and dict(line)["step"] == 3, keys
