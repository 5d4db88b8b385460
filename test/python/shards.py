"""Reads the tensors of checkpoints."""
import json
import math

import torch

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32, "bool": torch.bool}


def join(step):
    """Returns the tensors of a checkpoint, read with its index only. Checks that each element is stored once."""
    index, state = json.loads((step / "index.json").read_text()), {}
    for name, tensor in index["tensors"].items():
        whole = torch.zeros(tensor["shape"], dtype=DTYPES[tensor["dtype"]])
        seen = torch.zeros(tensor["shape"], dtype=torch.int64)
        for shard in tensor["shards"]:
            places = [torch.cat([torch.arange(*part) for part in dim]) for dim in shard["ranges"]]
            sizes = [len(p) for p in places]
            file = (step / shard["file"]).read_bytes()
            values = torch.frombuffer(bytearray(file), dtype=whole.dtype, count=math.prod(sizes), offset=shard["offset"]).view(sizes)
            if sizes:
                whole[torch.meshgrid(*places, indexing="ij")], seen[torch.meshgrid(*places, indexing="ij")] = values, 1
            else:
                whole, seen = values, seen + 1
        assert (seen == 1).all() and sum(math.prod(len_of(s)) for s in tensor["shards"]) == whole.numel(), name
        state[name] = whole
    return state


def len_of(shard):
    return [sum(end - begin for begin, end in dim) for dim in shard["ranges"]]
