// Registers the parts of the dialect `ps`, and materializes its constants.
#include "dialects/ps/Ps.h"

using namespace mlir;
using namespace parashard::ps;

#include "dialects/ps/PsDialect.cpp.inc"
#include "dialects/ps/PsInterfaces.cpp.inc"

void PSDialect::initialize() {
  registerAttributes();
  registerTypes();
  registerOperations();
}

Operation *PSDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type,
                                          Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements || elements.getType() != type)
    return nullptr;
  return ConstantOp::create(builder, loc, elements);
}
