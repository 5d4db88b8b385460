// Computes attention or its gradient, with a graph that is applied to the scores.
#ifndef PSRT_TESTING_CUDNN_ATTENTION_H
#define PSRT_TESTING_CUDNN_ATTENTION_H

#include "runtime/testing/cudnn/Execution.h"
#include <optional>

namespace psrt::fake {

/// An attention and its mask. The *mask* is the graph of pointwise operations on the scores, such
/// as the addition of a bias. It is a list of steps that read and write numbered values.
class Attention : public Execution {
public:
  explicit Attention(const Descriptor &operation);
  static bool isOne(cudnnBackendDescriptorType_t type);
  std::vector<Tensor *> tensors() override;
  void compute() const override;

protected:
  enum { Q, K, V, Out, Lse, Dout, Dq, Dk, Dv, Kinds };
  /// Tag for derived classes, which set the tensors themselves.
  struct Empty {};
  Attention(Empty, bool isGradient) : isGradient(isGradient), heads(Kinds) {}

  /// Adds a step to the mask.
  void takeStep(const Descriptor &operation);
  /// Returns the number of the value that a tensor holds. A new tensor gets the next number.
  int numberOf(const Descriptor &tensor);
  /// Adds a step that copies the last value to `tensor`, which the following steps read.
  void relay(const Descriptor &tensor);
  void checkShapes() const;

  bool isGradient;
  std::vector<std::optional<Tensor>> heads; ///< by kind
  std::optional<Tensor> scale;
  int first = -1, last = -1; ///< value indices of the mask's input and output
  /// Tensors of dropout: `kept` is 1 or 0 for each score, `keptScale` is 1 / the keep probability,
  /// and `keptPart` is the keep probability.
  std::optional<Tensor> kept, keptScale, keptPart;
  /// Intermediate results of gradients, in f32. `rowSums`: for each row, the sum of Out x Dout,
  /// times `keptPart`. `querySums`: the gradient of the queries, before it is rounded to Dq.
  std::optional<Tensor> rowSums, querySums;

private:
  /// One step of the mask: y = mode(x, b, t). Operands are value indices, or -1 if absent.
  struct Step {
    cudnnPointwiseMode_t mode;
    int64_t axis = -1;
    int x = -1, b = -1, t = -1, y = -1;
  };

  void takeMask(const Descriptor &graph, int64_t inputId, int64_t outputId);
  /// Returns the score at (b, h, i, j) after the mask's steps.
  double mask(double score, int64_t b, int64_t h, int64_t i, int64_t j,
              std::vector<double> &values) const;
  /// Returns the scores of a row.
  std::vector<double> scoresOf(int64_t b, int64_t h, int64_t i) const;
  void computeRow(int64_t b, int64_t h, int64_t i) const;
  void addGradients(int64_t b, int64_t h, int64_t i, std::vector<double> *sums) const;
  /// Returns the factor that dropout applies to a probability.
  double keepOf(int64_t b, int64_t h, int64_t i, int64_t j) const;
  double at(int kind, int64_t b, int64_t h, int64_t i, int64_t d) const;
  void storeAll(const Tensor &to, const std::vector<double> &values) const;

  std::vector<std::optional<Tensor>> inputs; ///< by value index; nullopt: not an input
  std::vector<int64_t> ids;                  ///< tensor ids, by value index
  std::vector<Step> steps;
};

} // namespace psrt::fake

#endif
