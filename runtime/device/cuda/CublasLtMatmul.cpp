// Describes matmuls to cuBLASLt, chooses their algorithms and runs them.
#include "runtime/device/cuda/CublasLtMatmul.h"
#include "runtime/core/Element.h"
#include "runtime/core/Status.h"
#include "runtime/device/cuda/AlgorithmTimer.h"
#include "runtime/device/cuda/Epilogue.h"
#include "runtime/device/cuda/Switches.h"
#include <algorithm>
#include <limits>

namespace psrt::cuda {
namespace {

cudaDataType typeOf(Dtype dtype) {
  switch (dtype) {
  case Dtype::F32:
    return CUDA_R_32F;
  case Dtype::F64:
    return CUDA_R_64F;
  case Dtype::F16:
    return CUDA_R_16F;
  case Dtype::BF16:
    return CUDA_R_16BF;
  case Dtype::F8E4M3:
    return CUDA_R_8F_E4M3;
  case Dtype::F8E5M2:
    return CUDA_R_8F_E5M2;
  default:
    PSRT_FAIL(BadInput, "matmuls of %s are not supported on cuda", dtypeName(dtype));
  }
}

cublasComputeType_t computeOf(Dtype dtype) {
  if (dtype == Dtype::F64)
    return CUBLAS_COMPUTE_64F;
  return dtype == Dtype::F32 && mayRoundToTf32() ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                 : CUBLAS_COMPUTE_32F;
}

/// Describes the transpose of a matrix to cuBLASLt, whose matrices are column-major. A row-major
/// matrix in memory is already the column-major transpose. For a column-major matrix in memory,
/// `transposed` is set, and cuBLASLt transposes the matrix (CUBLAS_OP_T).
struct View {
  bool transposed = false;
  int64_t rows = 0, columns = 0, ld = 0; ///< sizes in memory, in column-major order
};

/// Returns the view of the transpose of a rows x columns matrix. One stride must be 1, or belong to
/// a dim of size 1. Example: a row-major 2x3 matrix (strides 3, 1) gives a column-major 3x2 view
/// with ld 3.
View viewOf(int64_t rows, int64_t columns, int64_t rowStride, int64_t columnStride) {
  bool dense = columnStride == 1 || columns == 1, alongRows = rowStride == 1 || rows == 1;
  View result{false, columns, rows, rowStride};
  if (!dense)
    result = {true, rows, columns, columnStride};
  int64_t columnCount = result.transposed ? columns : rows;
  if (columnCount == 1) // the stride of a single column is arbitrary
    result.ld = result.rows;
  if ((!dense && !alongRows) || result.ld < result.rows)
    PSRT_FAIL(BadInput, "matmuls of a %lld x %lld matrix with strides %lld, %lld are not supported",
              (long long)rows, (long long)columns, (long long)rowStride, (long long)columnStride);
  return result;
}

} // namespace

template <typename T>
void CublasLtMatmul::set(cublasLtMatmulDescAttributes_t attribute, T value) const {
  library.check(library.matmulDescSetAttribute(desc, attribute, &value, sizeof(value)),
                "to describe a matmul");
}

CublasLtMatmul::Matrix CublasLtMatmul::makeMatrix(Dtype dtype, int64_t rows, int64_t columns,
                                                  int64_t ld, const MatmulBatch &batch,
                                                  int64_t distance) {
  Matrix result;
  library.check(library.matrixLayoutCreate(&result.layout, typeOf(dtype), uint64_t(rows),
                                           uint64_t(columns), ld),
                "to describe a matrix");
  auto setLayout = [&](cublasLtMatrixLayoutAttribute_t attribute, auto value) {
    library.check(library.matrixLayoutSetAttribute(result.layout, attribute, &value, sizeof(value)),
                  "to describe a batch");
  };
  int64_t last = (columns - 1) * ld + rows;
  result.description =
      format("%s %lldx%lld/%lld", dtypeName(dtype), (long long)rows, (long long)columns, //
             (long long)ld);
  if (batch.count > 1) {
    setLayout(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, int32_t(batch.count));
    setLayout(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, distance);
    last += (batch.count - 1) * distance;
    result.description += format("+%lld", (long long)distance);
  }
  result.bytes = size_t(last * dtypeSize(dtype));
  return result;
}

void CublasLtMatmul::setEpilogue(const MatmulOp &op, int64_t alignment) {
  EpilogueTraits traits = traitsOf(epilogue);
  if (epilogue != Epilogue::None)
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t(traits.kind));
  if (!traits.hasVector)
    return;
  set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t(typeOf(op.outDtype)));
  // The heuristics only check the alignment of the pointer, so `alignment` itself serves as an
  // address.
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, reinterpret_cast<const void *>(alignment));
  int64_t count = epilogue == Epilogue::LhsBiasGrad ? op.m : op.n;
  vectorBytes = size_t(count * dtypeSize(op.outDtype));
}

