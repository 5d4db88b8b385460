// Builds the arithmetic into which math functions are expanded.
#ifndef PARASHARD_LIB_CODEGEN_MATHBUILDER_H
#define PARASHARD_LIB_CODEGEN_MATHBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/TypeUtilities.h"

namespace parashard::codegen {

/// Builds arithmetic on scalars or vectors.
class MathBuilder {
public:
  MathBuilder(mlir::Location loc, mlir::OpBuilder &builder) : b(loc, builder) {}

  mlir::Value constant(mlir::Value like, double value) {
    mlir::Type element = mlir::getElementTypeOrSelf(like.getType());
    mlir::TypedAttr number = b.getFloatAttr(element, value);
    if (auto vector = llvm::dyn_cast<mlir::VectorType>(like.getType()))
      number = mlir::DenseElementsAttr::get(vector, static_cast<mlir::Attribute>(number));
    return mlir::arith::ConstantOp::create(b, number);
  }
  mlir::Value add(mlir::Value x, mlir::Value y) { return mlir::arith::AddFOp::create(b, x, y); }
  mlir::Value sub(mlir::Value x, mlir::Value y) { return mlir::arith::SubFOp::create(b, x, y); }
  mlir::Value mul(mlir::Value x, mlir::Value y) { return mlir::arith::MulFOp::create(b, x, y); }
  mlir::Value div(mlir::Value x, mlir::Value y) { return mlir::arith::DivFOp::create(b, x, y); }
  mlir::Value mul(mlir::Value x, double y) { return mul(x, constant(x, y)); }
  mlir::Value neg(mlir::Value x) { return mlir::arith::NegFOp::create(b, x); }
  mlir::Value both(mlir::Value x, mlir::Value y) { return mlir::arith::AndIOp::create(b, x, y); }
  mlir::Value either(mlir::Value x, mlir::Value y) { return mlir::arith::OrIOp::create(b, x, y); }
  mlir::Value floor(mlir::Value x) { return mlir::math::FloorOp::create(b, x); }
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y) {
    return mlir::arith::SelectOp::create(b, condition, x, y);
  }
  mlir::Value compare(mlir::arith::CmpFPredicate predicate, mlir::Value x, mlir::Value y) {
    return mlir::arith::CmpFOp::create(b, predicate, x, y);
  }
  mlir::Value equal(mlir::Value x, mlir::Value y) {
    return compare(mlir::arith::CmpFPredicate::OEQ, x, y);
  }
  /// Builds x y + z with one rounding.
  mlir::Value fma(mlir::Value x, mlir::Value y, mlir::Value z) {
    return mlir::math::FmaOp::create(b, x, y, z);
  }
  template <typename Op> mlir::Value unary(mlir::Value x) { return Op::create(b, x); }
  mlir::Value convert(mlir::Value x, mlir::Type element) {
    mlir::Type type = element;
    if (auto vector = llvm::dyn_cast<mlir::VectorType>(x.getType()))
      type = vector.clone(element);
    return element.isF64() ? mlir::Value(mlir::arith::ExtFOp::create(b, type, x))
                           : mlir::Value(mlir::arith::TruncFOp::create(b, type, x));
  }
  mlir::ImplicitLocOpBuilder &builder() { return b; }

private:
  mlir::ImplicitLocOpBuilder b;
};

} // namespace parashard::codegen

#endif
