"""Parashard in Python: compiles a PyTorch model for many ranks, and trains it by PyTorch's own loop.

    model, optimizer = parashard.parallelize("dp=2,tp=2", model, lambda m: torch.optim.AdamW(m.parameters()), example=batch)

`parashard.export` writes models for `ps-compile`.
"""
import importlib
import pathlib

TYPE_CHECKING = False  # as in `typing`, which is not loaded; type checkers take it for True

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

if TYPE_CHECKING:
    from parashard import plugins as plugins
    from parashard.atorch import auto_accelerate as auto_accelerate
    from parashard.checkpoint import load as load
    from parashard.checkpoint import save as save
    from parashard.deferred import deferred_init as deferred_init
    from parashard.engine import Engine as Engine
    from parashard.errors import CompileError as CompileError
    from parashard.errors import Diagnostic as Diagnostic
    from parashard.errors import Error as Error
    from parashard.errors import ExportFailed as ExportFailed
    from parashard.errors import InputError as InputError
    from parashard.errors import RankFailed as RankFailed
    from parashard.errors import Unsupported as Unsupported
    from parashard.jobs import env as env
    from parashard.jobs import launch as launch
    from parashard.model import CompiledModel as CompiledModel
    from parashard.optimizer import Optimizer as Optimizer
    from parashard.parallel import parallelize as parallelize
    from parashard.plan import Plan as Plan
    from parashard.planner import generate_plan as generate_plan
else:

    def __getattr__(name):
        if name == "plugins":
            return importlib.import_module("parashard.plugins")
        if name not in _PUBLIC:
            raise AttributeError(f"module 'parashard' has no attribute '{name}'")
        return getattr(importlib.import_module(f"parashard.{_PUBLIC[name]}"), name)
