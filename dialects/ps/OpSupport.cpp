// Implements the builders and default methods of the op interfaces.
#include "dialects/ps/OpSupport.h"
#include "dialects/ps/CallBuilder.h"
#include "dialects/ps/Ps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>

using namespace mlir;
using namespace parashard::ps;

//===----------------------------------------------------------------------===//
// Cost
//===----------------------------------------------------------------------===//

int64_t parashard::ps::getByteSize(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return type.isIntOrFloat() ? llvm::divideCeil(type.getIntOrFloatBitWidth(), 8) : 0;
  return tensor.getNumElements() * llvm::divideCeil(tensor.getElementTypeBitWidth(), 8);
}

OpCost parashard::ps::elementwiseCost(TypeRange operands, TypeRange results) {
  OpCost cost;
  for (Type type : operands)
    cost.bytesRead += getByteSize(type);
  for (Type type : results) {
    cost.bytesWritten += getByteSize(type);
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      cost.otherFlops += tensor.getNumElements();
  }
  return cost;
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

BackwardBuilder::BackwardBuilder(Operation *forward, int64_t origin, ArrayRef<bool> needed)
    : OpBuilder(forward->getContext(), static_cast<OpBuilder::Listener *>(this)),
      loc(forward->getLoc()), origin(origin), needed(needed.begin(), needed.end()) {}

void BackwardBuilder::notifyOperationInserted(Operation *op, InsertPoint) {
  op->setAttr(kPhaseMark, PhaseAttr::get(getContext(), phase));
  op->setAttr(kOriginMark, getI64IntegerAttr(origin));
}

//===----------------------------------------------------------------------===//
// ElementBuilder
//===----------------------------------------------------------------------===//

/// Truncates a double to an integer. Clamps values beyond i64; NaN gives 0.
static int64_t toInteger(double value) {
  if (std::isnan(value))
    return 0;
  return value >= 0x1p63 ? INT64_MAX : value < -0x1p63 ? INT64_MIN : int64_t(value);
}

static bool isFloat(Value value) { return isa<FloatType>(getElementTypeOrSelf(value.getType())); }

Value ElementBuilder::constant(Value like, double value) {
  Type element = getElementTypeOrSelf(like.getType());
  TypedAttr attr;
  if (auto type = dyn_cast<FloatType>(element))
    attr = FloatAttr::get(type, value);
  else
    attr = IntegerAttr::get(element, toInteger(value));
  if (auto shaped = dyn_cast<ShapedType>(like.getType()))
    attr = DenseElementsAttr::get(shaped, ArrayRef<Attribute>(attr));
  return arith::ConstantOp::create(b, loc, attr);
}

template <typename FloatOp, typename IntOp>
static Value binary(OpBuilder &b, Location loc, Value x, Value y) {
  if (isFloat(x))
    return FloatOp::create(b, loc, x, y);
  return IntOp::create(b, loc, x, y);
}

Value ElementBuilder::add(Value x, Value y) {
  return binary<arith::AddFOp, arith::AddIOp>(b, loc, x, y);
}
Value ElementBuilder::sub(Value x, Value y) {
  return binary<arith::SubFOp, arith::SubIOp>(b, loc, x, y);
}
Value ElementBuilder::mul(Value x, Value y) {
  return binary<arith::MulFOp, arith::MulIOp>(b, loc, x, y);
}
Value ElementBuilder::div(Value x, Value y) {
  if (isFloat(x))
    return arith::DivFOp::create(b, loc, x, y);
  // The processor traps on a divisor of 0, also in masked lanes, and on the least integer divided
  // by -1. In both cases, divide by 1 instead.
  Value one = constant(x, 1), zero = constant(x, 0);
  Value isZero = compare(Predicate::Eq, y, zero);
  Value isMinusOne = compare(Predicate::Eq, y, constant(x, -1));
  Value traps = arith::OrIOp::create(b, loc, isZero, isMinusOne);
  Value quotient = arith::DivSIOp::create(b, loc, x, select(traps, one, y));
  return select(isZero, zero, select(isMinusOne, sub(zero, x), quotient));
}
Value ElementBuilder::fma(Value x, Value y, Value z) {
  return math::FmaOp::create(b, loc, x, y, z);
}
Value ElementBuilder::neg(Value x) {
  if (isFloat(x))
    return arith::NegFOp::create(b, loc, x);
  return sub(constant(x, 0), x);
}

static arith::CmpFPredicate floatPredicate(Predicate predicate) {
  switch (predicate) {
  case Predicate::Eq:
    return arith::CmpFPredicate::OEQ;
  case Predicate::Ne:
    return arith::CmpFPredicate::UNE;
  case Predicate::Lt:
    return arith::CmpFPredicate::OLT;
  case Predicate::Le:
    return arith::CmpFPredicate::OLE;
  case Predicate::Gt:
    return arith::CmpFPredicate::OGT;
  case Predicate::Ge:
    return arith::CmpFPredicate::OGE;
  }
  llvm_unreachable("unknown predicate");
}

static arith::CmpIPredicate intPredicate(Predicate predicate, bool isUnsigned) {
  switch (predicate) {
  case Predicate::Eq:
    return arith::CmpIPredicate::eq;
  case Predicate::Ne:
    return arith::CmpIPredicate::ne;
  case Predicate::Lt:
    return isUnsigned ? arith::CmpIPredicate::ult : arith::CmpIPredicate::slt;
  case Predicate::Le:
    return isUnsigned ? arith::CmpIPredicate::ule : arith::CmpIPredicate::sle;
  case Predicate::Gt:
    return isUnsigned ? arith::CmpIPredicate::ugt : arith::CmpIPredicate::sgt;
  case Predicate::Ge:
    return isUnsigned ? arith::CmpIPredicate::uge : arith::CmpIPredicate::sge;
  }
  llvm_unreachable("unknown predicate");
}

Value ElementBuilder::compare(Predicate predicate, Value x, Value y) {
  if (isFloat(x))
    return arith::CmpFOp::create(b, loc, floatPredicate(predicate), x, y);
  bool isUnsigned = getElementTypeOrSelf(x.getType()).isInteger(1);
  return arith::CmpIOp::create(b, loc, intPredicate(predicate, isUnsigned), x, y);
}

Value ElementBuilder::select(Value condition, Value x, Value y) {
  return arith::SelectOp::create(b, loc, condition, x, y);
}

//===----------------------------------------------------------------------===//
// Partition
//===----------------------------------------------------------------------===//

namespace {
/// An operand dim that an op reduces.
struct ReducedDim {
  unsigned operand, dim;
  ReductionKind kind;
};
} // namespace

/// Returns the operand dims that hold a reduction factor of the op's rule.
static SmallVector<ReducedDim> getReducedDims(const ShardingRule &rule) {
  SmallVector<ReducedDim> reduced;
  for (auto [operand, dims] : llvm::enumerate(rule.operands))
    for (auto [dim, factors] : llvm::enumerate(dims))
      for (unsigned factor : factors)
        if (rule.factors[factor].kind == RuleFactor::Kind::Reduction) {
          reduced.push_back({unsigned(operand), unsigned(dim), rule.factors[factor].reduction});
          break;
        }
  return reduced;
}

static double getIdentityNumber(ReductionKind kind) {
  switch (kind) {
  case ReductionKind::Sum:
    return 0;
  case ReductionKind::Max:
    return -std::numeric_limits<double>::infinity();
  case ReductionKind::Min:
    return std::numeric_limits<double>::infinity();
  }
  llvm_unreachable("a reduction kind");
}

FailureOr<SmallVector<Value>> parashard::ps::partitionByCloning(Operation *op,
                                                                PartitionBuilder &builder,
                                                                ValueRange locals,
                                                                TypeRange localResults) {
  SmallVector<Value> operands(locals);
  auto isSplit = [&](unsigned i) { // an operand without a split dim has no padding
    ShardingAttr sharding = builder.getOperandSharding(i);
    return sharding && !sharding.isReplicated();
  };
  auto interface = dyn_cast<ShardingOpInterface>(op);
  if (interface && llvm::any_of(llvm::seq<unsigned>(0, locals.size()), isSplit))
    for (ReducedDim c : getReducedDims(interface.getShardingRule()))
      operands[c.operand] = builder.selectPadding(
          operands[c.operand], builder.getOperandType(c.operand),
          builder.getOperandSharding(c.operand), c.dim, getIdentityNumber(c.kind));
  Operation *clone = Operation::create(builder.getLoc(), op->getName(), localResults, operands,
                                       op->getDiscardableAttrDictionary(),
                                       op->getPropertiesStorage(), /*successors=*/{},
                                       /*numRegions=*/0);
  builder.insert(clone);
  return SmallVector<Value>(clone->getResults());
}

void CallBuilder::addTypes(Value operand, Value result) {
  Type in = getElementTypeOrSelf(operand.getType()), out = getElementTypeOrSelf(result.getType());
  addType("dtype", in);
  if (in != out)
    addType("out_dtype", out);
}
