"""Parashard from Python. `parashard.export` writes models for `ps-compile`; it needs nothing but PyTorch."""

__version__ = "0.1.0"
