// Defines the traits of each epilogue.
#include "runtime/device/cuda/Epilogue.h"

namespace psrt::cuda {

EpilogueTraits traitsOf(CublasLtMatmul::Epilogue epilogue) {
  switch (epilogue) {
  case CublasLtMatmul::Epilogue::None:
    break;
  case CublasLtMatmul::Epilogue::Bias:
    return {CUBLASLT_EPILOGUE_BIAS, " bias", true, false, false};
  case CublasLtMatmul::Epilogue::LhsBiasGrad: // A is rhs, B is lhs
    return {CUBLASLT_EPILOGUE_BGRADB, " sums of lhs", true, false, true};
  case CublasLtMatmul::Epilogue::RhsBiasGrad:
    return {CUBLASLT_EPILOGUE_BGRADA, " sums of rhs", true, false, true};
  case CublasLtMatmul::Epilogue::Gelu:
    return {CUBLASLT_EPILOGUE_GELU, " gelu", false, false, true};
  case CublasLtMatmul::Epilogue::GeluBias:
    return {CUBLASLT_EPILOGUE_GELU_BIAS, " bias gelu", true, false, true};
  case CublasLtMatmul::Epilogue::GeluAux:
    return {CUBLASLT_EPILOGUE_GELU_AUX, " gelu and sum", false, true, true};
  case CublasLtMatmul::Epilogue::GeluAuxBias:
    return {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, " bias gelu and sum", true, true, true};
  case CublasLtMatmul::Epilogue::GeluGrad:
    return {CUBLASLT_EPILOGUE_DGELU, " gelu gradient", false, true, true};
  }
  return {CUBLASLT_EPILOGUE_DEFAULT, "", false, false, false};
}

} // namespace psrt::cuda
