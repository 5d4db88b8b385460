// Implements the functions of cuDNN. Environment variables change its behavior:
// - PSRT_FAKE_CUDNN_VERSION=8907: sets the version. Before 92100, there is no SDPA operation, only
//   composite attention.
// - PSRT_FAKE_CUDNN_TIME=300: makes each execution 300 microseconds longer.
// - PSRT_FAKE_CUDNN=refuses: supports no plan.
// - PSRT_FAKE_CUDNN=wrong: makes one element of each result wrong.
// - PSRT_FAKE_CUDNN=nan: gives NaN for rows of attention that see no key.
// - PSRT_FAKE_CUDNN=unrepeatable: changes the last bit in every second run.
// - PSRT_FAKE_CUDNN=fails: makes executions fail.
// - PSRT_FAKE_CUDNN=unstartable: makes cudnnCreate fail.
#include "runtime/testing/cudnn/Attention.h"
#include "runtime/testing/driver/Handles.h"
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unistd.h>

namespace psrt::fake {

#define PSRT_CUDNN_DECLARE(name, symbol, result, arguments)                                        \
  extern "C" PSRT_FAKE_EXPORT result symbol arguments;
PSRT_CUDNN_FUNCTIONS(PSRT_CUDNN_DECLARE)
#undef PSRT_CUDNN_DECLARE

namespace {

struct Library {
  CUstream stream = nullptr;
};

/// The live objects, guarded by their own lock.
struct Objects {
  std::mutex mutex;
  Handles<Library> libraries;
  Handles<Descriptor> descriptors;
};

Objects &objects() {
  static Objects &only = *new Objects;
  return only;
}

std::string &lastError() {
  static thread_local std::string text;
  return text;
}

std::string setting(const char *name) {
  const char *text = std::getenv(name);
  return text ? text : "";
}

/// Runs body() under the lock; a refusal becomes the call's status.
template <typename Body> cudnnStatus_t call(Body body) {
  std::lock_guard<std::mutex> lock(objects().mutex);
  try {
    body();
    return CUDNN_STATUS_SUCCESS;
  } catch (const Refusal &refusal) {
    lastError() = refusal.text;
    return refusal.status;
  }
}

template <typename T> std::shared_ptr<T> find(Handles<T> &things, const void *handle) {
  std::shared_ptr<T> thing = things.find(handle);
  if (!thing)
    refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a handle is invalid");
  return thing;
}

DescriptorRef find(cudnnBackendDescriptor_t handle) { return find(objects().descriptors, handle); }

/// First version with attention as one operation that masks scores.
constexpr size_t kUnifiedVersion = 92100;

//===--- engines ----------------------------------------------------------===//

/// Engines in the order in which the heuristics return them. Engines that the runtime may have to
/// skip come first.
struct Engine {
  std::vector<cudnnBackendNumericalNote_t> notes;
  int64_t workspace;
};
const std::vector<Engine> &getEngines() {
  static const std::vector<Engine> &engines =
      *new std::vector<Engine>{{{CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, 0},
                               {{}, int64_t(1) << 40}, // needs more memory than available
                               {{CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, 0},
                               {{}, 4096}};
  return engines;
}
constexpr int kNondeterministic = 0, kTensorCore = 2, kPlain = 3;

/// Returns the engines that a heuristic mode returns.
std::vector<int> enginesOf(cudnnBackendHeurMode_t mode) {
  if (mode == CUDNN_HEUR_MODE_FALLBACK)
    return {kPlain};
  return {kNondeterministic, 1, kTensorCore, kPlain};
}

void getEngineConfigs(const Descriptor &heuristic, int64_t requested, int64_t *count,
                      cudnnBackendDescriptor_t *to) {
  std::vector<int> engines =
      enginesOf(heuristic.get<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE));
  if (setting("PSRT_FAKE_CUDNN") == "refuses")
    engines.clear();
  *count = int64_t(engines.size());
  for (int64_t i = 0; i < std::min(requested, *count); ++i) {
    DescriptorRef config = find(to[i]);
    if (config->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR || config->isFinal)
      refuse(CUDNN_STATUS_BAD_PARAM, "results must be new engine configurations");
    config->engine = engines[size_t(i)];
    config->attributes[CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH] =
        heuristic.attributes.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    config->isFinal = true;
  }
}

void getEngine(const Descriptor &config, int64_t requested, int64_t *count,
               cudnnBackendDescriptor_t *to) {
  *count = 1;
  if (requested < 1)
    return;
  DescriptorRef engine = find(to[0]);
  if (engine->type != CUDNN_BACKEND_ENGINE_DESCRIPTOR)
    refuse(CUDNN_STATUS_BAD_PARAM, "the result must be an engine descriptor");
  engine->engine = config.engine;
  engine->isFinal = true;
}

void getNotes(const Descriptor &engine, int64_t requested, int64_t *count, int *to) {
  const auto &notes = getEngines().at(size_t(engine.engine)).notes;
  *count = int64_t(notes.size());
  std::copy_n(notes.begin(), std::min(requested, *count), to);
}

int64_t workspaceOf(const Descriptor &plan) {
  return getEngines()
      .at(size_t(plan.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).engine))
      .workspace;
}

//===--- execution --------------------------------------------------------===//

/// Returns the computation of a plan, without addresses.
std::shared_ptr<Execution> takeExecution(const Descriptor &plan) {
  static std::atomic<int> runs{0};
  const Descriptor &config = plan.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  std::shared_ptr<Execution> result =
      Execution::parseGraph(config.child(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
  std::string fault = setting("PSRT_FAKE_CUDNN");
  result->roundsToTf32 = config.engine == kTensorCore;
  result->isWrong = fault == "wrong" || result->isWrongIn(cudnnGetVersion());
  result->hasNans = fault == "nan";
  if (fault == "unrepeatable" || config.engine == kNondeterministic || result->addsUpInAnyOrder())
    result->isUnrepeatable = runs++ % 2 == 1;
  result->workspaceBytes = workspaceOf(plan);
  return result;
}

/// Sets a tensor's address; reads a host scalar's value immediately.
void takeAddress(Tensor &tensor, void *data) {
  tensor.data = static_cast<char *>(data);
  if (!tensor.data)
    refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "an address is null");
  if (tensor.isNumber)
    tensor.number = tensor.load(0);
  else if (reinterpret_cast<uintptr_t>(tensor.data) % uintptr_t(tensor.alignment) != 0)
    refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
           "an address is less aligned than its tensor descriptor says");
}

void takeAddresses(Execution &execution, const Descriptor &pack) {
  auto ids = pack.list<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  auto data = pack.list<void *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (ids.size() != execution.tensors().size())
    refuse(CUDNN_STATUS_BAD_PARAM, "the numbers of addresses and tensors differ");
  for (Tensor *tensor : execution.tensors()) {
    auto found = std::find(ids.begin(), ids.end(), tensor->id);
    if (found == ids.end())
      refuse(CUDNN_STATUS_BAD_PARAM, "a tensor has no address");
    takeAddress(*tensor, data[size_t(found - ids.begin())]);
  }
  execution.workspace = static_cast<char *>(pack.get<void *>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE));
  if (execution.workspaceBytes && !execution.workspace)
    refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the plan needs a workspace");
}

void enqueue(const std::shared_ptr<Execution> &execution, CUstream stream) {
  using Shared = std::shared_ptr<Execution>;
  std::vector<PsrtFakeAccess> accesses = execution->accesses();
  CUresult result = psrt_fake_enqueue(
      stream, "cudnnBackendExecute",
      [](void *data) {
        usleep(unsigned(std::strtol(setting("PSRT_FAKE_CUDNN_TIME").c_str(), nullptr, 10)));
        (*static_cast<Shared *>(data))->compute();
      },
      new Shared(execution), [](void *data) { delete static_cast<Shared *>(data); },
      int(accesses.size()), accesses.data());
  if (result != CUDA_SUCCESS)
    refuse(CUDNN_STATUS_EXECUTION_FAILED, "cannot enqueue on the stream");
}

} // namespace

