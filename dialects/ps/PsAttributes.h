// The attributes, types and enums of the dialect `ps`.
#ifndef PARASHARD_DIALECTS_PS_PSATTRIBUTES_H
#define PARASHARD_DIALECTS_PS_PSATTRIBUTES_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"

#include "dialects/ps/PsEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/ps/PsAttributes.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/ps/PsTypes.h.inc"

#endif
