// What matmuls do besides, as cuBLASLt has it.
#ifndef PSRT_DEVICE_CUDA_EPILOGUE_H
#define PSRT_DEVICE_CUDA_EPILOGUE_H

#include "runtime/device/cuda/CublasLtMatmul.h"

namespace psrt::cuda {

struct EpilogueTraits {
  cublasLtEpilogue_t kind;
  const char *name; ///< in descriptions of matmuls
  bool hasVector, hasAux;
  bool mayLack; ///< cuBLASLt need not offer it: there is another way
};

EpilogueTraits traitsOf(CublasLtMatmul::Epilogue epilogue);

} // namespace psrt::cuda

#endif
