"""docs/levels.md is up to date: the tools print its examples, and it lists every attribute, pass and constraint.

To regenerate the examples: build/venv/bin/python test/python/test_level_examples.py

In the page, a comment `<!-- example: NAME -->` precedes each example. A line `...` marks omitted lines. Three dots among the
attributes of an op mark omitted attributes.
"""
import dataclasses
import inspect
import pathlib
import re
import tempfile

import oracle
import pytest
import torch
from conftest import ROOT, tools_folder
from test_levels import split_passes

LEVELS = ["imported", "training", "planned", "partitioned", "scheduled", "placed"]
PAGE = ROOT / "docs/levels.md"
EXAMPLE = re.compile(r"(<!-- example: ([\w ]+) -->\n)```\w+\n.*?```\n", re.DOTALL)
REFRESH = "build/venv/bin/python test/python/test_level_examples.py"


class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 2, bias=False)

    def forward(self, x, target):
        return torch.nn.functional.mse_loss(self.linear(x), target)


@dataclasses.dataclass
class Excerpt:
    """Selects some lines of a level's IR."""

    level: str
    # Pattern for the first line of an op or function -> pattern for its lines to keep.
    parts: dict
    # The attributes to keep.
    attributes: tuple = ()


PLAN = {"mesh|grad|parameter": "", "@micro_batch": ""}
RUNS = {"@stage0.micro_batch": "func|run", "@stage0.update": "func|read|all_reduce|run"}
BODY = "func|contract|:2 = ps.fused|reduce|accumulate|return"
STEP = {
    "ps.variable": "parameter|gradient",
    "@linear.forward": "func|contract",
    "@pp0": r"micro_batch 0|micro_batch = 0|program|loss.sum :|\.grad :|start|wait|update|^  }",
}
ADDRESSES = ("ps.address", "ps.addresses", "ps.scratch_address", "ps.offsets", "ps.scratch_bytes")

EXCERPTS = {
    "imported after": Excerpt("0-imported", {"": ""}, ("ps.name", "ps.level")),
    "training before": Excerpt("0-imported", {"func": ""}),
    "training after": Excerpt(
        "1-training", {"@micro_batch": "", "@update": r"func|\.grad|write @linear"}, ("ps.phase",)
    ),
    "planned before": Excerpt("1-training", PLAN),
    "planned after": Excerpt("2-planned", PLAN, ("ps.sharding", "ps.shardings")),
    "partitioned before": Excerpt(
        "2-planned", {"@micro_batch": "", "@update": r"func|loss.sum|\.grad|^  }"}, ("ps.shardings",)
    ),
    "partitioned after": Excerpt("3-partitioned", {"@linear.forward": BODY, **RUNS}, ("ps.class", "ps.stage", "ps.saved")),
    "scheduled before": Excerpt("3-partitioned", RUNS),
    "scheduled after": Excerpt("4-scheduled", {"@pp0": ""}, ("ps.micro_batch",)),
    "placed before": Excerpt("4-scheduled", STEP),
    "placed after": Excerpt("5-placed", STEP, ADDRESSES),
}


# ---- excerpts ------------------------------------------------------------------------------------------------------


def split_attributes(text):
    """Splits the text inside a dictionary into attributes, at commas outside of brackets and strings."""
    attributes, depth, quoted, start = [], 0, False, 0
    for i, c in enumerate(text + ","):
        quoted ^= c == '"'
        depth += 0 if quoted else (c in "[{<(") - (c in "]}>)")
        if c == "," and not depth and not quoted:
            attributes.append(text[start:i].strip())
            start = i + 1
    return attributes


def elide_attributes(line, kept):
    """Replaces attributes that are not in `kept` by dots. Example: `{ps.phase = ..., ps.segment = 0 : i64}` gives `{..., ps.segment = 0 : i64}`."""
    out, at = "", 0
    while (begin := line.find("{ps.", at)) >= 0:
        end, depth, quoted = begin, 0, False
        while True:
            quoted ^= line[end] == '"'
            depth += 0 if quoted else (line[end] == "{") - (line[end] == "}")
            end += 1
            if not depth:
                break
        attributes = split_attributes(line[begin + 1 : end - 1])
        shown = [one for one in attributes if one.split(" ")[0] in kept]
        shown = ["..."] * (len(shown) < len(attributes)) + shown
        out += line[at:begin] + "{" + ", ".join(shown) + "}"
        at = end
    return out + line[at:]


def cut(text, excerpt):
    """Returns the lines of `text` that an excerpt selects, with `...` for omitted lines."""
    out, head = [], ""
    for line in text.strip().splitlines():
        if re.match(r"(  )?\S", line) and not line.strip().startswith("}"):
            head = line.split("(")[0].split("{")[0]
        patterns = [lines for ops, lines in excerpt.parts.items() if re.search(ops, head)]
        indent = re.match(" *", line)[0]
        if any(re.search(pattern, line) for pattern in patterns):
            out.append(elide_attributes(line, excerpt.attributes))
        elif not out or out[-1].strip() != "...":
            out.append(indent + "...")
    return "\n".join(out) + "\n"


# ---- the levels of the model ---------------------------------------------------------------------------------------


