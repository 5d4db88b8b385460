"""Wraps psrt's C API (include/psrt/psrt.h) for tests. Inputs and outputs are torch tensors."""
import ctypes

import torch
from conftest import tools_folder

DTYPES = {
    torch.float32: 0,
    torch.float64: 1,
    torch.float16: 2,
    torch.bfloat16: 3,
    torch.int64: 4,
    torch.int32: 5,
    torch.int16: 6,
    torch.int8: 7,
    torch.uint8: 8,
    torch.bool: 9,
    torch.float8_e4m3fn: 10,
    torch.float8_e5m2: 11,
}


class Tensor(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_int32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
    ]


class Options(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("ranks", ctypes.c_int32),
        ("threads", ctypes.c_int32),
        ("seed", ctypes.c_uint64),
        ("weights", ctypes.c_char_p),
        ("job", ctypes.c_void_p),
    ]


def load():
    """Loads the shared runtime library of the build under test."""
    library = ctypes.CDLL(str(tools_folder().parent / "lib/libpsrt.so"))
    library.psrt_last_error.restype = ctypes.c_char_p
    library.psrt_last_error.argtypes = [ctypes.c_void_p]
    library.psrt_close.restype = None
    library.psrt_close.argtypes = [ctypes.c_void_p]
    return library


def describe(tensors):
    """Returns an array of psrt_tensor that describes contiguous torch tensors, given by name."""
    array = (Tensor * len(tensors))()
    for item, (name, value) in zip(array, tensors.items()):
        assert value.is_contiguous()
        item.name, item.data, item.dtype = name.encode(), value.data_ptr(), DTYPES[value.dtype]
        item.rank, item.shape = value.dim(), (ctypes.c_int64 * max(1, value.dim()))(*value.shape)
    return array


class Program:
    """An open program. Each error raises a RuntimeError with the runtime's message."""

    def __init__(self, path, ranks=0, threads=1, seed=0, weights=None):
        self.library = load()
        self.handle = ctypes.c_void_p()
        options = Options(ctypes.sizeof(Options), ranks, threads, seed, str(weights).encode() if weights else None)
        status = self.library.psrt_open(str(path).encode(), ctypes.byref(options), ctypes.byref(self.handle))
        self._check(status)

    def _check(self, status):
        if status:
            raise RuntimeError(self.library.psrt_last_error(self.handle).decode())

    def call(self, entry, inputs, outputs, slot=0):
        """Runs an entry and writes its results into the tensors `outputs`."""
        given, wanted = describe(inputs), describe(outputs)
        self._check(
            self.library.psrt_call(
                self.handle, entry.encode(), ctypes.c_int32(slot), given, ctypes.c_size_t(len(given)), wanted,
                ctypes.c_size_t(len(wanted)),
            )
        )  # fmt: skip

    def backward(self, cotangents, slot=0):
        given = describe(cotangents)
        self._check(self.library.psrt_backward(self.handle, ctypes.c_int32(slot), given, ctypes.c_size_t(len(given))))

    def step(self, inputs):
        loss = ctypes.c_float()
        given = describe(inputs)
        self._check(self.library.psrt_step(self.handle, given, ctypes.c_size_t(len(given)), ctypes.byref(loss)))
        return loss.value

    def begin_step(self, inputs):
        given = describe(inputs)
        self._check(self.library.psrt_begin_step(self.handle, given, ctypes.c_size_t(len(given)), None, None))

    def get_outputs(self, outputs):
        """Copies outputs of the last step into the tensors `outputs`."""
        wanted = describe(outputs)
        self._check(self.library.psrt_get_outputs(self.handle, wanted, ctypes.c_size_t(len(wanted))))

    def update(self):
        self._check(self.library.psrt_update(self.handle))

    def zero_grad(self):
        self._check(self.library.psrt_zero_grad(self.handle))

    def get(self, name, like):
        """Returns the value of a variable that has the shape and type of `like`."""
        value = torch.empty_like(like).contiguous()
        self._check(self.library.psrt_get_variable(self.handle, describe({name: value})))
        return value

    def set(self, name, value):
        self._check(self.library.psrt_set_variable(self.handle, describe({name: value.contiguous()})))

    def close(self):
        self.library.psrt_close(self.handle)
        self.handle = None
