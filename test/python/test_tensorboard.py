"""`parashard.tensorboard` writes all numbers of a log, and TensorBoard reads them back. Logs of other programs are refused."""
import json
import math
import os
import sys

import models
import oracle
import pytest
from conftest import package_folder
from test_log import run_logged

sys.path.insert(0, str(package_folder()))

from parashard.tensorboard import BadLog, main, write_events


def read_events(folder):
    """Returns {tag: [(step, value), ...]}, as TensorBoard shows them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def line(step, **values):
    return json.dumps({"step": step, **values}) + "\n"


def test_all_numbers_of_a_run(tmp_path, exports, capsys):
    entries = run_logged(tmp_path, oracle.export("mlp", exports), models.mlp().draw_inputs(1), "dp=2", run_flags=("--steps", 3))
    main([str(tmp_path / "log.jsonl"), "-o", str(tmp_path / "runs/first")])
    assert capsys.readouterr().out == f"wrote the numbers of 3 lines to {tmp_path}/runs/first\n"
    found = read_events(tmp_path / "runs/first")
    assert found.keys() == entries[0].keys() - {"step"} and {"loss", "lr", "step_ms"} < found.keys()
    for tag, values in found.items():
        assert values == [(step, pytest.approx(float(entry[tag]), rel=1e-6)) for step, entry in enumerate(entries)]


def test_values_that_are_not_finite(tmp_path):
    (tmp_path / "log").write_text(line(0, loss=None, skipped=True) + line(2, loss=1.5, eval_loss=2) + '{"step": 3, "lo')
    assert write_events(tmp_path / "log", tmp_path / "runs") == 2, "an incomplete last line is not read"
    found = read_events(tmp_path / "runs")
    assert math.isnan(found["loss"][0][1]) and found["loss"][1] == (2, 1.5)
    assert found["skipped"] == [(0, 1)] and found["eval_loss"] == [(2, 2)]


def test_a_run_that_still_writes(tmp_path, monkeypatch):
    """--follow waits for the log, reads its further lines, and reads the file that a resumed run writes in its place."""
    log = tmp_path / "log"

    def write_steps():
        """Each step happens when all earlier lines are read."""
        yield
        log.write_text(line(0, loss=4) + line(1, loss=3) + '{"step": 2, ')
        yield
        with open(log, "a") as file:
            file.write('"loss": 2}\n' + line(3, loss=1))
        yield
        (tmp_path / "resumed").write_text(line(0, loss=4) + line(1, loss=3) + line(2, loss=20))
        os.replace(tmp_path / "resumed", log)
        yield
        raise KeyboardInterrupt

    steps = write_steps()
    monkeypatch.setattr("parashard.tensorboard.sleep", lambda seconds: next(steps))
    assert write_events(log, tmp_path / "runs", follow=True) == 4 + 3
    assert read_events(tmp_path / "runs")["loss"] == [(0, 4), (1, 3), (2, 20)]


@pytest.mark.parametrize("text, said", [
    ("0.25\n", 'line 1: expected a JSON object with the key "step"'), (line(0, loss=1) + "loss 1\n", "line 2: Expecting value"),
    (line(0, loss="high"), 'line 1: the value of "loss" is not a number'), (json.dumps({"loss": 1}) + "\n", 'with the key "step"'),
    (line(-1, loss=1), "line 1: the step is -1"), (None, "does not exist; a compiled program writes it with --log"),
], ids=["losses", "text", "word", "no step", "negative", "no file"])  # fmt: skip
def test_other_files_are_refused(tmp_path, capsys, text, said):
    if text is not None:
        (tmp_path / "log").write_text(text)
    with pytest.raises(SystemExit) as stop:
        main([str(tmp_path / "log"), "-o", str(tmp_path / "runs")])
    error = capsys.readouterr().err
    assert stop.value.code == 1 and error.startswith("error: ") and said in error and error.count("\n") == 1


def test_a_folder_with_events_is_refused(tmp_path):
    (tmp_path / "log").write_text(line(0, loss=1))
    write_events(tmp_path / "log", tmp_path / "runs")
    with pytest.raises(BadLog, match="has events of TensorBoard; remove them, or choose another folder"):
        write_events(tmp_path / "log", tmp_path / "runs")
    with pytest.raises(BadLog, match="cannot write to .*log: Not a directory|cannot write to .*log: File exists"):
        write_events(tmp_path / "log", tmp_path / "log")
    assert [path.name for path in tmp_path.iterdir()] and len(list((tmp_path / "runs").iterdir())) == 1


def test_without_the_package(tmp_path, monkeypatch):
    (tmp_path / "log").write_text(line(0, loss=1))
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(BadLog, match=r"pip install tensorboard"):
        write_events(tmp_path / "log", tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
