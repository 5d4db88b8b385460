// Fuzzes the import of `.onnx` models. Their folder contains a file of external data.
#include "fuzz/ImportSupport.h"
#include "fuzz/Scratch.h"
#include "fuzz/WireMutator.h"
#include "parashard/Import.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const std::string weights = [] {
    std::string bytes(64, '\0');
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = char(i);
    return fuzz::writeFile("weights.bin", bytes.data(), bytes.size());
  }();
  std::string path = fuzz::writeFile("model.onnx", data, size);
  mlir::MLIRContext &context = fuzz::getContext();
  fuzz::StayInside watch;
  std::vector<std::string> notes;
  parashard::import::importOnnx(context, path, {}, notes);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  return fuzz::mutateInput(data, size, maxSize, seed,
                           [&](std::string message, fuzz::Random &random) {
                             return random() % 16 ? fuzz::mutateMessage(message, random)
                                                  : fuzz::mutateBytes(std::move(message), maxSize);
                           });
}
