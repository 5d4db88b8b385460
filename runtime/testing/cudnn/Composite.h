// Attention, or its gradient, as a graph of its parts.
#ifndef PSRT_TESTING_CUDNN_COMPOSITE_H
#define PSRT_TESTING_CUDNN_COMPOSITE_H

#include "runtime/testing/cudnn/Attention.h"

namespace psrt::fake {

/// An operation of such a graph, its tensors null where there is none. Reductions and reshapes
/// have x and y, matmuls x, b and y.
struct Part {
  enum Kind { Pointwise, Matmul, Reduction, Reshape };
  explicit Part(const DescriptorRef &operation);

  DescriptorRef operation;
  Kind kind = Pointwise;
  int mode = 0; ///< cudnnPointwiseMode_t or cudnnReduceTensorOp_t
  const Descriptor *x = nullptr, *b = nullptr, *y = nullptr;
  bool isTaken = false;
};

/// Only what cuDNN knows again is taken: each part in its place, what is on the way virtual and
/// f32, what matmuls read of the type of the heads, and no part is left.
class Composite : public Attention {
public:
  explicit Composite(const std::vector<DescriptorRef> &operations);
  bool addsUpInAnyOrder() const override { return querySums.has_value(); }
  bool isWrongIn(size_t version) const override;

private:
  using Kind = Part::Kind;
  /// The part that reads x; null where there is none.
  Part *find(Kind kind, int mode, const Descriptor &x);
  /// Takes it; refuses where there is none, where it is not `b` that it reads besides, or where
  /// its result has the wrong type.
  const Part &take(Kind kind, int mode, const Descriptor &x, const Descriptor *b = nullptr,
                   bool isNarrow = false);
  const Descriptor &step(cudnnPointwiseMode_t mode, const Descriptor &x,
                         const Descriptor *b = nullptr) {
    return *take(Part::Pointwise, mode, x, b).y;
  }
  /// A factor that is a number.
  const Descriptor &scaleBy(std::optional<Tensor> &number, const Descriptor &x);
  void setHeads(int kind, const Descriptor &tensor, bool isTurned = false);

  const Descriptor &takeScores(const Descriptor &matmul);
  const Descriptor &takeMaskStep(Part &part);
  const Descriptor &takeDiagonal(const Descriptor &scores);
  void takeValue();
  void takeGradients();
  /// Turned, times rows, over the query heads of a key head.
  void takeKeyGradient(int kind, const Descriptor &scores, const Descriptor &rows);
  void takeQueryGradient(const Descriptor &scores, const Descriptor &turnedK);

  void checkMore() const;

  std::vector<Part> parts;
};

} // namespace psrt::fake

#endif
