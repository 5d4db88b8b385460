"""`ps-plan --measured` compares plans by the traces of their programs, and prices plans with measured times."""

import json
import statistics
import subprocess

import models
import numpy as np
import pytest
from conftest import run_tool as run

STEPS = 6


@pytest.fixture(scope="module")
def gpt(tmp_path_factory):
    archive = tmp_path_factory.mktemp("gpt") / "gpt.pt2"
    models.gpt_dynamic(layers=2).export(archive)
    return archive


@pytest.fixture(scope="module")
def plans(gpt, tmp_path_factory):
    """A folder with the plans data.json and stages.json, and traces of their programs."""
    folder = tmp_path_factory.mktemp("plans")
    (np.arange(4096, dtype=np.uint16) % 96).tofile(folder / "data.bin")
    for name, mesh in [("data", "dp=2"), ("stages", "pp=2")]:
        plan = folder / f"{name}.json"
        done = run("ps-plan", gpt, "--cluster", "cpu-mpi:2", "--global-batch", 16, "--mesh", mesh, "--micro-batches", 4, "-o", plan)
        assert done.returncode == 0, done.stderr
        done = run("ps-compile", gpt, "--plan", plan, "-o", folder / name)
        assert done.returncode == 0, done.stderr
        command = [folder / name, "--data", folder / "data.bin", "--steps", str(STEPS), "--trace", folder / f"{name}.trace.json"]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder


def measure(trace):
    """Returns the seconds of each step except the first, on the slowest rank."""
    times = {}
    for event in json.loads(trace.read_text())["traceEvents"]:
        if "step" in event["args"] and event["tid"] == 0:
            times.setdefault(event["args"]["step"], {}).setdefault(event["pid"], []).append((event["ts"], event["ts"] + event["dur"]))
    spans = {step: max(max(end for _, end in each) - min(begin for begin, _ in each) for each in ranks.values()) for step, ranks in times.items()}
    return [1e-6 * spans[step] for step in sorted(spans)][1:]


def test_the_fastest_measured_plan_is_chosen(gpt, plans, tmp_path):
    best = tmp_path / "best.json"
    done = run("ps-plan", plans / "data.json", plans / "stages.json", "--measured", "-o", best)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("  plan ") and "  mesh  " in done.stdout and "  schedule  " in done.stdout
    steps = {name: measure(plans / f"{name}.trace.json") for name in ["data", "stages"]}
    assert all(len(each) == STEPS - 1 for each in steps.values())
    first, second = sorted(steps, key=lambda name: statistics.median(steps[name]))
    assert done.stdout.index(f"{first}.json") < done.stdout.index(f"{second}.json")
    assert f"use {plans / first}.json: " in done.stdout and f"{plans / second}.json is " in done.stdout
    plan, written = json.loads((plans / f"{first}.json").read_text()), json.loads(best.read_text())
    quartiles = np.quantile(steps[first], [0.25, 0.75])
    assert written.pop("measured") == pytest.approx(
        {"step_s": statistics.median(steps[first]), "spread_s": quartiles[1] - quartiles[0], "steps": STEPS - 1}, rel=1e-6
    )
    assert written == plan
    done = run("ps-plan", "--diff", best, plans / f"{second}.json")
    assert done.returncode == 0 and "measured step" in done.stdout
    (tmp_path / "other.json").write_text(json.dumps({**plan, "predicted": {"step_s": -1}}))
    done = run("ps-plan", "--diff", best, tmp_path / "other.json")
    assert done.returncode == 2 and '"step_s" is -1' in done.stderr
    done = run("ps-plan", "--diff", best, plans / f"{second}.json", "--zero", 1)
    assert done.returncode == 2 and "--zero has no effect on plans that are compared by --diff; remove it" in done.stderr
    done = run("ps-compile", gpt, "--plan", best, "-o", tmp_path / "m.mlir", "--stop-after", "planned")
    assert done.returncode == 0, done.stderr


def price(gpt, plan, *flags):
    done = run("ps-plan", gpt, "--plan", plan, "--predict", *flags)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


