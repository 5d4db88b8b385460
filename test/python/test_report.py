"""The page that --report writes: its data equals the data of the dumps and of the program, and the page is a single file
that needs no other."""
import collections
import json
import math
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree

import oracle
import pytest
from conftest import tools_folder
from safetensors.torch import save_file
from test_plan import COLLECTIVES, functions_of

FLAGS = ["--mesh", "dp=2,tp=2", "--micro-batches", "2"]
MESH = {"dp": 2, "tp": 2}
BYTES = {"f32": 4, "i64": 8, "i32": 4, "i1": 1}


def page_data(path):
    """Returns the data embedded in a page, and the text of the page."""
    page = path.read_text()
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, flags=re.S)
    return json.loads(found.group(1)), page


def section(data, name):
    return next(part["data"] for part in data["sections"] if part["id"] == name)


def compile_page(folder, model, *flags, expect=0):
    return oracle.run([tools_folder() / "ps-compile", model, "--report", "plan.html", *flags], folder, expect=expect)


@pytest.fixture(scope="module", params=["gpt", "llama"])
def compiled(request, tmp_path_factory, exports):
    """Returns a folder with a program, its dumps and its page, and the data of the page."""
    folder = tmp_path_factory.mktemp("report")
    archive = oracle.export(request.param, exports)
    compile_page(folder, archive, "-o", "program", "--dump-dir", "dump", *FLAGS)
    return folder, page_data(folder / "plan.html")[0]


# ---- the data equals that of the dumps -----------------------------------------------------------------------------

VARIABLE = re.compile(r'ps\.variable parameter @("[^"]+"|\S+) names \["([^"]+)".*?ps\.sharding<@mesh, (\[.*?\])>\]?.*? : tensor<(\S*)> loc')


