// Mutates whole tokens of MLIR, so that most results still parse.
#ifndef PARASHARD_FUZZ_MLIRMUTATOR_H
#define PARASHARD_FUZZ_MLIRMUTATOR_H

#include "fuzz/JsonMutator.h"
#include <string>

namespace fuzz {

/// Makes one to three changes to a module's text:
/// - A number is replaced, either at one position, or at all its positions, which keeps sizes
///   consistent.
/// - A name, type or list is replaced by another of its kind.
/// - A line is removed, duplicated or moved.
std::string mutateMlir(std::string text, Random &random);

/// Returns the rest of the first line if it begins with `prefix`; otherwise an empty string.
std::string getFirstLine(const std::string &text, const std::string &prefix);

} // namespace fuzz

#endif
