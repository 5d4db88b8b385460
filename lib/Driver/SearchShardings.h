// Searches the shardings of a model before it is compiled.
#ifndef PARASHARD_LIB_DRIVER_SEARCHSHARDINGS_H
#define PARASHARD_LIB_DRIVER_SEARCHSHARDINGS_H

#include "parashard/Driver.h"

namespace parashard::driver {

/// Returns the sharding file that a policy "searched" or "searched+memory" finds for a module of
/// level `imported` or `training`, as JSON text. The search runs on a copy without repeated blocks,
/// and its globs match these blocks. Returns nullopt without diagnostics if the policy is not one
/// that searches, or if the module cannot be compiled up to the search; a compile then reports why.
std::optional<std::string> searchShardings(mlir::ModuleOp module, const CompileOptions &options);

} // namespace parashard::driver

#endif
