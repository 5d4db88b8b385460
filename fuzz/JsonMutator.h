// Mutations of JSON as values, so that most results are JSON too.
#ifndef PARASHARD_FUZZ_JSONMUTATOR_H
#define PARASHARD_FUZZ_JSONMUTATOR_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>

/// libFuzzer's own mutation of bytes.
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace fuzz {

using Random = std::minstd_rand;

/// One change of a text of JSON, which may be damaged already: a value becomes another one of the
/// text, an odd literal, is dropped, doubled, wrapped, or changed inside.
std::string mutateJson(std::string text, Random &random);

/// libFuzzer's mutation of any bytes.
std::string mutateBytes(std::string text, size_t maxSize);

/// What a target's LLVMFuzzerCustomMutator does: changes the input in libFuzzer's buffer; its new
/// size there. A result of more than `maxSize` bytes is dropped.
size_t mutateInput(uint8_t *data, size_t size, size_t maxSize, unsigned seed,
                   const std::function<std::string(std::string, Random &)> &mutate);

} // namespace fuzz

#endif
