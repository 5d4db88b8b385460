#!/usr/bin/env python3
"""Compares predicted step times with published training runs.

    bench/plan_quality.py [--runs bench/published_runs.csv] [--only 1,2,20-27] [--models FOLDER] [--breakdown]
    bench/plan_quality.py --distance [--only 1,2,20-27] [--models FOLDER]

Exports the model of each run without weights, and predicts the step time of the run's plan on the preset of its GPUs with `ps-plan --predict`. Prints:
- The published and the predicted seconds of each run. Runs that flags of ps-compile cannot express are listed with the reason.
- The median of the absolute errors, and how many pairs of runs of one system and model have the same order in both columns.
- The errors that remain if the predictions for each system are scaled to match one run of this system.
- The step time of interleaved 1F1B relative to ZB-1p.

--models keeps the exported models in a folder. --runs reads other runs from a CSV file with the same columns, such as runs that were not used for
calibration.

With --distance: searches for a plan with the model, ranks and samples of each run. Prints how much slower the published plan is predicted to be.
"""

import argparse
import csv
import itertools
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import train_step

ROOT = pathlib.Path(__file__).resolve().parents[1]
PRESETS = {"A100-80GB": "a100-80g", "H100": "h100-sxm"}
# Vocabulary of runs that do not state it: GPT-2's, padded as Megatron pads it.
VOCABULARY = 50304
# WITH_SCORES lists systems without flash attention, whose scripts keep Megatron's dropout of 0.1. WITH_SCORES_POLICY has the
# shardings of their models.
WITH_SCORES_POLICY = ROOT / "bench/gpt_with_scores.json"
WITH_SCORES = ("Megatron-LM", "Megatron-LM (Korthikanti)", "Zero Bubble PP (Megatron fork)")


class Inexpressible(Exception):
    """The reason why flags of ps-compile cannot express a run."""