def local_shape(shape, sharding):
    """Returns the shape of a shard. No dim may be split as several factors."""
    dims = re.findall(r"\{([^}]*)\}", sharding)
    split = [math.prod(MESH[axis] for axis in re.findall(r'"(\w+)"', dim)) for dim in dims]
    return [-(-size // shards) for size, shards in zip(shape, split, strict=True)]


def test_each_parameter_has_the_sharding_of_the_plan(compiled):
    folder, data = compiled
    rows = section(data, "parameters")
    planned = {}
    for line in (folder / "dump/2-planned.mlir").read_text().splitlines():
        found = VARIABLE.search(line)
        if found:
            symbol, name, sharding, kind = found.groups()
            name = max(symbol.strip('"'), name, key=len)  # a part of a fused parameter is listed under its symbol
            assert not re.search(r"\d+ x|x \d+", sharding), "this test cannot read a dim of several factors"
            *shape, dtype = kind.split("x")
            planned[name] = ([int(size) for size in shape], dtype, sharding)
    assert planned and {row["name"]: (row["shape"], row["dtype"], row["sharding"]) for row in rows} == planned
    for row in rows:
        assert row["local"] == local_shape(row["shape"], row["sharding"])
        assert row["bytes"] == math.prod(row["local"]) * BYTES[row["dtype"]]
        assert row["why"] and re.search(r"\.py:\d+\)$", row["at"]), row
    assert any('"tp"' in row["sharding"] for row in rows)
    totals = data["totals"]
    assert totals["parameters"] == len(rows)
    assert totals["parameter_elements"] == sum(math.prod(row["shape"]) for row in rows)
    assert totals["parameter_local_bytes"] == sum(row["bytes"] for row in rows)


def bytes_of(line):
    """Returns the bytes of the operand of a collective."""
    *shape, dtype = re.search(r"tensor<([^>]*)>", line).group(1).split("x")
    return math.prod(int(size) for size in shape) * BYTES[dtype]


def moved(text):
    """Returns {(when, kind, axes): [count, bytes]} of the collectives of level 3. A collective of a class function counts once per call of the function."""
    functions = functions_of(text)
    totals = collections.defaultdict(lambda: [0, 0])

    def add(line, when):
        kind = COLLECTIVES.search(line)
        if kind:
            axes = ", ".join(re.findall(r'"(\w+)"', re.search(r"over \[([^\]]*)\]", line).group(1)))
            entry = totals[when, kind.group(1), axes]
            entry[0] += 1
            entry[1] += bytes_of(line)

    for stage in ("micro_batch", "evaluate", "update"):
        for line in functions[f"stage0.{stage}"].splitlines():
            phase = re.search(r"#ps\.phase<(\w+)>", line)
            when = stage if stage != "micro_batch" else phase.group(1).split("_")[0] if phase else "forward"
            add(line, when)
            run = re.search(r'rank\.run @("[^"]+"|[\w.$-]+)', line)
            for inner in functions[run.group(1).strip('"')].splitlines() if run else ():
                add(inner, when)
    return dict(totals)


def test_collectives_are_those_of_level_3(compiled):
    folder, data = compiled
    rows = section(data, "collectives")
    named = collections.defaultdict(lambda: [0, 0])
    for row in rows:
        assert row["count"] == len(row["locations"]) and row["bytes"] == sum(location["bytes"] for location in row["locations"])
        assert row["what"] and row["why"] and all(location["at"] for location in row["locations"])
        assert row["times"] == {"evaluate": 0, "update": 1}.get(row["when"], 2)
        entry = named[row["when"], row["kind"], row["axes"]]
        entry[0] += row["count"]
        entry[1] += row["bytes"]
    made = moved((folder / "dump/3-partitioned.mlir").read_text())
    assert dict(named) == made and any(when == "backward" for when, _, _ in made)
    assert data["totals"]["collectives"] == sum(row["times"] * row["count"] for row in rows)
    assert data["totals"]["collective_bytes"] == sum(row["times"] * row["bytes"] for row in rows)


def test_flops_and_kernels_are_those_of_the_program(compiled):
    folder, data = compiled
    program = (folder / "program").read_bytes().decode("latin1")
    contraction = data["totals"]["contraction_flops"]  # of one rank; the program reports the FLOPs of the whole model
    whole = float(re.search(r'"flops_per_step":([\d.e+]+)', program).group(1))
    assert 0 < whole <= math.prod(MESH.values()) * contraction <= 1.001 * whole  # each rank computes the angles of the rotary embedding
    flops = section(data, "flops")
    parts = [cost for row in flops["segments"] for cost in row.values() if isinstance(cost, dict)] + [flops["rest"]]
    assert sum(cost["contraction"] for cost in parts) == contraction
    assert sum(cost["other"] for cost in parts) == data["totals"]["other_flops"]
    classes = section(data, "kernels")
    step = [row for row in classes if row["phase"] != "evaluate"]
    assert sum(row["runs"] * row["contraction"] for row in step) == contraction
    for row in classes:
        for cost in ("contraction", "other", "bytes"):
            assert row[cost] == sum(item[cost] for item in row["items"]), row["function"]
    named = {name for row in classes for item in row["items"] for name in item.get("kernels", ())}
    made = json.loads(re.search(r'"kernels":(\["[^\]]*\])', program).group(1))
    assert named == set(made)
    assert all(item["ops"] for row in classes for item in row["items"])
    assert {item["form"] for row in classes for item in row["items"] if item["ops"] == ["attention"]} == {"causal"}
    functions = functions_of((folder / "dump/3-partitioned.mlir").read_text())
    for row in classes:
        kinds = collections.Counter(item["kind"] for item in row["items"])
        body = functions[row["function"]]
        assert kinds["kernel"] == len(re.findall(r"= ps\.fused\b", body)), row["function"]
        assert kinds["collective"] == len(COLLECTIVES.findall(body)), row["function"]


def test_segments_and_classes_are_those_of_level_3(compiled):
    folder, data = compiled
    functions = functions_of((folder / "dump/3-partitioned.mlir").read_text())
    ran = collections.defaultdict(set)
    for stage in ("micro_batch", "evaluate"):
        for function, number in re.findall(r'rank\.run @"?([\w.$-]+)"? segment (\d+)', functions[f"stage0.{stage}"]):
            ran[int(number)].add(function)
    segments = section(data, "segments")
    assert {row["segment"]: set(row["functions"]) for row in segments} == ran
    assert [row["segment"] for row in segments] == sorted(ran)
    assert {row["name"] for row in segments} > {row["name"] for row in segments if re.search(r"\.\d+$", row["name"])} > set()
    assert {row["function"] for row in section(data, "kernels")} == {name for name in functions if not name.startswith("stage0.")}
    assert data["micro_batches"] == 2 and [axis["size"] for axis in data["mesh"]] == [2, 2]
    assert "--mesh dp=2,tp=2" in data["command"].replace("'", "")


def test_the_same_at_each_level(compiled):
    """A page made from a dump, without code, has the same data. Only names of kernels (need code) and addresses (need level 5) differ."""
    folder, whole = compiled
    for level in ("2-planned", "3-partitioned", "5-placed"):
        flags = [] if level == "5-placed" else ["--stop-after", level[2:], "-o", "again.mlir"]
        micro_batches = [] if level == "5-placed" else ["--micro-batches", "2"]
        compile_page(folder, f"dump/{level}.mlir", "--no-codegen", *flags, *micro_batches)
        data = page_data(folder / "plan.html")[0]
        for row in section(whole, "kernels"):
            for item in row["items"]:
                item.pop("kernels", None)
        for row in section(data, "kernels"):
            assert all(item.pop("kernels", []) == [] for item in row["items"])
        placed = [part for part in whole["sections"] if level == "5-placed" or part["id"] != "memory"]
        assert data["sections"] == placed, level
        assert {**data["totals"], "arena_bytes": 0} == {**whole["totals"], "arena_bytes": 0}
        assert ("arena_bytes" in data["totals"]) == (level == "5-placed")
        assert data["level"] == level[2:] and data["mesh"] == whole["mesh"]


# ---- a pipeline ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pipelined(tmp_path_factory, exports):
    """Returns a folder with a program of four stages, its trace and its page, and the data of the page."""
    folder = tmp_path_factory.mktemp("pipelined")
    model = oracle.zoo("gpt2_deep")
    flags = ["--mesh", "pp=2,tp=2", "--num-chunks", "2", "--schedule", "zb-v", "--micro-batches", "6"]
    compile_page(folder, oracle.export("gpt2_deep", exports), "-o", "program", "--explain", "--dump-dir", "dump", *flags)
    save_file({n: v.contiguous() for n, v in oracle.draw_batches(model, 6, 3).items()}, folder / "data.safetensors")
    oracle.run(["./program", "--data", "data.safetensors", "--steps", 3, "--trace", "trace.json", "--quiet"], folder)
    return folder, page_data(folder / "plan.html")[0]


def test_a_pipeline_is_shown_with_its_stages(pipelined):
    folder, data = pipelined
    pipeline = section(data, "pipeline")
    assert [row["pp"] for row in pipeline["stages"]] == [0, 1, 1, 0] and pipeline["schedule"] == "zb-v"
    said = oracle.run(["./program", "--info"], folder).split("micro-batches held")[1]
    held = [int(n) for n in re.findall(r"^  \d +\d, \d +(\d+) ", said, re.M)]
    assert pipeline["plan"]["held"] == held and len(held) == 2
    flops = section(data, "flops")["segments"]
    ends = [row["first_segment"] for row in pipeline["stages"][1:]] + [len(flops)]
    for row, end in zip(pipeline["stages"], ends, strict=True):
        for phase in ("forward", "backward_input", "backward_weight"):
            costs = [segment.get(phase) for segment in flops[row["first_segment"] : end]]
            whole = 6 * row[phase]  # 6 micro-batches. Costs of stages are derived from global types and shardings, costs of segments from local types
            assert sum(cost["contraction"] + cost["other"] for cost in costs if cost) == pytest.approx(whole, rel=0.05)
    assert [row["cut_bytes"] for row in pipeline["stages"]] == [2 * 4 * 4 * 16 * 32] * 3 + [0]  # [B, T, H] is sent in both directions
    arenas = [row["arena_bytes"] for row in pipeline["coordinates"]]
    assert max(arenas) == data["totals"]["arena_bytes"] and all(0 < row["saved_bytes"] < row["arena_bytes"] for row in pipeline["coordinates"])
    names = [rect.get("class") for rect in xml.etree.ElementTree.fromstring(pipeline["plan"]["picture"]).iter() if rect.tag.endswith("rect")]
    assert {"F", "I later", "W"} <= set(names) and "measured" not in pipeline


def test_measured_times_are_shown_beside_the_plan(pipelined):
    folder, data = pipelined
    plan = section(data, "pipeline")["plan"]
    compile_page(folder, "dump/5-placed.mlir", "--no-codegen", "--measured", "trace.json")
    pipeline = section(page_data(folder / "plan.html")[0], "pipeline")
    assert pipeline["plan"] == plan
    measured = pipeline["measured"]
    assert measured["held"] == plan["held"] and measured["steps"] == 3 and 0 < measured["update"] < 1e4
    assert all(stage["forward"] > 0 and stage["backward_input"] > 0 for stage in measured["stages"])
    assert 0 < measured["bubble"] < 1 and xml.etree.ElementTree.fromstring(measured["picture"]).tag.endswith("svg")


@pytest.mark.parametrize("mesh, flags, trace, words", [
    ("pp=2", ["--micro-batches", "6"], "trace.json",
     "the trace is of another program: 4 stages on 2 pipeline coordinates, V placement, 6 micro-batches per step; the plan has 2"),
    ("pp=2", ["--micro-batches", "6", "--num-chunks", "2", "--schedule", "TABLE"], "trace.json", "are not in the order of this schedule"),
    ("dp=2", [], "trace.json", "the plan has no pipelined training step"),
    ("pp=2", [], "none.json", "none.json"),
    ("pp=2", [], "plan.html", "plan.html"),
])  # fmt: skip
def test_a_trace_of_another_plan(pipelined, tmp_path, exports, mesh, flags, trace, words):
    folder, _ = pipelined
    forward, backward = ([f"{work}{m}" for m in range(6)] for work in "FB")
    rows = [[*forward, *(f"{task}.1" for task in forward), *(f"{task}.1" for task in backward), *backward]] * 2
    table = folder / "table.json"
    table.write_text(json.dumps({"placement": "v", "chunks": 2, "rows": rows}))
    flags = [str(table) if flag == "TABLE" else flag for flag in flags]
    line = ["--no-codegen", "--mesh", mesh, *flags, "--measured", folder / trace]
    assert words in compile_page(tmp_path, oracle.export("gpt2_deep", exports), *line, expect=2)
    assert not list(tmp_path.iterdir())


# ---- one file, for any name of the model ------------------------------------------------------------------------------

HOSTILE = "</script><!--<script>alert('1')</script>\\22&quot; \\\\ \u2028 @SCRIPT@"
SPOKEN = HOSTILE.replace("\\22", '"').replace("\\\\", "\\")
# Ways to refer to a file or site outside of the page, in markup, style and script.
OUTSIDE = r"https?:|\bsrc\s*=|\bhref\s*=\s*\"(?!#|data:,)|url\(|@import|\bfetch\(|XMLHttpRequest|WebSocket|EventSource"
OUTSIDE += r"|\bimport\b\s*[\"'(]|<(?:iframe|object|embed|base|form)\b|sendBeacon"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory, exports):
    """Returns a page of a model whose names, and whose file name, are HTML markup."""
    folder = tmp_path_factory.mktemp("hostile")
    archive = oracle.export("mlp", exports)
    oracle.compile_model(folder, archive, "dp=2", "--stop-after", "partitioned", out="m.mlir")
    text = (folder / "m.mlir").read_text()
    text, found = re.subn(r'(ps\.variable parameter @(\S+) names \[")[^"]+"',
                          rf'\g<1>{HOSTILE}\g<2>"'.replace("\\\\", "\\\\\\\\").replace("\\22", "\\\\22"), text)
    assert found
    name = "<img src=x onerror=alert(2)>&.mlir"
    (folder / name).write_text(text)
    compile_page(folder, name, "--no-codegen")
    return folder / "plan.html", name


def test_names_are_never_markup(hostile):
    path, name = hostile
    data, page = page_data(path)
    rows = section(data, "parameters")
    assert all(any(alias.startswith(SPOKEN) for alias in (row["name"], *row["aliases"])) for row in rows), rows[0]
    assert data["model"] == name and name in data["command"]
    assert page.count("<script") == page.count("</script") == 2 and "<!--" not in page.replace("<!-- The report", "")
    assert "<img" not in page and "&lt;img src=x onerror=alert(2)&gt;&amp;.mlir" in page
    assert page.count("drawPage();") == 1


def test_the_page_refers_to_nothing_outside_of_it(compiled, hostile):
    folder, _ = compiled
    for path in (folder / "plan.html", hostile[0]):
        page = path.read_text()
        start, end = page.index('type="application/json">'), page.index("</script>")
        template = page[:start] + page[end:]
        template = re.sub(r"<title>.*</title>", "", template)
        assert not re.search(OUTSIDE, template), re.search(OUTSIDE, template)
        assert "default-src 'none'" in template


@pytest.fixture(scope="module")
def searched(tmp_path_factory, exports):
    folder = tmp_path_factory.mktemp("searched")
    oracle.run([tools_folder() / "ps-compile", oracle.export("gpt2", exports), "--auto", "--ranks", 4, "--cluster", "cpu-mpi", "--global-batch", 16,
                "--no-codegen", "--report", "plan.html"], folder)  # fmt: skip
    return folder / "plan.html"


def test_a_searched_plan_is_shown_with_the_others(searched):
    plans = section(page_data(searched)[0], "plans")
    first = plans["plans"][0]
    assert first["step_s"] > 0 and 0 < first["memory_bytes"] <= plans["memory_limit"] and 0 < plans["mfu"] < 1
    assert sum(part["seconds"] for part in plans["breakdown"]) == pytest.approx(first["step_s"])
    assert len(plans["plans"]) > 1 and all(plan["estimated_s"] > 0 for plan in plans["plans"])
    assert plans["neighbors"] and all(row["why"] and row["step_s"] > 0 for row in plans["neighbors"])


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.skipif(not BROWSER, reason="no browser is installed")
def test_a_browser_draws_every_section(compiled, hostile, searched, tmp_path):
    folder, data = compiled
    compile_page(folder, "dump/5-placed.mlir", "--no-codegen")
    for path in (folder / "plan.html", hostile[0], searched):
        data = page_data(path)[0]
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", "--dump-dom", path.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, env={**os.environ, "HOME": str(tmp_path)})
        drawn = done.stdout.partition("<script")[0]
        assert "<main>" in drawn, done.stderr
        for part in data["sections"]:
            body = drawn[drawn.index(f'<section id="{part["id"]}"') :]
            assert "<tr>" in body[: body.index("</section>")] and part["title"] in body
        assert "[object" not in drawn and "undefined" not in drawn and "NaN" not in drawn
        assert "<img" not in drawn and f'{len(section(data, "parameters"))} parameters' in drawn


# ---- the command line -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "flags,words",
    [
        (["--report", "none/plan.html"], ["--report: output 'none/plan.html': folder 'none' does not exist"]),
        (["--report", "."], ["--report: output '.' is a folder", "--report ./NAME"]),
        (["--report", "m.pt2"], ["--report: output 'm.pt2' is the model itself"]),
        (["--report", "/dev/full"], ["--report: output '/dev/full' is a device"]),
        (["--report", "same", "-o", "same"], ["--report: output 'same' is written by -o too"]),
        (["--report", ""], ["--report is empty"]),
        (["--measured", "trace.json"], ["--measured", "add --report PLAN.html"]),
        (["--report", "p.html", "--measured", ""], ["--measured is empty"]),
        (["--report", "p.html", "--stop-after", "training", "-o", "x.mlir"], ["--report shows the plan", "planned or later"]),
    ],
)
def test_a_page_that_cannot_be_written(tmp_path, exports, flags, words):
    shutil.copy(oracle.export("mlp", exports), tmp_path / "m.pt2")
    said = oracle.run([tools_folder() / "ps-compile", "m.pt2", "--no-codegen", *flags], tmp_path, expect=2)
    for word in words:
        assert word in said, said
    assert [path.name for path in tmp_path.iterdir()] == ["m.pt2"]


def test_a_bad_model_keeps_the_old_page(tmp_path):
    (tmp_path / "m.mlir").write_text('func.func @forward() { "no.such"() : () -> () }')
    (tmp_path / "plan.html").write_text("before")
    compile_page(tmp_path, "m.mlir", "--no-codegen", expect=1)
    assert (tmp_path / "plan.html").read_text() == "before" and len(list(tmp_path.iterdir())) == 2
