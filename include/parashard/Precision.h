// Which ops compute in which type.
#ifndef PARASHARD_PRECISION_H
#define PARASHARD_PRECISION_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace parashard {

/// What `--precision` says.
struct PrecisionSpec {
  enum class Kind {
    Fp32, ///< every op as the model has it
    Bf16, ///< contractions in bf16, weights and their updates in f32
    Fp16, ///< the same in f16, with a loss that is scaled so that gradients do not vanish
    Half, ///< all of the model in bf16, weights and optimizer state too
    Fp8   ///< as bf16, and operands of linear layers rounded to scaled 8-bit floats
  };
  /// How operands are scaled in fp8.
  struct Float8 {
    bool delayed = true;        ///< by the largest of earlier steps, else by the tensor's own
    int64_t history = 16;       ///< steps that are remembered
    int64_t margin = 0;         ///< powers of two left free above
    bool failsOnMisfit = false; ///< where dims are no multiples of 16; else such layers stay bf16
    std::vector<std::string> include, exclude; ///< globs of ops or modules; no include: all
  };
  Kind kind = Kind::Fp32;
  /// Globs of op names or module paths whose ops are of class fp32, or compute, whatever the table
  /// says.
  std::vector<std::string> keepFp32, compute;
  Float8 float8;

  bool scalesLoss() const { return kind == Kind::Fp16; }
};

/// Reads "bf16,keep-fp32=lm_head,compute=ps.add" or "fp8,scaling=current,exclude=lm_head".
llvm::Expected<PrecisionSpec> parsePrecision(llvm::StringRef text);

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Precision/Passes.h.inc"

} // namespace parashard

#endif
