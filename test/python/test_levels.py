"""The dump of every level can be read again: by ps-compile, and by ps-opt for one pass at a time."""
import re
import subprocess

import models
import oracle
import pytest
from conftest import ROOT, tools_folder

LEVELS = ["0-imported", "1-training", "2-planned", "3-partitioned", "4-scheduled", "5-placed"]


@pytest.fixture(scope="module", params=["gpt", "llama", "gpt without loss", "gpt under a budget", "llama for GPUs"])
def dumps(request, tmp_path_factory, exports):
    folder = tmp_path_factory.mktemp("dump")
    adds_loss = request.param.endswith("without loss")
    archive = models.gpt(loss=False).export(folder / "gpt.pt2") if adds_loss else oracle.export(request.param.split()[0], exports)
    flags = ("--micro-batches", 2, "--optimizer", oracle.OPTIMIZERS["adamw"][0])
    flags += ("--loss", "causal_lm") if adds_loss else ()
    flags += ("--recompute", "budget=350KB") if request.param.endswith("budget") else ()
    flags += ("--target", "cuda:replay", "--offload", "optimizer,activations=all") if request.param.endswith("GPUs") else ()
    oracle.compile_model(folder, archive, "dp=2,tp=2", *flags, "--dump-dir", folder)
    return folder, flags


def body(text):
    """Returns a dump without comments and without the attribute of its level."""
    lines = [line for line in text.splitlines() if not line.startswith("//")]
    return re.sub(r"#ps\.level<\w+>", "#ps.level<>", "\n".join(lines))


@pytest.mark.part(2)
@pytest.mark.parametrize("level", range(len(LEVELS) - 1))
def test_ps_compile_resumes_from_each_level(dumps, tmp_path, level):
    folder, flags = dumps
    after = LEVELS[level + 1]
    out = tmp_path / "next.mlir"
    oracle.run(
        [tools_folder() / "ps-compile", folder / f"{LEVELS[level]}.mlir", "-o", out, "--mesh", "dp=2,tp=2", *flags,
         "--stop-after", after.split("-")[1]],
        tmp_path,
    )  # fmt: skip
    assert body(out.read_text()) == body((folder / f"{after}.mlir").read_text())


@pytest.mark.part(3)
@pytest.mark.parametrize("level", range(1, len(LEVELS)))
def test_ps_opt_runs_each_pass_by_itself(dumps, tmp_path, level):
    """Runs the passes in the first line of a dump, each in a separate process. The result equals the dump."""
    folder, _ = dumps
    made = (folder / f"{LEVELS[level]}.mlir").read_text()
    passes = re.match(r"// passes: (.*)\n", made).group(1)
    current = folder / f"{LEVELS[level - 1]}.mlir"
    for index, one in enumerate(split_passes(passes)):
        after = tmp_path / f"{index}.mlir"
        oracle.run(
            [tools_folder() / "ps-opt", f"--pass-pipeline=builtin.module({one})", "--mlir-print-debuginfo", current, "-o",
             after], tmp_path,
        )  # fmt: skip
        current = after
    assert body(current.read_text()).rstrip() == body(made).rstrip()


def split_passes(text):
    """Splits a pipeline into its passes. Commas inside braces or quotes are part of options."""
    passes, depth, quoted, start = [], 0, False, 0
    for i, c in enumerate(text + ","):
        quoted ^= c == '"'
        depth += (c == "{") - (c == "}")
        if c == "," and not depth and not quoted:
            passes.append(text[start:i])
            start = i + 1
    return passes


# ---- all passes ----------------------------------------------------------------------------------------------------

# Matches passes that do not change the module, and passes that fail if the module already has what they add (a mesh, a loss).
READERS = re.compile(r"ps-(verify|print|explain)-|ps-(set-mesh|add-loss)$")


def registered_passes():
    help_text = subprocess.run([tools_folder() / "ps-opt", "--help"], capture_output=True, text=True).stdout
    return re.findall(r"^ +--(ps-[\w-]+)", help_text, re.MULTILINE)


def test_every_pass_is_in_the_list(dumps):
    """The tests above therefore run every pass separately, except for two passes that serve reports and the planner.

    Some passes run only with a flag.
    """
    folder, flags = dumps
    brought = {"ps-add-loss": "--loss", "ps-defer-sums": "--target", "ps-offload": "--offload"}
    used = {name for name, flag in brought.items() if flag not in flags}
    for level in LEVELS:
        passes = re.match(r"// passes: (.*)\n", (folder / f"{level}.mlir").read_text())
        used |= {re.match(r"[\w-]+", one)[0] for one in split_passes(passes[1])} if passes else set()
    assert set(registered_passes()) - used == {"ps-print-sharding-rules", "ps-shrink-repeats"}
    done = oracle.run([tools_folder() / "ps-opt", "-ps-print-sharding-rules", folder / "1-training.mlir"], folder)
    assert "remark: (" in done


@pytest.mark.parametrize("name", [name for name in registered_passes() if not READERS.match(name)])
def test_every_rewriting_pass_has_its_twin(name):
    """The lit tests named after a pass contain a twin: a test in which the pass must not change the module."""
    stem = name.removeprefix("ps-")
    files = [f for f in (ROOT / "test").rglob(f"{stem}*.mlir") if f.parent.name != "inputs"]
    assert any("twin" in f.read_text().lower() for f in files), f"no twin for {name} in {files}"
