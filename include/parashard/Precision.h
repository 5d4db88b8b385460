// Declares mixed precision: the compute type of each op.
#ifndef PARASHARD_PRECISION_H
#define PARASHARD_PRECISION_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace parashard::precision {

/// The parsed value of `--precision`.
struct PrecisionSpec {
  enum class Kind {
    Fp32, ///< every op in the type of the model
    Bf16, ///< contractions in bf16; weights and updates in f32
    Fp16, ///< contractions in f16; the loss is scaled so that gradients do not vanish
    Half, ///< the whole model in bf16, including weights and optimizer state
    Fp8   ///< bf16, with the operands of linear layers quantized to fp8
  };
  /// How fp8 operands are scaled.
  struct Float8 {
    /// True: compute the scale from the amax (largest absolute value) of earlier steps. False:
    /// compute the scale from the amax of the tensor itself.
    bool delayed = true;
    int64_t history = 16; ///< number of steps whose amax is kept
    int64_t margin = 0;   ///< headroom: the scale is larger by a factor of 2^margin
    /// True: fail if a layer has dims that are not multiples of 16. False: the layer stays in bf16.
    bool failsOnMisfit = false;
    /// Globs of op names or module paths. `include`: linear layers to quantize (empty: all).
    /// `exclude`: linear layers that stay in bf16.
    std::vector<std::string> include, exclude;
  };
  Kind kind = Kind::Fp32;
  /// Globs of op names or module paths. Ops that match `keepFp32` get the class fp32 instead of
  /// their default class. Ops that match `compute` get the class compute.
  std::vector<std::string> keepFp32, compute;
  Float8 float8;

  bool scalesLoss() const { return kind == Kind::Fp16; }
};

/// Parses a value such as "bf16,keep-fp32=lm_head,compute=ps.add" or
/// "fp8,scaling=current,exclude=lm_head".
llvm::Expected<PrecisionSpec> parsePrecision(llvm::StringRef text);

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Precision/Passes.h.inc"

} // namespace parashard::precision

#endif
