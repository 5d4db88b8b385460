"""Plans: how a model is divided over ranks."""

from __future__ import annotations

import dataclasses
import hashlib
import html
import json
import math
import pathlib
import re
import shlex
import types
from typing import TYPE_CHECKING

from parashard.compiler import make_cache_folder
from parashard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from typing_extensions import Unpack

    from parashard.annotations import ChangedFlags, Path, PlanFlags

__all__ = ["Plan", "parse_json", "write_mesh"]

# Keys of veScale for flags of a plan.
VESCALE = {
    "pipeline_parallel.schedule": "schedule",
    "pipeline_parallel.split_method": "split-method",
    "tensor_parallel.sharding_policy": "sharding-policy",
}
SPLIT_POINTS, SHARDING_PLAN = "pipeline_parallel.split_points", "tensor_parallel.sharding_plan"


@dataclasses.dataclass(frozen=True)
class Plan:
    """A plan, by the flags of ps-compile (docs/ps-compile-flags.md, group Plan).

    mesh: the sizes of the axes; the last axis varies fastest. Example: {"dp": 2, "tp": 2}, or "dp=2,tp=2".
    flags: other flags of the plan. Example: {"zero": 1, "sharding-policy": "megatron+sp"}.
    data: what the compiler found for a model, such as shardings (docs/report.md), and the prediction of ps-plan; {} if it is not
        known. `generate_plan` returns plans with data, and with texts for `explain`, `report` and `timeline`.

    plan["tensor_parallel.sharding_plan"], plan["pipeline_parallel.split_points"] and plan["zero"] return parts of the plan. A notebook
    shows a plan as a table, and its timeline.
    """

    mesh: types.MappingProxyType[str, int]
    flags: types.MappingProxyType[str, Any]
    data: dict[str, Any] = dataclasses.field(default_factory=dict, compare=False, repr=False)
    texts: dict[str, str] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    def __init__(self, mesh: str | Mapping[str, int] = "dp=1", **flags: Unpack[PlanFlags]) -> None:
        object.__setattr__(self, "data", {})
        object.__setattr__(self, "texts", {})
        object.__setattr__(self, "mesh", types.MappingProxyType(read_mesh(mesh)))
        object.__setattr__(self, "flags", types.MappingProxyType({name.replace("_", "-"): value for name, value in flags.items()}))

    @property
    def ranks(self) -> int:
        """The number of ranks: the product of the sizes of the axes."""
        return math.prod(self.mesh.values())

    def replace(self, mesh: str | Mapping[str, int] | None = None, **flags: Unpack[ChangedFlags]) -> Plan:
        """Returns a plan with other values of some flags. None removes a flag."""
        changed = {**self.flags, **{name.replace("_", "-"): value for name, value in flags.items()}}
        return Plan(mesh or dict(self.mesh), **{name: value for name, value in changed.items() if value is not None})

    def arguments(self) -> list[str]:
        """Returns the arguments of ps-compile."""
        if any(isinstance(value, (dict, list)) for value in self.flags.values()):  # shardings, which only a file can contain
            path = make_cache_folder() / f"plan-{hashlib.sha256(self._write().encode()).hexdigest()[:32]}.json"
            self.save(path)
            return ["--plan", str(path)]
        result = ["--mesh", write_mesh(self.mesh)]
        for name, value in self.flags.items():
            result += [f"--{name}", str(value)]
        return result

    def save(self, path: Path) -> None:
        """Writes a plan file, which `ps-compile --plan` and `Plan.load` read."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._write())

    def _write(self) -> str:
        return json.dumps({"mesh": write_mesh(self.mesh), **self.flags}, indent=2) + "\n"

    def command(self, model: str = "model.pt2", output: str = "model") -> str:
        """Returns the command line that compiles an exported model by this plan, for a shell."""
        return shlex.join(["ps-compile", model, "-o", output, *self.arguments()])

    def explain(self) -> str:
        """Returns the text of `ps-compile --explain`: shardings with reasons, collectives with bytes, and the predicted time of a step."""
        return self._find_text("explanation", "the explanation")

    def report(self, path: Path) -> None:
        """Writes the report of the plan: one HTML page, which works without a network (docs/report.md)."""
        text = self._find_text("report", "the report")
        pathlib.Path(path).write_text(text, encoding="utf-8")

    def timeline(self, path: Path) -> None:
        """Writes a picture of the pipeline schedule (SVG). Raises InputError if the mesh has no pipeline axis."""
        if self.texts and "timeline" not in self.texts:
            raise InputError(f"the mesh {write_mesh(self.mesh)} has no pipeline axis, such as pp=2, and only pipelines have a timeline")
        text = self._find_text("timeline", "the timeline")
        pathlib.Path(path).write_text(text, encoding="utf-8")

    def _find_text(self, key: str, name: str) -> str:
        """Returns a text that `generate_plan` found for a model."""
        if key not in self.texts:
            raise InputError(f"{name} of a plan is not known before the plan is compiled for a model; use generate_plan")
        return self.texts[key]

    def with_data(self, data: dict[str, Any], **texts: str) -> Plan:
        """Returns a copy of the plan with other data and texts."""
        result = Plan(dict(self.mesh), **self.flags)
        object.__setattr__(result, "data", data)
        object.__setattr__(result, "texts", texts)
        return result

    @staticmethod
    def load(path: Path) -> Plan:
        """Reads a plan file, such as one that `ps-plan` wrote. Raises InputError if the file has no plan."""
        with open(path, encoding="utf-8") as file:
            return Plan.from_values(parse_json(file.read(), path), path)

    @staticmethod
    def from_values(values: object, name: Path) -> Plan:
        """Returns the plan in the values of a plan file. name: of the file, for errors."""
        if not isinstance(values, dict):
            raise InputError(f"{name}: the file has a {type(values).__name__}; expected an object with flags, such as {{\"mesh\": \"dp=2\"}}")
        described = ("predicted", "measured", "parameters", "ranks")  # not flags
        plan = Plan(**{key: value for key, value in values.items() if key not in described})
        return plan.with_data({"predicted": values["predicted"]}) if "predicted" in values else plan

    def __getitem__(self, key: str) -> Any:
        if key in (SPLIT_POINTS, SHARDING_PLAN):
            if "sections" not in self.data:
                raise InputError(f"{key} is not known before the plan is compiled for a model; use generate_plan")
            return list_split_points(self.data) if key == SPLIT_POINTS else list_shardings(self.data)
        name = VESCALE.get(key, key.replace("_", "-"))
        if name == "mesh":
            return self.mesh
        if name not in self.flags:
            raise KeyError(f"{key}; the plan has {', '.join([SPLIT_POINTS, SHARDING_PLAN, 'mesh', *self.flags])}")
        return self.flags[name]

    def __hash__(self) -> int:
        return hash((tuple(self.mesh.items()), repr(sorted(self.flags.items()))))

    def __str__(self) -> str:
        words = [f"--mesh {write_mesh(self.mesh)}"]
        for name, value in self.flags.items():
            words.append(f"--{name} {json.dumps(value) if isinstance(value, (dict, list)) else value}")
        lines = [" ".join(words)]
        if "predicted" in self.data:
            lines.append(f"predicted: {self._describe_prediction()}")
        if "sections" in self.data:
            lines.append(f"{SPLIT_POINTS} : {json.dumps(self[SPLIT_POINTS])}")
            lines.append(f"{SHARDING_PLAN} : {self[SHARDING_PLAN]}")
        return "\n".join(lines)

    def _describe_prediction(self) -> str:
        return "{step_s:.4g} s per step, {memory_bytes:.4g} bytes per rank".format(**self.data["predicted"])

    def _repr_html_(self) -> str:
        """Returns the plan as a table, for notebooks."""
        rows = {"mesh": write_mesh(self.mesh)}
        rows |= {name: json.dumps(value) if isinstance(value, (dict, list)) else str(value) for name, value in self.flags.items()}
        if "predicted" in self.data:
            rows["predicted"] = self._describe_prediction()
        parts = [write_table(rows)]
        if "sections" in self.data:
            shardings = {name: str(placements) for name, placements in self[SHARDING_PLAN].items()}
            parts = [write_table({**rows, "split points": ", ".join(self[SPLIT_POINTS]) or "none"})]
            parts.append(f"<details><summary>parameters that are split: {len(shardings)}</summary>{write_table(shardings)}</details>")
        return "\n".join([*parts, self.texts.get("timeline", "")])


def write_table(rows):
    """Returns an HTML table of names and values."""
    cell = '<td style="text-align: left">'
    lines = [f"<tr>{cell}{html.escape(name)}</td>{cell}{html.escape(value)}</td></tr>" for name, value in rows.items()]
    return "\n".join(["<table>", *lines, "</table>"])


def find_section(data, name):
    return next((section["data"] for section in data["sections"] if section["id"] == name), [])


def list_split_points(data):
    """Returns the first module of each pipeline stage but the first."""
    segments = {row["segment"]: row["name"] for row in find_section(data, "segments")}
    pipeline = find_section(data, "pipeline") or {"stages": []}
    return [segments[stage["first_segment"]] for stage in pipeline["stages"] if stage["first_segment"] > 0]


def list_shardings(data):
    """Returns the parameters that are split over tensor axes, with a placement of torch.distributed.tensor for each of these axes."""
    from torch.distributed.tensor import Replicate, Shard

    axes = [axis["name"] for axis in data["mesh"] if axis["kind"] == "tensor"]
    result = {}
    for row in find_section(data, "parameters"):
        dims = [re.findall(r'"([^"]+)"', dim) for dim in re.findall(r"\{([^}]*)\}", row["sharding"])]
        placements = [next((Shard(dim) for dim, names in enumerate(dims) if axis in names), Replicate()) for axis in axes]
        if any(isinstance(placement, Shard) for placement in placements):
            result[row["name"]] = placements
    return result


def parse_json(text: str | bytes, name: Path) -> Any:
    """Returns the values of a JSON text. Raises InputError, with the name of the file, if the text is not JSON."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None