COMPUTES = ["matmuls", "kernels", "launches", "update"]


@pytest.mark.parametrize("name", ["data", "stages"])
def test_a_price_with_measured_times(gpt, plans, tmp_path, name):
    plan, trace = plans / f"{name}.json", plans / f"{name}.trace.json"
    priced = price(gpt, plan, "--measured", trace)
    assert sum(priced["breakdown"].values()) == pytest.approx(priced["step_s"])
    assert priced["memory_bytes"] == price(gpt, plan)["memory_bytes"]
    content = json.loads(trace.read_text())
    for event in content["traceEvents"]:
        if event["ph"] == "X":
            event["ts"], event["dur"] = 3 * event["ts"], 3 * event["dur"]
    (tmp_path / "slow.json").write_text(json.dumps(content))
    slow = price(gpt, plan, "--measured", tmp_path / "slow.json")
    for part in COMPUTES:
        assert slow["breakdown"][part] == pytest.approx(3 * priced["breakdown"][part], rel=1e-3)
    assert priced["breakdown"]["matmuls"] > 0 and priced["step_s"] < slow["step_s"] < 3.01 * priced["step_s"]


def test_the_trace_of_another_plan(gpt, plans, tmp_path):
    words = 'stages.trace.json": the trace is not of this plan; pipeline stages: 2 in the trace, 1 in the plan; compile this plan'
    for files in ([plans / "data.json", "--measured"], [gpt, "--plan", plans / "data.json", "--predict", "--measured"]):
        done = run("ps-plan", *files, plans / "stages.trace.json")
        assert done.returncode == 2 and words in done.stderr, done.stderr
    text = (plans / "data.trace.json").read_text()
    (tmp_path / "renamed.json").write_text(text.replace('"in": "', '"in": "x'))
    done = run("ps-plan", gpt, "--plan", plans / "data.json", "--predict", "--measured", tmp_path / "renamed.json")
    assert done.returncode == 2 and "--measured: the trace is of another program: it has no run of \"" in done.stderr, done.stderr


# ---- errors, with plans and traces that the tests write -----------------------------------------------------------


def write_trace(path, ranks=2, times=(9, 3, 4, 5), micro_batches=1, rows=None):
    """Writes a trace with one step per element of `times` (in ms). `rows` has the tasks (phase, stage, micro-batch) of each rank."""
    events = [{"ph": "M", "pid": rank, "tid": 0, "args": {"pp": rank if rows else 0}} for rank in range(ranks)]
    for step, time in enumerate(times):
        for rank in range(ranks):
            tasks = rows[rank] if rows else [("forward", None, m) for m in range(micro_batches)]
            share = 1e3 * time / (len(tasks) + 1)
            for at, (phase, stage, number) in enumerate([*tasks, ("update", None, 0)]):
                args = {"step": step, "phase": phase, "micro_batch": number, "in": f"block.{phase}", **({} if stage is None else {"stage": stage})}
                events.append({"ph": "X", "pid": rank, "tid": 0, "ts": 1e5 * step + at * share, "dur": share, "args": args})
    path.write_text(json.dumps({"traceEvents": events}))


def pair(folder, first=None, second=None):
    """Writes two plans that differ in the mesh, with traces. `first` and `second` change their flags."""
    for name, flags in [("a", {"mesh": "dp=2", **(first or {})}), ("b", {"mesh": "tp=2", **(second or {})})]:
        (folder / f"{name}.json").write_text(json.dumps({"batch": 4, "micro-batches": 1} | flags))
        write_trace(folder / f"{name}.trace.json")
    return [folder / "a.json", folder / "b.json"]


def refuse(*arguments):
    done = run("ps-plan", *arguments)
    assert done.returncode == 2, done.stderr
    return done.stderr


