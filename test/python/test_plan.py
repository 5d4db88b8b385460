"""The number of collectives per layer, counted in the dump of level 3."""
import collections
import re

import models
import oracle
import pytest

COLLECTIVES = re.compile(r"\bps\.(all_reduce|reduce_scatter|all_gather|all_to_all|permute)\b")


def functions_of(text):
    """Returns the body of each function of a dump, by name."""
    parts = re.split(r"^\s*func\.func (?:private )?@(\"[^\"]+\"|[\w.$-]+)", text, flags=re.M)
    return dict(zip((name.strip('"') for name in parts[1::2]), parts[2::2]))


def collectives_of(text):
    """Returns the number of collectives per micro-batch, by (phase, kind). Counts those in runs of class functions and between runs."""
    functions = functions_of(text)
    counts = collections.Counter()
    body = functions["stage0.micro_batch"]
    for line in body.splitlines():
        found = COLLECTIVES.search(line)
        if found:
            phase = re.search(r"#ps\.phase<(\w+)>", line)
            counts[phase.group(1) if phase else "between", found.group(1)] += 1
        run = re.search(r"rank\.run @(\"[^\"]+\"|[\w.$-]+)", line)
        if run:
            callee = functions[run.group(1).strip('"')]
            phase = re.search(r"ps\.phase = #ps\.phase<(\w+)>", callee).group(1)
            for kind in COLLECTIVES.findall(callee):
                counts[phase, kind] += 1
    return counts


def added_by_a_layer(folder, name, policy, mesh="tp=2"):
    """Returns the number of collectives that a third layer adds, by (phase, kind). This excludes embedding, head and loss."""
    counts = []
    for layers in (2, 3):
        here = folder / str(layers)
        here.mkdir()
        archive = models.MODELS[name](layers=layers).export(here / "model.pt2")
        oracle.compile_model(here, archive, mesh, "--sharding-policy", policy, "--dump-dir", here / "dump")
        counts.append(collectives_of((here / "dump/3-partitioned.mlir").read_text()))
    return {key: counts[1][key] - counts[0][key] for key in counts[1] | counts[0] if counts[1][key] != counts[0][key]}


@pytest.mark.part(3)
@pytest.mark.parametrize("name", ["gpt", "gpt2", "llama"])
def test_megatron_has_two_all_reduces_a_layer_each_way(tmp_path, name):
    added = added_by_a_layer(tmp_path, name, "megatron")
    backward = sum(n for (phase, _), n in added.items() if phase.startswith("backward"))
    assert {kind for _, kind in added} == {"all_reduce"}, added
    assert added["forward", "all_reduce"] == 2, added
    assert backward == 2, added


@pytest.mark.part(2)
@pytest.mark.parametrize("name, mesh", [("gpt", "tp=2"), ("gpt2", "tp=2"), ("llama", "tp=2"), ("gpt2", "dp=2,tp=2")])
def test_sequence_parallelism_gathers_and_scatters_twice_per_layer_each_way(tmp_path, name, mesh):
    """See Korthikanti et al., 2022, figure 5. Weight gradients repeat the all-gathers of forward, which saves only shards (section 4.2.2)."""
    assert added_by_a_layer(tmp_path, name, "megatron+sp", mesh) == {
        ("forward", "all_gather"): 2, ("forward", "reduce_scatter"): 2,
        ("backward_input", "all_gather"): 2, ("backward_input", "reduce_scatter"): 2,
        ("backward_weight", "all_gather"): 2,
    }  # fmt: skip


@pytest.mark.parametrize("policy, kind", [("megatron", "all_reduce"), ("megatron+sp", "reduce_scatter")])
def test_queries_keys_and_values_are_summed_before_a_residual(tmp_path, exports, policy, kind):
    """In BERT, the cotangents of queries, keys and values are added before the cotangent of the residual.

    The residual's cotangent is not partial. If it were added between them, three collectives would be needed instead of one.
    """
    oracle.compile_model(tmp_path, oracle.export("bert", exports), "tp=2", "--sharding-policy", policy, "--dump-dir", tmp_path / "dump")
    counts = collectives_of((tmp_path / "dump/3-partitioned.mlir").read_text())
    assert counts["backward_input", kind] == 2 * 2 + 1  # two per layer, and one for the head


def explained(text):
    """Returns the number of collectives that --explain lists, by (when, kind, axes)."""
    table = text[text.index("\ncollectives (") :].splitlines()[3:]
    counts = collections.Counter()
    for line in table:
        cells = line.split()
        if len(cells) < 6 or not cells[0].isdigit():
            break
        at = next(i for i, cell in enumerate(cells) if cell in ("all_reduce", "reduce_scatter", "all_gather", "all_to_all"))
        counts[cells[at + 2], cells[at], cells[at + 1]] += int(cells[0])
    return counts


@pytest.mark.parametrize("name", ["gpt", "llama"])
def test_explain_names_every_collective(tmp_path, exports, name):
    """--explain also lists the collectives inside a cross entropy over a split vocabulary. Level 2 and the program give the same list."""
    archive = oracle.export(name, exports)
    flags = ["--sharding-policy", "megatron", "--explain", "--mesh", "dp=2,tp=2"]
    compile_it = [oracle.tools_folder() / "ps-compile", archive, *flags]
    text = oracle.run([*compile_it, "-o", tmp_path / "out", "--dump-dir", tmp_path / "dump"], tmp_path)
    planned = oracle.run([*compile_it, "-o", tmp_path / "p.mlir", "--stop-after", "planned"], tmp_path)
    assert explained(planned) == explained(text)
    made = collectives_of((tmp_path / "dump/3-partitioned.mlir").read_text())
    named = explained(text)
    for way in ("forward", "backward"):
        count = sum(n for (when, kind, _), n in named.items() if when == way and kind == "all_reduce")
        assert count == sum(n for (phase, kind), n in made.items() if phase.startswith(way) and kind == "all_reduce"), (named, made)
    assert sum(named.values()) > 0 and "inside ps.cross_entropy" in text
