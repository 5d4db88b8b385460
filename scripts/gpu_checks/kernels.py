"""Stages of scripts/gpu-checks that measure parts of a training step: the bandwidth of kernels, the cost of launches, and memory."""
import collections
import json
import re
import statistics

from .machine import Watch
from .speed import TOKENS, draw_tokens, find_rates, time_steps

BANDWIDTH_PART = 0.85  # minimum bandwidth of a kernel, as a fraction of a copy's
IDLE_PART = 0.01  # maximum fraction of a step in which the GPU is idle
MEMORY_PART = 0.02  # maximum difference between used and planned memory, as a fraction of the plan
LEAST_BYTES = 32 << 20  # smallest launch whose bandwidth is checked: larger than the caches, and long compared with the overhead of timing
STEPS = 8


def read_trace(path, skipped=3):
    """Returns the events of each step, {step: [event]}, without the first `skipped` steps."""
    steps = collections.defaultdict(list)
    for event in json.loads(path.read_text())["traceEvents"]:
        if event["ph"] == "X" and event["args"]["step"] >= skipped:
            steps[event["args"]["step"]].append(event)
    return steps


def median_durations(steps):
    """Returns [(event, microseconds)] of the launches of a step; each time is the median over the steps."""
    runs = list(steps.values())
    return [(events[0], statistics.median(event["dur"] for event in events)) for events in zip(*runs)]


def by_name(launches):
    """Groups equal launches. Returns [((name, kind, bytes or flops), count, total microseconds)], longest first."""
    groups = collections.defaultdict(list)
    for event, microseconds in launches:
        amount = event["args"].get("bytes", event["args"].get("flops", 0))
        groups[event["name"], event["cat"], amount].append(microseconds)
    return sorted(((key, len(times), sum(times)) for key, times in groups.items()), key=lambda item: -item[2])


def kernels(checks):
    """Bandwidth of the generated kernels in a step of GPT-2 124M, compared with a copy; cost of launches."""
    name = "gpt2-124m"
    if name not in checks.benches:
        return
    found = {}

    def step():
        data, trace = draw_tokens(checks, checks.benches[name]), checks.folder / "trace.json"
        rates = find_rates(checks)
        with Watch() as watch:
            recorded, _, _ = time_steps(checks, name, data)
        launched, _, _ = time_steps(checks, name, data, PSRT_CUDA_GRAPHS="0")
        checks.train(name, data, STEPS, *TOKENS, "--trace", trace)
        launches = median_durations(read_trace(trace))
        busy = sum(microseconds for _, microseconds in launches) / 1e6
        idle = max(0.0, 1 - busy / recorded)
        found.update(launches=launches, copy=rates["copy_bytes"])
        longest = [{"name": key[0], "kind": key[1], "amount": key[2], "launches": count, "us": us} for key, count, us in by_name(launches)[:60]]
        kinds = collections.Counter()
        for event, microseconds in launches:
            kinds[event["cat"]] += microseconds / 1e3
        return idle <= IDLE_PART or checks.rehearsal, {
            "idle_part": idle, "graph_ms": 1e3 * recorded, "launched_ms": 1e3 * launched, "busy_ms": 1e3 * busy, "launches": len(launches),
            "us_a_launch_saved": 1e6 * (launched - recorded) / len(launches), "clock": watch.clock(), "kinds_ms": dict(kinds), "longest": longest}  # fmt: skip

    checks.attempt("launch overhead", step)
    for (kernel, kind, size), count, microseconds in by_name(found.get("launches", [])):
        if kind == "kernel" and (size >= LEAST_BYTES or checks.rehearsal):
            rate = size * count / (microseconds * 1e-6) if microseconds else 0.0
            checks.record(kernel[:60], rate >= BANDWIDTH_PART * found["copy"] or checks.rehearsal, of_copy=rate / found["copy"], gb_s=rate / 1e9, mb=size / 1e6,
                          launches=count, us=microseconds / count)  # fmt: skip


# ---- memory --------------------------------------------------------------------------------------------------------


def read_besides(checks, name):
    """Returns the bytes that a rank needs in addition to its planned memory, as printed by --info."""
    said = checks.call(name, "--info").stdout
    number, unit = re.search(r"in addition to its planned memory, a rank needs ([\d.]+) (B|[KMGT]B)", said).groups()
    return float(number) * 1e3 ** ["B", "KB", "MB", "GB", "TB"].index(unit)


def use(checks, name, data, *flags):
    """Returns the bytes of a run: (planned, needed in addition, in use according to the driver).

    A run before the measured one chooses the matmul algorithms, which needs further memory.
    """
    checks.train(name, data, 1, *flags)
    with Watch() as watch:
        lines, _ = checks.train(name, data, 6, *flags)
    return lines[-1]["memory"], read_besides(checks, name), watch.used()


def memory(checks):
    """Memory in use according to the driver, compared with the planned memory. A small model shows how much memory the driver and the libraries use."""
    small = "gpt-bf16"
    apart = {}

    def own():
        planned, besides, used = use(checks, small, checks.said["programs"][small]["data"])
        apart["bytes"] = None if used is None else used - planned - besides
        return used is not None or checks.rehearsal, {"planned": planned, "besides": besides, "used": used, "apart": apart["bytes"]}

    if checks.has(small):
        checks.attempt("driver and libraries", own)
    for name, bench in checks.benches.items():
        def check():
            planned, besides, used = use(checks, name, draw_tokens(checks, bench, 6), *TOKENS)
            if used is None or apart.get("bytes") is None:
                return checks.rehearsal, {"planned": planned, "besides": besides}
            more = (used - apart["bytes"] - besides) / planned - 1
            return abs(more) <= MEMORY_PART or checks.rehearsal, {"planned": planned, "besides": besides, "used": used, "apart": apart["bytes"],
                                                                  "more_than_planned": more}
        checks.attempt(name, check)
