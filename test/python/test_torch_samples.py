"""Ops equal PyTorch on PyTorch's own samples: others each day (torch_samples.py has them all)."""
import datetime
import os
import random

import pytest

OPS = int(os.environ.get("PARASHARD_TORCH_SAMPLES_OPS", 16))


def test_ops_of_the_day(tmp_path):
    torch_samples = pytest.importorskip("torch_samples", reason="needs expecttest (pip), as PyTorch's tests do")
    seed = int(os.environ.get("PARASHARD_RANDOM_SEED", datetime.date.today().toordinal()))
    print(f"PARASHARD_RANDOM_SEED={seed}")
    ops = random.Random(seed).sample(torch_samples.op_db, OPS)
    compared, wrong, _ = torch_samples.check(ops, 3, tmp_path)
    assert not wrong, "\n".join(wrong)
    assert compared, "none of these ops is imported: the test has lost its meaning"
