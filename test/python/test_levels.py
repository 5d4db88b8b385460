"""Every level of the walk is text that can be fed back: to ps-compile, and pass by pass to ps-opt."""
import re

import oracle
import pytest
from conftest import tools_folder

LEVELS = ["0-imported", "1-training", "2-planned", "3-partitioned", "4-scheduled", "5-placed"]


@pytest.fixture(scope="module", params=["gpt", "llama"])
def dumps(request, tmp_path_factory, exports):
    folder = tmp_path_factory.mktemp("dump")
    archive = oracle.export(request.param, exports)
    flags = ("--micro-batches", 2, "--optimizer", oracle.OPTIMIZERS["adamw"][0])
    oracle.compile_model(folder, archive, "dp=2,tp=2", *flags, "--dump-dir", folder)
    return folder, flags


def body(text):
    """A dump without its comments and without the mark of its level."""
    lines = [line for line in text.splitlines() if not line.startswith("//")]
    return re.sub(r"#ps\.level<\w+>", "#ps.level<>", "\n".join(lines))


@pytest.mark.parametrize("level", range(len(LEVELS) - 1))
def test_ps_compile_goes_on_from_each_level(dumps, tmp_path, level):
    folder, flags = dumps
    after = LEVELS[level + 1]
    out = tmp_path / "next.mlir"
    oracle.run(
        [tools_folder() / "ps-compile", folder / f"{LEVELS[level]}.mlir", "-o", out, "--mesh", "dp=2,tp=2", *flags,
         "--stop-after", after.split("-")[1]],
        tmp_path,
    )  # fmt: skip
    assert body(out.read_text()) == body((folder / f"{after}.mlir").read_text())


@pytest.mark.parametrize("level", range(1, len(LEVELS)))
def test_ps_opt_runs_each_pass_by_itself(dumps, tmp_path, level):
    """The passes that the dump names in its first line, one process each, make the same level."""
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
    """A pipeline's passes: commas inside braces or quotes belong to options."""
    passes, depth, quoted, start = [], 0, False, 0
    for i, c in enumerate(text + ","):
        quoted ^= c == '"'
        depth += (c == "{") - (c == "}")
        if c == "," and not depth and not quoted:
            passes.append(text[start:i])
            start = i + 1
    return passes
