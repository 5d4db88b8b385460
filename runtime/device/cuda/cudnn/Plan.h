// Defines a rank's cuDNN handle and its plans. A plan is an operation's graph with an engine and a
// workspace size.
#ifndef PSRT_DEVICE_CUDA_CUDNN_PLAN_H
#define PSRT_DEVICE_CUDA_CUDNN_PLAN_H

#include "runtime/core/Program.h"
#include "runtime/device/cuda/Gpu.h"
#include "runtime/device/cuda/cudnn/Descriptor.h"
#include <map>

namespace psrt::cuda {

/// The target of graphs and plans: the GPU of a handle, or a GPU that is described by its
/// properties and need not be installed. Plans for a described GPU cannot run.
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
  bool isOfHost = false; ///< whether `data` is the address of a host scalar
};

/// Creates a graph of operations, which the caller finalizes.
Descriptor describeGraph(const CudnnTarget &target,
                         const std::vector<const Descriptor *> &operations);
/// Appends to `graph` a graph with one operation, whose descriptor is the last one in `graph`.
void finishGraph(const CudnnTarget &target, CudnnGraph &graph, const char *name);

/// Holds an engine for a graph. cuDNN's heuristics list engines, the fastest first. The plan uses
/// the first engine that the runtime allows. Allowed engines are deterministic (unless
/// PSRT_NONDETERMINISTIC=1), accumulate in f32 and do not round f32 operands (unless PSRT_TF32=1).
class CudnnPlan {
public:
  /// Chooses an engine. `dtype` is the dtype of the operands. Engines that need more than
  /// `maxWorkspace` bytes are skipped. Throws a CudnnFailure if no engine remains.
  CudnnPlan(const CudnnTarget &target, CudnnGraph graph, Dtype dtype, int64_t maxWorkspace);
  int64_t getWorkspaceBytes() const { return workspaceBytes; }
  /// Returns the variant pack for run(). `workspace` is null if the plan needs none.
  Descriptor pack(const std::vector<CudnnTensor> &tensors, void *workspace) const;
  /// Enqueues the operation. The plan must outlive captured graphs of its runs.
  void run(const Descriptor &pack) const;

private:
  void choose(cudnnBackendHeurMode_t mode, Dtype dtype, int64_t maxWorkspace, std::string &reason);

  CudnnTarget target;
  CudnnGraph graph;
  std::vector<Descriptor> plan; ///< empty until an engine is chosen, then one plan
  int64_t workspaceBytes = 0;
};

/// Holds one rank's cuDNN handle, and a plan for each description of a problem.
class CudnnHandle {
public:
  CudnnHandle(CudnnRef library, const Stream &stream);
  ~CudnnHandle();
  CudnnHandle(const CudnnHandle &) = delete;
  CudnnHandle &operator=(const CudnnHandle &) = delete;
  CudnnTarget getTarget() const { return {*library, handle}; }
  /// Returns the plan stored under `name`, which `make` creates on first use. Throws a CudnnFailure
  /// if `make` does.
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
