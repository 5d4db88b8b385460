"""Training on a GPU equals PyTorch, without a GPU: the whole of the CUDA runtime on a driver that stands in for NVIDIA's.

Kernels are the bodies that PTX is made of, as code of this machine. The driver's streams are threads; it fails where two accesses to the
same memory are not ordered by streams and events.
"""
import cases
import oracle
import pytest
import replay

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def standin(monkeypatch):
    for name, value in replay.environment().items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("case", cases.CUDA, ids=str)
def test_equals_pytorch(tmp_path, exports, case):
    comparison = oracle.check_case(tmp_path, exports, case)
    print(comparison)
    assert comparison.failures() == []
