"""Recognizes models whose exports are equal, so that a test run exports each of them once."""
import hashlib
import os
import pathlib
import shutil
import types

import once
import torch

PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.memory_format, torch.Size)
FOLDER = "PARASHARD_TEST_EXPORTS"  # the environment variable that names the folder of the run's exports
TABLES = {"_modules", "_non_persistent_buffers_set"}  # of a module


class Unknown(Exception):
    """The effect of a part of a model on the export is not known, for example of a function that a test defines."""


class Description:
    """Describes the parts of a model as text. Two models with equal texts have equal exports."""

    def __init__(self):
        self.numbers = {}  # by id: shows which tensors of a model are the same

    def describe(self, value):
        """Returns data whose repr() determines a value. Raises Unknown if there is none."""
        if isinstance(value, PLAIN):
            return value
        if isinstance(value, torch.Tensor):
            return self.describe_tensor(value)
        if isinstance(value, dict):
            return [(self.describe(key), self.describe(item)) for key, item in value.items()]
        if isinstance(value, (list, tuple)):
            return [type(value).__name__, *map(self.describe, value)]
        if isinstance(value, (set, frozenset)):
            return sorted(repr(self.describe(item)) for item in value)
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
            return self.describe_code(value)
        if isinstance(value, torch.nn.Module):
            return self.describe_module(value)
        if hasattr(value, "to_json_string"):  # a configuration of Hugging Face
            return [self.describe_code(type(value)), self.describe(vars(value))]  # JSON omits private attributes
        raise Unknown(type(value))

    def describe_code(self, code):
        """Returns the full name of a class or function. The name does not determine a lambda, or code inside a function."""
        if "<" in code.__qualname__:
            raise Unknown(code)
        return f"{code.__module__}.{code.__qualname__}"

    def describe_tensor(self, tensor):
        number = self.numbers.setdefault(id(tensor), len(self.numbers))
        has_data = tensor.numel() and tensor.device.type != "meta"
        elements = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy() if has_data else b""
        layout = [type(tensor).__name__, tensor.device, tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.requires_grad]
        return [number, *layout, hashlib.sha256(elements).hexdigest()]

    def describe_module(self, module):
        """Returns the classes, attributes, parameters and buffers of a module and its submodules."""
        parts = []
        for name, part in module.named_modules(remove_duplicate=False):
            if part._forward_hooks or part._forward_pre_hooks:
                raise Unknown(part)
            hooks = {key for key in vars(part) if key.endswith("_hooks") or "_hooks_" in key}
            attributes = {key: item for key, item in vars(part).items() if key not in hooks | TABLES}
            parts.append((name, self.describe_code(type(part)), self.describe(attributes), sorted(part._non_persistent_buffers_set)))
        return parts


def find_name(model, kind, options):
    """Returns the file name of the export of a `models.Model`: the same for models with equal exports. Returns None for an unknown model."""
    description = Description()
    try:
        parts = [description.describe(part) for part in (options, model.inputs, model.module, model.decompositions)]
    except (Unknown, RecursionError):
        return None
    text = repr([kind, str(model.dynamic_shapes), torch.is_grad_enabled(), torch.get_default_dtype(), parts])
    if " at 0x" in text:
        return None
    return f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.{kind}"


def export(model, kind, path, write, **options):
    """Writes the export of a `models.Model` to `path`: calls `write(path)`, or copies an equal export that the run has written before."""
    name = find_name(model, kind, options) if FOLDER in os.environ else None
    if name is None:
        write(path)
    else:
        shutil.copyfile(once.make(pathlib.Path(os.environ[FOLDER]) / name, write), path)
    return pathlib.Path(path)
