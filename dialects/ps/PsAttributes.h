// Declares the attributes, types and enums of the dialect `ps`.
#ifndef PARASHARD_DIALECTS_PS_PSATTRIBUTES_H
#define PARASHARD_DIALECTS_PS_PSATTRIBUTES_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"

#include "dialects/ps/PsEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/ps/PsAttributes.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/ps/PsTypes.h.inc"

namespace parashard::ps {
namespace detail {
/// Parse and print an axis such as `"dp" = 2 : data`.
mlir::FailureOr<AxisAttr> parseAxis(mlir::AsmParser &parser);
void printAxis(mlir::AsmPrinter &printer, AxisAttr axis);
} // namespace detail
} // namespace parashard::ps

#endif
