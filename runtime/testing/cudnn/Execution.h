// Defines the computation of a cuDNN execution plan, parsed from operation descriptors.
#ifndef PSRT_TESTING_CUDNN_EXECUTION_H
#define PSRT_TESTING_CUDNN_EXECUTION_H

#include "runtime/testing/cudnn/Descriptors.h"
#include "runtime/testing/driver/Fake.h"

namespace psrt::fake {

struct Tensor {
  int64_t id = 0, alignment = 1;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::vector<int64_t> sizes, strides;
  bool isWritten = false;
  bool isNumber = false; ///< a host scalar, read when the plan is executed
  double number = 0;
  char *data = nullptr;

  explicit Tensor(const Descriptor &descriptor);
  int64_t bytes() const;
  double load(int64_t at) const;
  void store(int64_t at, float value) const;
};

class Execution {
public:
  virtual ~Execution() = default;
  /// Parses an operation. Throws a Refusal if its tensors do not match.
  static std::shared_ptr<Execution> parse(const Descriptor &operation);
  /// Parses a graph: one operation, or the separate operations of attention.
  static std::shared_ptr<Execution> parseGraph(const Descriptor &graph);
  /// Returns the tensors, each of which needs an address in the variant pack.
  virtual std::vector<Tensor *> tensors() = 0;
  virtual void compute() const = 0;
  /// Returns true if two runs may give different results, although the engine does not have the
  /// numerical note for nondeterministic results.
  virtual bool addsUpInAnyOrder() const { return false; }
  /// Returns true if this version of cuDNN computes wrong results for the graph.
  virtual bool isWrongIn(size_t /*version*/) const { return false; }

  /// Returns all memory that is read and written.
  std::vector<PsrtFakeAccess> accesses();

  bool roundsToTf32 = false;
  /// Whether to make one element of the result wrong. If attention has several results, the element
  /// is in the output, or in the gradient of the queries.
  bool isWrong = false;
  bool isUnrepeatable = false; ///< whether to flip the last bit of one element
  bool hasNans = false;        ///< whether attention gives NaN in rows that see no key
  char *workspace = nullptr;
  int64_t workspaceBytes = 0;

protected:
  /// Makes a result wrong if `isWrong` or `isUnrepeatable` is set.
  void spoil(const Tensor &result) const;
  /// Refuses two tensors with the same id.
  void checkIds();
};

bool isOperation(cudnnBackendDescriptorType_t type);
/// Returns true for operations that are parts of composite graphs.
bool isPart(cudnnBackendDescriptorType_t type);
[[noreturn]] void refuse(cudnnStatus_t status, const char *text);

} // namespace psrt::fake

#endif
