// Runs matmuls whose result goes through a GELU or is multiplied by the derivative of a GELU. Uses
// a cuBLASLt epilogue if the epilogue's results match those of a plain matmul followed by the
// fallback GELU kernel. Otherwise, runs the plain matmul and the kernel.
#include "runtime/core/Status.h"
#include "runtime/device/cuda/CublasLtMatmul.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/device/cuda/Switches.h"
#include "runtime/device/cuda/cudnn/Plan.h"
#include <optional>

namespace psrt::cuda {
namespace {

using Epilogue = CublasLtMatmul::Epilogue;

bool isGrad(const MatmulOp &op) { return op.activation == MatmulOp::Activation::GeluGrad; }

/// Returns the epilogue of the plain matmul that precedes the fallback GELU kernel.
Epilogue getPlainEpilogue(const Bound &bound) {
  return bound.buffers[MatmulOp::Bias] ? Epilogue::Bias : Epilogue::None;
}
/// Returns the epilogue with which cuBLASLt computes the GELU or multiplies by its derivative.
Epilogue getEpilogue(const MatmulOp &op, const Bound &bound) {
  if (isGrad(op))
    return Epilogue::GeluGrad;
  bool hasBias = bound.buffers[MatmulOp::Bias];
  if (findAux(bound))
    return hasBias ? Epilogue::GeluAuxBias : Epilogue::GeluAux;
  return hasBias ? Epilogue::GeluBias : Epilogue::Gelu;
}

/// Enqueues the matmul on the instruction's `buffers`. If `byKernel` is set, the fallback kernel
/// computes the GELU afterwards.
void runBlasMatmul(const CudaRank &rank, const MatmulOp &op, const CublasLtMatmul &matmul,
                   bool byKernel, void *const *buffers) {
  void *aux = buffers[MatmulOp::Aux], *out = buffers[MatmulOp::Out];
  // If `aux` stores the pre-activation, the kernel reads it from `aux`. Otherwise, the kernel works
  // in place.
  bool isKept = byKernel && aux && !isGrad(op);
  matmul.run(rank.getStream()->get(),
             {.lhs = buffers[MatmulOp::Lhs],
              .rhs = buffers[MatmulOp::Rhs],
              .out = isKept ? aux : out,
              .vector = buffers[MatmulOp::Bias],
              .aux = byKernel ? nullptr : aux},
             /*accumulate=*/false);
}

/// Returns the launches of the fallback GELU kernel, which follows the plain matmul.
Launches launchKernel(const MatmulOp &op, void *const *buffers) {
  void *aux = buffers[MatmulOp::Aux], *out = buffers[MatmulOp::Out];
  int64_t count = op.m * op.n;
  return isGrad(op) ? launchGeluGrad(op.outDtype, out, aux, out, count)
                    : launchGelu(op.outDtype, aux ? aux : out, out, count);
}

//===--- comparison of cuBLASLt's epilogue with the fallback kernel -----===//

/// Describes the tensors of a comparison, indexed by buffer. Some of the matmul's results lie
/// between -4 and 4, where a GELU by erf differs from the required GELU by tanh.
Trial makeTrial(const MatmulOp &op, bool hasBias, bool hasAux) {
  /// This tolerance rejects a GELU by erf, whose results differ by up to 4.7e-4 from a GELU by
  /// tanh. It accepts another order of additions, which changes a result by less than 2.4e-4 for
  /// inner dims of realistic size.
  constexpr double absolute = 3e-4;
  Trial trial;
  trial.tensors.resize(MatmulOp::Buffers);
  auto set = [&](int buffer, Trial::Tensor tensor) -> Trial::Tensor & {
    return trial.tensors[size_t(buffer)] = std::move(tensor);
  };
  set(MatmulOp::Lhs, Trial::Tensor::dense(op.dtype, {op.m, op.k})).strides = {op.lhs[2], op.lhs[3]};
  set(MatmulOp::Rhs, Trial::Tensor::dense(op.dtype, {op.k, op.n})).strides = {op.rhs[2], op.rhs[3]};
  if (hasBias)
    set(MatmulOp::Bias, Trial::Tensor::dense(op.outDtype, {op.n}));
  auto setLikeOut = [&](int buffer, bool isResult) {
    Trial::Tensor &tensor = set(buffer, Trial::Tensor::dense(op.outDtype, {op.m, op.n}));
    tensor.isResult = isResult;
    tensor.absolute = absolute;
    tensor.roundings = 2; // the matmul result and the GELU are both rounded
    tensor.scale = 4;
  };
  setLikeOut(MatmulOp::Out, true);
  if (hasAux)
    setLikeOut(MatmulOp::Aux, !isGrad(op));
  return trial;
}

std::vector<Access> accessesOf(const Trial &trial, void *const *buffers) {
  std::vector<Access> result;
  for (size_t i = 0; i < trial.tensors.size(); ++i)
    if (auto begin = reinterpret_cast<CUdeviceptr>(buffers[i]))
      result.push_back(
          {begin, begin + CUdeviceptr(trial.tensors[i].getBytes()), trial.tensors[i].isResult});
  return result;
}

/// Compares cuBLASLt's epilogue with a plain matmul and the fallback kernel. Returns why the
/// epilogue must not be used, or an empty string if the results match.
std::string compare(CudaRank &rank, const MatmulOp &op, const CublasLtMatmul &theirs,
                    const Bound &bound, int64_t alignment) {
  Trial trial = makeTrial(op, bound.buffers[MatmulOp::Bias], findAux(bound));
  if (trial.getBytes() > int64_t(rank.getGpu().freeMemory()))
    return "there is not enough memory to compare the results";
  CublasLtMatmul plain(rank.getBlas(), op, {}, getPlainEpilogue(bound), alignment);
  trial.mayDiffer = mayBeNondeterministic();
  trial.theirs = [&](void *const *buffers) {
    runBlasMatmul(rank, op, theirs, /*byKernel=*/false, buffers);
  };
  trial.ours = [&](void *const *buffers) {
    runBlasMatmul(rank, op, plain, /*byKernel=*/true, buffers);
    rank.getLibrary().launch(*rank.getStream(), launchKernel(op, buffers),
                             accessesOf(trial, buffers));
  };
  return trial.compare(rank.getStream());
}

//===--- the instruction ------------------------------------------------------===//

struct PreparedActivation : Prepared {
  MatmulOp op;
  std::string name;
  std::optional<CublasLtMatmul> matmul;
  bool byKernel = false;
};

/// Returns the instruction's buffers by index; omitted trailing buffers are null.
std::array<void *, MatmulOp::Buffers> getBuffers(const Bound &bound) {
  std::array<void *, MatmulOp::Buffers> buffers{};
  size_t count = std::min(bound.instruction->buffers.size(), buffers.size());
  std::copy(bound.buffers, bound.buffers + count, buffers.begin());
  return buffers;
}

void runActivated(const Bound &bound) {
  const auto &p = *static_cast<const PreparedActivation *>(static_cast<Prepared *>(bound.prepared));
  CudaRank &rank = CudaRank::of(bound);
  CUdeviceptr work = rank.getBlas().getWorkspace();
  auto buffers = getBuffers(bound);
  rank.announce(bound, p.name.c_str(), {{work, work + kWorkspaceBytes, 1}});
  runBlasMatmul(rank, p.op, *p.matmul, p.byKernel, buffers.data());
  if (p.byKernel)
    rank.getLibrary().launch(*rank.getStream(), launchKernel(p.op, buffers.data()),
                             rank.findAccesses(bound));
}

/// Tries to use cuBLASLt's epilogue. Returns false if the epilogue is unavailable or its results do
/// not match. In this case, prints the reason once per kind of matmul.
bool tryEpilogue(CudaRank &rank, const Bound &bound, PreparedActivation &p, int64_t alignment) {
  constexpr int64_t auxAlignment = 16, auxRow = 8;
  TrialResults &trials = rank.getMatmulTrials();
  int gpu = rank.getGpu().getOrdinal();
  bool hasAux = findAux(bound);
  if (hasAux && (p.op.n % auxRow != 0 || alignment < auxAlignment))
    return trials.isTrusted(gpu, p.name, [] {
      return format("the row length is not a multiple of %lld elements, or a matrix is not aligned "
                    "to %lld bytes",
                    (long long)auxRow, (long long)auxAlignment);
    });
  p.matmul.emplace(rank.getBlas(), p.op, MatmulBatch(), getEpilogue(p.op, bound), alignment);
  return trials.isTrusted(gpu, p.matmul->getKind(), [&] {
    return p.matmul->isOffered() ? compare(rank, p.op, *p.matmul, bound, alignment)
                                 : std::string("cuBLASLt offers no algorithm with this epilogue");
  });
}

} // namespace

void bindActivatedMatmul(CudaRank &rank, const MatmulOp &op, Bound &bound, int64_t alignment) {
  auto p = std::make_unique<PreparedActivation>();
  p->op = op;
  p->name = format("matmul %lldx%lldx%lld of %s with a GELU%s", (long long)op.m, (long long)op.n,
                   (long long)op.k, dtypeName(op.dtype), isGrad(op) ? "'s derivative" : "");
  p->byKernel = !tryEpilogue(rank, bound, *p, alignment);
  if (p->byKernel) {
    p->matmul.emplace(rank.getBlas(), op, MatmulBatch(), getPlainEpilogue(bound), alignment);
    auto buffers = getBuffers(bound);
    for (const KernelLaunch &launch : launchKernel(op, buffers.data()))
      rank.getLibrary().find(launch.kernel); // loads the kernel before the first run
  }
  bound.run = runActivated;
  bound.prepared = static_cast<Prepared *>(rank.keep(std::move(p)));
}

} // namespace psrt::cuda
