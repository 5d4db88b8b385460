// Declares how symbols of variables are chosen.
#ifndef PARASHARD_LIB_IMPORT_SYMBOLS_H
#define PARASHARD_LIB_IMPORT_SYMBOLS_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace parashard::import {

/// Returns the symbol for the model's variable `name`: `name`, or `self.NAME` if the compiler
/// reserves the name (functions, the loss, hyperparameters).
std::string chooseSymbol(llvm::StringRef name);

} // namespace parashard::import

#endif
