// Chooses the symbols of variables.
#ifndef PARASHARD_LIB_IMPORT_SYMBOLS_H
#define PARASHARD_LIB_IMPORT_SYMBOLS_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace parashard::import {

/// Returns the symbol of the variable that the model calls `name`. Returns `name`, or `self.NAME`
/// if later levels reserve the name (functions, the loss, the learning rate).
std::string chooseSymbol(llvm::StringRef name);

} // namespace parashard::import

#endif
