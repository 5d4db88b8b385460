"""Reads f32 tensors of .safetensors files, with the standard library only."""
import array
import json
import struct


def read_tensors(path):
    """Returns {name: array of floats}."""
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    head = json.loads(data[8 : 8 + size])
    found = {}
    for name, about in head.items():
        if name != "__metadata__" and about["dtype"] == "F32":
            begin, end = about["data_offsets"]
            found[name] = array.array("f", data[8 + size + begin : 8 + size + end])
    return found