void CublasLtMatmul::setAux(const MatmulOp &op, int64_t ld, int64_t alignment) {
  hasAux = traitsOf(epilogue).hasAux;
  if (!hasAux)
    return;
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, int32_t(typeOf(op.outDtype)));
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, ld);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, reinterpret_cast<const void *>(alignment));
}

CublasLtMatmul::CublasLtMatmul(const Blas &blas, const MatmulOp &op, const MatmulBatch &batch,
                               Epilogue epilogue, int64_t alignment)
    : blas(blas), library(*blas.getLibrary()), isDouble(op.dtype == Dtype::F64),
      isFloat8(psrt::isFloat8(op.dtype)), epilogue(epilogue) {
  View lhs = viewOf(op.m, op.k, op.lhs[2], op.lhs[3]);
  View rhs = viewOf(op.k, op.n, op.rhs[2], op.rhs[3]);
  View out = viewOf(op.m, op.n, op.out[2], op.out[3]);
  cublasComputeType_t compute = computeOf(op.dtype);
  library.check(library.matmulDescCreate(&desc, compute, isDouble ? CUDA_R_64F : CUDA_R_32F),
                "to describe a matmul");
  set(CUBLASLT_MATMUL_DESC_TRANSA, int32_t(rhs.transposed ? CUBLAS_OP_T : CUBLAS_OP_N));
  set(CUBLASLT_MATMUL_DESC_TRANSB, int32_t(lhs.transposed ? CUBLAS_OP_T : CUBLAS_OP_N));
  setEpilogue(op, alignment);
  if (isFloat8) // the heuristics check whether the scale pointers are set, so any address will do
    setScales(this, this);
  setAux(op, out.ld, alignment);
  description = format("%c%c %d x%lld%s", rhs.transposed ? 'T' : 'N', lhs.transposed ? 'T' : 'N',
                       int(compute), (long long)batch.count, traitsOf(epilogue).name);
  a = makeMatrix(op.rhsDtype(), rhs.rows, rhs.columns, rhs.ld, batch, batch.rhs);
  b = makeMatrix(op.dtype, lhs.rows, lhs.columns, lhs.ld, batch, batch.lhs);
  d = makeMatrix(op.outDtype, out.rows, out.columns, out.ld, batch, batch.out);
  kind = describe(op, alignment);
  algorithm = choose(op, alignment);
}

CublasLtMatmul::~CublasLtMatmul() {
  for (const Matrix *matrix : {&a, &b, &d})
    if (matrix->layout)
      library.matrixLayoutDestroy(matrix->layout);
  if (desc)
    library.matmulDescDestroy(desc);
}

//===--- the algorithm ----------------------------------------------------===//

std::vector<cublasLtMatmulAlgo_t> CublasLtMatmul::askFor(int most, const MatmulOp &op,
                                                         int64_t alignment) const {
  /// Allows only algorithms that reduce partial results in the compute type and in a fixed order.
  constexpr auto reductionSchemes = cublasLtMatmulPreferenceAttributes_t(3);
  constexpr uint32_t inComputeType = 2;
  cublasLtMatmulPreference_t preference = nullptr;
  library.check(library.matmulPreferenceCreate(&preference), "to choose an algorithm");
  auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    return library.matmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t(kWorkspaceBytes));
  prefer(reductionSchemes, inComputeType);
  for (auto operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    prefer(operand, uint32_t(alignment));
  std::vector<cublasLtMatmulHeuristicResult_t> found(most);
  int count = 0;
  cublasStatus_t status =
      library.matmulAlgoGetHeuristic(blas.getHandle(), desc, a.layout, b.layout, d.layout, d.layout,
                                     preference, most, found.data(), &count);
  library.matmulPreferenceDestroy(preference);
  std::vector<Algorithm> result;
  for (int i = 0; i < count; ++i)
    if (found[i].state == CUBLAS_STATUS_SUCCESS)
      result.push_back(found[i].algo);
  std::string purpose =
      format("to choose an algorithm for a %lldx%lldx%lld matmul of %s", (long long)op.m,
             (long long)op.n, (long long)op.k, dtypeName(op.dtype));
  if (status == CUBLAS_STATUS_SUCCESS && result.empty())
    status = CUBLAS_STATUS_NOT_SUPPORTED;
  // For an unsupported matmul, some versions of the library return NOT_SUPPORTED, and others
  // INVALID_VALUE.
  bool isLacking = status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
  bool hasFallback = isFloat8 || traitsOf(epilogue).hasFallback;
  if (!isLacking || !hasFallback)
    library.check(status, purpose.c_str());
  return result;
}

