"""Lists the commands of the package: `python -m parashard`."""

print("python -m parashard.export --help    writes a PyTorch or Hugging Face model as a .pt2 archive for ps-compile")
