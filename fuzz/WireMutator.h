// Mutates whole fields of protobuf messages, so that most results are valid messages.
#ifndef PARASHARD_FUZZ_WIREMUTATOR_H
#define PARASHARD_FUZZ_WIREMUTATOR_H

#include "fuzz/JsonMutator.h"

namespace fuzz {

/// Changes one field of a message, at any depth: removes, duplicates, moves or modifies the field,
/// or replaces it by another field with the same number. If the input is not a message, mutates its
/// bytes.
std::string mutateMessage(const std::string &message, Random &random);

} // namespace fuzz

#endif
