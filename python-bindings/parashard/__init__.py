"""Parashard in Python: compiles a PyTorch model for many ranks, and trains it by PyTorch's own loop.

    model, optimizer = parashard.parallelize("dp=2,tp=2", model, lambda m: torch.optim.AdamW(m.parameters()), example=batch)

`parashard.export` writes models for `ps-compile`.
"""
import importlib
import pathlib

__version__ = (pathlib.Path(__file__).parent / "VERSION").read_text().strip()

# Public names, by module. They are loaded at first use, because PyTorch takes seconds to load.
_PUBLIC = {
    "CompiledModel": "model",
    "CompileError": "errors",
    "Diagnostic": "errors",
    "Engine": "engine",
    "Error": "errors",
    "ExportFailed": "errors",
    "InputError": "errors",
    "Optimizer": "optimizer",
    "Plan": "plan",
    "RankFailed": "errors",
    "Unsupported": "errors",
    "auto_accelerate": "atorch",
    "deferred_init": "deferred",
    "env": "jobs",
    "generate_plan": "planner",
    "launch": "jobs",
    "load": "checkpoint",
    "parallelize": "parallel",
    "save": "checkpoint",
}
__all__ = list(_PUBLIC)


def __getattr__(name):
    if name == "plugins":
        return importlib.import_module("parashard.plugins")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'parashard' has no attribute '{name}'")
    return getattr(importlib.import_module(f"parashard.{_PUBLIC[name]}"), name)
