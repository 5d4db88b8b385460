"""Rates, bandwidths and times of machines are in clusters/*.json, not in the code that chooses plans."""

import re

import pytest
from conftest import ROOT, list_files

pytestmark = pytest.mark.quick

# The folders that choose or price plans. Other folders have constants of models, such as the epsilons of norms.
FOLDERS = ["lib/Costs", "lib/Driver", "lib/Fusion", "lib/IR", "lib/Memory", "lib/Partition", "lib/Pipeline", "lib/Planner", "lib/Report",
           "lib/Schedules", "lib/Sharding", "lib/Support", "tools"]  # fmt: skip
COMMENTS_AND_TEXTS = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"', re.S)
# Matches 3.35e12, 4e-6, and decimal integers from 10^9 on.
MAGNITUDE = re.compile(r"(?<![\w.])(?:\d[\d']*\.?\d*e[+-]?\d+|\d(?:'?\d){9,})(?![\w.])", re.I)
# Matches constants that are named after a rate or a time: kLaunchSeconds = 4
NAMED = re.compile(r"\b(k\w*(?:Bandwidth|Latency|Launch|Efficiency|Peak(?!s)|PerSecond|PerByte|Seconds|Micros|Nanos|Flops(?!Mark)|Tflop)\w*)\s*=\s*[-\d.]")
# Constants that do not describe a machine, with their meaning.
KNOWN = {
    ("lib/Costs/Quantity.cpp", "1e-9"): "unit prefix", ("lib/Costs/Quantity.cpp", "1e-6"): "unit prefix", ("lib/Costs/Quantity.cpp", "1e-3"): "unit prefix",
    ("lib/Costs/Quantity.cpp", "1e3"): "unit prefix", ("lib/Costs/Quantity.cpp", "1e6"): "unit prefix", ("lib/Costs/Quantity.cpp", "1e9"): "unit prefix",
    ("lib/Costs/Quantity.cpp", "1e12"): "unit prefix", ("lib/Costs/Quantity.cpp", "1e15"): "unit prefix",
    ("lib/Costs/Quantity.cpp", "999.5e-6"): "rounding of printed times", ("lib/Costs/Quantity.cpp", "999.5e-3"): "rounding of printed times",
    ("lib/Driver/Timeline.cpp", "1e9"): "flops are drawn in units of 10^9",
    ("lib/Memory/RecomputeTime.cpp", "1e12"): "times as whole picoseconds", ("lib/Memory/RecomputeTime.cpp", "kPerSecond"): "times as whole picoseconds",
    ("lib/Memory/SegmentChoices.cpp", "1e-9"): "rounding",
    ("lib/Partition/CheapValues.cpp", "kFlopsPerByte"): "bounds which values are cheap to recompute; prices nothing",
    ("lib/Pipeline/Layers.cpp", "1e9"): "times as whole nanoseconds",
    ("lib/Pipeline/Layers.cpp", "kPerSecond"): "times as whole nanoseconds",
    ("lib/Planner/LayoutPrice.cpp", "1e-30"): "no division by zero", ("lib/Planner/Search.cpp", "1e-9"): "rounding",
    ("lib/Planner/StepTime.cpp", "1e-12"): "rounding", ("lib/Planner/StepTime.cpp", "1e-6"): "parts that are not printed",
    ("lib/Schedules/Trace.cpp", "1e3"): "microseconds of a trace",
    ("lib/Support/Bytes.cpp", "9e18"): "the range of int64",
    ("tools/ps-run/Compare.cpp", "1e-3"): "tolerance of a comparison",
    ("tools/ps-timeline/ps-timeline.cpp", "1e6"): "the largest --hop",
}  # fmt: skip


def find_constants(text):
    code = COMMENTS_AND_TEXTS.sub('""', text)
    return {*MAGNITUDE.findall(code), *NAMED.findall(code)}


@pytest.mark.parametrize(("line", "constants"), [
    ("double rate = 989e12;", {"989e12"}), ("x / 3.35e12 + 4e-6", {"3.35e12", "4e-6"}), ("constexpr int64_t kLinkBandwidth = 43;", {"kLinkBandwidth"}),
    ("n < 80'000'000'000", {"80'000'000'000"}), ('"3.35e12" // 4e-6\n0x1e9 kLaunches != 3, 1 << 20', set()),
])  # fmt: skip
def test_constants_are_found(line, constants):
    assert find_constants(line) == constants


def test_cost_constants_are_only_in_cluster_files():
    files = list_files("*.cpp", "*.h")
    found = {(file, constant) for file in files if file.startswith(tuple(FOLDERS)) for constant in find_constants((ROOT / file).read_text())}
    unknown = sorted(found - KNOWN.keys())
    assert not unknown, "\n".join(f"{file}: {constant}: move it to clusters/*.json, or add its reason to KNOWN" for file, constant in unknown)
    assert found == KNOWN.keys(), f"remove from KNOWN: {sorted(KNOWN.keys() - found)}"
