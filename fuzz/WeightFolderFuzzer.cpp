// Fuzzes the index of a weight folder in Hugging Face's format.
#include "fuzz/JsonMutator.h"
#include "fuzz/Scratch.h"
#include "runtime/core/Status.h"
#include "runtime/data/WeightFiles.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const bool once = [] {
    const char file[] =
        "\x3a\0\0\0\0\0\0\0"
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}  01234567";
    fuzz::writeFile("one.safetensors", file, sizeof(file) - 1);
    return true;
  }();
  (void)once;
  fuzz::writeFile("model.safetensors.index.json", data, size);
  fuzz::StayInside watch;
  try {
    psrt::WeightFiles files(fuzz::getFolder());
  } catch (const psrt::Error &) {
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  return fuzz::mutateInput(data, size, maxSize, seed, fuzz::mutateJson);
}
