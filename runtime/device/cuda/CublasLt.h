// Loads cuBLASLt from $PSRT_CUBLASLT, libcublasLt.so.13 or libcublasLt.so.12 when a rank binds its
// first matmul.
#ifndef PSRT_DEVICE_CUDA_CUBLASLT_H
#define PSRT_DEVICE_CUDA_CUBLASLT_H

#include "runtime/device/cuda/Algorithms.h"
#include "runtime/device/cuda/CublasLtApi.h"
#include "runtime/device/cuda/Gpu.h"
#include "runtime/device/cuda/Workspace.h"

namespace psrt::cuda {

struct CublasLt {
#define PSRT_FIELD(name, symbol, result, arguments) result(*name) arguments = nullptr;
  PSRT_CUBLASLT_FUNCTIONS(PSRT_FIELD)
#undef PSRT_FIELD
  /// Fails with the status's name unless the call succeeded. `action` completes "cuBLASLt failed
  /// ...", e.g. "to describe a matmul".
  void check(cublasStatus_t status, const char *action, const char *file = __builtin_FILE(),
             int line = __builtin_LINE()) const;
};

using CublasLtRef = std::shared_ptr<const CublasLt>;

/// Loads the library, which is never unloaded. If loading fails, the error says what to install
/// or set.
CublasLtRef loadCublasLt();

/// Converts an algorithm to text for the algorithm file.
std::string toText(const cublasLtMatmulAlgo_t &algorithm);
/// Parses an algorithm's text. Returns nullopt if the text is malformed.
std::optional<cublasLtMatmulAlgo_t> toAlgorithm(const std::string &text);

/// Holds one rank's cuBLASLt handle and workspace. The rank's matmuls run one after another, so
/// they share the workspace.
class Blas {
public:
  /// `algorithms` holds the choices of algorithms for this GPU model.
  Blas(const GpuRef &gpu, std::shared_ptr<Algorithms> algorithms);
  ~Blas();
  Blas(const Blas &) = delete;
  Blas &operator=(const Blas &) = delete;
  const CublasLtRef &getLibrary() const { return library; }
  cublasLtHandle_t getHandle() const { return handle; }
  const GpuRef &getGpu() const { return gpu; }
  Algorithms &getAlgorithms() const { return *algorithms; }
  CUdeviceptr getWorkspace() const { return workspace.get(); }

private:
  GpuRef gpu;
  CublasLtRef library;
  std::shared_ptr<Algorithms> algorithms;
  DeviceMemory workspace;
  cublasLtHandle_t handle = nullptr;
};

} // namespace psrt::cuda

#endif
