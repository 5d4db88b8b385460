"""Writes the seeds of the importers' fuzz targets: small models with every op that the tests cover.

    python fuzz/make_corpus.py        (needs torch and onnx; uses the ops of the tests in test/python)
"""
import io
import json
import os
import pathlib
import random
import sys
import zipfile

os.chdir(pathlib.Path(__file__).parent)
sys.path.insert(0, "../test/python")
import onnx_models
import test_import_ops
import test_onnx_ops
import torch
from onnx import TensorProto, helper
from torch.export import Dim

CORPUS = pathlib.Path("corpus")
OPS_PER_MODEL = {"pt2": 5, "onnx": 14}


def put(target, name, content):
    (CORPUS / target).mkdir(parents=True, exist_ok=True)
    (CORPUS / target / name).write_bytes(content)


# ---- .pt2 as text: see Sections.h --------------------------------------------------------------------------------------


def strip(value):
    """Returns the JSON value without metadata that the importer uses only in messages."""
    if isinstance(value, dict):
        drop = {"stack_trace", "from_node", "torch_fn", "source_fn_stack", "guards_code", "is_hop_single_tensor_return",
                "nn_module_stack", "device", "layout", "kind", "module_call_graph", "torch_version", "opset_version"}  # fmt: skip
        return {k: strip(v) for k, v in value.items() if k not in drop and v is not None}
    return [strip(v) for v in value] if isinstance(value, list) else value


def put_pt2(name, module, inputs, **options):
    archive = io.BytesIO()
    torch.export.save(torch.export.export(module, (), inputs, **options), archive)
    model, rest = b"", b""
    with zipfile.ZipFile(archive) as files:
        for file in files.namelist():
            short, content = file.split("/", 1)[1], files.read(file)
            if short.endswith(".json"):
                content = json.dumps(strip(json.loads(content)), separators=(",", ":")).encode()
            part = f"\n=== {short}\n".encode() + content
            if short.startswith("models/"):
                model = part
            elif short.startswith(("data/weights", "data/constants")):
                rest += part
    put("pt2", name, (model + rest).lstrip(b"\n"))


class Cases(torch.nn.Module):
    def __init__(self, names):
        super().__init__()
        self.functions = [test_import_ops.CASES[name][0] for name in names]
        self.operands = torch.nn.ParameterList()
        self.starts = []
        for name in names:
            self.starts.append(len(self.operands))
            self.operands.extend(torch.nn.Parameter(x.float()) for x in test_import_ops.CASES[name][1])

    def forward(self):
        ends = [*self.starts[1:], len(self.operands)]
        return [f(*list(self.operands)[a:b]) for f, a, b in zip(self.functions, self.starts, ends)]


class Block(torch.nn.Module):
    """A model with attention, norms, an embedding, dropout, a mutated buffer, tied weights and a loss."""

    def __init__(self):
        super().__init__()
        self.table, self.norm = torch.nn.Embedding(8, 4), torch.nn.LayerNorm(4)
        self.qkv, self.out = torch.nn.Linear(4, 12), torch.nn.Linear(4, 8, bias=False)
        self.out.weight = self.table.weight
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("mask", torch.ones(3, 3).tril().bool(), persistent=False)

    def forward(self, tokens, labels):
        self.count.add_(1)
        x = self.norm(self.table(tokens))
        q, k, v = self.qkv(x).view(*tokens.shape, 1, 12).transpose(1, 2).chunk(3, -1)
        x = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=self.mask, dropout_p=0.1)
        logits = self.out(torch.nn.functional.dropout(x.transpose(1, 2).flatten(2), 0.1))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return {"loss": loss, "logits": logits}


class Views(torch.nn.Module):
    """A model that writes through views, also under no_grad."""

    def forward(self, x):
        y = x.clone()
        y[:, 1:3] += 1
        y.select(0, 1).mul_(2)
        y.view(-1)[::2] = 0
        with torch.no_grad():
            z = (x * 2).t().expand(2, 4, 3)
        return y.masked_fill_(y > 1, 0), z.contiguous().view(2, 12).split(5, 1)[1], torch.where(x > 0, x, y).cumsum(0)


def put_all_pt2():
    names = list(test_import_ops.CASES)
    random.Random(0).shuffle(names)
    size = OPS_PER_MODEL["pt2"]
    for at in range(0, len(names), size):
        put_pt2(f"ops-{at // size}", Cases(names[at : at + size]), {})
    tokens, batch = torch.ones(2, 3, dtype=torch.int64), {0: Dim("batch", max=64)}
    put_pt2("block", Block().train(), {"tokens": tokens, "labels": tokens}, dynamic_shapes={"tokens": batch, "labels": batch})
    put_pt2("views", Views(), {"x": torch.ones(3, 4)})
    put("pt2", "archive", pathlib.Path("../test/Import/inputs/mlp.pt2").read_bytes())


# ---- ONNX --------------------------------------------------------------------------------------------------------------


def put_onnx(name, model):
    put("onnx", name, model.SerializeToString())


def join_cases(cases, opset):
    """Returns one model with the ops of several cases. The names of values are made unique."""
    nodes, inputs, outputs = [], {}, []
    for i, (op, given, initializers, attributes, count, _) in enumerate(cases):
        inputs.update({f"{n}{i}": value for n, value in given.items()})
        names = [f"o{i}_{o}" for o in range(count)]
        nodes += [helper.make_node("Constant", [], [f"{n}{i}"], value=onnx_models.constant(n, t)) for n, t in initializers.items() if t is not None]
        nodes.append(helper.make_node(op, [f"{n}{i}" if n.strip() else "" for n in [*given, *initializers]], names, **attributes))
        outputs += names
    return onnx_models.graph(nodes, inputs, outputs, opset=opset)


