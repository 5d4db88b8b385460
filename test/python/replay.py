"""Runs CUDA programs without a GPU: kernels are compiled for this CPU, and the driver, cuBLASLt and cuDNN are fakes.

The fake driver runs streams as threads. It fails if two accesses to the same memory are not ordered by streams and events.
"""
import os

from conftest import tools_folder


def environment(**more):
    """Returns the environment variables for a program of --target cuda:replay."""
    folder = tools_folder().parent / "lib"
    return {"PSRT_CUDA_DRIVER": str(folder / "libpsrt_fake_cuda.so"), "PSRT_CUBLASLT": str(folder / "libpsrt_fake_cublaslt.so"),
            "PSRT_CUDNN": str(folder / "libpsrt_fake_cudnn.so"), **more}  # fmt: skip


def run(function, *arguments, **options):
    """Calls a function in this process, with the environment variables of `environment`."""
    before = dict(os.environ)
    os.environ.update(environment())
    try:
        return function(*arguments, **options)
    finally:
        os.environ.clear()
        os.environ.update(before)
