// Declares the check that a pass starts from the right level.
#ifndef PARASHARD_LEVELS_H
#define PARASHARD_LEVELS_H

#include "dialects/ps/Ps.h"

namespace parashard {

/// Fails with an error that names both levels if `module` is marked with another level than
/// `expected`. Accepts a module without a mark.
inline mlir::LogicalResult checkLevel(mlir::ModuleOp module, ps::Level expected,
                                      llvm::StringRef pass) {
  auto level = module->getAttrOfType<ps::LevelAttr>(kLevelMark);
  if (!level || level.getValue() == expected)
    return mlir::success();
  return module.emitError() << pass << " takes a module at level " << ps::stringifyLevel(expected)
                            << ", but this module is at level "
                            << ps::stringifyLevel(level.getValue())
                            << "; create one with ps-compile --stop-after "
                            << ps::stringifyLevel(expected);
}

} // namespace parashard

#endif
