"""Describes the GPU machine: libraries, versions, clocks, and memory in use."""
import contextlib
import importlib.metadata
import importlib.util
import os
import pathlib
import statistics
import subprocess
import sys
import threading

PACKAGES = ["torch", "triton", "transformers", "nvidia-cublas", "nvidia-cudnn-cu13", "nvidia-nccl-cu13", "nvidia-cuda-runtime"]
FACTS = ["name", "driver_version", "memory.total", "memory.used", "clocks.sm", "clocks.max.sm", "clocks.mem", "power.limit", "temperature.gpu",
         "mig.mode.current"]
DRIVER_FOLDERS = ["/usr/local/nvidia/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/wsl/lib"]


def find_libraries():
    """Returns the folders of NVIDIA's libraries in PyTorch's packages, and the first folder of DRIVER_FOLDERS that has libcuda."""
    folders = []
    if spec := importlib.util.find_spec("torch"):
        packages = pathlib.Path(spec.origin).parents[1] / "nvidia"
        folders = sorted(packages.glob("*/lib"))
    drivers = [folder for folder in map(pathlib.Path, DRIVER_FOLDERS) if (folder / "libcuda.so.1").exists()]
    return [str(folder) for folder in [*folders, *drivers[:1]]]


def environment_with(libraries):
    """Returns the environment for programs, with the libraries' folders in LD_LIBRARY_PATH."""
    before = os.environ.get("LD_LIBRARY_PATH")
    return {**os.environ, "LD_LIBRARY_PATH": ":".join([*libraries, *([before] if before else [])])}


def ask_gpu(facts=FACTS):
    """Returns the values that nvidia-smi prints for `facts` of the first GPU, by name, or {} without a GPU."""
    try:
        line = ["nvidia-smi", f"--query-gpu={','.join(facts)}", "--format=csv,noheader,nounits", "-i", "0"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    values = [value.strip() for value in done.stdout.strip().split(",")]
    return dict(zip(facts, values)) if done.returncode == 0 and len(values) == len(facts) else {}


def count_gpus():
    try:
        return len(subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30).stdout.splitlines())
    except (OSError, subprocess.TimeoutExpired):
        return 0


def describe():
    """Returns the description of the machine for the results file."""
    versions = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return {"gpu": ask_gpu(), "gpus": count_gpus(), "packages": versions, "libraries": find_libraries(), "cores": os.cpu_count(),
            "python": sys.version.split()[0]}


class Watch:
    """Records the GPU's memory in use and its clock several times per second, within a `with` statement."""

    def __enter__(self):
        self.seen, self.over = [], threading.Event()
        self.before = self.ask()
        self.reader = threading.Thread(target=self.read, daemon=True)
        if self.before:
            self.reader.start()
        return self

    @staticmethod
    def ask():
        """Returns (MiB in use, MHz), or None without nvidia-smi."""
        found = ask_gpu(["memory.used", "clocks.sm"])
        try:
            return float(found["memory.used"]), float(found["clocks.sm"])
        except (KeyError, ValueError):
            return None

    def read(self):
        while not self.over.wait(0.1):
            if now := self.ask():
                self.seen.append(now)

    def __exit__(self, *_):
        self.over.set()
        if self.before:
            self.reader.join(timeout=30)

    def used(self):
        """Returns the largest increase of the bytes in use, or None without a record."""
        return int((max(used for used, _ in self.seen) - self.before[0]) * 2**20) if self.seen else None

    def clock(self):
        """Returns the median of the higher half of the recorded clocks in MHz, or None without a record."""
        clocks = sorted(clock for _, clock in self.seen)
        return statistics.median(clocks[len(clocks) // 2 :]) if clocks else None
