"""Rehearses scripts/gpu-checks on the fake driver, so that errors on a GPU are not errors of the script itself."""
import json
import os
import subprocess
import sys

import pytest
import replay
from conftest import ROOT, tools_folder

SCRIPT = [sys.executable, ROOT / "scripts/gpu-checks"]
PROGRAMS = ["mlp-fp32", "gpt-fp32", "gpt-bf16", "gpt_middle-bf16", "gpt2-dp2", "ops", "gpt2-124m", "llama-1.1b", "padded", "odd", "activated", "fp8",
            "later", "large", "failing", "psrt-comm-test"]
WITHOUT_PROGRAMS = ["bench-gpt2-350m", "bench-gpt2-1.5b"]
FEW = ["mlp-fp32", "gpt-bf16", "gpt2-dp2", "failing", "later"]  # compiled in seconds


def run(folder, *stages, **environment):
    """Runs stages. Returns (exit status, output, contents of the results file)."""
    results = folder.parent / "results.json"
    results.unlink(missing_ok=True)
    environment = {"PARASHARD_BIN": str(tools_folder()), "PARASHARD_VENV": sys.prefix, **replay.environment(), **environment}
    done = subprocess.run([*SCRIPT, "run", folder, *stages, "--results", results], capture_output=True, text=True, env={**os.environ, **environment},
                          timeout=600)
    return done.returncode, done.stdout + done.stderr, json.loads(results.read_text())


def prepare(folder, programs):
    environment = {**os.environ, "PARASHARD_BIN": str(tools_folder()), "PARASHARD_VENV": sys.prefix}
    done = subprocess.run([*SCRIPT, "prepare", "-o", folder, "--target", "cuda:replay", "--only", *programs], capture_output=True, text=True,
                          env=environment, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.name for path in folder.iterdir()] == ["programs.tar.xz"]
    return folder


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("checks") / "prepared", FEW)


def test_stages_of_few_programs(prepared):
    status, said, figures = run(prepared)
    assert status == 0, said
    assert {"parity", "ranks"} <= {check["stage"] for check in figures["checks"]}, said
    assert all(check["good"] for check in figures["checks"])
    assert [path.name for path in prepared.iterdir()] == ["programs.tar.xz"]


@pytest.mark.full
def test_all_stages(tmp_path):
    prepared = prepare(tmp_path / "prepared", PROGRAMS)
    status, said, figures = run(prepared)
    assert status == 0, said
    stages = {check["stage"] for check in figures["checks"]}
    listed = [line.split()[0] for line in subprocess.run([*SCRIPT, "list"], capture_output=True, text=True, check=True).stdout.splitlines()]
    assert stages == set(listed) - set(WITHOUT_PROGRAMS), said
    assert all(check["good"] for check in figures["checks"])
    assert {"gpu", "packages", "rates", "cores"} <= set(figures["machine"])
    bandwidths = [check for check in figures["checks"] if "of_copy" in check]
    assert len(bandwidths) > 5 and all(check["mb"] > 0 for check in bandwidths)
    assert [path.name for path in prepared.iterdir()] == ["programs.tar.xz"]


def test_failing_checks(prepared):
    """On a machine with too little memory, each check fails with a message, and the next checks still run."""
    status, said, figures = run(prepared, "parity", PSRT_FAKE_MEMORY="100000")
    assert status == 1
    assert said.count("FAIL") == len(figures["checks"]) > 1
    assert all(check["status"] == 3 and "free" in check["said"] for check in figures["checks"])


@pytest.mark.part(2)
@pytest.mark.parametrize("words, said", [
    (["run", "FOLDER", "speed"], "no stage is called speed"), (["run", "nowhere"], "nothing is prepared in nowhere"),
    (["run", "FOLDER", "--within", "-5"], "expected seconds above 0"),
    (["run", "FOLDER", "--results", "/nowhere/r.json"], "folder of this file does not exist"), (["run", "FOLDER", "bench-gpt2-1.5b"], "nothing was checked"),
    (["prepare", "-o", "NEW", "--target", "cuda:replay", "--only", "nothing"], "does not match a program"),
    (["prepare", "-o", "NEW", "--target", "cuda:sm_75", "--only", "mlp-fp32"], "ended with"), (["prepare", "-o", "USED"], "choose another folder"),
], ids=lambda value: " ".join(value) if isinstance(value, list) else "")  # fmt: skip
def test_bad_arguments(prepared, tmp_path, words, said):
    (tmp_path / "used").mkdir()
    (tmp_path / "used/notes").write_text("mine")
    names = {"FOLDER": prepared, "NEW": tmp_path / "new", "USED": tmp_path / "used"}
    environment = {**os.environ, "PARASHARD_BIN": str(tools_folder()), "PARASHARD_VENV": sys.prefix, **replay.environment()}
    done = subprocess.run([*SCRIPT, *(names.get(word, word) for word in words)], capture_output=True, text=True, env=environment, timeout=300, cwd=tmp_path)
    assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith("scripts/gpu-checks: "), done.stderr
    assert said in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert not (tmp_path / "new").exists() and (tmp_path / "used/notes").exists()


def test_time_that_is_over(prepared):
    status, said, figures = run(prepared, "parity", "ops", "--within", "1")
    assert status == 1
    assert all(check["said"] == "no time was left" for check in figures["checks"]), said
