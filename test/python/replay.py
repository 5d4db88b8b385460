"""Programs for CUDA without a GPU: kernels as code of this machine, and a fake driver, cuBLASLt and cuDNN.

The fake driver runs streams as threads, and fails where two accesses to the same memory are not ordered by streams and events.
"""
import os

from conftest import tools_folder


def environment(**more):
    """What a program of --target cuda:replay is started with."""
    folder = tools_folder().parent / "lib"
    return {"PSRT_CUDA_DRIVER": str(folder / "libpsrt_fake_cuda.so"), "PSRT_CUBLASLT": str(folder / "libpsrt_fake_cublaslt.so"),
            "PSRT_CUDNN": str(folder / "libpsrt_fake_cudnn.so"), **more}  # fmt: skip


def run(function, *arguments, **options):
    """Calls it with that environment in this process."""
    before = dict(os.environ)
    os.environ.update(environment())
    try:
        return function(*arguments, **options)
    finally:
        os.environ.clear()
        os.environ.update(before)
