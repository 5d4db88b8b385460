// Expands exp and reciprocals of f32 for a GPU.
#include "CudaMath.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace parashard;

static Value makeConstant(ImplicitLocOpBuilder &b, Type type, double value) {
  TypedAttr number = b.getFloatAttr(getElementTypeOrSelf(type), value);
  if (auto vector = dyn_cast<VectorType>(type))
    number = DenseElementsAttr::get(vector, static_cast<Attribute>(number));
  return arith::ConstantOp::create(b, number);
}

/// Replaces exp(x) by 2^t (1 + r ln 2), where t is x log2(e) rounded to f32, and r is the rounding
/// error of t. Without r, the result for x = -80 would have an error of 70 ulps. For |t| < 151, |r|
/// is below 2e-5. For larger |t|, 2^t is 0 or inf, and any factor near 1 will do. The bounds of r
/// also replace the NaN of an infinite x.
static void expandExp(math::ExpOp exp) {
  constexpr double kLog2E = 0x1.715476p+0, kLog2ERest = 0x1.4ae0cp-26; // sum: log2(e)
  constexpr double kLn2 = 0.69314718055994530942, kMostRest = 1e-4;
  ImplicitLocOpBuilder b(exp.getLoc(), exp);
  Value x = exp.getOperand();
  auto constant = [&](double value) { return makeConstant(b, x.getType(), value); };
  Value log2E = constant(kLog2E);
  Value t = arith::MulFOp::create(b, x, log2E);
  Value rest = math::FmaOp::create(b, x, log2E, arith::NegFOp::create(b, t));
  rest = math::FmaOp::create(b, x, constant(kLog2ERest), rest);
  rest = arith::MinNumFOp::create(b, rest, constant(kMostRest));
  rest = arith::MaxNumFOp::create(b, rest, constant(-kMostRest));
  Value factor = math::FmaOp::create(b, rest, constant(kLn2), constant(1));
  Value power = math::Exp2Op::create(b, t);
  exp.replaceAllUsesWith(arith::MulFOp::create(b, power, factor).getResult());
  exp.erase();
}

void codegen::expandCudaMath(ModuleOp kernels) {
  auto isOfF32 = [](Operation *op) {
    return getElementTypeOrSelf(op->getResult(0).getType()).isF32();
  };
  kernels.walk([&](Operation *op) {
    if (auto division = dyn_cast<arith::DivFOp>(op);
        division && isOfF32(op) && matchPattern(division.getLhs(), m_OneFloat()))
      division.setFastmath(arith::FastMathFlags::afn);
    else if (auto exp = dyn_cast<math::ExpOp>(op); exp && isOfF32(op))
      expandExp(exp);
  });
}
