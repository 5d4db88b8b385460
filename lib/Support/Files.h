// Files that appear whole or not at all.
#ifndef PARASHARD_LIB_SUPPORT_FILES_H
#define PARASHARD_LIB_SUPPORT_FILES_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace parashard {

/// Lets `make` write a file of another name beside `path`, which is then renamed, or removed where
/// that fails. A symbolic link is written through. Errors of a `path` that is no regular file, or
/// that cannot be written, name it and the cause.
llvm::Error makeAtomically(llvm::StringRef path,
                           llvm::function_ref<llvm::Error(llvm::StringRef temporary)> make);

/// Writes what `write` prints to `path`, as makeAtomically does.
llvm::Error writeAtomically(llvm::StringRef path,
                            llvm::function_ref<void(llvm::raw_ostream &)> write);

} // namespace parashard

#endif
