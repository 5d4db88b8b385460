// Recognizes attention or its gradient in a graph of separate operations.
#ifndef PSRT_TESTING_CUDNN_COMPOSITE_H
#define PSRT_TESTING_CUDNN_COMPOSITE_H

#include "runtime/testing/cudnn/Attention.h"

namespace psrt::fake {

/// An operation of a composite graph; absent tensors are null. Reductions and reshapes have x and
/// y, matmuls x, b and y.
struct Part {
  enum Kind { Pointwise, Matmul, Reduction, Reshape };
  explicit Part(const DescriptorRef &operation);

  DescriptorRef operation;
  Kind kind = Pointwise;
  int mode = 0; ///< cudnnPointwiseMode_t or cudnnReduceTensorOp_t
  const Descriptor *x = nullptr, *b = nullptr, *y = nullptr;
  bool isTaken = false; ///< whether the pattern already contains this operation
};

/// Accepts only graphs that cuDNN recognizes. Every part must be in its position in the pattern,
/// and no part may be left over. Intermediate tensors must be virtual and f32, but operands of
/// matmuls have the heads' type.
class Composite : public Attention {
public:
  explicit Composite(const std::vector<DescriptorRef> &operations);
  bool addsUpInAnyOrder() const override { return querySums.has_value(); }
  bool isWrongIn(size_t version) const override;

private:
  using Kind = Part::Kind;
  /// Returns a part of this kind and mode that reads x and is not taken yet, or null.
  Part *find(Kind kind, int mode, const Descriptor &x);
  /// Marks the part that find() returns as taken, and returns the part. Refuses the graph if find()
  /// returns null, if the other operand of the part is not `b` (unless `b` is null), or if the
  /// result of the part has the wrong type.
  const Part &take(Kind kind, int mode, const Descriptor &x, const Descriptor *b = nullptr,
                   bool isNarrow = false);
  const Descriptor &step(cudnnPointwiseMode_t mode, const Descriptor &x,
                         const Descriptor *b = nullptr) {
    return *take(Part::Pointwise, mode, x, b).y;
  }
  /// Takes the multiplication of x by a scalar, and stores the scalar in `number`. Returns the
  /// product.
  const Descriptor &scaleBy(std::optional<Tensor> &number, const Descriptor &x);
  void setHeads(int kind, const Descriptor &tensor, bool isTransposed = false);

  const Descriptor &takeScores(const Descriptor &matmul);
  const Descriptor &takeMaskStep(Part &part);
  const Descriptor &takeDiagonal(const Descriptor &scores);
  void takeValue();
  void takeGradients();
  /// Takes the matmul of transposed scores with rows, and the sum over the query heads of each key
  /// head.
  void takeKeyGradient(int kind, const Descriptor &scores, const Descriptor &rows);
  void takeQueryGradient(const Descriptor &scores, const Descriptor &transposedK);

  void checkMore() const;

  std::vector<Part> parts;
};

} // namespace psrt::fake

#endif