/// Returns true if cuBLASLt accepts the algorithm for this matmul. Returns false for invalid bits
/// that were read from a file.
bool CublasLtMatmul::isUsable(const Algorithm &candidate) const {
  cublasLtMatmulHeuristicResult_t result{};
  cublasStatus_t status = library.matmulAlgoCheck(blas.getHandle(), desc, a.layout, b.layout,
                                                  d.layout, d.layout, &candidate, &result);
  return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= kWorkspaceBytes;
}

std::optional<cublasLtMatmulAlgo_t>
CublasLtMatmul::measure(const std::vector<Algorithm> &offered) const {
  /// A later candidate must take less than this fraction of the best time so far. A smaller gain is
  /// noise, and the earlier candidate of the heuristics is then preferred.
  constexpr double minGain = 0.97;
  size_t scaleBytes = isFloat8 ? sizeof(float) : 0, auxBytes = hasAux ? d.bytes : 0;
  AlgorithmTimer timer(blas.getGpu(),
                       {a.bytes, b.bytes, d.bytes, vectorBytes, scaleBytes, auxBytes});
  if (!timer.hasMemory())
    return std::nullopt;
  MatmulData data{.lhs = timer.at(1), .rhs = timer.at(0), .out = timer.at(2)};
  if (vectorBytes)
    data.vector = timer.at(3);
  if (isFloat8)
    data.lhsScale = data.rhsScale = timer.at(4);
  if (hasAux)
    data.aux = timer.at(5);
  std::optional<Algorithm> best;
  double least = std::numeric_limits<double>::infinity();
  for (const Algorithm &candidate : offered) {
    double time = timer.measure([&] {
      return enqueue(timer.getStream().get(), candidate, data, timer.getWorkspace(),
                     /*accumulate=*/false) == CUBLAS_STATUS_SUCCESS;
    });
    if (time >= least * minGain)
      continue;
    best = candidate;
    least = time;
  }
  return best;
}

std::string CublasLtMatmul::describe(const MatmulOp &op, int64_t alignment) const {
  return format("%lldx%lldx%lld %s of %s, %s to %s, at %lld", (long long)op.m, (long long)op.n,
                (long long)op.k, description.c_str(), a.description.c_str(), b.description.c_str(),
                d.description.c_str(), (long long)alignment);
}

cublasLtMatmulAlgo_t CublasLtMatmul::choose(const MatmulOp &op, int64_t alignment) {
  constexpr int most = 8;
  Algorithms &algorithms = blas.getAlgorithms();
  std::vector<Algorithm> found = askFor(algorithms.areMeasured() ? most : 1, op, alignment);
  offered = !found.empty();
  if (!offered || !algorithms.areMeasured())
    return offered ? found.front() : Algorithm{};
  std::optional<std::string> chosen = algorithms.choose(
      kind,
      [&](const std::string &text) {
        std::optional<Algorithm> candidate = toAlgorithm(text);
        return candidate && isUsable(*candidate);
      },
      [&]() -> std::optional<std::string> {
        std::optional<Algorithm> fastest = measure(found);
        return fastest ? std::optional(toText(*fastest)) : std::nullopt;
      });
  return chosen ? toAlgorithm(*chosen).value_or(found.front()) : found.front();
}

//===--- a run ------------------------------------------------------------===//

void CublasLtMatmul::setScales(const void *ofLhs, const void *ofRhs) const {
  set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, ofRhs);
  set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, ofLhs);
}

cublasStatus_t CublasLtMatmul::enqueue(CUstream stream, const Algorithm &chosen,
                                       const MatmulData &data, void *workspace,
                                       bool accumulate) const {
  if (isFloat8)
    setScales(data.lhsScale, data.rhsScale);
  if (data.vector)
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, data.vector);
  if (data.aux)
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, data.aux);
  float scales[] = {1, accumulate ? 1.0f : 0.0f};
  double wideScales[] = {1, accumulate ? 1.0 : 0.0};
  auto scale = [&](int i) -> const void * {
    return isDouble ? static_cast<const void *>(&wideScales[i]) : &scales[i];
  };
  // A is rhs, B is lhs.
  return library.matmul(blas.getHandle(), desc, scale(0), data.rhs, a.layout, data.lhs, b.layout,
                        scale(1), data.out, d.layout, data.out, d.layout, &chosen, workspace,
                        kWorkspaceBytes, stream);
}

void CublasLtMatmul::run(CUstream stream, const MatmulData &data, bool accumulate) const {
  library.check(
      enqueue(stream, algorithm, data, reinterpret_cast<void *>(blas.getWorkspace()), accumulate),
      "to run a matmul");
}

} // namespace psrt::cuda
