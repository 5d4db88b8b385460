// cuDNN as one rank has it, and an operation that it will compute: graph, engine, workspace.
#ifndef PSRT_DEVICE_CUDA_CUDNN_PLAN_H
#define PSRT_DEVICE_CUDA_CUDNN_PLAN_H

#include "runtime/core/Program.h"
#include "runtime/device/cuda/Gpu.h"
#include "runtime/device/cuda/cudnn/Descriptor.h"
#include <map>

namespace psrt::cuda {

/// What graphs and plans are made for: a GPU by the handle that is bound to it; or one that is not
/// here, by its properties (such plans do not run).
struct CudnnTarget {
  const Cudnn &library;
  cudnnHandle_t handle = nullptr;
  const Descriptor *properties = nullptr; ///< where there is no handle
};

/// The bytes that the addresses of tensors must be multiples of.
inline constexpr int64_t kCudnnAlignment = 16;

/// A tensor that the caller finalizes; dense where no strides are given. `dtype`: f32, f16 or bf16.
Descriptor describeTensor(const Cudnn &cudnn, int64_t id, Dtype dtype,
                          const std::vector<int64_t> &sizes, std::vector<int64_t> strides = {});

/// A graph with all that it is made of; the graph is the last one.
using CudnnGraph = std::vector<Descriptor>;

/// What the graph calls a tensor, and where it lies.
struct CudnnTensor {
  int64_t id;
  void *data;
  bool isOfHost = false; ///< a number, which stays where it is
};

/// A graph of those operations, that the caller finalizes.
Descriptor describeGraph(const CudnnTarget &target,
                         const std::vector<const Descriptor *> &operations);
/// Makes the graph of one operation, whose descriptor is the last one there.
void finishGraph(const CudnnTarget &target, CudnnGraph &graph, const char *what);

/// The fastest engine by cuDNN's heuristics that gives the same bits each time (but with
/// PSRT_NONDETERMINISTIC=1), adds up in f32 and rounds no f32 (but with PSRT_TF32=1).
class CudnnPlan {
public:
  /// `dtype`: of what is read; engines that want more workspace are passed over. Throws a
  /// CudnnFailure where there is no such engine.
  CudnnPlan(const CudnnTarget &target, CudnnGraph graph, Dtype dtype, int64_t mostWorkspace);
  int64_t getWorkspaceBytes() const { return workspaceBytes; }
  /// What run() is called with; the workspace is null where none is needed.
  Descriptor pack(const std::vector<CudnnTensor> &tensors, void *workspace) const;
  /// Enqueues it; the plan outlives what was recorded of that.
  void run(const Descriptor &pack) const;

private:
  void choose(cudnnBackendHeurMode_t mode, Dtype dtype, int64_t mostWorkspace, std::string &reason);

  CudnnTarget target;
  CudnnGraph graph;
  std::vector<Descriptor> plan; ///< one, when it is found
  int64_t workspaceBytes = 0;
};

/// One rank's handle, and its plans by what they compute.
class CudnnHandle {
public:
  CudnnHandle(CudnnRef library, const Stream &stream);
  ~CudnnHandle();
  CudnnHandle(const CudnnHandle &) = delete;
  CudnnHandle &operator=(const CudnnHandle &) = delete;
  CudnnTarget getTarget() const { return {*library, handle}; }
  /// The plan that is kept under that name; `make` makes it. Throws a CudnnFailure.
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
