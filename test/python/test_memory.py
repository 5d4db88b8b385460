"""The planned memory of a program is only slightly larger than the bytes that are in use at the same time.

The test computes these bytes from the dumped program. It also checks the report about the peak.
"""
import json
import re

import models
import oracle
import pytest
import vision
from conftest import tools_folder

BYTES = {"f32": 4, "f64": 8, "i64": 8, "i32": 4, "i8": 1, "i1": 1}
ALIGNMENT = 64


def size_of(tensor):
    *shape, dtype = re.fullmatch(r"tensor<([^>]*)>", tensor)[1].split("x")
    bytes_ = BYTES[dtype]
    for dim in shape:
        bytes_ *= int(dim)
    return -(-bytes_ // ALIGNMENT) * ALIGNMENT


def split_types(text):
    return re.findall(r"tensor<[^>]*>|!\w+[.\w]*", text)


def largest_sum(text, program):
    """Returns the largest sum of the bytes of values and scratch that are in use at once, in a `rank.program` at level 5."""
    scratch = {name: int(size) for name, size in re.findall(r"func\.func @([\w.$-]+|\"[^\"]*\")\(.*ps\.scratch_bytes = (\d+)", text)}
    body = text[text.index(f"rank.program @{program} ") :].split("\n  }")[0].split("\n")[1:]
    makers, uses, waits = {}, {}, {}
    for line, op in enumerate(body):
        head, equals, rest = op.partition(" = ") if re.match(r"\s*%", op) else ("", "", op)
        rest = rest if equals else op
        for name, index in re.findall(r"%(\w+)(?:#(\d+))?", rest.split(" loc(")[0]):
            uses.setdefault((name, int(index or 0)), []).append(line)
            if "rank.wait" in rest:
                waits[name] = line
        names = [part.strip().lstrip("%") for part in head.split(",")] if equals else []
        makers[line] = [(name.split(":")[0], i) for name in names for i in range(int(name.split(":")[1]) if ":" in name else 1)]
    started = {line: [name for name, _ in made] for line, made in makers.items() if re.search(r"rank\.(start|send|recv)", body[line])}

    def end_of(line):
        return max([line, *(waits[name] for name in started.get(line, ()) if name in waits)])

    changes = [0] * (len(body) + 2)

    def live(begin, end, size):
        changes[begin] += size
        changes[end + 1] -= size

    for line, op in enumerate(body):
        callee = re.search(r"rank\.run @([\w.$-]+|\"[^\"]*\")", op)
        if callee and "ps.scratch_address" in op:
            live(line, line, -(-scratch[callee[1]] // ALIGNMENT) * ALIGNMENT)
        addresses = re.search(r"ps\.addresses = array<i64: ([^>]*)>", op)
        if not addresses:
            continue
        signature = op.split(" loc(")[0].rpartition(" : ")[2] if "rank.input" not in op else re.search(r" : (tensor<[^>]*>)", op)[1]
        types = split_types(signature.rpartition("->")[2] if "->" in signature else signature)
        for (name, index), address, type_ in zip(makers[line], addresses[1].split(","), [*types, *[""] * 9]):
            if int(address) < 0:
                continue
            last = [len(body) if "rank.output" in body[use] else end_of(use) for use in uses.get((name, index), [])]
            live(0 if "rank.input" in op else line, max([end_of(line), *last]), size_of(type_))
    most = total = 0
    for change in changes:
        total += change
        most = max(most, total)
    return most


def plan(folder, archive, *flags):
    """Compiles a model. Returns (the module at level 5, the data of the memory section of its report)."""
    command = [tools_folder() / "ps-compile", archive, "-o", "placed.mlir", "--stop-after", "placed", "--report", "plan.html", *flags]
    oracle.run(command, folder)
    data = json.loads(re.search(r'type="application/json">(.*?)</script>', (folder / "plan.html").read_text(), re.S)[1])
    return (folder / "placed.mlir").read_text(), next(part["data"] for part in data["sections"] if part["id"] == "memory")


@pytest.mark.part(2)
@pytest.mark.cover(1)
@pytest.mark.parametrize("make", [lambda: models.gpt(layers=6), lambda: models.llama(layers=6), vision.resnet, vision.unet],
                         ids=["gpt", "llama", "resnet", "unet"])  # fmt: skip
@pytest.mark.parametrize("flags, most", [
    ((), 1.02), (("--recompute", "full"), 1.02),
    (("--mesh", "pp=2", "--schedule", "1f1b"), 1.02), (("--mesh", "pp=2", "--schedule", "zb-h1"), 1.05),
    (("--mesh", "pp=2", "--schedule", "interleaved", "--num-chunks", "2"), 1.05), (("--mesh", "pp=2", "--schedule", "zb-v", "--num-chunks", "2"), 1.05),
], ids=["one rank", "recompute", "1f1b", "zb-h1", "interleaved", "zb-v"])  # fmt: skip
def test_the_arena_is_little_larger_than_the_live_values(tmp_path, make, flags, most):
    text, rows = plan(tmp_path, make().export(tmp_path / "model.pt2"), "--micro-batches", "4", *flags)
    assert len(rows) == (2 if "--mesh" in flags else 1)
    for row in rows:
        values = largest_sum(text, f"pp{row['pp']}")
        assert abs(row["live_bytes"] - row["variable_bytes"] - values) <= 0.01 * values, "the peak in the report"
        assert row["arena_bytes"] <= most * (values + row["variable_bytes"]) + 64 * text.count("ps.variable"), row["pp"]
        assert max(row["in_use"]) == row["live_bytes"] and min(row["in_use"]) >= row["variable_bytes"]
        assert sum(holder["bytes"] for holder in row["holders"]) <= row["live_bytes"] and row["instant"]
        sizes = [holder["bytes"] for holder in row["holders"]]
        assert sizes == sorted(sizes, reverse=True)


def test_the_largest_holders_are_named(tmp_path, exports):
    said = oracle.run([tools_folder() / "ps-compile", oracle.export("gpt", exports), "-o", "program", "--explain"], tmp_path)
    table = said.split("memory per rank: ")[1]
    assert re.match(r"[\d.]+ [KM]iB; at most [\d.]+ [KM]iB in use at once, in \w+", table)
    rows = table.splitlines()[2:12]
    assert len(rows) == 10 and any(re.search(r"parameter +blocks.0.up.weight +blocks.0.up \(models.py:\d+\)", row) for row in rows), table
    assert any(re.search(r"value +blocks.forward +blocks.0 \(models.py:\d+\)", row) for row in rows), table
    assert table.splitlines()[0] in oracle.run(["./program", "--info"], tmp_path), "--info says the same"
