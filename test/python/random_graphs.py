"""Compares random graphs (drawn_graphs.py) with PyTorch in f64: outputs and gradients.

Many graphs form one module, which is compiled and run once. Its loss is the sum of the losses of the graphs. In the loss of a
graph, each output is multiplied by a parameter of its shape, so that the gradient of this parameter is the output itself.

    python test/python/random_graphs.py --seed 1 --graphs 50000 --reduce     # the test with more graphs
"""
import argparse
import contextlib
import dataclasses
import itertools
import pathlib
import re
import tempfile
import time

import capi
import replay
import torch
from conftest import tools_folder
from drawn_graphs import Graph, Node, draw_graph, is_close
from oracle import ToolFailed, run
from safetensors.torch import load_file, save_file

# ---- many graphs ---------------------------------------------------------------------------------------------------


def module(graphs, element="f64"):
    variables, lines, terms = [], [], []
    for seed, graph in graphs.items():
        own = graph.text(f"g{seed}.", element)
        for whole, part in zip((variables, lines, terms), own):
            whole += part
    loss = terms[0]
    for k, term in enumerate(terms[1:]):
        lines.append(f"%loss.{k} = ps.add {loss}, {term} : tensor<{element}>")
        loss = f"%loss.{k}"
    return "\n".join([*variables, f"func.func @forward() -> tensor<{element}> {{", *lines,
                      f"return {loss} : tensor<{element}>", "}", ""])  # fmt: skip


def evaluate(source, weights, like, folder):
    run([tools_folder() / "ps-opt", source, "-ps-autodiff", "-o", folder / "training.mlir"], folder)
    run([tools_folder() / "ps-run", folder / "training.mlir", "--entry", "micro_batch", "--inputs", weights, "--outputs",
         folder / "out.safetensors"], folder)  # fmt: skip
    found = load_file(folder / "out.safetensors")
    return {name: found.get(f"{name}.grad", torch.zeros_like(value)) for name, value in like.items()}  # some parameters have no gradient


LIBRARIES = itertools.count()


def gradient_of(program, name, like):
    """Returns a gradient, or zeros if the program has no gradient of this name. The comparison with PyTorch detects missing gradients."""
    try:
        return program.get(f"grad.{name}", like)
    except RuntimeError:
        return torch.zeros_like(like)


def train(source, weights, like, folder, target):
    library = folder / f"{next(LIBRARIES)}.so"  # a new name each time, because a library that is already loaded is not loaded again
    run([tools_folder() / "ps-compile", source, "-o", library, "--init", "zeros", "--optimizer", "sgd(lr=0)", "--target",
         target], folder)  # fmt: skip
    program = capi.Program(library, ranks=1)
    for name, value in load_file(weights).items():
        with contextlib.suppress(RuntimeError):  # the program has no variable that is not used
            program.set(name, value)
    program.step({})
    found = {name: gradient_of(program, name, value) for name, value in like.items()}
    program.close()
    library.unlink()
    return found


def compute(graphs, ways, folder):
    """Returns ({way: gradients of all graphs by name}, {graph: PyTorch's gradients})."""
    parameters = {seed: graph.parameters(seed) for seed, graph in graphs.items()}
    exact = {seed: graph.gradients(parameters[seed])[1] for seed, graph in graphs.items()}
    values = {f"g{seed}.{name}": value for seed, own in parameters.items() for name, value in own.items()}
    source, weights = folder / "graphs.mlir", folder / "weights.safetensors"
    source.write_text(module(graphs))
    save_file(values, weights)
    found = {}
    for way in ways:
        if way == "evaluated":
            found[way] = evaluate(source, weights, values, folder)
        else:
            found[way] = replay.run(train, source, weights, values, folder, way)
    return found, exact


def failures(graphs, ways, folder):
    """Returns, for each failing graph, a tool's error or the names of the gradients that differ from PyTorch's."""
    try:
        found, exact = compute(graphs, ways, folder)
    except (ToolFailed, RuntimeError) as error:
        if len(graphs) == 1:
            return {next(iter(graphs)): str(error)}
        half, seeds = len(graphs) // 2, list(graphs)
        return {seed: text for part in (seeds[:half], seeds[half:])
                for seed, text in failures({seed: graphs[seed] for seed in part}, ways, folder).items()}
    wrong = {}
    for seed, own in exact.items():
        for way, values in found.items():
            bad = [name for name, value in own.items() if not is_close(values[f"g{seed}.{name}"], value, own, graphs[seed].tolerance)]
            if bad:
                wrong[seed] = wrong.get(seed, "") + f"{way}: the gradients of {', '.join(bad)} differ from PyTorch's; "
    return wrong


# ---- reduction -----------------------------------------------------------------------------------------------------


