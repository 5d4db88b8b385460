#!/usr/bin/env python3
"""Measures the trade-off between memory and time with `--recompute budget=...`, for ten budgets.

    bench/recompute_budget.py [--rounds 2] [--steps 2] [--picture docs/recompute-budget.svg]

Runs the 14M GPT of bench/train_step.py on one rank x 2 threads. The budgets are evenly spaced between the minimum memory and the memory without
recomputation. Each round runs `none` before every five budgets, for a few steps. The measured time of a budget is the median of its ratios to
the preceding run of `none`. Prints a table of planned memory, predicted and measured time, and draws a picture.
"""
import argparse
import itertools
import pathlib
import re
import statistics
import subprocess
import tempfile

import train_step  # restarts in the environment that has PyTorch
from safetensors.torch import save_file

POINTS = 10
MIB = 1 << 20


def compile_mode(folder, archive, mode, expect=0):
    """Returns (the program, the output)."""
    out = folder / re.sub(r"\W", "-", mode)
    command = [train_step.BIN / "ps-compile", archive, "-o", out, "--optimizer", train_step.OPTIMIZER, "--recompute", mode, "--explain"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != expect:
        raise SystemExit(done.stderr)
    return out, done.stdout + done.stderr


def read_plan(said):
    """Returns (MiB per rank, predicted time of a step relative to one without recomputation)."""
    added = re.search(r"^recompute .* ([\d.]+) % more time", said, re.M)
    return float(re.search(r"^memory of a rank: ([\d.]+) MiB", said, re.M)[1]), 1 + float(added[1]) / 100 if added else 1.0


def measure(folder, programs, rounds, steps):
    """Returns, for each program, the median of the ratios of its time to that of `none`, or None without rounds.

    `none` is the first program. It runs before every five other programs.
    """
    none, *others = programs
    ratios = {program: [] for program in others}

    def run(program):
        return statistics.median(train_step.run_ours(folder, [program, "--ranks", "1"], steps, 2))

    for _ in range(rounds):
        for i, program in enumerate(others):
            if i % 5 == 0:
                whole = run(none)
            ratios[program].append(run(program) / whole)
    return [1.0 if rounds else None] + [statistics.median(ratios[program]) if rounds else None for program in others]


def draw(rows, path):
    """Draws the times over the memory in MiB: predicted times as a line with dots, measured times as larger dots."""
    width, height, left, bottom, right, top = 640, 360, 62, 48, 16, 34
    least, most = min(row[0] for row in rows), max(row[0] for row in rows)
    times = [time for row in rows for time in row[1:] if time is not None]
    low, high = min(times) - 0.02, max(times) + 0.02

    def to_point(memory, time):
        x = left + (memory - least) / (most - least) * (width - left - right)
        return x, height - bottom - (time - low) / (high - low) * (height - bottom - top)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
             "<style>text{fill:#24292f}.grid{stroke:#8884}.line{fill:none;stroke:#0969da;stroke-width:2}.predicted{fill:#0969da}.measured{fill:#bc4c00}"
             "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.line{stroke:#58a6ff}.predicted{fill:#58a6ff}.measured{fill:#ffa657}}</style>"]  # fmt: skip
    for tick in range(int(-(-low // 0.05)), int(high // 0.05) + 1):
        _, y = to_point(least, tick * 0.05)
        parts.append(f'<line class="grid" x1="{left}" x2="{width - right}" y1="{y:.1f}" y2="{y:.1f}"/>'
                     f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{tick * 0.05:.2f}</text>')  # fmt: skip
    for memory in range(-(-int(least) // 50) * 50, int(most) + 1, 50):
        x, _ = to_point(memory, low)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{height - bottom}"/>'
                     f'<text x="{x:.1f}" y="{height - bottom + 18}" text-anchor="middle">{memory}</text>')  # fmt: skip
    points = " ".join("{:.1f},{:.1f}".format(*to_point(memory, predicted)) for memory, predicted, _ in rows)
    parts.append(f'<polyline class="line" points="{points}"/>')
    for memory, predicted, measured in rows:
        for kind, time, radius in (("predicted", predicted, 3), ("measured", measured, 4)):
            if time is None:
                continue
            x, y = to_point(memory, time)
            parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>')
    middle = (left + width - right) / 2
    parts.append(f'<text x="{middle}" y="{height - 8}" text-anchor="middle">memory per rank, MiB (planned)</text>')
    parts.append(f'<text x="{left}" y="18">time of a step, relative to no recomputation</text>')
    for x, kind in ((width - 190, "predicted"), (width - 100, "measured"))[: 1 if rows[0][2] is None else 2]:
        parts.append(f'<circle class="{kind}" cx="{x}" cy="14" r="4"/><text x="{x + 9}" y="18">{kind}</text>')
    path.write_text("\n".join([*parts, "</svg>", ""]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2, help="rounds of measured runs; 0 draws only the predictions")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--picture", type=pathlib.Path, default=train_step.ROOT / "docs/recompute-budget.svg")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        archive = train_step.export("gpt", folder, train_step.LAYERS)
        save_file(train_step.draw(train_step.BATCH * (arguments.steps + 3)), folder / "data.safetensors")
        none, said = compile_mode(folder, archive, "none")
        most = int(read_plan(said)[0] * MIB)
        _, refused = compile_mode(folder, archive, "budget=1MB", expect=2)
        least = int(re.search(r"needs at least (\d+) bytes", refused)[1])
        budgets = [least + (most - least) * i // POINTS for i in reversed(range(POINTS))]
        made = [(none, said)] + [compile_mode(folder, archive, f"budget={budget}") for budget in budgets]
        plans = [read_plan(said) for _, said in made]
        measured = measure(folder, [program for program, _ in made], arguments.rounds, arguments.steps)
    rows = [(*plan, ratio) for plan, ratio in zip(plans, measured)]
    print("| budget, MiB | planned, MiB | predicted | measured |\n|---|---|---|---|")
    for budget, (memory, predicted, ratio) in zip(["none", *(f"{budget / MIB:.0f}" for budget in budgets)], rows):
        measured = "-" if ratio is None else f"{ratio:.3f}"
        print(f"| {budget} | {memory:.0f} | {predicted:.3f} | {measured} |")
    draw(rows, arguments.picture)
    falls = all(a[0] >= b[0] and a[1] <= b[1] for a, b in itertools.pairwise(rows))
    print(f"monotone: {falls}; drawn in {arguments.picture}")


if __name__ == "__main__":
    main()
