// A host tensor of the reference evaluator and the constant folder.
#ifndef PARASHARD_DIALECTS_PS_TENSOR_H
#define PARASHARD_DIALECTS_PS_TENSOR_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include <cstdint>
#include <vector>

namespace parashard::ps {

/// A row-major tensor on the host. Floats are held as doubles that are rounded to the element
/// type whenever they are set; integers and bools as int64. Slow and exact on purpose.
class Tensor {
public:
  Tensor() = default;
  /// All zero.
  explicit Tensor(mlir::RankedTensorType type);
  /// From a constant (splat or dense, or a dense resource).
  static Tensor fromAttr(mlir::ElementsAttr attr);
  /// From raw little-endian bytes in the element type's own width (i1: a byte each).
  static Tensor fromBytes(mlir::RankedTensorType type, llvm::ArrayRef<char> bytes);

  mlir::DenseElementsAttr toAttr() const;
  std::vector<char> toBytes() const;

  mlir::RankedTensorType getType() const { return type; }
  llvm::ArrayRef<int64_t> getShape() const { return type.getShape(); }
  int64_t getRank() const { return type.getRank(); }
  int64_t size() const { return type.getNumElements(); }
  bool isFloat() const { return llvm::isa<mlir::FloatType>(type.getElementType()); }

  /// Element at a linear index, as a double (ints converted).
  double get(int64_t i) const { return floats.empty() ? double(ints[i]) : floats[i]; }
  int64_t getInt(int64_t i) const { return ints.empty() ? int64_t(floats[i]) : ints[i]; }
  /// Sets an element; a float is rounded to the element type, an int truncated to its width.
  void set(int64_t i, double value);
  void setInt(int64_t i, int64_t value);
  /// Every element (NaN for floats, a large negative number for ints) for padding.
  void fillUnspecified();

  /// Row-major strides, in elements.
  llvm::SmallVector<int64_t> getStrides() const;
  /// The linear index of a multi-index and back.
  int64_t linearize(llvm::ArrayRef<int64_t> index) const;
  llvm::SmallVector<int64_t> delinearize(int64_t linear) const;
  /// The same elements under another shape with as many elements.
  Tensor reshaped(mlir::RankedTensorType newType) const;
  /// The same elements, rounded, in another element type.
  Tensor convertTo(mlir::Type element) const;

private:
  mlir::RankedTensorType type;
  std::vector<double> floats;
  std::vector<int64_t> ints;
};

/// What random ops need to know besides their operands, and whether ops act as in training.
struct EvaluateContext {
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t microBatch = 0;
  bool training = true;
};

/// Philox4x32-10 (Salmon et al., SC 2011): a uniform float in [0, 1) for one global element.
/// The key is (seed, opKey, step) mixed to 64 bits, as docs/program-format.md ("Random numbers")
/// says; the counter is `counter`. The generated kernels and the runtime compute the same bits.
float philoxUniform(uint64_t seed, int64_t opKey, int64_t step, uint64_t counter);

} // namespace parashard::ps

#endif
