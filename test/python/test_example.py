"""The export in examples/gpt is up to date with the model next to it, and docs/first-example.md with both."""
import importlib.util

import torch
from conftest import ROOT, run_tool

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


def test_the_page_shows_the_plan(tmp_path):
    """Each line of the first table in docs/first-example.md is a line of `ps-compile --explain`, apart from spaces."""
    page = (ROOT / "docs/first-example.md").read_text()
    shown = page.split("```\nparameters\n", 1)[1].split("```", 1)[0]
    explained = run_tool("ps-compile", FOLDER / "gpt.pt2", "-o", tmp_path / "gpt", "--batch", "8", "--mesh", "dp=2,tp=2",
                         "--optimizer", "adamw(lr=2e-3,weight_decay=0.1)", "--explain", "--no-codegen").stdout  # fmt: skip
    lines = {" ".join(line.split()) for line in explained.splitlines()}
    missing = [line for line in shown.splitlines() if " ".join(line.split()) not in lines]
    assert not missing
