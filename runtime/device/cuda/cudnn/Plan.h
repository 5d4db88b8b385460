// cuDNN as one rank has it, and an operation that it will compute: graph, engine, workspace.
#ifndef PSRT_DEVICE_CUDA_CUDNN_PLAN_H
#define PSRT_DEVICE_CUDA_CUDNN_PLAN_H

#include "runtime/core/Program.h"
#include "runtime/device/cuda/Gpu.h"
#include "runtime/device/cuda/cudnn/Descriptor.h"
#include <map>

namespace psrt::cuda {

/// An operation may ask for no more memory to work in: engines that want more are passed over.
inline constexpr int64_t kMostDnnWorkspace = int64_t(256) << 20;

/// A graph with all that it is made of; the graph is the last one.
using DnnGraph = std::vector<Descriptor>;

/// What the graph calls a tensor, and where it lies.
struct DnnTensor {
  int64_t id;
  void *data;
};

/// The fastest engine by cuDNN's heuristics that gives the same bits each time, adds up in f32 and
/// rounds no f32 (but with PSRT_TF32=1).
class DnnPlan {
public:
  /// `dtype`: of what is read. Throws a CudnnFailure where there is no such engine.
  DnnPlan(const Cudnn &cudnn, cudnnHandle_t handle, DnnGraph graph, Dtype dtype);
  int64_t getWorkspaceBytes() const { return workspaceBytes; }
  /// What run() is called with; the workspace is null where none is needed.
  Descriptor pack(const std::vector<DnnTensor> &tensors, void *workspace) const;
  /// Enqueues it; the plan outlives what was recorded of that.
  void run(const Descriptor &pack) const;

private:
  void choose(cudnnBackendHeurMode_t mode, Dtype dtype, std::string &reason);

  const Cudnn &cudnn;
  cudnnHandle_t handle;
  DnnGraph graph;
  std::vector<Descriptor> plan; ///< one, when it is found
  int64_t workspaceBytes = 0;
};

/// One rank's handle, and its plans by what they compute.
class Dnn {
public:
  Dnn(CudnnRef library, const Stream &stream);
  ~Dnn();
  Dnn(const Dnn &) = delete;
  Dnn &operator=(const Dnn &) = delete;
  const Cudnn &getLibrary() const { return *library; }
  cudnnHandle_t getHandle() const { return handle; }
  /// The plan that is kept under that name; `make` makes the graph. Throws a CudnnFailure.
  template <typename Make> const DnnPlan &getPlan(const std::string &name, Dtype dtype, Make make) {
    auto found = plans.find(name);
    if (found == plans.end())
      found = plans.try_emplace(name, *library, handle, make(), dtype).first;
    return found->second;
  }

private:
  CudnnRef library;
  GpuRef gpu;
  cudnnHandle_t handle = nullptr;
  std::map<std::string, DnnPlan> plans;
};

/// Whether products of f32 may round what they read to TF32: PSRT_TF32=1.
bool mayRoundToTf32();

} // namespace psrt::cuda

#endif