class Run:
    """A published training run: a row of the file of --runs."""

    def __init__(self, row):
        self.row = row
        self.seconds = float(row["iter_time_s"])

    def number(self, column, default=1):
        return int(self.row[column]) if self.row.get(column) else default

    @property
    def model(self):
        """Returns a configuration of `transformers`."""
        layers, hidden, heads, vocabulary = (self.number(c, VOCABULARY) for c in ("layers", "hidden", "heads", "vocab"))
        dropout = 0.1 if self.row["system"] in WITH_SCORES else 0.0
        if self.row["model"].startswith("Llama"):
            return {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": hidden, "intermediate_size": self.number("ffn"),
                    "num_attention_heads": heads, "num_key_value_heads": self.number("kv_heads"), "num_hidden_layers": layers, "vocab_size": vocabulary,
                    "max_position_embeddings": self.number("seq"), "rope_theta": 500000.0, "use_cache": False, "tie_word_embeddings": False}  # fmt: skip
        return {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": hidden, "n_head": heads, "n_layer": layers,
                "n_positions": self.number("seq"), "vocab_size": vocabulary, "n_inner": self.number("ffn"), "use_cache": False,
                "embd_pdrop": dropout, "attn_pdrop": dropout, "resid_pdrop": dropout}  # fmt: skip

    @property
    def schedule(self):
        notes = self.row["schedule_notes"]
        if "ZB-2p" in notes:
            raise Inexpressible("ps-compile has no schedule that searches the order of tasks with twice the memory of 1F1B")
        if "ZB-1p" in notes:
            return "zb-h1", 1
        if "1F1B-interleaved" in notes:  # "(1 layer per chunk)": the embedding and the head count as layers
            return "interleaved", (self.number("layers") + 2) // self.number("PP")
        chunks = self.number("VPP")
        return ("interleaved" if chunks > 1 else "1f1b"), chunks

    def find_cuts(self, chunks):
        """Returns the modules that begin stages. All stages have the same number of layers, or the first and the last stage have one layer less."""
        layers, stages = self.number("layers"), self.number("PP") * chunks
        fewer = int("one layer fewer" in self.row["schedule_notes"])
        per_stage, rest = divmod(layers + 2 * fewer, stages)
        if rest:
            raise Inexpressible(f"{layers} layers do not divide by {stages} stages, and the run does not state the layers of each stage")
        starts = [stage * per_stage - fewer for stage in range(1, stages)]
        return ["transformer.ln_f" if start == layers else f"transformer.h.{start}" for start in starts]

    @property
    def flags(self):
        """Returns the flags of ps-compile that express the run."""
        row = self.row
        preset = next((name for gpu, name in PRESETS.items() if row["gpu"].startswith(gpu)), None)
        if not preset:
            raise Inexpressible(f"no preset for {row['gpu']}")
        if self.number("CP") > 1 or self.number("EP") > 1:
            raise Inexpressible("ps-compile has no context or expert parallelism")
        tp, pp, dp = self.number("TP"), self.number("PP"), self.number("DP", 0)
        dp = dp or self.number("n_gpus") // (tp * pp)
        batch = self.batch
        flags = ["--cluster", f"{preset}:{tp * pp * dp}", "--mesh", f"pp={pp},dp={dp},tp={tp}", "--batch", str(batch),
                 "--micro-batches", str(self.number("global_batch") // batch)]  # fmt: skip
        precision = row["precision"]
        flags += ["--precision", "fp8" if precision.startswith("float8") else "bf16" if precision == "bf16" else "fp16"]
        recompute = row["recompute"]
        flags += ["--recompute", next((mode for mode in ("full", "selective") if recompute.startswith(mode)), "none")]
        # The named policies split attention over heads only if attention is fused.
        flags += ["--sharding-policy", str(WITH_SCORES_POLICY) if self.keeps_scores else "megatron+sp" if self.splits_sequences else "megatron"]
        kind = row["dp_kind"]
        flags += ["--zero", "3" if "FSDP" in kind else "1" if "ZeRO-1" in kind else "0"]
        if pp > 1:
            schedule, chunks = self.schedule
            flags += ["--schedule", schedule, "--num-chunks", str(chunks), "--split-method", ",".join(self.find_cuts(chunks))]
        return flags

    @property
    def splits_sequences(self):
        recompute = self.row["recompute"]
        return "sequence parallel" in recompute and "no sequence parallel" not in recompute

    @property
    def keeps_scores(self):
        """Returns whether attention keeps its scores. ps-compile can split sequences only if attention is fused."""
        return self.row["system"] in WITH_SCORES and not self.splits_sequences

    @property
    def batch(self):
        """Returns the samples of a micro-batch over all data-parallel ranks."""
        dp = self.number("DP", 0) or self.number("n_gpus") // (self.number("TP") * self.number("PP"))
        return self.number("micro_batch") * dp

    @property
    def job(self):
        """Returns the fields that are equal for two runs if only their plans differ."""
        return tuple(self.row[c] for c in ("system", "model", "n_gpus", "global_batch", "precision"))

    @property
    def plan(self):
        row = self.row
        parts = [f"{name}{self.number(column)}" for name, column in (("tp", "TP"), ("pp", "PP"), ("dp", "DP")) if self.number(column) > 1]
        recompute = row["recompute"].split(" (")[0].replace("sequence parallel", "SP").replace("none stated", "none")
        return ", ".join(filter(None, ["x".join(parts), recompute, row["schedule_notes"].split(";")[0].split(" (")[0]]))


def replace_attention(model):
    """Replaces the attention of a GPT-2 by one that keeps its scores, as Megatron computed it before flash attention."""
    import torch

    class Attention(torch.nn.Module):
        def __init__(self, width, heads, dropout):
            super().__init__()
            self.q, self.k, self.v, self.proj = (torch.nn.Linear(width, width) for _ in range(4))
            self.heads, self.dropout = heads, torch.nn.Dropout(dropout)

        def forward(self, hidden_states, **options):
            batch, length, width = hidden_states.shape
            q, k, v = (layer(hidden_states).view(batch, length, self.heads, -1).transpose(1, 2) for layer in (self.q, self.k, self.v))
            scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
            later = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
            # The dim of size 1 keeps ps-compile from replacing the ops by fused attention.
            weights = scores.unsqueeze(2).masked_fill(later, -10000.0).softmax(-1)
            mixed = self.dropout(weights).squeeze(2) @ v
            return self.dropout(self.proj(mixed.transpose(1, 2).reshape(batch, length, width))), None

    for block in model.transformer.h:
        block.attn = Attention(model.config.n_embd, model.config.n_head, model.config.attn_pdrop)


def export(run, folder):
    """Returns the exported model of a run, without weights."""
    config, length, batch = run.model, run.number("seq"), min(2, run.batch)
    name = "-".join(str(value) for key, value in sorted(config.items()) if isinstance(value, int) and value > 1)
    home = folder / f"{config['model_type']}-{name}-{length}{'-scores' if run.keeps_scores else ''}{'-fixed' if batch == 1 else ''}"
    if not (home / "model.pt2").exists():
        home.mkdir(parents=True, exist_ok=True)
        (home / "config.json").write_text(json.dumps(config))
        # Exports in a separate process, since PyTorch keeps much memory after the export of a large model.
        command = [sys.executable, __file__, "--export", home, str(length), str(batch), "scores" if run.keeps_scores else "fused"]
        subprocess.run(command, check=True, capture_output=True)
    return home / "model.pt2"


def export_folder(home, length, batch, attention):
    sys.path.insert(0, str(ROOT / "python-bindings"))
    from parashard import export

    model = export.from_hugging_face(home, meta=True)
    if attention == "scores":
        with export.without_data():
            replace_attention(model)
    inputs = export.example_inputs(model, "causal-lm", int(batch), int(length))
    # A batch of 1 cannot be dynamic.
    export.export(model, inputs, pathlib.Path(home) / "model.pt2", dynamic_batch=int(batch) > 1)


def predict(run, folder):
    """Returns the predicted price of a run's plan."""
    flags = run.flags
    command = [train_step.BIN / "ps-plan", export(run, folder), "--predict", "--init", "normal(0.02)", *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Inexpressible(re.sub(r"\s+", " ", done.stderr.strip())[:300])
    return json.loads(done.stdout)


def count_ordered(prices):
    """Counts pairs of runs that differ only in their plans. Returns (pairs predicted in the published order, all pairs).

    Skips pairs whose published times differ by at most 1 %.
    """
    ordered = pairs = 0
    for (a, first), (b, second) in itertools.combinations(prices, 2):
        if a.job == b.job and a.flags != b.flags and abs(a.seconds / b.seconds - 1) > 0.01:
            pairs += 1
            ordered += (a.seconds < b.seconds) == (first["step_s"] < second["step_s"])
    return ordered, pairs


def print_gains(prices):
    """Prints the step time of interleaved 1F1B relative to ZB-1p, for each model and number of micro-batches with runs of both."""
    found = {(run.job, run.schedule[0]): (run, price) for run, price in prices if run.number("PP") > 1}
    for job in dict.fromkeys(job for job, _ in found):
        if (job, "interleaved") in found and (job, "zb-h1") in found:
            (a, first), (b, second) = found[job, "interleaved"], found[job, "zb-h1"]
            micro_batches = a.number("global_batch") // a.batch
            print(f"interleaved / ZB-1p, {a.row['model']}, {micro_batches} micro-batches: published {a.seconds / b.seconds:.3f}, "
                  f"predicted {first['step_s'] / second['step_s']:.3f}")  # fmt: skip


def search(run, folder):
    """Searches for the best plan with the model, ranks, samples and precision of a run. Returns (predicted seconds, description of the plan)."""
    flags = dict(zip(run.flags[::2], run.flags[1::2]))
    kept = ["--cluster", flags["--cluster"], "--precision", flags["--precision"], "--global-batch", str(run.number("global_batch"))]
    if run.keeps_scores:
        kept += ["--sharding-policy", flags["--sharding-policy"]]
    command = [train_step.BIN / "ps-plan", export(run, folder), "--init", "normal(0.02)", "--time-limit", "120", *kept, "-o", folder / "plan.json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Inexpressible(re.sub(r"\s+", " ", done.stderr.strip())[:300])
    plan = json.loads((folder / "plan.json").read_text())
    parts = [plan["mesh"], f"zero {plan['zero']}", plan["recompute"], f"{plan['micro-batches']} micro-batches"]
    if "schedule" in plan:
        parts.append(plan["schedule"] + (f" x{plan['num-chunks']}" if plan["num-chunks"] > 1 else ""))
    return plan["predicted"]["step_s"], ", ".join(parts)


def report_distances(runs, folder):
    """Prints the predicted step of each published plan, relative to the plan that ps-plan chooses."""
    print(f"{'run':>4}  {'system, model, GPUs':<44} {'published plan':<44} {'distance':>9}  chosen plan")
    for run in runs:
        try:
            published, (best, plan) = predict(run, folder)["step_s"], search(run, folder)
        except Inexpressible as reason:
            print(f"{run.row['id']:>4}  not compared: {reason}")
            continue
        row = run.row
        what = f"{row['system'].split(' (')[0]}, {row['model']}, {row['n_gpus']}"
        print(f"{row['id']:>4}  {what:<44} {run.plan:<44} {100 * (published / best - 1):+8.1f}%  {plan}", flush=True)


def select(text):
    """Returns the set of numbers in a list such as 1,2,20-27."""
    numbers = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        numbers |= set(range(int(first), int(last or first) + 1))
    return numbers


def report(runs, folder, with_breakdown):
    prices, refused = [], []
    print(f"{'run':>4}  {'system, model, GPUs':<44} {'plan':<44} {'published':>9} {'predicted':>9} {'ratio':>6}")
    for run in runs:
        try:
            price = predict(run, folder)
        except Inexpressible as reason:
            refused.append((run, reason))
            continue
        prices.append((run, price))
        row = run.row
        what = f"{row['system'].split(' (')[0]}, {row['model']}, {row['n_gpus']}"
        print(f"{row['id']:>4}  {what:<44} {run.plan:<44} {run.seconds:8.3f}s {price['step_s']:8.3f}s {price['step_s'] / run.seconds:6.2f}")
        if with_breakdown:
            parts = sorted(price["breakdown"].items(), key=lambda part: -part[1])
            print("      " + ", ".join(f"{name} {100 * seconds / price['step_s']:.1f}" for name, seconds in parts if seconds > 0.005 * price["step_s"]))
        sys.stdout.flush()
    for run, reason in refused:
        print(f"{run.row['id']:>4}  not expressed: {reason}")
    if not prices:
        return
    for system in dict.fromkeys(run.row["system"] for run, _ in prices):
        of_system = [(run, price) for run, price in prices if run.row["system"] == system]
        print_errors(system, of_system)
    print_errors("all", prices)
    print_probed(prices)
    print_gains(prices)


def print_errors(name, prices):
    ratios = [price["step_s"] / run.seconds for run, price in prices]
    errors, middle = sorted(abs(ratio - 1) for ratio in ratios), statistics.median(ratios)
    spread = statistics.median(abs(ratio / middle - 1) for ratio in ratios)
    ordered, pairs = count_ordered(prices)
    print(f"{name}: {len(prices)} runs, median error {100 * statistics.median(errors):.1f} %, worst {100 * errors[-1]:.1f} %; "
          f"median ratio {middle:.2f}, median deviation from it {100 * spread:.1f} %; {ordered} of {pairs} pairs ordered as published")  # fmt: skip


def print_probed(prices):
    """Prints the errors if the predictions for each system and GPU are divided by the ratio predicted / published of one of its runs."""
    groups = {}
    for run, price in prices:
        groups.setdefault((run.row["system"], run.row["gpu"]), []).append(price["step_s"] / run.seconds)
    groups = [ratios for ratios in groups.values() if len(ratios) > 1]

    def errors(ratios, probe):
        return [abs(ratio / ratios[probe] - 1) for i, ratio in enumerate(ratios) if i != probe]

    first = [error for ratios in groups for error in errors(ratios, 0)]
    every = [error for ratios in groups for probe in range(len(ratios)) for error in errors(ratios, probe)]
    print(f"after one run of each of {len(groups)} systems: median error {100 * statistics.median(first):.1f} % with the first run, "
          f"{100 * statistics.median(every):.1f} % over all choices of the run")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=pathlib.Path, default=ROOT / "bench/published_runs.csv")
    parser.add_argument("--only", type=select)
    parser.add_argument("--models", type=pathlib.Path)
    parser.add_argument("--breakdown", action="store_true")
    parser.add_argument("--distance", action="store_true")
    parser.add_argument("--export", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.export:
        export_folder(*arguments.export)
        return
    with open(arguments.runs, newline="") as file:
        runs = [Run(row) for row in csv.DictReader(file)]
    if arguments.only:
        runs = [run for run in runs if int(run.row["id"]) in arguments.only]
    with tempfile.TemporaryDirectory() as name:
        folder = arguments.models or pathlib.Path(name)
        if arguments.distance:
            report_distances(runs, folder)
        else:
            report(runs, folder, arguments.breakdown)


if __name__ == "__main__":
    main()
