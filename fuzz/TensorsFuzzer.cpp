// Fuzzes the evaluator's reader of .safetensors files.
#include "fuzz/ImportSupport.h"
#include "fuzz/Scratch.h"
#include "fuzz/TensorFileMutator.h"
#include "lib/Evaluate/Safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string path = fuzz::writeFile("x.safetensors", data, size);
  mlir::MLIRContext &context = fuzz::getContext();
  fuzz::StayInside watch;
  auto tensors = parashard::readSafetensors(path, context);
  if (!tensors)
    llvm::consumeError(tensors.takeError());
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  fuzz::Random random(seed);
  std::string file(reinterpret_cast<char *>(data), size);
  return fuzz::giveBack(fuzz::mutateTensorFile(std::move(file), maxSize, random), data, size,
                        maxSize);
}