def make_levels(folder):
    """Returns the IR of every level by name, without source locations, and the passes of level N as "passes N"."""
    torch.manual_seed(0)
    inputs = {"x": torch.zeros(8, 4), "target": torch.zeros(8, 2)}
    torch.export.save(torch.export.export(Linear(), (), inputs), str(folder / "linear.pt2"))
    oracle.run(
        [tools_folder() / "ps-compile", "linear.pt2", "-o", "linear", "--mesh", "dp=2", "--micro-batches", "2",
         "--optimizer", "sgd(lr=0.1)", "--stop-after", "placed", "--dump-dir", "."],
        folder,
    )  # fmt: skip
    levels = {}
    for dump in folder.glob("*.mlir"):
        levels[dump.stem] = oracle.run([tools_folder() / "ps-opt", dump], folder)
        levels[f"passes {dump.stem[0]}"] = dump.read_text().partition("\n")[0].removeprefix("// passes: ")
    return levels


def fill_page(levels):
    """Returns the page with every example regenerated."""

    def make(match):
        start, name = match.groups()
        if name == "imported before":
            return f"{start}```python\n{inspect.getsource(Linear)}```\n"
        excerpt = EXCERPTS[name]
        return f"{start}```mlir\n{cut(levels[excerpt.level], excerpt)}```\n"

    return EXAMPLE.sub(make, PAGE.read_text())


@pytest.fixture(scope="module")
def levels(tmp_path_factory):
    return make_levels(tmp_path_factory.mktemp("levels"))


def test_examples_are_what_the_tools_print(levels):
    text = PAGE.read_text()
    assert sorted(name for _, name in EXAMPLE.findall(text)) == sorted([*EXCERPTS, "imported before"])
    assert text == fill_page(levels), f"docs/levels.md is stale; rewrite its examples with\n  {REFRESH}"


def test_examples_are_short():
    """An example has at most 25 lines. It has at least 15, unless it shows a whole function or module of the small model."""
    lines = {name: text.count("\n") - 2 for text, name in ((match[0].split("-->\n")[1], match[2]) for match in EXAMPLE.finditer(PAGE.read_text()))}
    whole = {"imported before", "imported after", "training before", "scheduled before"}
    assert all(count <= 25 and (count >= 15 or name in whole) for name, count in lines.items()), lines


def read_sections():
    """Returns, for each level, its text by heading."""
    levels = re.split(r"^## Level \d: \w+.*\n", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return [dict(re.findall(r"^### (.+)\n((?:(?!###).*\n)*)", level, re.MULTILINE)) for level in levels]


def test_every_level_has_the_same_headings():
    sections = read_sections()
    assert len(sections) == 6
    for section in sections:
        assert list(section) == ["Input", "Output", "Attributes added", "Passes in order", "Invariants", "Example"]


def test_every_attribute_is_listed():
    """The page lists the attributes of dialects/ps/Marks.def. No other file contains their names as literals."""
    table = ROOT / "dialects/ps/Marks.def"
    marks = set(re.findall(r'^PS_MARK\(\w+, "(ps\.\w+)"', table.read_text(), re.MULTILINE))
    rows = "".join(section["Attributes added"] for section in read_sections())
    listed = {name for row in rows.splitlines() if row.startswith("| `") for name in re.findall(r"`(ps\.\w+)`", row.split(" | ")[0])}
    assert listed == marks and len(marks) > 60
    spelled = [f"{path.relative_to(ROOT)}: {name}" for folder in ("dialects", "include", "lib", "tools") for path in (ROOT / folder).rglob("*.[ch]*")
               for name in re.findall(r'"(ps\.[a-z_]+)"', path.read_text()) if name in marks]  # fmt: skip
    assert spelled == []


def test_every_pass_is_listed_in_order(levels):
    """The page lists the passes of the example in order. It also lists passes that flags add."""
    for number, section in enumerate(read_sections()[1:], 1):
        rows = re.findall(r"^\d+\. (.*?)(?:: |, with |, except |$)", section["Passes in order"], re.MULTILINE)
        listed = [name for row in rows for name in re.findall(r"`([\w-]+)`", row)]
        ran = [re.match(r"[\w-]+", one)[0] for one in split_passes(levels[f"passes {number}"])]
        assert [name for name in listed if name in ran] == ran and len(set(listed)) == len(listed)


def test_every_constraint_is_listed():
    """Constraints are in the order of their numbers."""
    sources = "".join(path.read_text() for folder in ("dialects", "lib") for path in (ROOT / folder).rglob("*.cpp"))
    for section, level in zip(read_sections(), LEVELS):
        checked = {int(number) for number in re.findall(rf"{level}_c(\d+)", sources)}
        listed = [int(number) for number in re.findall(rf"^\d+\. `{level}_c(\d+)`:", section["Invariants"], re.MULTILINE)]
        assert checked and listed == sorted(checked)


def test_excerpts_are_marked():
    """Three dots replace omitted lines and omitted attributes."""
    text = 'module {\n  ps.x {ps.a = [1, 2], ps.b = "}, {"}\n  ps.y\n}\n'
    assert cut(text, Excerpt("", {"module|ps.x": ""}, ("ps.a",))) == "module {\n  ps.x {..., ps.a = [1, 2]}\n  ...\n"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        PAGE.write_text(fill_page(make_levels(pathlib.Path(folder))))
