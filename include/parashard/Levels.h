// What a pass that makes a level checks first: that it was given the level before.
#ifndef PARASHARD_LEVELS_H
#define PARASHARD_LEVELS_H

#include "dialects/ps/Ps.h"

namespace parashard {

/// Fails, with an error that names both levels, when `module` says that it is at another level than
/// `expected`; one that says nothing is taken as it is.
inline mlir::LogicalResult checkLevel(mlir::ModuleOp module, ps::Level expected,
                                      llvm::StringRef pass) {
  auto level = module->getAttrOfType<ps::LevelAttr>(ps::kLevelMark);
  if (!level || level.getValue() == expected)
    return mlir::success();
  return module.emitError() << pass << " takes a module at level " << ps::stringifyLevel(expected)
                            << ", this one is at level " << ps::stringifyLevel(level.getValue())
                            << "; ps-compile --stop-after " << ps::stringifyLevel(expected)
                            << " makes one";
}

} // namespace parashard

#endif
