// Implements the functions of cuBLASLt.
#include "runtime/testing/cublaslt/Matmul.h"
#include "runtime/testing/driver/Handles.h"
#include <mutex>

namespace psrt::cuda {
extern "C" CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device);
} // namespace psrt::cuda

namespace psrt::fake {

#define PSRT_CUBLASLT_DECLARE(name, symbol, result, arguments)                                     \
  extern "C" PSRT_FAKE_EXPORT result symbol arguments;
PSRT_CUBLASLT_FUNCTIONS(PSRT_CUBLASLT_DECLARE)
#undef PSRT_CUBLASLT_DECLARE

namespace {

struct Library {};

/// The live objects, guarded by their own lock.
struct Objects {
  std::mutex mutex;
  Handles<Library> libraries;
  Handles<MatmulDesc> descs;
  Handles<Layout> layouts;
  Handles<Preference> preferences;
};

Objects &objects() {
  static Objects &only = *new Objects;
  return only;
}

template <typename T, typename Handle>
cublasStatus_t create(Handles<T> &things, Handle *handle, T thing) {
  if (!handle)
    return CUBLAS_STATUS_INVALID_VALUE;
  std::lock_guard<std::mutex> lock(objects().mutex);
  things.add(std::make_shared<T>(std::move(thing)), *handle);
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T> std::shared_ptr<T> find(Handles<T> &things, const void *handle) {
  std::lock_guard<std::mutex> lock(objects().mutex);
  return things.find(handle);
}

template <typename T> cublasStatus_t destroy(Handles<T> &things, const void *handle) {
  std::lock_guard<std::mutex> lock(objects().mutex);
  if (!things.find(handle))
    return CUBLAS_STATUS_INVALID_VALUE;
  things.remove(handle);
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T, typename Attribute>
cublasStatus_t set(Handles<T> &things, const void *handle, Attribute attribute, const void *value,
                   size_t bytes) {
  std::shared_ptr<T> thing = find(things, handle);
  return thing ? thing->set(attribute, value, bytes) : CUBLAS_STATUS_INVALID_VALUE;
}

/// Looks up the handles' objects and checks the matmul.
cublasStatus_t describe(Matmul &matmul, cublasLtHandle_t library, const void *desc, const void *a,
                        const void *b, const void *c, const void *d) {
  if (!find(objects().libraries, library))
    return CUBLAS_STATUS_NOT_INITIALIZED;
  auto foundDesc = find(objects().descs, desc);
  const void *handles[] = {a, b, c, d};
  Layout *layouts[] = {&matmul.a, &matmul.b, &matmul.c, &matmul.d};
  if (!foundDesc)
    return CUBLAS_STATUS_INVALID_VALUE;
  matmul.desc = *foundDesc;
  for (int i = 0; i < 4; ++i) {
    auto layout = find(objects().layouts, handles[i]);
    if (!layout)
      return CUBLAS_STATUS_INVALID_VALUE;
    *layouts[i] = *layout;
  }
  return matmul.check();
}

/// Returns true if the device supports fp8: compute capability 8.9 or higher.
bool deviceHasFp8() {
  int major = 0, minor = 0;
  cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
  cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
  return major * 10 + minor >= 89;
}

} // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  return create(objects().libraries, handle, Library());
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return destroy(objects().libraries, handle);
}

size_t cublasLtGetVersion() { return 130100; }

const char *cublasLtGetStatusName(cublasStatus_t status) {
#define PSRT_CASE(name)                                                                            \
  case name:                                                                                       \
    return #name;
  switch (status) {
    PSRT_CASE(CUBLAS_STATUS_SUCCESS)
    PSRT_CASE(CUBLAS_STATUS_NOT_INITIALIZED)
    PSRT_CASE(CUBLAS_STATUS_ALLOC_FAILED)
    PSRT_CASE(CUBLAS_STATUS_INVALID_VALUE)
    PSRT_CASE(CUBLAS_STATUS_ARCH_MISMATCH)
    PSRT_CASE(CUBLAS_STATUS_EXECUTION_FAILED)
    PSRT_CASE(CUBLAS_STATUS_INTERNAL_ERROR)
    PSRT_CASE(CUBLAS_STATUS_NOT_SUPPORTED)
  default:
    return "<unknown>";
  }
#undef PSRT_CASE
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                        cudaDataType scale) {
  MatmulDesc made;
  made.compute = compute;
  made.scale = scale;
  return create(objects().descs, desc, made);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes) {
  return set(objects().descs, desc, attribute, value, bytes);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  return destroy(objects().descs, desc);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t ld) {
  Layout made;
  made.type = type;
  made.rows = rows;
  made.columns = columns;
  made.ld = ld;
  return create(objects().layouts, layout, made);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t bytes) {
  return set(objects().layouts, layout, attribute, value, bytes);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(objects().layouts, layout);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  return create(objects().preferences, preference, Preference());
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes) {
  return set(objects().preferences, preference, attribute, value, bytes);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(objects().preferences, preference);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int *returned) {
  if (!results || !returned || requested < 1)
    return CUBLAS_STATUS_INVALID_VALUE;
  *returned = 0;
  Matmul matmul;
  cublasStatus_t status = describe(matmul, handle, desc, a, b, c, d);
  auto wishes = find(objects().preferences, preference);
  if (status == CUBLAS_STATUS_SUCCESS && !wishes)
    status = CUBLAS_STATUS_INVALID_VALUE;
  if (status == CUBLAS_STATUS_SUCCESS && isFp8(matmul.a.type) && !deviceHasFp8())
    status = CUBLAS_STATUS_NOT_SUPPORTED;
  if (status != CUBLAS_STATUS_SUCCESS)
    return status;
  for (const auto &offered : offerAlgorithms(wishes->workspace, matmul.desc.bias))
    if (*returned < requested)
      results[(*returned)++] = offered;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result) {
  Matmul matmul;
  if (!algo || !result)
    return CUBLAS_STATUS_INVALID_VALUE;
  cublasStatus_t status = describe(matmul, handle, desc, a, b, c, d);
  if (status != CUBLAS_STATUS_SUCCESS)
    return status;
  if (!decode(*algo, matmul.algorithm))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *result = {*algo, matmul.algorithm.workspace, status, 1, {}};
  return status;
}

/// Sets alpha and beta; host values are read immediately.
static cublasStatus_t takeFactors(Matmul &matmul, const void *alpha, const void *beta) {
  if (!alpha || !beta)
    return CUBLAS_STATUS_INVALID_VALUE;
  matmul.alphaData = alpha;
  matmul.betaData = beta;
  if (matmul.desc.pointerMode == CUBLASLT_POINTER_MODE_HOST) {
    bool wide = matmul.desc.scale == CUDA_R_64F;
    auto read = [&](const void *at) {
      return wide ? *static_cast<const double *>(at) : double(*static_cast<const float *>(at));
    };
    matmul.alpha = read(alpha);
    matmul.beta = read(beta);
  }
  return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t enqueue(const Matmul &matmul, CUstream stream) {
  std::vector<PsrtFakeAccess> accesses = matmul.accesses();
  CUresult result = psrt_fake_enqueue(
      stream, matmul.name().c_str(), [](void *data) { static_cast<Matmul *>(data)->compute(); },
      new Matmul(matmul), [](void *data) { delete static_cast<Matmul *>(data); },
      int(accesses.size()), accesses.data());
  return result == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t aLayout, const void *b,
                              cublasLtMatrixLayout_t bLayout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t cLayout, void *d,
                              cublasLtMatrixLayout_t dLayout, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspaceBytes, CUstream stream) {
  Matmul matmul;
  cublasStatus_t status = describe(matmul, handle, desc, aLayout, bLayout, cLayout, dLayout);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = takeFactors(matmul, alpha, beta);
  if (status != CUBLAS_STATUS_SUCCESS)
    return status;
  matmul.aData = a;
  matmul.bData = b;
  matmul.cData = c;
  matmul.dData = d;
  if (algo && !decode(*algo, matmul.algorithm))
    return CUBLAS_STATUS_INVALID_VALUE;
  matmul.workspace = matmul.algorithm.workspace ? workspace : nullptr;
  if (matmul.algorithm.workspace > workspaceBytes)
    return CUBLAS_STATUS_INVALID_VALUE;
  status = matmul.checkPointers();
  return status == CUBLAS_STATUS_SUCCESS ? enqueue(matmul, stream) : status;
}

} // namespace psrt::fake
