// cuBLASLt, loaded when a program multiplies matrices: $PSRT_CUBLASLT, or libcublasLt.so.13 or .12.
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
  /// Fails with the status's name unless a call went well; `what` it did: "to describe a matmul".
  void check(cublasStatus_t status, const char *what, const char *file = __builtin_FILE(),
             int line = __builtin_LINE()) const;
};

using CublasLtRef = std::shared_ptr<const CublasLt>;

/// Fails, and says what to do, where there is none. It stays loaded for good.
CublasLtRef loadCublasLt();

/// An algorithm's bits for a file; nothing for a text that is none.
std::string toText(const cublasLtMatmulAlgo_t &algorithm);
std::optional<cublasLtMatmulAlgo_t> toAlgorithm(const std::string &text);

/// One rank's handle, and the memory in which its matmuls may work: they come one after the other.
class Blas {
public:
  /// `algorithms`: of the GPU's kind.
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
