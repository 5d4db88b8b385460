"""The stage of faults: programs must end with a clear error on an unsuitable machine, or when a run fails."""
import re
import signal
import subprocess
import time


def ends(checks, status, words, program, *flags, **environment):
    """Returns (good, figures). A program is good if it ends in less than 60 s with this status, and its stderr matches all `words`."""
    started = time.monotonic()
    done = checks.start(program, *flags, timeout=90, **environment)
    took = time.monotonic() - started
    good = done.returncode == status and all(re.search(word, done.stderr) for word in words) and took < 60
    return good, {"status": done.returncode, "seconds": took, "said": " ".join(done.stderr.split())[-260:]}


def faults(checks):
    """Programs end with a clear error if a library is missing, memory is too small, a rank fails or a loss is NaN; SIGTERM ends a run with status 0."""
    programs = checks.said["programs"]
    plain = "mlp-fp32"
    data = {name: ("--data", about["data"], "--quiet") for name, about in programs.items()}

    def add(name, program, *expected, **environment):
        if checks.has(program):
            checks.attempt(name, lambda: ends(checks, *expected, **environment))

    add("no driver", plain, 3, ["/nowhere/libcuda.so", "--target cpu"], plain, *data.get(plain, ()), PSRT_CUDA_DRIVER="/nowhere/libcuda.so")
    add("another architecture", "later", 3, ["sm_100" if not checks.rehearsal else "fake"], "later", *data.get(plain, ()))
    little = {"PSRT_FAKE_MEMORY": "100000"} if checks.rehearsal else {}
    add("too little memory", "large", 3, ["GPU 0", "needs? ", "free"], "large", *data.get(plain, ()), **little)
    add("no cuBLASLt", plain, 3, ["nowhere"], plain, *data.get(plain, ()), PSRT_CUBLASLT="/nowhere/libcublasLt.so")
    add("a rank fails", "failing", 3, ["rank 1"], "failing", *data.get(plain, ()), "--steps", "5", "--comm", "local", PSRT_TEST_FAIL="rank=1,step=2")
    add("a loss is NaN", "gpt-fp32", 1, ["step"], "gpt-fp32", *data.get("gpt-fp32", ()), "--set", "lr=1e30")
    if checks.has("gpt2-dp2"):
        checks.attempt("SIGTERM", lambda: stop(checks, "gpt2-dp2", data["gpt2-dp2"]))


def stop(checks, program, flags):
    """Stops a long run by SIGTERM. Returns (good, figures): the run must end with status 0 and have written its losses."""
    losses = checks.folder / "stopped.txt"
    process = subprocess.Popen([checks.folder / program, *flags, "--steps", "100000000", "--losses", losses], cwd=checks.folder,
                               env=checks.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # fmt: skip
    try:
        until = time.monotonic() + min(60, checks.left())
        while process.poll() is None and time.monotonic() < until and not (losses.exists() and losses.stat().st_size):
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[1].decode()
    finally:
        process.kill()
    return process.returncode == 0 and losses.stat().st_size > 0, {"status": process.returncode, "said": said.strip()[-200:]}
