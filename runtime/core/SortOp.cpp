// Parses and checks the instructions that sort along a dim.
#include "runtime/core/SortOp.h"
#include "runtime/core/Element.h"
#include "runtime/core/InstructionParser.h"

namespace psrt {

void parseSort(const Json &object, const Mesh &, Instruction &result) {
  SortOp op;
  op.grad = object.at("op") == "sort_grad";
  op.dtype = getDtype(object, "dtype");
  op.outer = getInt(object, "outer");
  op.size = getInt(object, "size");
  op.inner = getInt(object, "inner");
  op.descending = getOr(object, "descending", false);
  countElements({op.outer, op.size, op.inner});
  countElements({op.outer, op.inner}); // the product above is 0 if `size` is 0
  if (isFloat8(op.dtype) || (op.grad && !isFloat(op.dtype)))
    PSRT_FAIL(BadInput, "%s of %s is not supported", op.name(), dtypeName(op.dtype));
  addBuffers(result, object, {"x", "indices", "out"});
  result.op = op;
}

} // namespace psrt
