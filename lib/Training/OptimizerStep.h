// Declares how an optimizer step is built from elementwise ops.
#ifndef PARASHARD_LIB_TRAINING_OPTIMIZERSTEP_H
#define PARASHARD_LIB_TRAINING_OPTIMIZERSTEP_H

#include "OptimizerSpec.h"
#include "dialects/ps/Ps.h"

namespace parashard::training {

/// Creates elementwise ops at `loc`. Both operands of an op have the same type.
class Arithmetic {
public:
  Arithmetic(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), loc(loc) {}

  mlir::Value constant(mlir::Value like, double value);
  /// Converts a scalar to `like`'s element type, and broadcasts it to `like`'s shape.
  mlir::Value spread(mlir::Value scalar, mlir::Value like);
  /// Broadcasts a scalar bool to `like`'s shape.
  mlir::Value spreadBool(mlir::Value scalar, mlir::Value like);
  mlir::Value convert(mlir::Value value, mlir::Type element);
  mlir::Value compare(ps::Predicate predicate, mlir::Value x, mlir::Value y);
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y);
  template <typename Op> mlir::Value unary(mlir::Value x) {
    return Op::create(builder, loc, x.getType(), x);
  }
  template <typename Op> mlir::Value binary(mlir::Value x, mlir::Value y) {
    return Op::create(builder, loc, x.getType(), x, y);
  }
  mlir::Value add(mlir::Value x, mlir::Value y) { return binary<ps::AddOp>(x, y); }
  mlir::Value sub(mlir::Value x, mlir::Value y) { return binary<ps::SubOp>(x, y); }
  mlir::Value mul(mlir::Value x, mlir::Value y) { return binary<ps::MulOp>(x, y); }
  mlir::Value div(mlir::Value x, mlir::Value y) { return binary<ps::DivOp>(x, y); }
  mlir::Value scale(mlir::Value x, double factor) { return mul(x, constant(x, factor)); }
  mlir::Value scale(mlir::Value x, mlir::Value scalar) { return mul(x, spread(scalar, x)); }

  mlir::OpBuilder &builder;
  mlir::Location loc;
};

/// Returns 1 - beta^t for a scalar t = `step` >= 1, accurate to a few ulps. Computes -expm1(t log
/// beta), with a series near 0. In f32, 1 - pow(beta, t) would lose two to three of seven digits:
/// for t = 1 and beta = 0.999, the relative error is about 1.3e-5.
mlir::Value makeBiasCorrection(Arithmetic &math, mlir::Value step, mlir::Value logBeta);

/// Scalars that all parameters of an optimizer's group share. t is `count` + 1. Scalars that the
/// optimizer does not need are null.
struct GroupScalars {
  // Values of variables: hyperparameters, and values that the host computes from them.
  mlir::Value lr, weightDecay, momentum, beta2;
  mlir::Value meanShare, squareShare; ///< 1 - beta1, 1 - beta2
  mlir::Value logBeta1, logBeta2;
  // Values that the update computes once.
  mlir::Value count;       ///< number of earlier steps that were not skipped, tensor<f32>
  mlir::Value decayFactor; ///< 1 - lr * weight_decay (AdamW with a decay)
  mlir::Value stepSize;    ///< lr / (1 - beta1^t) (Adam, AdamW)
  mlir::Value root;        ///< sqrt(1 - beta2^t) (Adam, AdamW)
  /// Weight of the new value in a moving average: 1 - decay, or 1 in the first step; null without
  /// averages. The caller of `completeGroupScalars` sets it.
  mlir::Value averaged;
};
/// Computes the other scalars, except `averaged`, from the values of variables and from `count`.
void completeGroupScalars(Arithmetic &math, const OptimizerSpec &spec, GroupScalars &group);

/// The host computes a scalar from a hyperparameter. The forms are the hyperparameter x itself, 1 -
/// x and log x. The last two are variables of their own, because f32 would lose digits of 1 - x and
/// log x. Example: log(f32(0.999)) differs from log(0.999) in the fifth digit.
struct ScalarForm {
  llvm::StringLiteral name; ///< suffix of the variable; empty: x itself
  double (*compute)(double x);
};
inline constexpr unsigned kScalarForms = 3;
llvm::ArrayRef<ScalarForm> getScalarForms();

/// A hyperparameter that may change between steps.
struct Hyperparameter {
  llvm::StringLiteral name;
  double OptimizerSpec::*initial;
  bool isOmittedAtZero; ///< an initial value of 0 leaves its arithmetic out of the program
  /// The scalars that receive the forms of the hyperparameter, in the order of `getScalarForms`.
  /// Null: the optimizer does not need this form.
  mlir::Value GroupScalars::*forms[kScalarForms];
};
/// Returns the hyperparameters of an optimizer that may change between steps.
llvm::SmallVector<Hyperparameter> getHyperparameters(const OptimizerSpec &spec);

/// Returns the suffixes of the state variables of each parameter. Example: "adamw.mean" and
/// "adamw.square".
llvm::SmallVector<std::string> getStateNames(const OptimizerSpec &spec);

/// The parameter and its state after one step. All tensors have the same type.
struct StepResult {
  mlir::Value parameter;
  llvm::SmallVector<mlir::Value> state;
};
/// Builds one optimizer step, as in torch.optim.SGD, Adam or AdamW without amsgrad.
StepResult makeStep(Arithmetic &math, const OptimizerSpec &spec, const GroupScalars &group,
                    mlir::Value parameter, mlir::Value gradient, llvm::ArrayRef<mlir::Value> state);

} // namespace parashard::training

#endif
