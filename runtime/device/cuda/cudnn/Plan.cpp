// Chooses an engine for a graph and runs it.
#include "runtime/device/cuda/cudnn/Plan.h"
#include "runtime/core/Status.h"
#include "runtime/device/cuda/Switches.h"
#include <algorithm>

namespace psrt::cuda {
namespace {

/// Limit on the number of engines tried per heuristic mode.
constexpr int64_t kMaxEngines = 16;

/// Returns true if engines with this numerical note may be used.
bool isAllowed(cudnnBackendNumericalNote_t note, Dtype dtype) {
  switch (note) {
  case CUDNN_NUMERICAL_NOTE_TENSOR_CORE: // tensor cores round f32 operands to TF32
    return dtype != Dtype::F32 || mayRoundToTf32();
  case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
    return mayBeNondeterministic();
  case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
  case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
  case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6: // 6x6 and 13x13 tiles lose several digits
  case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
    return false;
  }
  return true;
}

bool isAllowed(const Descriptor &config, Dtype dtype) {
  std::vector<Descriptor> engine =
      config.getDescriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  if (engine.empty())
    return false;
  std::vector<cudnnBackendNumericalNote_t> notes =
      engine[0].getNotes(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
  return std::all_of(notes.begin(), notes.end(),
                     [&](cudnnBackendNumericalNote_t note) { return isAllowed(note, dtype); });
}

} // namespace

static cudnnDataType_t typeOf(Dtype dtype) {
  switch (dtype) {
  case Dtype::F32:
    return CUDNN_DATA_FLOAT;
  case Dtype::F16:
    return CUDNN_DATA_HALF;
  case Dtype::BF16:
    return CUDNN_DATA_BFLOAT16;
  default:
    PSRT_FAIL(BadInput, "tensors of %s are not supported with cuDNN", dtypeName(dtype));
  }
}

Descriptor describeTensor(const Cudnn &cudnn, int64_t id, Dtype dtype,
                          const std::vector<int64_t> &sizes, std::vector<int64_t> strides) {
  if (strides.empty())
    strides = getDenseStrides(sizes);
  Descriptor result(cudnn, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  result.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, typeOf(dtype))
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kCudnnAlignment)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes)
      .set(CUDNN_ATTR_TENSOR_STRIDES, strides);
  return result;
}

Descriptor describeGraph(const CudnnTarget &target,
                         const std::vector<const Descriptor *> &operations) {
  Descriptor result(target.library, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (target.handle)
    result.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target.handle);
  result.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations);
  return result;
}

void finishGraph(const CudnnTarget &target, CudnnGraph &graph, const char *name) {
  Descriptor result = describeGraph(target, {&graph.back()});
  result.finalize(name);
  graph.push_back(std::move(result));
}

CudnnPlan::CudnnPlan(const CudnnTarget &target, CudnnGraph given, Dtype dtype, int64_t maxWorkspace)
    : target(target), graph(std::move(given)) {
  std::string reason = "no engine is both deterministic and precise enough";
  for (cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    if (plan.empty())
      choose(mode, dtype, maxWorkspace, reason);
  if (plan.empty())
    throw CudnnFailure(reason);
}

void CudnnPlan::choose(cudnnBackendHeurMode_t mode, Dtype dtype, int64_t maxWorkspace,
                       std::string &reason) {
  try {
    Descriptor heuristic(target.library, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.back())
        .set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
    if (target.properties)
      heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.properties);
    heuristic.finalize("an engine heuristic");
    for (const Descriptor &config : heuristic.getDescriptors(
             CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, kMaxEngines)) {
      try {
        if (!isAllowed(config, dtype))
          continue;
        Descriptor candidate(target.library, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        if (target.properties)
          candidate.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties);
        else
          candidate.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle);
        candidate.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config).finalize("a plan");
        int64_t bytes = candidate.getInt(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
        if (bytes > maxWorkspace) {
          reason = format("an engine needs a workspace of %lld bytes; the limit is %lld bytes",
                          (long long)bytes, (long long)maxWorkspace);
          continue;
        }
        workspaceBytes = bytes;
        plan.push_back(std::move(candidate));
        return;
      } catch (const CudnnFailure &failure) {
        reason = failure.what(); // the next engine may support the graph
      }
    }
  } catch (const CudnnFailure &failure) {
    reason = failure.what();
  }
}

Descriptor CudnnPlan::pack(const std::vector<CudnnTensor> &tensors, void *workspace) const {
  std::vector<int64_t> ids;
  std::vector<void *> data;
  for (const CudnnTensor &tensor : tensors) {
    ids.push_back(tensor.id);
    data.push_back(tensor.data);
  }
  Descriptor result(target.library, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  result.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, data)
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace)
      .finalize("a variant pack");
  return result;
}

void CudnnPlan::run(const Descriptor &pack) const {
  const Cudnn &cudnn = target.library;
  cudnn.check(cudnn.execute(target.handle, plan[0].get(), pack.get()), "to execute a plan");
}

CudnnHandle::CudnnHandle(CudnnRef given, const Stream &stream)
    : library(std::move(given)), gpu(stream.getGpu()) {
  gpu->enter();
  library->check(library->create(&handle), "to initialize");
  library->check(library->setStream(handle, stream.get()), "to set a stream");
}

CudnnHandle::~CudnnHandle() {
  gpu->tryToEnter();
  plans.clear();
  if (handle)
    library->destroy(handle);
}

} // namespace psrt::cuda
