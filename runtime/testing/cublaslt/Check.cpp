// Checks matmuls against the documented restrictions of cuBLASLt.
#include "runtime/testing/cublaslt/Matmul.h"
#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace psrt::fake {

size_t typeBytes(int32_t type) {
  switch (type) {
  case CUDA_R_64F:
    return 8;
  case CUDA_R_32F:
    return 4;
  case CUDA_R_16F:
  case CUDA_R_16BF:
    return 2;
  case CUDA_R_8F_E4M3:
  case CUDA_R_8F_E5M2:
    return 1;
  default:
    return 0;
  }
}

bool isFp8(int32_t type) { return typeBytes(type) == 1; }

namespace {

bool fits(const Layout &layout) {
  int64_t least = int64_t(layout.order == CUBLASLT_ORDER_COL ? layout.rows : layout.columns);
  return layout.rows > 0 && layout.columns > 0 && layout.ld >= least && layout.batches > 0 &&
         layout.batchStride >= 0;
}

/// Returns true if the matrices' shapes match.
bool shapesFit(const Matmul &matmul) {
  const Layout &a = matmul.a, &b = matmul.b, &c = matmul.c, &d = matmul.d;
  bool aTransposed = matmul.desc.transA, bTransposed = matmul.desc.transB;
  uint64_t aRows = aTransposed ? a.columns : a.rows, bRows = bTransposed ? b.columns : b.rows;
  uint64_t bColumns = bTransposed ? b.rows : b.columns;
  return aRows == d.rows && bColumns == d.columns && bRows == matmul.k() && c.rows == d.rows &&
         c.columns == d.columns && a.batches == d.batches && b.batches == d.batches &&
         c.batches == d.batches && (d.batches == 1 || d.batchStride > 0);
}

bool among(int32_t value, std::initializer_list<int32_t> values) {
  for (int32_t candidate : values)
    if (candidate == value)
      return true;
  return false;
}

/// Returns true if an fp8 matmul is supported: dims are multiples of 16 and only op(A) is
/// transposed.
bool fp8Supported(const Matmul &matmul) {
  const Layout &a = matmul.a, &b = matmul.b, &c = matmul.c, &d = matmul.d;
  bool types = isFp8(b.type) && !(a.type == CUDA_R_8F_E5M2 && b.type == CUDA_R_8F_E5M2);
  bool wide = among(d.type, {CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF}) && c.type == d.type;
  bool narrow = isFp8(d.type) && among(c.type, {CUDA_R_16F, CUDA_R_16BF});
  bool columns = !a.order && !b.order && !c.order && !d.order;
  bool dims = matmul.m() % 16 == 0 && matmul.n() % 16 == 0 && matmul.k() % 16 == 0 &&
              a.ld % 16 == 0 && b.ld % 16 == 0 && d.ld * int64_t(typeBytes(d.type)) % 16 == 0;
  return types && (wide || narrow) && columns && dims && matmul.desc.transA &&
         !matmul.desc.transB && matmul.desc.compute == CUBLAS_COMPUTE_32F;
}

/// Returns true if cuBLASLt has kernels for the types.
bool typesSupported(const Matmul &matmul) {
  const MatmulDesc &desc = matmul.desc;
  int32_t a = matmul.a.type, b = matmul.b.type, c = matmul.c.type, d = matmul.d.type;
  if (desc.compute == CUBLAS_COMPUTE_64F)
    return desc.scale == CUDA_R_64F && a == CUDA_R_64F && b == a && c == a && d == a;
  if (!among(desc.compute, {CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32}) ||
      desc.scale != CUDA_R_32F)
    return false;
  if (isFp8(a))
    return fp8Supported(matmul);
  bool scaled = desc.aScale || desc.bScale || desc.dScale;
  bool inputs = a == b && (a == CUDA_R_32F || (desc.compute == CUBLAS_COMPUTE_32F &&
                                               among(a, {CUDA_R_16F, CUDA_R_16BF})));
  return inputs && !scaled && c == d && (d == a || d == CUDA_R_32F);
}

bool isSetTo(const char *variable, std::string_view value) {
  const char *text = std::getenv(variable);
  return text && text == value;
}

/// Returns true if the matmul supports a GELU or its derivative. Batches are not supported.
/// $PSRT_FAKE_GELU=0 disables all GELUs.
bool geluSupported(const Matmul &matmul) {
  bool isTyped = !matmul.hasAux() || matmul.auxLayout().type == matmul.d.type;
  return matmul.d.batches == 1 && !isFp8(matmul.a.type) && matmul.a.type == matmul.d.type &&
         isTyped && !isSetTo("PSRT_FAKE_GELU", "0");
}

/// Returns true if the matmul supports its epilogue. $PSRT_FAKE_SUMS=0 disables bias gradients.
bool epilogueSupported(const Matmul &matmul) {
  if (matmul.desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT)
    return true;
  bool isTyped = isFp8(matmul.a.type) || matmul.biasType() == matmul.d.type;
  if (matmul.d.order != CUBLASLT_ORDER_COL || matmul.desc.compute == CUBLAS_COMPUTE_64F || !isTyped)
    return false;
  if (matmul.desc.epilogue == CUBLASLT_EPILOGUE_BIAS)
    return true;
  if (matmul.hasGelu() || matmul.hasGeluGrad())
    return geluSupported(matmul);
  return (matmul.writesABiasGrad() || matmul.writesBBiasGrad()) && matmul.d.batches == 1 &&
         !isFp8(matmul.a.type) && !isSetTo("PSRT_FAKE_SUMS", "0");
}

bool optionsSupported(const Matmul &matmul) {
  const MatmulDesc &desc = matmul.desc;
  auto ordered = [](const Layout &layout) {
    return among(layout.order, {CUBLASLT_ORDER_COL, CUBLASLT_ORDER_ROW});
  };
  return epilogueSupported(matmul) &&
         among(desc.pointerMode, {CUBLASLT_POINTER_MODE_HOST, CUBLASLT_POINTER_MODE_DEVICE}) &&
         among(desc.transA, {CUBLAS_OP_N, CUBLAS_OP_T}) &&
         among(desc.transB, {CUBLAS_OP_N, CUBLAS_OP_T}) && ordered(matmul.a) && ordered(matmul.b) &&
         ordered(matmul.c) && ordered(matmul.d);
}

bool isAligned(const void *pointer, size_t to) {
  return reinterpret_cast<uintptr_t>(pointer) % to == 0;
}

} // namespace

