// Defines a rank's cuDNN handle and its plans. A plan is an operation's graph with an engine and a
// workspace size.
#ifndef PSRT_DEVICE_CUDA_CUDNN_PLAN_H
#define PSRT_DEVICE_CUDA_CUDNN_PLAN_H

#include "runtime/core/Program.h"
#include "runtime/device/cuda/Gpu.h"
#include "runtime/device/cuda/cudnn/Descriptor.h"
#include <map>

namespace psrt::cuda {

/// The target of graphs and plans: the GPU of a handle, or a GPU that is not installed, given by
/// its properties. Plans for a GPU that is not installed cannot run.
struct CudnnTarget {
  const Cudnn &library;
  cudnnHandle_t handle = nullptr;
  const Descriptor *properties = nullptr; ///< used if there is no handle
};

/// Required alignment of tensor addresses, in bytes.
inline constexpr int64_t kCudnnAlignment = 16;

/// Creates a tensor descriptor, which the caller finalizes. The tensor is dense if no strides are
/// given. `dtype` is f32, f16 or bf16.
Descriptor describeTensor(const Cudnn &cudnn, int64_t id, Dtype dtype,
                          const std::vector<int64_t> &sizes, std::vector<int64_t> strides = {});

/// A graph and the descriptors that it uses; the graph is the last one.
using CudnnGraph = std::vector<Descriptor>;

/// A tensor's ID in the graph and its address.
struct CudnnTensor {
  int64_t id;
  void *data;
  bool isOfHost = false; ///< `data` is a host scalar
};

/// Creates a graph of operations, which the caller finalizes.
Descriptor describeGraph(const CudnnTarget &target,
                         const std::vector<const Descriptor *> &operations);
/// Appends the graph of one operation, whose descriptor is the last in `graph`.
void finishGraph(const CudnnTarget &target, CudnnGraph &graph, const char *name);

/// Holds an engine for a graph. cuDNN's heuristics list engines, the fastest first; the plan uses
/// the first one that the runtime allows. Engines must be deterministic (unless
/// PSRT_NONDETERMINISTIC=1), accumulate in f32 and not round f32 operands (unless PSRT_TF32=1).
class CudnnPlan {
public:
  /// `dtype` is the dtype of the operands. Engines that need more than `mostWorkspace` bytes are
  /// skipped. Throws a CudnnFailure if no engine is left.
  CudnnPlan(const CudnnTarget &target, CudnnGraph graph, Dtype dtype, int64_t mostWorkspace);
  int64_t getWorkspaceBytes() const { return workspaceBytes; }
  /// Returns the variant pack for run(). `workspace` is null if the plan needs none.
  Descriptor pack(const std::vector<CudnnTensor> &tensors, void *workspace) const;
  /// Enqueues the operation. The plan must outlive captured graphs of its runs.
  void run(const Descriptor &pack) const;

private:
  void choose(cudnnBackendHeurMode_t mode, Dtype dtype, int64_t mostWorkspace, std::string &reason);

  CudnnTarget target;
  CudnnGraph graph;
  std::vector<Descriptor> plan; ///< empty until an engine is chosen, then one plan
  int64_t workspaceBytes = 0;
};

/// Holds one rank's cuDNN handle and its plans, by the description of their problem.
class CudnnHandle {
public:
  CudnnHandle(CudnnRef library, const Stream &stream);
  ~CudnnHandle();
  CudnnHandle(const CudnnHandle &) = delete;
  CudnnHandle &operator=(const CudnnHandle &) = delete;
  CudnnTarget getTarget() const { return {*library, handle}; }
  /// Returns the plan stored under `name`; calls `make` to create it on first use. Throws a
  /// CudnnFailure.
  template <typename Make> const CudnnPlan &getPlan(const std::string &name, Make make) {
    auto found = plans.find(name);
    if (found == plans.end())
      found = plans.emplace(name, make()).first;
    return found->second;
  }

private:
  CudnnRef library;
  GpuRef gpu;
  cudnnHandle_t handle = nullptr;
  std::map<std::string, CudnnPlan> plans;
};

} // namespace psrt::cuda

#endif
