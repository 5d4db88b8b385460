"""Modules of scripts/gpu-checks. `prepare` and `ops` run on the machine that compiles; all others run on the GPU machine with Python alone."""
