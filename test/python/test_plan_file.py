"""Plan files: --plan reads the files of --write-plan, the command line takes precedence, and unknown keys are refused."""
import json
import subprocess

import oracle
import pytest
from conftest import tools_folder
from refusals import refuse_compile

SMALL = ("--stop-after", "planned")


def compile_to(folder, archive, name, *flags):
    """Compiles to level planned. Returns the module."""
    oracle.run([tools_folder() / "ps-compile", archive, "-o", folder / f"{name}.mlir", *SMALL, *flags], folder)
    return (folder / f"{name}.mlir").read_text()


def test_a_written_plan_equals_its_flags(tmp_path, exports):
    archive = oracle.export("gpt", exports)
    flags = ("--mesh", "dp=*,tp=2", "--ranks", 4, "--sharding-policy", "replicated", "--micro-batches", 4, "--loss-average", "step")
    first = compile_to(tmp_path, archive, "first", *flags, "--write-plan", tmp_path / "plan.json")
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["mesh"] == "dp=2,tp=2" and plan["micro-batches"] == 4 and plan["sharding-policy"] == "replicated"
    assert plan["loss-average"] == "step" and plan["zero"] == 0 and plan["precision"] == "fp32"
    assert compile_to(tmp_path, archive, "second", "--plan", tmp_path / "plan.json", "--write-plan", tmp_path / "again.json") == first
    assert (tmp_path / "again.json").read_text() == (tmp_path / "plan.json").read_text()
    assert compile_to(tmp_path, archive, "other") != first


def test_flags_win_over_the_plan(tmp_path, exports):
    archive = oracle.export("gpt", exports)
    (tmp_path / "plan.json").write_text('{"mesh": "dp=4", "sharding-policy": "no.json", "micro-batches": 3}')
    given = ("--plan", tmp_path / "plan.json", "--mesh", "tp=2", "--sharding-policy", "replicated")
    compile_to(tmp_path, archive, "a", *given, "--write-plan", tmp_path / "a.json")
    plan = json.loads((tmp_path / "a.json").read_text())
    assert (plan["mesh"], plan["sharding-policy"], plan["micro-batches"]) == ("tp=2", "replicated", 3)
    # --global-batch of the command line replaces --micro-batches of the plan.
    dynamic = oracle.export("gpt_dynamic", exports)
    compile_to(tmp_path, dynamic, "b", *given, "--batch", 4, "--global-batch", 8, "--write-plan", tmp_path / "b.json")
    assert json.loads((tmp_path / "b.json").read_text())["micro-batches"] == 2


@pytest.mark.parametrize(
    "text,words",
    [
        ('{"mehs": "dp=2"}', ["mehs", "unknown plan flag", "'mesh'"]),
        ('{"mesh": 2}', ["mesh", "2", "a string"]),
        ('{"micro-batches": "4"}', ["micro-batches", '"4"', "a whole number"]),
        ('{"micro-batches": 1.5}', ["micro-batches", "1.5", "a whole number"]),
        ('{"micro-batches": 0}', ["--micro-batches", "at least 1", "0"]),
        ('{"micro-batches": 2, "global-batch": 8}', ["--micro-batches", "--global-batch", "not both"]),
        ('{"zero": 1}', ["--zero 1", "dp=1", "no data axis"]),
        ('{"mesh": "dp=two"}', ["--mesh", "two"]),
        ('{"mesh": ', ["plan.json"]),
        ('["mesh"]', ["object of flags"]),
        ("[" * 100000, ["plan.json", "nested deeper than 512"]),
        ('{"mesh": "dp=2", "mesh": "dp=4"}', ["plan.json", '"mesh" is given twice', "1:18"]),
        ('{"micro-batches": 99999999999999999999}', ["99999999999999999999", "out of range"]),
        ("\ufeff{}", ["plan.json", "byte order mark"]),
        ("", ['plan.json": the file is empty']),
        ('{"mesh": "dp=2",}', ['plan.json": line 1, column 17: expected a key in double quotes, but found \'}\'']),
        ('{"mesh": "dp=2"', ["line 1, column 16: expected ',' or '}', but the text ends"]),
        ('{"zerro": 1}', ["unknown plan flag \"zerro\"; did you mean 'zero'?"]),
        ('{"optimizer": "sgd(lr=1)"}', ["\"optimizer\" is a flag that plans do not contain", "give --optimizer on the command line"]),
        ('{"steps": 3}', ["\"steps\" is a flag of the compiled program", "give --steps when you run the program"]),
        ('{"qwertz": 3}', ["unknown plan flag \"qwertz\"; the section Plan of ps-compile --help"]),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_bad_plan(tmp_path, exports, text, words):
    (tmp_path / "plan.json").write_text(text)
    refuse_compile(tmp_path, oracle.export("mlp", exports), "--plan", tmp_path / "plan.json", status=2, words=words)


def test_plans_that_cannot_be_read_or_written(tmp_path, exports):
    archive = oracle.export("mlp", exports)
    refuse_compile(tmp_path, archive, "--plan", tmp_path / "no.json", status=2, words=["no.json", "No such file"])
    refuse_compile(tmp_path, archive, "--write-plan", tmp_path / "no/plan.json", status=2, words=["no/plan.json", "no' does not exist; create it first"])
    refuse_compile(tmp_path, archive, "--write-plan", archive, status=2, words=["--write-plan: output", "the model itself"])
    words = [f"--write-plan: output '{tmp_path}' is a folder; give the name of a file, --write-plan {tmp_path}/NAME"]
    refuse_compile(tmp_path, archive, "--write-plan", tmp_path, status=2, words=words)
    compile_to(tmp_path, archive, "planned")
    words = ["--write-plan", "level planned", "the original model"]
    refuse_compile(tmp_path, tmp_path / "planned.mlir", "--write-plan", tmp_path / "p.json", status=2, words=words)


def test_plan_without_end(tmp_path, exports):
    line = [tools_folder() / "ps-compile", oracle.export("mlp", exports), "-o", "program", "--plan", "/dev/zero"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and "/dev/zero" in done.stderr and "is a device; give the name of a file" in done.stderr, done.stderr