def put_initializers():
    """Writes a model that stores tensors in every way that ONNX supports."""
    external = TensorProto(name="e", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": "weights.bin", "offset": "16", "length": "16"}.items():
        external.external_data.add(key=key, value=value)
    half = helper.make_tensor("h", TensorProto.FLOAT16, [4], [1.0, 2.0, 3.0, 4.0])
    made = [external, half, helper.make_tensor("t", TensorProto.FLOAT, [4], [1.0, 2.0, 3.0, 4.0]),
            helper.make_tensor("d", TensorProto.DOUBLE, [], [1.5]), helper.make_tensor("b", TensorProto.BOOL, [4], [1, 0, 1, 1]),
            onnx_models.constant("r", torch.ones(4, 4))]  # fmt: skip
    nodes = [helper.make_node("MatMul", ["x", "r"], ["m"]), helper.make_node("Add", ["m", "e"], ["a"]),
             helper.make_node("Mul", ["a", "t"], ["c"]), helper.make_node("Where", ["b", "c", "x"], ["y"]),
             helper.make_node("Cast", ["h"], ["z"], to=TensorProto.FLOAT), helper.make_node("Identity", ["d"], ["w"])]  # fmt: skip
    model = onnx_models.graph(nodes, {"x": (torch.float32, ["N", 4])}, ["y", "z", "w"])
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    model.graph.initializer.extend(made)
    put_onnx("initializers", model)
    for name, location in {"leaves": "../outside", "absolute": "/etc/passwd", "missing": "none.bin"}.items():
        external.external_data[0].value = location
        model.graph.initializer[0].CopyFrom(external)
        put_onnx(f"external-{name}", model)


def put_functions():
    call = lambda name, x, y: helper.make_node(name, [x], [y], domain="local")  # noqa: E731
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("local", 1)]
    scaled = helper.make_function("local", "f0", ["x"], ["y"], [helper.make_node("Elu", ["x"], ["z"], alpha=0.5), helper.make_node("Add", ["z", "x"],
                                                                                                                                   ["y"])], opsets)
    twice = [helper.make_function("local", f"f{i}", ["x"], ["y"], [call(f"f{i - 1}", "x", "z"), call(f"f{i - 1}", "z", "y")], opsets)
             for i in range(1, 30)]  # fmt: skip
    X = {"x": (torch.float32, [2, 3])}
    put_onnx("functions", onnx_models.graph([call("f2", "x", "y")], X, ["y"], functions=[scaled, *twice[:2]], domains=["local"]))
    put_onnx("functions-double", onnx_models.graph([call("f29", "x", "y")], X, ["y"], functions=[scaled, *twice], domains=["local"]))


def put_sequences():
    ints_of = lambda name, *values: helper.make_node("Constant", [], [name], value_ints=list(values))  # noqa: E731
    nodes = [ints_of("parts", 1, 3), helper.make_node("SplitToSequence", ["x", "parts"], ["s"], axis=1),
             helper.make_node("ConcatFromSequence", ["s"], ["b"], axis=-1), ints_of("shape", 2, 3),
             helper.make_node("ConstantOfShape", ["shape"], ["f"], value=onnx_models.constant("v", torch.tensor([7]))),
             helper.make_node("Constant", [], ["one"], value_int=1), helper.make_node("Constant", [], ["end"], value_int=9),
             helper.make_node("Range", ["one", "end", "one"], ["r"]), helper.make_node("CumSum", ["r", "one"], ["c"]),
             helper.make_node("SequenceAt", ["s", "one"], ["a"]), helper.make_node("Shape", ["x"], ["sx"]),
             helper.make_node("Expand", ["one", "sx"], ["e"])]  # fmt: skip
    put_onnx("sequences", onnx_models.graph(nodes, {"x": (torch.float32, [3, 4])}, ["a", "b", "e", "f", "r"]))


def put_choices():
    """Writes a model with an `If` that has another `If` in a branch."""
    inner = test_onnx_ops.branch(helper.make_node("Add", ["x", "c"], ["y0"]), initializers={"c": torch.arange(4.0)})
    truth = helper.make_node("Constant", [], ["truth"], value=onnx_models.constant("truth", torch.tensor(True)))
    negative = test_onnx_ops.branch(helper.make_node("Neg", ["x"], ["y1"]))
    then = test_onnx_ops.branch(truth, helper.make_node("If", ["truth"], ["y2"], then_branch=inner, else_branch=negative))
    put_onnx("choices", onnx_models.graph(test_onnx_ops.by_rows(then, negative, ["y"]), {"x": (torch.float32, [3, 4])}, ["y"]))


def put_all_onnx():
    cases = [(*case, *(1, 20)[len(case) - 4 :]) for case in test_onnx_ops.OPS.values()]
    for opset in sorted({case[5] for case in cases}):
        chosen = [case for case in cases if case[5] == opset]
        random.Random(0).shuffle(chosen)
        size = OPS_PER_MODEL["onnx"]
        for at in range(0, len(chosen), size):
            put_onnx(f"ops-{opset}-{at // size}", join_cases(chosen[at : at + size], opset))
    put_initializers()
    put_functions()
    put_sequences()
    put_choices()


if __name__ == "__main__":
    put_all_onnx()
    put_all_pt2()
