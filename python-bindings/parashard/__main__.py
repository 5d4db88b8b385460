"""`python -m parashard` says what there is."""

print("python -m parashard.export --help    writes a PyTorch or Hugging Face model as the .pt2 that ps-compile reads")
