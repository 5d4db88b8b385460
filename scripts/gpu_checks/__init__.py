"""Modules of scripts/gpu-checks. `prepare` and `ops` run on the machine that compiles. All others run on the GPU machine, and need only the standard library
(`peer` also needs PyTorch)."""
