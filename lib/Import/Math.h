// Builds arithmetic on values of one type, for functions that are composed of elementwise ops.
#ifndef PARASHARD_LIB_IMPORT_MATH_H
#define PARASHARD_LIB_IMPORT_MATH_H

#include "lib/Import/Build.h"

namespace parashard::import {

/// Builds elementwise ops with `n`. A number stands for a constant of the other operand's type.
struct Math {
  TensorBuilder &n;

  mlir::Value splat(mlir::Value like, double value) { return n.splat(getType(like), value); }
  mlir::Value add(mlir::Value x, mlir::Value y) { return n.make<ps::AddOp>(x, y); }
  mlir::Value add(mlir::Value x, double y) { return y == 0 ? x : add(x, splat(x, y)); }
  mlir::Value sub(mlir::Value x, mlir::Value y) { return n.make<ps::SubOp>(x, y); }
  mlir::Value mul(mlir::Value x, mlir::Value y) { return n.make<ps::MulOp>(x, y); }
  mlir::Value mul(mlir::Value x, double y) { return y == 1 ? x : mul(x, splat(x, y)); }
  mlir::Value div(mlir::Value x, mlir::Value y) { return n.make<ps::DivOp>(x, y); }
  mlir::Value neg(mlir::Value x) { return n.make<ps::NegOp>(x); }
  mlir::Value sqrt(mlir::Value x) { return n.make<ps::SqrtOp>(x); }
  mlir::Value softplus(mlir::Value x) { return n.make<ps::SoftplusOp>(x); }
  mlir::Value is(mlir::Value x, ps::Predicate predicate, double y) {
    return n.compare(predicate, x, splat(x, y));
  }
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y) {
    return n.make<ps::SelectOp>(condition, x, y);
  }
  /// Clamps x to [least, most]. The gradient is 0 at the bounds and outside of them.
  mlir::Value bound(mlir::Value x, double least, double most) {
    mlir::Value above = select(is(x, ps::Predicate::Le, least), splat(x, least), x);
    return select(is(x, ps::Predicate::Ge, most), splat(x, most), above);
  }
};

} // namespace parashard::import

#endif