def test_plans_within_the_spread(tmp_path):
    files = pair(tmp_path, second={"predicted": {"step_s": 0.006}})
    write_trace(tmp_path / "b.trace.json", times=(2, 4.4, 4.4, 4.4))
    done = run("ps-plan", *files, "--measured", "-o", "-")
    assert f"use {files[0]}: 4.00 ms per step" in done.stderr
    assert "b.json is 10.0 % slower, which is within the spread of the steps" in done.stderr
    assert "+36.4 %" in done.stderr and json.loads(done.stdout)["measured"] == pytest.approx({"step_s": 0.004, "spread_s": 0.001, "steps": 3})
    write_trace(tmp_path / "b.trace.json", times=(2, 6, 6, 6))
    done = run("ps-plan", *files, "--measured")
    assert "b.json is 50.0 % slower\n" in done.stdout and done.stderr == ""
    write_trace(tmp_path / "b.trace.json", times=(6,))
    assert "has one complete step, which includes warm-up; trace more steps" in run("ps-plan", *files, "--measured").stderr


def test_the_best_plan_keeps_its_shardings(tmp_path):
    """The plan file keeps the order of the globs, since the first one that matches a parameter is used."""
    policy = {"wte.weight": {"0": ["tp"]}, "*": {}}
    files = pair(tmp_path, first={"sharding-policy": policy, "mesh": "dp=1,tp=2"}, second={"sharding-policy": policy})
    done = run("ps-plan", *files, "--measured", "-o", tmp_path / "best.json")
    assert done.returncode == 0, done.stderr
    written = json.loads((tmp_path / "best.json").read_text())["sharding-policy"]
    assert list(json.loads(written)) == ["wte.weight", "*"]


def test_a_missing_trace_has_the_commands_that_make_it(tmp_path):
    files = pair(tmp_path)
    (tmp_path / "b.trace.json").unlink()
    said = refuse(*files, "--measured")
    assert f'"{tmp_path}/b.trace.json", the trace of "{tmp_path}/b.json", does not exist; make it with' in said
    assert f"ps-compile MODEL --plan {tmp_path}/b.json -o {tmp_path}/b\n" in said
    assert f"{tmp_path}/b --data FILE --steps 10 --trace {tmp_path}/b.trace.json" in said


@pytest.mark.parametrize(("text", "words"), [
    ("{", "b.trace.json\": is not a trace; a program writes a trace with --trace FILE.json (line 1, column 2: expected a key"),
    ("[]", "is not a trace: it has no list \"traceEvents\"; a program writes a trace with --trace FILE.json"),
    ('{"traceEvents": []}', "the trace has no training step; run the program with --steps 5"),
    ('{"traceEvents": [{"pid": 0, "args": {"step": 0, "phase": "forward"}}]}', "the trace has no complete step without an evaluation"),
])  # fmt: skip
def test_a_trace_without_steps(tmp_path, text, words):
    files = pair(tmp_path)
    (tmp_path / "b.trace.json").write_text(text)
    said = refuse(*files, "--measured")
    assert words in said and "b.trace.json" in said, said


PLANNED = {"mesh": "pp=2", "micro-batches": 2, "batch": 2}
FORWARDS = [("forward", 0, 0), ("forward", 0, 1)]
GPIPE = [[*FORWARDS, ("backward_input", 0, 0), ("backward_input", 0, 1)],
         [("forward", 1, 0), ("forward", 1, 1), ("backward_input", 1, 0), ("backward_input", 1, 1)]]  # fmt: skip
ONE = [GPIPE[0], [("forward", 1, 0), ("backward_input", 1, 0), ("forward", 1, 1), ("backward_input", 1, 1)]]


@pytest.mark.parametrize(("flags", "trace", "words"), [
    ({}, {"ranks": 4}, "ranks: 4 in the trace, 2 in the plan"),
    ({}, {"micro_batches": 3}, "micro-batches per step: 3 in the trace, 1 in the plan"),
    (PLANNED, {"micro_batches": 2}, "pipeline stages: 1 in the trace, 2 in the plan"),
    (PLANNED | {"num-chunks": 2}, {"rows": ONE}, "pipeline stages: 2 in the trace, 4 in the plan"),
    (PLANNED, {"rows": GPIPE}, "schedule: gpipe in the trace, 1f1b in the plan"),
    (PLANNED | {"schedule": "zb-v"}, {"rows": ONE}, "the plan has no valid schedule: "),
    (PLANNED | {"schedule": "gpipe"}, {"rows": ONE}, "schedule: 1f1b in the trace, gpipe in the plan"),
])  # fmt: skip
def test_a_trace_that_is_not_of_the_plan(tmp_path, flags, trace, words):
    files = pair(tmp_path, second=flags)
    write_trace(tmp_path / "b.trace.json", **trace)
    assert words in refuse(*files, "--measured")


