"""Requests that no plan satisfies: the error names the reason, and a plan exists after each change that the error proposes.

If the error proposes several values of a flag, the test requires a plan for one of them: contradictions of flags are found before the model is read, and
the model may exclude a value.
"""

import re

import lanes
import models
import pytest
from conftest import run_tool as run


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """A GPT whose export allows 2 to 1024 samples, the same model with a fixed batch of 8, and a classifier."""
    folder = tmp_path_factory.mktemp("models")
    made = {"gpt": models.gpt_dynamic(layers=4), "fixed": models.gpt(layers=4, batch=8), "mlp": models.mlp(batch=8)}
    for name, model in made.items():
        model.export(folder / f"{name}.pt2")
    return {name: folder / f"{name}.pt2" for name in made}


# Model, number of ranks, global batch, other flags, and the reason that the error must name.
PROBLEMS = [
    ("gpt", 4, 16, "--mesh tp=3", "--mesh tp=3 and --cluster cpu-mpi:4 contradict each other"),
    ("gpt", 4, 16, "--mesh dp=2,tp=4", "--mesh dp=2,tp=4 and --cluster cpu-mpi:4 contradict each other"),
    ("gpt", 4, 16, "--batch 3", "--batch 3 and --global-batch 16 contradict each other"),
    ("gpt", 4, 8, "--batch 8 --micro-batches 4", "8 x 4 is not 8"),
    ("gpt", 4, 7, "--mesh dp=4", "the batch must be a multiple of the number of data-parallel ranks"),
    ("gpt", 4, 16, "--mesh pp=1 --schedule 1f1b", "a schedule needs a pipeline axis of at least 2"),
    ("gpt", 4, 16, "--mesh pp=1 --num-chunks 2", "several chunks need a pipeline axis of at least 2"),
    ("gpt", 4, 16, "--mesh dp=1 --zero 1", "ZeRO stages above 0 need at least 2 data-parallel ranks"),
    ("gpt", 4, 16, "--schedule interleaved --num-chunks 1", "a schedule allows only some numbers of chunks"),
    ("gpt", 4, 16, "--split-method blocks.1,blocks.2", "the modules give 3 stages"),
    ("gpt", 8, 16, "--mesh pp=8", "the constraints demand at least 8 stages (pp x num-chunks), but the model can only be cut into 6"),
    ("gpt", 4, 16, "--mesh pp=4 --num-chunks 2", "the constraints demand at least 8 stages (pp x num-chunks), but the model can only be cut into 6"),
    ("gpt", 4, 1, "", "no plan has a global batch of 1 on 4 ranks; --batch 1: dim "),
    ("fixed", 2, 12, "", "the export fixes the samples per micro-batch over all data-parallel ranks at 8"),
    ("gpt", 4, 16, "--memory 100KiB", "no plan fits the memory of a rank, 100 KiB"),
    ("gpt", 2, 8, "--mesh dp=2 --memory 400KiB", "no plan fits the memory of a rank, 400 KiB"),
    ("gpt", 4, 16, "--mesh dp=4 --zero 0 --memory 500KiB", "no plan fits the memory of a rank, 500 KiB"),
    lanes.full("gpt", 4, 17, "--memory 400KiB", "; smaller micro-batches are not possible (--batch 1: dim "),
    lanes.full("mlp", 4, 64, "--memory 6000", "no plan fits the memory of a rank"),
    lanes.full("fixed", 2, 8, "--memory 400KiB", "no plan fits the memory of a rank, 400 KiB"),
]


def list_changes(error):
    """Returns the proposed changes: flags with values. None removes a constraint. Example: [("--batch", ["2", "4"]), ("tp", [None])]."""
    message = error.partition("ps-plan: error: ")[2].rstrip()
    changes = []
    for line in map(str.strip, message.splitlines()[1:]):
        if found := re.match(r"with (\d+) ranks: ", line):
            changes.append(("--cluster", [f"cpu-mpi:{found[1]}"]))
        elif found := re.match(r"with (--\S+) (\S+): ", line):
            changes.append((found[1], [found[2]]))
        elif found := re.match(r"without the constraint on (?:the axis )?(\S+): ", line):
            changes.append((found[1], [None]))
        else:
            assert line.startswith(("with another export and ", "smaller micro-batches could not be searched ")), line
    # "use --mesh tp=2 or 4, or --cluster cpu-mpi:8 or 16": values after the first lack the part up to "=" or ":".
    for proposal in message.partition("; use ")[2].split(", or "):
        flag, _, values = proposal.partition(" ")
        first, *others = values.split(" or ")
        prefix = re.match(r"(.*[=:])?", first)[0]
        changes += [(flag, [first, *(prefix + other for other in others)])] if flag else []
    return changes


def change(command, flag, value):
    """Returns the flags with one change. A value of an axis, such as tp=2, replaces this axis of the mesh."""
    axis = value.split("=")[0] if flag == "--mesh" else flag
    if flag == "--mesh" or not flag.startswith("--"):
        axes = [each for each in command.get("--mesh", "").split(",") if each and each.split("=")[0] != axis]
        return command | {"--mesh": ",".join(axes + ([value] if value else [])) or None}
    return command | {flag: value}


def search(archive, command):
    return run("ps-plan", archive, *(text for flag, value in command.items() if value for text in (flag, value)))


@pytest.mark.part(6)
@pytest.mark.parametrize(("model", "ranks", "batch", "flags", "reason"), PROBLEMS, ids=lambda value: str(value)[:40])
def test_the_error_names_the_reason_and_changes_that_work(archives, model, ranks, batch, flags, reason):
    words = flags.split()
    command = {"--cluster": f"cpu-mpi:{ranks}", "--global-batch": str(batch), **dict(zip(words[::2], words[1::2], strict=True))}
    done = search(archives[model], command)
    assert done.returncode in (1, 2) and reason in done.stderr, done.stderr
    changes = list_changes(done.stderr)
    assert changes or "export with a dynamic batch dim" in done.stderr, done.stderr
    for flag, values in changes:
        changed = [search(archives[model], change(command, flag, value)) for value in values]
        assert 0 in [each.returncode for each in changed], (flag, values, done.stderr, changed[0].stderr)