def write_mesh(mesh: Mapping[str, int]) -> str:
    """Returns the text of a mesh. Example: {"dp": 2, "tp": 2} gives "dp=2,tp=2"."""
    return ",".join(f"{axis}={size}" for axis, size in mesh.items())


def list_axes(mesh):
    """Returns the pairs of axis and size of a mesh. Example: "dp=2,tp" gives [("dp", "2"), ("tp", "")]."""
    if isinstance(mesh, str):
        return [axis.partition("=")[::2] for axis in mesh.split(",")]
    return mesh if isinstance(mesh, list) else mesh.items()


def read_mesh(mesh: str | Mapping[str, int]) -> dict[str, int]:
    """Returns the sizes of the axes of a mesh, by name."""
    sizes: dict[str, int] = {}
    for axis, size in list_axes(mesh):
        if axis in sizes:
            raise InputError(f"mesh: axis {axis} occurs twice; give each axis once, as in dp=2,tp=2")
        try:
            sizes[axis] = int(size)
        except ValueError:
            raise InputError(f"mesh: axis {axis} has the size {size!r}; expected a number of ranks, as in dp=2,tp=2") from None
        if sizes[axis] < 1:
            raise InputError(f"mesh: axis {axis} has the size {size}; expected at least 1")
    return sizes