def test_a_trace_with_the_schedule_of_the_plan(tmp_path):
    files = pair(tmp_path, second=PLANNED)
    write_trace(tmp_path / "b.trace.json", rows=ONE)
    done = run("ps-plan", *files, "--measured")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("first", "second", "words"), [
    ({}, {"batch": 8}, "\" has 4 samples per step, but \""),
    ({}, {"mesh": "dp=2"}, "are the same plan; give one of these files"),
    ({"predicted": {"parameters": 1}}, {"predicted": {"parameters": 2}}, "\" is for a model with 1 parameters, but \""),
    ({}, {"mesh": "dp=two"}, "has size two; sizes are 1 or more, or *"),
    ({}, {"micro-batches": 0}, "\"micro-batches\" is 0; expected a number from 1 to"),
    ({}, {"schedule": "1f1c"}, "unknown schedule '1f1c'"),
    ({}, {"micro-batches": 10**6}, "1000000 micro-batches per step; a step has at most 16384"),
    ({}, {"mush": "dp=2"}, "unknown plan flag \"mush\""),
    ({}, {"measured": {"step": 1}}, "\"measured\" has the unknown key \"step\""),
    ({}, {"measured": {"step_s": "1"}}, "\"measured\": \"step_s\" is \"1\"; expected a number"),
    ({}, {"measured": 3}, "\"measured\" is 3; expected the object that ps-plan writes"),
    ({}, {"predicted": {"cluster": 3}}, "\"predicted\": \"cluster\" is 3; expected a string"),
])  # fmt: skip
def test_plans_that_cannot_be_compared(tmp_path, first, second, words):
    said = refuse(*pair(tmp_path, first, second), "--measured")
    assert words in said and "b.json" in said, said


def test_a_plan_without_its_samples(tmp_path):
    files = pair(tmp_path)
    files[1].write_text('{"mesh": "tp=2"}')
    assert "the plan does not specify the samples per step; add \"batch\": N" in refuse(*files, "--measured")
    files[1].write_text('{"mesh": "tp=2", "predicted": {"global-batch": 4}}')
    assert run("ps-plan", *files, "--measured").returncode == 0


def test_the_command_line(gpt, tmp_path):
    a, b = pair(tmp_path)
    traces = [tmp_path / "a.trace.json", tmp_path / "b.trace.json"]
    assert "the number of traces (3) differs from the number of plans (2); give one trace for each plan" in refuse(a, b, "--measured", *traces, traces[0])
    assert "is the trace of both" in refuse(a, b, "--measured", traces[0], traces[0])
    assert "a.json\" is given twice" in refuse(a, a, "--measured")
    assert "no plan given: ps-plan PLAN.json... --measured" in refuse("--measured")
    assert "none.json\": cannot be read" in refuse(a, tmp_path / "none.json", "--measured")
    assert "is a model, but plan files are compared" in refuse(gpt, "--measured")
    assert "--zero has no effect on plans that are compared by --measured" in refuse(a, "--measured", "--zero", 1)
    assert "b.json' is one of the plans" in refuse(a, b, "--measured", "-o", b)
    assert "but one model is expected; compare plan files with --diff or --measured" in refuse(a, b, "--cluster", "cpu-mpi:2")
    assert run("ps-plan", a, b, "--measured", *traces).returncode == 0
    assert run("ps-plan", *sorted(tmp_path.glob("*.json")), "--measured").returncode == 0  # the folder contains plans and traces
