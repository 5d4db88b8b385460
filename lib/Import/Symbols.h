// Symbols of variables.
#ifndef PARASHARD_LIB_IMPORT_SYMBOLS_H
#define PARASHARD_LIB_IMPORT_SYMBOLS_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace parashard::import {

/// The symbol of the variable that the model calls `name`: that name, or `self.NAME` where later
/// levels need it for themselves (functions, the loss, the learning rate).
std::string chooseSymbol(llvm::StringRef name);

} // namespace parashard::import

#endif