size_t cudnnGetVersion() {
  std::string version = setting("PSRT_FAKE_CUDNN_VERSION");
  return version.empty() ? 92800 : size_t(std::strtoull(version.c_str(), nullptr, 10));
}

const char *cudnnGetErrorString(cudnnStatus_t status) {
#define PSRT_CASE(name, value)                                                                     \
  case name:                                                                                       \
    return #name;
  switch (status) { PSRT_CUDNN_STATUSES(PSRT_CASE) }
#undef PSRT_CASE
  return "unknown";
}

void cudnnGetLastErrorString(char *message, size_t bytes) {
  if (bytes)
    std::strncpy(message, lastError().c_str(), bytes - 1)[bytes - 1] = 0;
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  return call([&] {
    if (!handle)
      refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the handle pointer is null");
    if (setting("PSRT_FAKE_CUDNN") == "unstartable")
      refuse(CUDNN_STATUS_NOT_INITIALIZED, "as PSRT_FAKE_CUDNN requests");
    objects().libraries.add(std::make_shared<Library>(), *handle);
  });
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  return call([&] {
    find(objects().libraries, handle);
    objects().libraries.remove(handle);
  });
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, CUstream stream) {
  return call([&] { find(objects().libraries, handle)->stream = stream; });
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *descriptor) {
  if (Attention::isOne(type) && cudnnGetVersion() < kUnifiedVersion)
    return call(
        [] { refuse(CUDNN_STATUS_NOT_SUPPORTED, "this version has no attention operation"); });
#define PSRT_CASE(name, value) case name:
  switch (type) {
    PSRT_CUDNN_DESCRIPTOR_TYPES(PSRT_CASE)
    PSRT_CUDNN_LATER_DESCRIPTOR_TYPES(PSRT_CASE)
    return call([&] {
      if (!descriptor)
        refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the descriptor pointer is null");
      auto made = std::make_shared<Descriptor>();
      made->type = type;
      Library *handle = nullptr;
      objects().descriptors.add(std::move(made), handle);
      *descriptor = handle;
    });
  }
#undef PSRT_CASE
  return call(
      [] { refuse(CUDNN_STATUS_NOT_SUPPORTED, "the fake does not support this descriptor type"); });
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  return call([&] {
    find(descriptor);
    objects().descriptors.remove(descriptor);
  });
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return call([&] { find(descriptor)->finalize(); });
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *elements) {
  return call([&] {
    DescriptorRef to = find(descriptor);
    Attribute attribute{type, count, {}, {}};
    if (!elements || count < 0)
      refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the elements are null");
    auto *begin = static_cast<const char *>(elements);
    attribute.bytes.assign(begin, begin + size_t(count) * bytesOf(type));
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
      for (int64_t i = 0; i < count; ++i)
        attribute.descriptors.push_back(
            find(static_cast<cudnnBackendDescriptor_t const *>(elements)[i]));
    if (type == CUDNN_TYPE_HANDLE && count == 1)
      find(objects().libraries, *static_cast<cudnnHandle_t const *>(elements));
    to->set(name, std::move(attribute));
  });
}

cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t requested,
                                       int64_t *count, void *elements) {
  return call([&] {
    DescriptorRef from = find(descriptor);
    if (!from->isFinal)
      refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "the descriptor is not finalized");
    if (!count || (requested > 0 && !elements))
      refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the result pointer is null");
    auto is = [&](cudnnBackendDescriptorType_t descriptorType, cudnnBackendAttributeName_t wanted,
                  cudnnBackendAttributeType_t wantedType) {
      return from->type == descriptorType && name == wanted && type == wantedType;
    };
    if (is(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_RESULTS,
           CUDNN_TYPE_BACKEND_DESCRIPTOR))
      return getEngineConfigs(*from, requested, count,
                              static_cast<cudnnBackendDescriptor_t *>(elements));
    if (is(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_ATTR_ENGINECFG_ENGINE,
           CUDNN_TYPE_BACKEND_DESCRIPTOR))
      return getEngine(*from, requested, count, static_cast<cudnnBackendDescriptor_t *>(elements));
    if (is(CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
           CUDNN_TYPE_NUMERICAL_NOTE))
      return getNotes(*from, requested, count, static_cast<int *>(elements));
    if (!is(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
            CUDNN_TYPE_INT64))
      refuse(CUDNN_STATUS_NOT_SUPPORTED, "the fake does not support reading this attribute");
    *count = 1;
    if (requested > 0)
      *static_cast<int64_t *>(elements) = workspaceOf(*from);
  });
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  return call([&] {
    CUstream stream = find(objects().libraries, handle)->stream;
    DescriptorRef planDescriptor = find(plan), packDescriptor = find(pack);
    if (planDescriptor->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
        packDescriptor->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
      refuse(CUDNN_STATUS_BAD_PARAM, "expected a plan and a variant pack");
    if (!planDescriptor->isFinal || !packDescriptor->isFinal)
      refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "the plan or the variant pack is not finalized");
    if (planDescriptor->get<void *>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE) != handle)
      refuse(CUDNN_STATUS_BAD_PARAM, "the plan belongs to another handle");
    if (setting("PSRT_FAKE_CUDNN") == "fails")
      refuse(CUDNN_STATUS_EXECUTION_FAILED, "as PSRT_FAKE_CUDNN requests");
    std::shared_ptr<Execution> execution = takeExecution(*planDescriptor);
    takeAddresses(*execution, *packDescriptor);
    enqueue(execution, stream);
  });
}

} // namespace psrt::fake
