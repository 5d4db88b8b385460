"""Exports the GPT as gpt.pt2, which stands beside it, so that nobody needs PyTorch to try it.

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
    # Two tensors: one given twice would be exported as one input.
    tokens, labels = torch.zeros(8, 128, dtype=torch.int64), torch.zeros(8, 128, dtype=torch.int64)
    batch = torch.export.Dim("batch", min=1, max=4096)
    program = torch.export.export(
        model, (tokens, labels), dynamic_shapes={"input_ids": {0: batch}, "labels": {0: batch}}
    )
    # The file names in the source locations are made relative, so that they mean something elsewhere.
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
