"""Parashard from Python. `parashard.export` writes models for `ps-compile`; it needs nothing but PyTorch."""
import pathlib

__version__ = (pathlib.Path(__file__).parent / "VERSION").read_text().strip()
