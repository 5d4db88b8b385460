"""Plans: how a model is divided over ranks."""

import dataclasses
import json
import math
import types

from parashard.errors import InputError, Unsupported

__all__ = ["Plan", "parse_json", "write_mesh"]


@dataclasses.dataclass(frozen=True)
class Plan:
    """A plan, by the flags of ps-compile (docs/ps-compile-flags.md, group Plan).

    mesh: the sizes of the axes; the last axis varies fastest. Example: {"dp": 2, "tp": 2}, or "dp=2,tp=2".
    flags: other flags of the plan. Example: {"zero": 1, "sharding-policy": "megatron+sp"}.
    """

    mesh: types.MappingProxyType
    flags: types.MappingProxyType

    def __init__(self, mesh="dp=1", **flags):
        object.__setattr__(self, "mesh", types.MappingProxyType(read_mesh(mesh)))
        object.__setattr__(self, "flags", types.MappingProxyType({name.replace("_", "-"): value for name, value in flags.items()}))

    @property
    def ranks(self):
        """The number of ranks: the product of the sizes of the axes."""
        return math.prod(self.mesh.values())

    def replace(self, mesh=None, **flags):
        """Returns a plan with other values of some flags. None removes a flag."""
        changed = {**self.flags, **{name.replace("_", "-"): value for name, value in flags.items()}}
        return Plan(mesh or dict(self.mesh), **{name: value for name, value in changed.items() if value is not None})

    def arguments(self):
        """Returns the arguments of ps-compile."""
        result = ["--mesh", write_mesh(self.mesh)]
        for name, value in self.flags.items():
            if isinstance(value, (dict, list)):
                raise Unsupported(f"{name}: inline shardings are not supported yet; write them to a file, and give its path")
            result += [f"--{name}", str(value)]
        return result

    def save(self, path):
        """Writes a plan file, which `ps-compile --plan` and `Plan.load` read."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"mesh": write_mesh(self.mesh), **self.flags}, file, indent=2)
            file.write("\n")

    @staticmethod
    def load(path):
        """Reads a plan file, such as one that `ps-plan` wrote. Raises InputError if the file has no plan."""
        with open(path, encoding="utf-8") as file:
            return Plan.from_values(parse_json(file.read(), path), path)

    @staticmethod
    def from_values(values, name):
        """Returns the plan in the values of a plan file. name: of the file, for errors."""
        if not isinstance(values, dict):
            raise InputError(f"{name}: the file has a {type(values).__name__}; expected an object with flags, such as {{\"mesh\": \"dp=2\"}}")
        described = ("predicted", "measured", "parameters", "ranks")  # not flags
        return Plan(**{key: value for key, value in values.items() if key not in described})

    def __hash__(self):
        return hash((tuple(self.mesh.items()), repr(sorted(self.flags.items()))))

    def __str__(self):
        return " ".join(self.arguments())


def parse_json(text, name):
    """Returns the values of a JSON text. Raises InputError, with the name of the file, if the text is not JSON."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None


def write_mesh(mesh):
    """Returns the text of a mesh. Example: {"dp": 2, "tp": 2} gives "dp=2,tp=2"."""
    return ",".join(f"{axis}={size}" for axis, size in mesh.items())


def read_mesh(mesh):
    """Returns the sizes of the axes of a mesh, by name."""
    if isinstance(mesh, str):
        mesh = [tuple(axis.split("=", 1)) if "=" in axis else (axis, "") for axis in mesh.split(",")]
    sizes = {}
    for axis, size in mesh if isinstance(mesh, list) else mesh.items():
        if axis in sizes:
            raise InputError(f"mesh: axis {axis} occurs twice; give each axis once, as in dp=2,tp=2")
        try:
            sizes[axis] = int(size)
        except ValueError:
            raise InputError(f"mesh: axis {axis} has the size {size!r}; expected a number of ranks, as in dp=2,tp=2") from None
        if sizes[axis] < 1:
            raise InputError(f"mesh: axis {axis} has the size {size}; expected at least 1")
    return sizes
