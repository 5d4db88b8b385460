// Maps the runtime's matmul epilogues to those of cuBLASLt.
#ifndef PSRT_DEVICE_CUDA_EPILOGUE_H
#define PSRT_DEVICE_CUDA_EPILOGUE_H

#include "runtime/device/cuda/CublasLtMatmul.h"

namespace psrt::cuda {

struct EpilogueTraits {
  cublasLtEpilogue_t kind;
  const char *name; ///< suffix in descriptions of matmuls
  bool hasVector, hasAux;
  bool hasFallback; ///< whether there is a fallback if cuBLASLt lacks this epilogue
};

EpilogueTraits traitsOf(CublasLtMatmul::Epilogue epilogue);

} // namespace psrt::cuda

#endif
