// What products do besides, as cuBLASLt has it.
#ifndef PSRT_DEVICE_CUDA_EPILOGUE_H
#define PSRT_DEVICE_CUDA_EPILOGUE_H

#include "runtime/device/cuda/Product.h"

namespace psrt::cuda {

struct EpilogueTraits {
  cublasLtEpilogue_t kind;
  const char *name; ///< in descriptions of products
  bool hasVector, hasAux;
  bool mayLack; ///< cuBLASLt need not offer it: there is another way
};

EpilogueTraits traitsOf(Product::Epilogue epilogue);

} // namespace psrt::cuda

#endif
