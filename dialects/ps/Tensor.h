// Declares the host tensor of the reference evaluator and the constant folder.
#ifndef PARASHARD_DIALECTS_PS_TENSOR_H
#define PARASHARD_DIALECTS_PS_TENSOR_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include <cstdint>
#include <vector>

namespace parashard::ps {

/// A row-major tensor on the host. Floats are stored as doubles, rounded to the element type when
/// they are set. Integers and bools are stored as int64. Simple rather than fast.
class Tensor {
public:
  Tensor() = default;
  /// Creates a tensor of zeros.
  explicit Tensor(mlir::RankedTensorType type);
  /// Creates a tensor from a constant (splat, dense, or dense resource).
  static Tensor fromAttr(mlir::ElementsAttr attr);
  /// Creates a tensor from raw little-endian bytes of the element type (i1: one byte each).
  static Tensor fromBytes(mlir::RankedTensorType type, llvm::ArrayRef<char> bytes);

  mlir::DenseElementsAttr toAttr() const;
  std::vector<char> toBytes() const;

  mlir::RankedTensorType getType() const { return type; }
  llvm::ArrayRef<int64_t> getShape() const { return type.getShape(); }
  int64_t getRank() const { return type.getRank(); }
  int64_t size() const { return type.getNumElements(); }
  bool isFloat() const { return llvm::isa<mlir::FloatType>(type.getElementType()); }

  /// Returns the element at a linear index, as a double. Integers are converted.
  double get(int64_t i) const { return floats.empty() ? double(ints[i]) : floats[i]; }
  int64_t getInt(int64_t i) const { return ints.empty() ? int64_t(floats[i]) : ints[i]; }
  /// Sets an element. Floats are rounded to the element type. Integers are truncated to the width
  /// of the element type.
  void set(int64_t i, double value);
  void setInt(int64_t i, int64_t value);
  /// Sets every element to an arbitrary value, as padding may have: NaN for floats, -30000 for
  /// integers, and 1 for integers of at most 8 bits.
  void fillUnspecified();

  /// Returns the row-major strides, in elements.
  llvm::SmallVector<int64_t> getStrides() const;
  /// Convert between the linear index and the multi-index of an element.
  int64_t linearize(llvm::ArrayRef<int64_t> index) const;
  llvm::SmallVector<int64_t> delinearize(int64_t linear) const;
  /// Returns the same elements under another shape with the same number of elements.
  Tensor reshaped(mlir::RankedTensorType newType) const;
  /// Returns the elements rounded to another element type.
  Tensor convertTo(mlir::Type element) const;

private:
  mlir::RankedTensorType type;
  std::vector<double> floats;
  std::vector<int64_t> ints;
};

/// The state that random ops use in addition to their operands, and whether ops act as in training.
struct EvaluateContext {
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t microBatch = 0;
  bool training = true;
};

/// Returns a uniform float in [0, 1) for one global element, by Philox4x32-10 (Salmon et al., SC
/// 2011). The key is (seed, opKey, step) mixed to 64 bits (docs/program-format.md, "Random
/// numbers"). Generated kernels and the runtime compute the same bits.
float philoxUniform(uint64_t seed, int64_t opKey, int64_t step, uint64_t counter);

} // namespace parashard::ps

#endif
