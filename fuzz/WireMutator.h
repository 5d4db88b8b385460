// Mutations of protobuf messages as fields, so that most results are messages too.
#ifndef PARASHARD_FUZZ_WIREMUTATOR_H
#define PARASHARD_FUZZ_WIREMUTATOR_H

#include "fuzz/JsonMutator.h"

namespace fuzz {

/// One change of a message: a field anywhere in it is dropped, doubled, moved, replaced by another
/// one of its number, or changed inside. The message itself where it is none.
std::string mutateMessage(const std::string &message, Random &random);

} // namespace fuzz

#endif
