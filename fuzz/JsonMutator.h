// Mutates whole values of a JSON text, so that most results are valid JSON.
#ifndef PARASHARD_FUZZ_JSONMUTATOR_H
#define PARASHARD_FUZZ_JSONMUTATOR_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>

/// The mutation of bytes that libFuzzer provides.
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace fuzz {

using Random = std::minstd_rand;

/// Changes one value of a JSON text, which may already be malformed: replaces it by another value
/// of the text or by an unusual literal, or removes, duplicates, wraps or modifies it.
std::string mutateJson(std::string text, Random &random);

/// Applies libFuzzer's mutation of bytes.
std::string mutateBytes(std::string text, size_t maxSize);

/// Implements a target's LLVMFuzzerCustomMutator: mutates the input in libFuzzer's buffer and
/// returns its new size. Results of more than `maxSize` bytes are discarded.
size_t mutateInput(uint8_t *data, size_t size, size_t maxSize, unsigned seed,
                   const std::function<std::string(std::string, Random &)> &mutate);

} // namespace fuzz

#endif
