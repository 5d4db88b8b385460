"""The notebook of examples/python runs in a Jupyter kernel, shows the plan, and its losses equal those of PyTorch."""
import re

import nbclient
import nbformat
import pytest
from conftest import ROOT, package_folder

pytestmark = pytest.mark.usefixtures("one_thread", "shared_programs")


def list_outputs(notebook, mime):
    """Returns the outputs of all cells that have a MIME type."""
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return [output.data[mime] for output in outputs if mime in output.get("data", {})]


def test_notebook(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(package_folder()))
    notebook = nbformat.read(ROOT / "examples/python/notebook.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "commit the notebook without outputs"
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": tmp_path}}).execute()
    plan, frame = list_outputs(notebook, "text/html")
    assert "pp=2" in plan and "</svg>" in plan and "plan.html" in frame
    assert "</html>" in (tmp_path / "plan.html").read_text()
    text = "".join(output.text for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs if output.output_type == "stream")
    first, last = re.search(r"loss: ([\d.]+), then ([\d.]+)", text).groups()
    assert float(last) < 0.2 * float(first), text
    pairs = re.findall(r"PyTorch ([\d.]+), Parashard ([\d.]+)", text)
    assert len(pairs) == 5 and all(float(ours) == pytest.approx(float(theirs), abs=2e-5) for theirs, ours in pairs), text
