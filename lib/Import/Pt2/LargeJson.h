// A JSON reader for documents of many megabytes.
#ifndef PARASHARD_LIB_IMPORT_PT2_LARGEJSON_H
#define PARASHARD_LIB_IMPORT_PT2_LARGEJSON_H

#include "llvm/Support/JSON.h"

namespace parashard::import {

/// What `llvm::json::parse` gives (its errors too; nesting beyond the stack is one), in time that is linear in the size of `text`:
/// that one copies an array's elements, and all that is in them, each time the array grows.
llvm::Expected<llvm::json::Value> parseLargeJson(llvm::StringRef text);

} // namespace parashard::import

#endif
