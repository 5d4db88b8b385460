// Fuzzes the evaluator's reader of .safetensors files.
#include "fuzz/ImportSupport.h"
#include "fuzz/Scratch.h"
#include "fuzz/TensorFileMutator.h"
#include "lib/Evaluate/Safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string path = fuzz::writeFile("x.safetensors", data, size);
  mlir::MLIRContext &context = fuzz::getContext();
  fuzz::StayInside watch;
  auto tensors = parashard::evaluate::readSafetensors(path, context);
  if (!tensors)
    llvm::consumeError(tensors.takeError());
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  return fuzz::mutateInput(data, size, maxSize, seed, [&](std::string file, fuzz::Random &random) {
    return fuzz::mutateTensorFile(std::move(file), maxSize, random);
  });
}
