// Attention, or its gradient, with a graph of what is done with scores.
#ifndef PSRT_DEVICE_CUDA_STANDIN_CUDNN_ATTENTION_H
#define PSRT_DEVICE_CUDA_STANDIN_CUDNN_ATTENTION_H

#include "runtime/device/cuda/standin/cudnn/Execution.h"
#include <optional>

namespace psrt::standin {

class Attention : public Execution {
public:
  explicit Attention(const Descriptor &operation);
  static bool isOne(cudnnBackendDescriptorType_t type);
  std::vector<Tensor *> tensors() override;
  void compute() const override;

private:
  enum { Q, K, V, Out, Lse, Dout, Dq, Dk, Dv, Kinds };
  /// y = mode(x, b, t), by their numbers in a list of values; -1 where there is none.
  struct Step {
    cudnnPointwiseMode_t mode;
    int64_t axis = -1;
    int x = -1, b = -1, t = -1, y = -1;
  };

  void takeMask(const Descriptor &graph, int64_t inputId, int64_t outputId);
  void takeStep(const Descriptor &operation);
  int numberOf(const Descriptor &tensor);
  void checkShapes() const;
  /// What becomes of the score of a place.
  double mask(double score, int64_t b, int64_t h, int64_t i, int64_t j,
              std::vector<double> &values) const;
  /// Scores of a row.
  std::vector<double> scoresOf(int64_t b, int64_t h, int64_t i) const;
  void computeRow(int64_t b, int64_t h, int64_t i) const;
  void addGradients(int64_t b, int64_t h, int64_t i, std::vector<double> *sums) const;
  double at(int kind, int64_t b, int64_t h, int64_t i, int64_t d) const;
  void storeAll(int kind, const std::vector<double> &values) const;

  bool isGradient;
  std::vector<std::optional<Tensor>> heads; ///< by kind
  std::optional<Tensor> scale;
  std::vector<std::optional<Tensor>> inputs; ///< of the mask's steps, by the number of the value
  std::vector<int64_t> ids;                  ///< by the number of the value
  std::vector<Step> steps;
  int first = -1, last = -1;
};

} // namespace psrt::standin

#endif
