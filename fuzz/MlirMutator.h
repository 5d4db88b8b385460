// Mutations of MLIR as tokens, so that most results still parse.
#ifndef PARASHARD_FUZZ_MLIRMUTATOR_H
#define PARASHARD_FUZZ_MLIRMUTATOR_H

#include "fuzz/JsonMutator.h"
#include <string>

namespace fuzz {

/// Makes one to three changes of a module's text: a number becomes another one, here or wherever it
/// stands (sizes stay consistent then); a name, a type or a list becomes another one of its kind; a
/// line is dropped, doubled or moved.
std::string mutateMlir(std::string text, Random &random);

/// Returns the rest of the first line when it begins with `prefix`; otherwise an empty text.
std::string getFirstLine(const std::string &text, const std::string &prefix);

} // namespace fuzz

#endif
