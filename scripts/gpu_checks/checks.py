"""Runs checks. After each check, prints one line and rewrites the results file."""
import json
import statistics
import subprocess
import time
import traceback

from . import machine
from .cases import STAGE_SECONDS, STEPS, benches, is_rehearsal

LEAST_SECONDS = 5  # a check starts only if at least so many seconds are left


class OutOfTime(Exception):
    """The time of the stage or of the whole run is over."""


class Checks:
    """The checks of one run. `folder` contains the unpacked archive; `end` is the time limit on the monotonic clock, or None."""

    def __init__(self, folder, environment, results=None, end=None):
        self.folder, self.environment, self.results, self.end = folder, environment, results, end
        self.said = json.loads((folder / "wanted.json").read_text())
        self.rehearsal = is_rehearsal(self.said["target"])
        self.benches = {name: bench for name, bench in benches(self.said["target"]).items() if self.has(name)}
        self.machine, self.found, self.stage, self.stage_end = machine.describe(), [], "", None
        self.peers = {}  # PyTorch programs that were started before their stages, by bench

    def has(self, name):
        """Returns whether the archive has this program (`prepare --only` selects programs)."""
        return (self.folder / name).exists()

    def begin(self, stage):
        self.stage, self.stage_end = stage, time.monotonic() + STAGE_SECONDS

    def left(self):
        """Returns the seconds until the end of the stage or of the run."""
        ends = [end for end in (self.end, self.stage_end) if end is not None]
        return min(ends) - time.monotonic() if ends else STAGE_SECONDS

    def record(self, name, good, **figures):
        self.found.append({"stage": self.stage, "check": name, "good": bool(good), **figures})
        text = "  ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
                         for key, value in figures.items() if not isinstance(value, (dict, list)))
        print(f"{'ok  ' if good else 'FAIL'} {self.stage:12} {name:24} {text}", flush=True)
        if self.results:
            part = self.results.with_suffix(".part")
            part.write_text(json.dumps({"machine": self.machine, "target": self.said["target"], "checks": self.found}, indent=1))
            part.replace(self.results)

    def attempt(self, name, check):
        """Runs a check, which returns (good, figures), and records the result. An exception becomes a failed check."""
        try:
            if self.left() < LEAST_SECONDS:
                raise OutOfTime
            good, figures = check()
        except (OutOfTime, subprocess.TimeoutExpired) as error:
            good, figures = False, {"said": str(error)[-300:] or "no time was left"}
        except subprocess.CalledProcessError as error:
            good, figures = False, {"status": error.returncode, "said": (error.stderr or "").strip()[-600:]}
        except Exception as error:  # continue with the next check, because runs on a GPU machine are rare
            place = traceback.extract_tb(error.__traceback__)[-1]
            good, figures = False, {"said": f"{type(error).__name__}: {error} ({place.filename.split('/')[-1]}:{place.lineno})"[:600]}
        self.record(name, good, **figures)

    # Runs.

    def start(self, program, *flags, timeout=STAGE_SECONDS, **environment):
        """Runs a program to its end, and returns its status and output."""
        return subprocess.run([self.folder / program, *map(str, flags)], cwd=self.folder, env={**self.environment, **environment}, capture_output=True,
                              text=True, timeout=max(1, min(timeout, self.left())))  # fmt: skip

    def call(self, program, *flags, **options):
        """Runs a program. Raises CalledProcessError unless the program ends with status 0."""
        done = self.start(program, *flags, **options)
        done.check_returncode()
        return done

    def train(self, program, data, steps, *flags, **environment):
        """Trains with a program. Returns the lines of its log that describe steps, and the text on stderr."""
        log = self.folder / "log.jsonl"
        log.unlink(missing_ok=True)
        done = self.call(program, "--data", data, "--steps", steps, "--log", log, "--quiet", *flags, **environment)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        return [line for line in lines if "step_ms" in line], done.stderr

    def losses(self, name, tolerance, *flags):
        """Compares the program's losses with those of the CPU program. Returns (good, figures)."""
        wanted = self.said["programs"][name]
        lines, _ = self.train(name, wanted["data"], STEPS, *flags)
        worst = worst_difference([line["loss"] for line in lines], wanted["losses"])
        return worst <= tolerance, {"worst_loss": worst, "tolerance": tolerance, "step_ms": statistics.median(line["step_ms"] for line in lines)}


def worst_difference(found, wanted):
    """Returns the largest relative difference of two lists of losses. Differences from a loss of 0 (all labels ignored) are divided by 1e-6."""
    if None in found or len(found) != len(wanted):
        return float("inf")
    return max(abs(a - b) / max(abs(b), 1e-6) for a, b in zip(found, wanted))
