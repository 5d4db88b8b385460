// Attention, or its gradient, with a graph of what is done with scores.
#ifndef PSRT_TESTING_CUDNN_ATTENTION_H
#define PSRT_TESTING_CUDNN_ATTENTION_H

#include "runtime/testing/cudnn/Execution.h"
#include <optional>

namespace psrt::fake {

class Attention : public Execution {
public:
  explicit Attention(const Descriptor &operation);
  static bool isOne(cudnnBackendDescriptorType_t type);
  std::vector<Tensor *> tensors() override;
  void compute() const override;

protected:
  enum { Q, K, V, Out, Lse, Dout, Dq, Dk, Dv, Kinds };
  /// Whose tensors are set by who derives from it.
  struct Empty {};
  Attention(Empty, bool isGradient) : isGradient(isGradient), heads(Kinds) {}

  void takeStep(const Descriptor &operation);
  int numberOf(const Descriptor &tensor);
  /// Steps that follow read `tensor` where they mean the last value.
  void relay(const Descriptor &tensor);
  void checkShapes() const;

  bool isGradient;
  std::vector<std::optional<Tensor>> heads; ///< by kind
  std::optional<Tensor> scale;
  int first = -1, last = -1; ///< of the mask's values
  /// Of dropout: 1 or 0 for each score, a number for what is kept, and one over it.
  std::optional<Tensor> kept, keptScale, keptPart;
  /// That gradients work in: sums of rows times `keptPart`, gradients of queries.
  std::optional<Tensor> rowSums, querySums;

private:
  /// y = mode(x, b, t), by their numbers in a list of values; -1 where there is none.
  struct Step {
    cudnnPointwiseMode_t mode;
    int64_t axis = -1;
    int x = -1, b = -1, t = -1, y = -1;
  };

  void takeMask(const Descriptor &graph, int64_t inputId, int64_t outputId);
  /// What becomes of the score of a place.
  double mask(double score, int64_t b, int64_t h, int64_t i, int64_t j,
              std::vector<double> &values) const;
  /// Scores of a row.
  std::vector<double> scoresOf(int64_t b, int64_t h, int64_t i) const;
  void computeRow(int64_t b, int64_t h, int64_t i) const;
  void addGradients(int64_t b, int64_t h, int64_t i, std::vector<double> *sums) const;
  /// What a probability is multiplied by for dropout.
  double keepOf(int64_t b, int64_t h, int64_t i, int64_t j) const;
  double at(int kind, int64_t b, int64_t h, int64_t i, int64_t d) const;
  void storeAll(const Tensor &to, const std::vector<double> &values) const;

  std::vector<std::optional<Tensor>> inputs; ///< of the mask's steps, by the number of the value
  std::vector<int64_t> ids;                  ///< by the number of the value
  std::vector<Step> steps;
};

} // namespace psrt::fake

#endif
