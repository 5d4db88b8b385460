// Expands exp and reciprocals of f32 for a GPU.
#include "CudaMath.h"
#include "lib/Codegen/MathBuilder.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace parashard;
using parashard::codegen::MathBuilder;

/// Replaces exp(x) by 2^t (1 + r ln 2), where t is x log2(e) rounded to f32, and r is the rounding
/// error of t. Without r, the error for x near -80 would be up to 60 ulps. For |t| < 151, |r|
/// is below 2e-5. For larger |t|, 2^t is 0 or inf, and any factor near 1 will do. The bounds of r
/// also replace the NaN of an infinite x.
static void expandExp(math::ExpOp exp) {
  constexpr double kLog2E = 0x1.715476p+0, kLog2ERest = 0x1.4ae0cp-26; // sum: log2(e)
  constexpr double kLn2 = 0.69314718055994530942, kMaxRest = 1e-4;
  OpBuilder builder(exp);
  MathBuilder m(exp.getLoc(), builder);
  Value x = exp.getOperand(), log2E = m.constant(x, kLog2E), t = m.mul(x, log2E);
  Value rest = m.fma(x, m.constant(x, kLog2ERest), m.fma(x, log2E, m.neg(t)));
  rest = arith::MinNumFOp::create(m.builder(), rest, m.constant(x, kMaxRest));
  rest = arith::MaxNumFOp::create(m.builder(), rest, m.constant(x, -kMaxRest));
  Value factor = m.fma(rest, m.constant(x, kLn2), m.constant(x, 1));
  exp.replaceAllUsesWith(m.mul(m.unary<math::Exp2Op>(t), factor));
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
