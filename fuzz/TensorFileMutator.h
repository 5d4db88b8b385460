// Mutates .safetensors files: either the JSON header, followed by an update of the header's length,
// or any bytes.
#ifndef PARASHARD_FUZZ_TENSORFILEMUTATOR_H
#define PARASHARD_FUZZ_TENSORFILEMUTATOR_H

#include "fuzz/JsonMutator.h"
#include <cstring>

namespace fuzz {

inline std::string mutateTensorFile(std::string file, size_t maxSize, Random &random) {
  uint64_t length = 0;
  if (file.size() >= 8)
    std::memcpy(&length, file.data(), 8);
  if (file.size() < 8 || length > file.size() - 8 || random() % 4 == 0)
    return mutateBytes(std::move(file), maxSize);
  std::string header = mutateJson(file.substr(8, length), random);
  uint64_t size = header.size();
  return std::string(reinterpret_cast<char *>(&size), 8) + header + file.substr(8 + length);
}

} // namespace fuzz

#endif
