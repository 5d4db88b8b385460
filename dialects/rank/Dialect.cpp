// Registers the ops and types of the dialect `rank`.
#include "dialects/rank/Rank.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace parashard::rank;

#include "dialects/rank/RankDialect.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/rank/RankTypes.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/rank/RankOps.cpp.inc"

void RankDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/rank/RankTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/rank/RankOps.cpp.inc"
      >();
}

std::string parashard::rank::getQueueName(llvm::ArrayRef<Attribute> axes) {
  std::string name;
  for (Attribute axis : axes)
    name += (name.empty() ? "" : "+") + cast<StringAttr>(axis).getValue().str();
  return name;
}
