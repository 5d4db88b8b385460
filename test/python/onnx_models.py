"""Helpers of the ONNX tests: build small graphs, and check refusals."""
import onnx
import torch
from conftest import tools_folder
from onnx import TensorProto, helper
from oracle import run

TYPES = {torch.float32: TensorProto.FLOAT, torch.float64: TensorProto.DOUBLE, torch.int64: TensorProto.INT64,
         torch.int32: TensorProto.INT32, torch.bool: TensorProto.BOOL, torch.float16: TensorProto.FLOAT16,
         torch.bfloat16: TensorProto.BFLOAT16}  # fmt: skip


def constant(name, tensor):
    """Returns an initializer."""
    array = tensor.detach().contiguous()
    raw = array.view(torch.int16) if array.dtype == torch.bfloat16 else array
    return helper.make_tensor(name, TYPES[tensor.dtype], list(tensor.shape), raw.numpy().tobytes(), raw=True)


def value(name, dtype, shape):
    return helper.make_tensor_value_info(name, TYPES[dtype], shape)


def graph(nodes, inputs, outputs, initializers=(), opset=20, functions=(), path=None, domains=()):
    """Returns a model of `nodes`. Maps input names to (dtype, shape), and initializer names to tensors; `outputs` lists names."""
    made = helper.make_graph(
        nodes, "test", [value(name, *what) for name, what in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [constant(name, tensor) for name, tensor in dict(initializers).items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", opset)] + [helper.make_opsetid(domain, 1) for domain in domains]
    model = helper.make_model(made, opset_imports=opsets, functions=list(functions))
    model.ir_version = 10
    if path is not None:
        onnx.save(model, str(path))
    return model


def refuse(folder, path, *words):
    """Imports the model, which must fail with a message that contains `words`. Returns the message."""
    said = run([tools_folder() / "ps-translate", "--import-onnx", path, "--check"], folder, expect=1)
    for word in words:
        assert word in said, f"'{word}' not in:\n{said}"
    return said
