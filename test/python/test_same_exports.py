"""Equal models share an export (same_exports.py), and a change of a model that its export shows gives another name."""
import models
import pytest
import same_exports
import torch

pytestmark = pytest.mark.quick


def name(model, kind="pt2", **options):
    return same_exports.find_name(model, kind, options)


def scale(model):
    with torch.no_grad():
        model.module.layers[0].weight.mul_(2)


def tie(model):
    model.module.layers[2].weight = torch.nn.Parameter(model.module.layers[2].weight.clone())
    model.module.layers[2].bias = model.module.layers[0].bias


CHANGES = {
    "weight": scale,
    "shared parameter": tie,
    "type": lambda model: model.module.double(),
    "frozen parameter": lambda model: model.module.layers[0].weight.requires_grad_(False),
    "mode": lambda model: model.module.eval(),
    "attribute": lambda model: setattr(model.module, "extra", 3),
    "submodule": lambda model: model.module.layers.insert(1, torch.nn.GELU()),
    "input": lambda model: model.inputs["x"].add_(1),
    "dynamic dim": lambda model: setattr(model, "dynamic_shapes", {"x": {0: torch.export.Dim("batch")}, "labels": None}),
    "decompositions": lambda model: setattr(model, "decompositions", "core"),
}


def test_equal_models_share_a_name():
    assert name(models.mlp()) == name(models.mlp()) is not None
    assert name(models.gpt2()) == name(models.gpt2()) is not None
    assert None is not name(models.llama(attention="eager")) != name(models.llama(attention="sdpa")) is not None
    assert name(models.llama(device="meta")) == name(models.llama(device="meta")) is not None
    assert len({name(models.mlp()), name(models.mlp(), "onnx"), name(models.mlp(), "onnx", optimize=True)}) == 3


@pytest.mark.parametrize("change", CHANGES)
def test_changed_models_have_another_name(change):
    model = models.mlp()
    CHANGES[change](model)
    assert name(model) not in (None, name(models.mlp()))


def test_models_with_unknown_code_have_no_name():
    class Local(torch.nn.Module):
        pass

    for part in (Local(), lambda x: x):
        model = models.mlp()
        model.module.extra = part
        assert name(model) is None
    model = models.mlp()
    model.module.register_forward_hook(torch.relu)
    assert name(model) is None


def test_the_second_export_is_a_copy(tmp_path, monkeypatch):
    writes = []
    monkeypatch.setenv(same_exports.FOLDER, str(tmp_path))
    for file in ("a.pt2", "b.pt2"):
        same_exports.export(models.mlp(), "pt2", tmp_path / file, lambda path: writes.append(path) or path.write_text("export"))
    assert len(writes) == 1 and (tmp_path / "b.pt2").read_text() == "export"