bool Matmul::hasBias() const {
  return among(int32_t(desc.epilogue), {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS,
                                        CUBLASLT_EPILOGUE_GELU_AUX_BIAS});
}

bool Matmul::hasGelu() const {
  return among(int32_t(desc.epilogue),
               {CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_AUX,
                CUBLASLT_EPILOGUE_GELU_AUX_BIAS});
}

bool Matmul::hasAux() const {
  return hasGeluGrad() || among(int32_t(desc.epilogue),
                                {CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS});
}

Layout Matmul::auxLayout() const {
  Layout layout = d;
  layout.type = desc.auxType < 0 ? d.type : desc.auxType;
  layout.ld = desc.auxLd;
  return layout;
}

int32_t Matmul::biasType() const {
  if (desc.biasType >= 0)
    return desc.biasType;
  if (!isFp8(a.type))
    return d.type;
  return c.type == CUDA_R_16F ? CUDA_R_16F : CUDA_R_16BF;
}

cublasStatus_t Matmul::check() const {
  for (const Layout *layout : {&a, &b, &c, &d})
    if (!typeBytes(layout->type) || !fits(*layout))
      return CUBLAS_STATUS_INVALID_VALUE;
  if (!shapesFit(*this) || (hasAux() && (desc.auxLd % 8 != 0 || !fits(auxLayout()))))
    return CUBLAS_STATUS_INVALID_VALUE;
  return optionsSupported(*this) && typesSupported(*this) ? CUBLAS_STATUS_SUCCESS
                                                          : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t Matmul::checkPointers() const {
  bool readsC = desc.pointerMode == CUBLASLT_POINTER_MODE_DEVICE || beta != 0;
  bool present = aData && bData && dData && (cData || !readsC) &&
                 (workspace || !algorithm.workspace) &&
                 (desc.bias || !(hasBias() || writesABiasGrad() || writesBBiasGrad())) &&
                 (desc.aux || !hasAux());
  bool aligned = isAligned(aData, typeBytes(a.type)) && isAligned(bData, typeBytes(b.type)) &&
                 isAligned(cData, typeBytes(c.type)) && isAligned(dData, typeBytes(d.type)) &&
                 isAligned(workspace, 256);
  // The bias may be less aligned than the one for which the heuristics chose the algorithm.
  bool vectorAligned = !(hasBias() || writesABiasGrad() || writesBBiasGrad()) ||
                       isAligned(desc.bias, std::max(algorithm.alignment, typeBytes(biasType())));
  aligned = aligned && vectorAligned && (!hasAux() || isAligned(desc.aux, 16));
  bool inPlace = cData == dData && readsC;
  if (!present || !aligned || (inPlace && !(c == d)))
    return CUBLAS_STATUS_INVALID_VALUE;
  bool fp8Aligned = isAligned(aData, 16) && isAligned(bData, 16) && isAligned(dData, 16);
  return isFp8(a.type) && !fp8Aligned ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

} // namespace psrt::fake
