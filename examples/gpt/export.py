"""Exports the GPT to gpt.pt2. The repository contains gpt.pt2, so the example runs without PyTorch.

    python examples/gpt/export.py [OUT.pt2]
"""
import pathlib
import sys

import torch
from model import GPT


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "gpt.pt2"
    torch.manual_seed(0)
    model = GPT().train()
    # Two tensors, because torch.export would export one tensor that is passed twice as a single input.
    tokens, labels = torch.zeros(8, 128, dtype=torch.int64), torch.zeros(8, 128, dtype=torch.int64)
    batch = torch.export.Dim("batch", min=1, max=4096)
    program = torch.export.export(
        model, (tokens, labels), dynamic_shapes={"input_ids": {0: batch}, "labels": {0: batch}}
    )
    # Make file names in source locations relative: absolute paths are of no use on other machines.
    folders = [pathlib.Path(__file__).resolve().parents[2], pathlib.Path(torch.__file__).parents[1]]
    for node in program.graph.nodes:
        for folder in folders:
            trace = node.meta.get("stack_trace")
            if trace:
                node.meta["stack_trace"] = trace.replace(f"{folder}/", "")
    torch.export.save(program, out)
    print(f"{out}: {sum(p.numel() for p in model.parameters()):,} parameters")


if __name__ == "__main__":
    main()
