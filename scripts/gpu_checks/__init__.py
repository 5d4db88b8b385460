"""What scripts/gpu-checks is made of: `prepare` and `ops` run where programs are compiled, all else where the GPU is, with Python alone."""
