"""The Python part of Parashard. `parashard.export` writes models for `ps-compile`. The export needs PyTorch, and transformers for Hugging Face models."""
import pathlib

__version__ = (pathlib.Path(__file__).parent / "VERSION").read_text().strip()
