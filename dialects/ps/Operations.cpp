// Registers the ops of `ps` and includes their generated classes.
#include "dialects/ps/Ps.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace parashard::ps;

#define GET_OP_CLASSES
#include "dialects/ps/PsOps.cpp.inc"

void PSDialect::registerOperations() {
  addOperations<
#define GET_OP_LIST
#include "dialects/ps/PsOps.cpp.inc"
      >();
}
