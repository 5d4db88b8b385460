"""The export in examples/gpt is up to date with the model next to it."""
import importlib.util

import torch
from conftest import ROOT

FOLDER = ROOT / "examples/gpt"


def test_shipped_export_is_the_model():
    spec = importlib.util.spec_from_file_location("gpt_model", FOLDER / "model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    program = torch.export.load(FOLDER / "gpt.pt2")
    model = module.GPT()
    model.load_state_dict(program.state_dict, strict=True)
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 256, (4, 129), generator=generator)
    inputs = tokens[:, :-1], tokens[:, 1:]
    expected = model(*inputs)
    actual = program.module()(*inputs)
    for ours, theirs in zip(actual, expected):
        torch.testing.assert_close(ours, theirs)