def smaller(graph):
    """Yields smaller graphs: with fewer outputs, with a parameter instead of a value, or without an op."""
    live = graph.live()
    for output in graph.outputs:
        if len(graph.outputs) > 1:
            yield Graph(graph.nodes, [output])
    for output in graph.outputs:
        for operand in graph.nodes[output].operands:
            if graph.nodes[operand].text:
                yield Graph(graph.nodes, [operand if other == output else other for other in graph.outputs])
    for i in reversed(live):
        node = graph.nodes[i]
        if not node.text:
            continue
        if i not in graph.outputs:
            yield Graph([*graph.nodes[:i], Node("parameter", [], node.shape), *graph.nodes[i + 1 :]], graph.outputs)
        for operand in node.operands:
            if graph.nodes[operand].shape == node.shape:
                def swap(numbers, i=i, operand=operand):
                    return [operand if number == i else number for number in numbers]

                nodes = [dataclasses.replace(other, operands=swap(other.operands)) for other in graph.nodes]
                outputs = swap(graph.outputs)
                if all(nodes[output].text for output in outputs):
                    yield Graph(nodes, outputs)


def reduce_graph(seed, graph, ways, folder):
    """Returns the smallest graph found that still fails. Replaces the graph by a smaller one until all smaller graphs pass."""
    changed = True
    while changed:
        changed = False
        for candidate in smaller(graph):
            size = (len(candidate.live()), len(candidate.outputs))
            if size < (len(graph.live()), len(graph.outputs)) and failures({seed: candidate}, ways, folder):
                graph, changed = candidate, True
                break
    return graph


def describe(seed, graph, text):
    return f"graph {seed}: {text}\n{module({seed: graph})}"


# ---- ops that share a kernel -----------------------------------------------------------------------------------


def fused_pairs(source, folder, target="cpu"):
    """Returns the pairs of names of ops that one kernel of the program computes."""
    run([tools_folder() / "ps-compile", source, "-o", folder / "fused.mlir", "--init", "zeros", "--optimizer", "sgd(lr=0)",
         "--target", target, "--stop-after", "partitioned"], folder)  # fmt: skip
    pairs, group = set(), None
    for line in (folder / "fused.mlir").read_text().splitlines():
        if "ps.fused" in line:
            group = set()
        elif group is not None and "ps.yield" in line:
            pairs |= set(itertools.combinations_with_replacement(sorted(group), 2))
            group = None
        elif group is not None and (match := re.search(r"= \"?ps\.(\w+)", line)):
            group.add(match[1])
    return pairs


def check(seeds, ways, folder, reduces=True, batch=50, pairs=None):
    """Returns descriptions of the graphs that fail. Adds the fused pairs of ops to the set `pairs`."""
    wrong = []
    for first in range(0, len(seeds), batch):
        graphs = {seed: draw_graph(seed) for seed in seeds[first : first + batch]}
        for seed, text in failures(graphs, ways, folder).items():
            graph = graphs[seed]
            if reduces:
                graph = reduce_graph(seed, graph, ways, folder)
                text += "\nreduced to " + failures({seed: graph}, ways, folder).get(seed, "a graph that does not fail again")
            wrong.append(describe(seed, graph, text))
        if pairs is not None:
            (folder / "graphs.mlir").write_text(module(graphs))
            pairs |= fused_pairs(folder / "graphs.mlir", folder)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="seed of the first graph")
    parser.add_argument("--graphs", type=int, default=300)
    parser.add_argument("--batch", type=int, default=50, help="graphs per module")
    parser.add_argument("--ways", default="evaluated,cpu,cuda:replay")
    parser.add_argument("--reduce", action="store_true", help="reduce graphs that fail")
    parser.add_argument("--pairs", action="store_true", help="print pairs of ops that were never in one kernel")
    flags = parser.parse_args()
    begin, pairs, failed = time.time(), set() if flags.pairs else None, 0
    with tempfile.TemporaryDirectory() as name:
        for first in range(flags.seed, flags.seed + flags.graphs, flags.batch):
            seeds = range(first, min(first + flags.batch, flags.seed + flags.graphs))
            for text in check(seeds, flags.ways.split(","), pathlib.Path(name), flags.reduce, flags.batch, pairs):
                failed += 1
                print(text, flush=True)
    seconds = time.time() - begin
    print(f"{flags.graphs} graphs from seed {flags.seed} on: {failed} failed; {flags.graphs / seconds:.1f} graphs per second")
    if pairs is not None:
        names = sorted({name for pair in pairs for name in pair})
        missing = [pair for pair in itertools.combinations_with_replacement(names, 2) if pair not in pairs]
        print(f"{len(pairs)} pairs of {len(names)} ops were in one kernel; pairs that never were: {missing}")
    return bool(failed)


if __name__ == "__main__":
    raise SystemExit(main())
