// Declares the check that the input of a pass is at the right level.
#ifndef PARASHARD_LEVELS_H
#define PARASHARD_LEVELS_H

#include "dialects/ps/Ps.h"

namespace parashard {

/// Fails with an error that names both levels if the level of `module` (`ps.level`) is not
/// `expected`. Accepts a module without this attribute.
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
