// Fuzzes the reader of run configurations (`--config RUN.json`).
#include "fuzz/JsonMutator.h"
#include "fuzz/Scratch.h"
#include "runtime/main/Flags.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string path = fuzz::writeFile("run.json", data, size);
  std::string program = "program", flag = "--config";
  char *arguments[] = {program.data(), flag.data(), path.data(), nullptr};
  psrt::Flags flags;
  psrt::parseFlags(3, arguments, /*rank=*/-1, flags);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  return fuzz::mutateInput(data, size, maxSize, seed, fuzz::mutateJson);
}
