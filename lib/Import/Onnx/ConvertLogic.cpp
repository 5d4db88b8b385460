// Converts comparisons and logical ops.
#include "lib/Import/Onnx/Convert.h"
#include <limits>

using namespace mlir;

namespace parashard::import {
namespace {

template <ps::Predicate kPredicate> LogicalResult convertCompare(OnnxNode &n) {
  auto [lhs, rhs] = n.broadcastInputs();
  return n.failed() ? failure() : n.set(n.compare(kPredicate, lhs, rhs));
}

template <typename Op> LogicalResult convertLogic(OnnxNode &n) {
  auto [lhs, rhs] = n.broadcastInputs();
  return n.failed() ? failure() : n.set(n.make<Op>(lhs, rhs));
}

LogicalResult convertNot(OnnxNode &n) {
  Value x = n.input(0);
  return n.failed() ? failure() : n.set(n.make<ps::NotOp>(x));
}

LogicalResult convertIsNan(OnnxNode &n) {
  Value x = n.input(0);
  return n.failed() ? failure() : n.set(n.compare(ps::Predicate::Ne, x, x));
}

LogicalResult convertIsInf(OnnxNode &n) {
  Value x = n.input(0);
  if (n.failed())
    return failure();
  bool positive = n.integer("detect_positive", 1), negative = n.integer("detect_negative", 1);
  double infinity = std::numeric_limits<double>::infinity();
  if (positive && negative)
    return n.set(n.compare(ps::Predicate::Eq, n.make<ps::AbsOp>(x), n.splat(getType(x), infinity)));
  if (!positive && !negative)
    return n.set(n.splat(n.typeLike(x, n.i1()), 0));
  Value bound = n.splat(getType(x), positive ? infinity : -infinity);
  return n.set(n.compare(ps::Predicate::Eq, x, bound));
}

} // namespace

void addOnnxLogicConverters(OnnxConverterTable &table) {
  table["Equal"] = convertCompare<ps::Predicate::Eq>;
  table["Less"] = convertCompare<ps::Predicate::Lt>;
  table["LessOrEqual"] = convertCompare<ps::Predicate::Le>;
  table["Greater"] = convertCompare<ps::Predicate::Gt>;
  table["GreaterOrEqual"] = convertCompare<ps::Predicate::Ge>;
  table["And"] = convertLogic<ps::AndOp>;
  table["Or"] = convertLogic<ps::OrOp>;
  table["Xor"] = convertCompare<ps::Predicate::Ne>;
  table["BitwiseAnd"] = convertLogic<ps::AndOp>;
  table["BitwiseOr"] = convertLogic<ps::OrOp>;
  table["Not"] = convertNot;
  table["IsNaN"] = convertIsNan;
  table["IsInf"] = convertIsInf;
}

} // namespace parashard::import
