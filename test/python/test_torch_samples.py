"""Ops equal PyTorch on the samples of PyTorch's own tests. The test draws 8 ops, other ones each day; the script torch_samples.py compares all ops."""
import datetime
import os
import random

import torch_samples

OPS = int(os.environ.get("PARASHARD_TORCH_SAMPLES_OPS", 8))


def test_ops_of_the_day(tmp_path):
    seed = int(os.environ.get("PARASHARD_RANDOM_SEED", datetime.date.today().toordinal()))
    print(f"PARASHARD_RANDOM_SEED={seed}")
    ops = random.Random(seed).sample(torch_samples.op_db, OPS)
    compared, wrong, _ = torch_samples.check(ops, 3, tmp_path)
    assert not wrong, "\n".join(wrong)
    assert compared, "none of these ops is imported, so nothing was compared"
