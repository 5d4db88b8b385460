// What a plan computes, as its operation descriptor says it.
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
  bool isNumber = false; ///< of the host, read when the plan is executed
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
  /// Throws a Refusal where the tensors do not go together.
  static std::shared_ptr<Execution> parse(const Descriptor &operation);
  /// That of a graph: one operation, or the parts of attention.
  static std::shared_ptr<Execution> parseGraph(const Descriptor &graph);
  /// What each address in a pack is of.
  virtual std::vector<Tensor *> tensors() = 0;
  virtual void compute() const = 0;
  /// Whether two runs differ, which no engine says.
  virtual bool addsUpInAnyOrder() const { return false; }
  /// Whether that version of the library computes something else.
  virtual bool isWrongIn(size_t /*version*/) const { return false; }

  /// All that is read and written.
  std::vector<PsrtFakeAccess> accesses();

  bool roundsToTf32 = false;
  bool isWrong = false;        ///< in one element
  bool isUnrepeatable = false; ///< one last bit is another one
  bool hasNans = false;        ///< where attention sees nothing
  char *workspace = nullptr;
  int64_t workspaceBytes = 0;

protected:
  /// Makes a result wrong, where it is to be.
  void spoil(const Tensor &result) const;
  /// Refuses two of one id.
  void checkIds();
};

bool isOperation(cudnnBackendDescriptorType_t type);
/// Of graphs of several.
bool isPart(cudnnBackendDescriptorType_t type);
[[noreturn]] void refuse(cudnnStatus_t status, const char *text);

} // namespace psrt::fake

#endif
