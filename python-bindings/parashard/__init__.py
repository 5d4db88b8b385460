"""The Python part of Parashard. `parashard.export` writes models for `ps-compile`, and needs only PyTorch."""
import pathlib

__version__ = (pathlib.Path(__file__).parent / "VERSION").read_text().strip()
