// Mutates protobuf messages by fields, so that most results are valid messages.
#ifndef PARASHARD_FUZZ_WIREMUTATOR_H
#define PARASHARD_FUZZ_WIREMUTATOR_H

#include "fuzz/JsonMutator.h"

namespace fuzz {

/// Makes one change to a message: a field at any depth is removed, duplicated, moved, replaced by
/// another field with its number, or changed inside. Other inputs are mutated as bytes.
std::string mutateMessage(const std::string &message, Random &random);

} // namespace fuzz

#endif
