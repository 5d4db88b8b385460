// A convolution: by cuDNN where it is here, takes the problem and computes what our kernels do on
// random numbers; else by those.
#include "runtime/core/Status.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/device/cuda/cudnn/ConvolutionGraph.h"
#include <algorithm>
#include <cstdio>
#include <optional>

namespace psrt::cuda {
namespace {

/// Of GPU memory for the tensors of a comparison; larger problems are compared on fewer images.
constexpr int64_t kMostTrialBytes = int64_t(1) << 30;

struct PreparedConvolution : Prepared {
  const DnnPlan *plan = nullptr;
  std::optional<Descriptor> pack;
  std::string name;
  std::vector<Access> more; ///< workspace
};

void runConvolution(const Bound &bound) {
  const auto &p =
      *static_cast<const PreparedConvolution *>(static_cast<Prepared *>(bound.prepared));
  CudaRank &rank = CudaRank::of(bound);
  rank.announce(bound, p.name.c_str(), p.more);
  try {
    p.plan->run(*p.pack);
  } catch (const CudnnFailure &failure) {
    refuse("%s, %s; set PSRT_CUDNN=off to do without it", p.name.c_str(), failure.what());
  }
}

int64_t volumeOf(const std::array<int64_t, 3> &sizes) { return sizes[0] * sizes[1] * sizes[2]; }

std::vector<DnnTensor> nameTensors(void *const *buffers) {
  std::vector<DnnTensor> result;
  for (int i = 0; i < ConvolutionOp::Buffers; ++i)
    result.push_back({i + 1, buffers[i]});
  return result;
}

const DnnPlan &getPlan(Dnn &dnn, const ConvolutionOp &op) {
  return dnn.getPlan(describeConvolution(op), op.dtype,
                     [&] { return makeConvolutionGraph(dnn.getLibrary(), dnn.getHandle(), op); });
}

//===--- the comparison ---------------------------------------------------===//

Trial makeTrial(const ConvolutionOp &op) {
  const WindowShape &s = op.windows;
  int64_t taps = volumeOf(s.kernel), places = volumeOf(s.out);
  int64_t counts[] = {op.batch * op.groups * op.inChannels * volumeOf(s.in),
                      op.groups * op.outChannels * op.inChannels * taps,
                      op.batch * op.groups * op.outChannels * places};
  double terms[] = {double(op.outChannels * taps), double(op.batch * places),
                    double(op.inChannels * taps)};
  Trial trial;
  trial.result = op.result;
  trial.terms = terms[op.result];
  trial.roundsInputs = op.dtype == Dtype::F32 && mayRoundToTf32();
  for (int i = 0; i < ConvolutionOp::Buffers; ++i)
    trial.tensors.push_back({i == op.result ? op.outDtype : op.dtype, counts[i]});
  return trial;
}

/// What one side of the comparison touches, for the stand-in.
std::vector<Access> findAccesses(const Trial &trial, void *const *buffers,
                                 const DeviceMemory *work) {
  std::vector<Access> result;
  for (int i = 0; i < int(trial.tensors.size()); ++i) {
    auto begin = reinterpret_cast<CUdeviceptr>(buffers[i]);
    const Trial::Tensor &tensor = trial.tensors[i];
    result.push_back(
        {begin, begin + CUdeviceptr(tensor.count * dtypeSize(tensor.dtype)), i == trial.result});
  }
  if (work)
    result.push_back({work->get(), work->get() + work->size(), 1});
  return result;
}

/// The problem, or as many of its images as there is room to compare; none: without images.
ConvolutionOp shrink(ConvolutionOp op, int64_t room) {
  while (op.batch > 0 && makeTrial(op).getBytes() > room)
    op.batch /= 2;
  return op;
}

/// Empty, or why cuDNN is not used for it.
std::string tryConvolution(CudaRank &rank, Dnn &dnn, const ConvolutionOp &whole) {
  try {
    getPlan(dnn, whole);
    auto room = int64_t(rank.getGpu().freeMemory()) - kMostDnnWorkspace;
    ConvolutionOp op = shrink(whole, std::min(room, kMostTrialBytes));
    if (op.batch == 0)
      return "there is no memory to compare them";
    const DnnPlan &plan = getPlan(dnn, op);
    std::optional<DeviceMemory> work;
    if (plan.getWorkspaceBytes())
      work.emplace(rank.getStream()->getGpu(), size_t(plan.getWorkspaceBytes()), "a comparison");
    Trial trial = makeTrial(op);
    trial.theirs = [&](void *const *buffers) {
      const Driver &driver = rank.getDriver();
      std::vector<Access> accesses = findAccesses(trial, buffers, work ? &*work : nullptr);
      if (driver.isStandin())
        driver.access(rank.getStream()->get(), "a convolution on trial", int(accesses.size()),
                      accesses.data());
      plan.run(plan.pack(nameTensors(buffers),
                         reinterpret_cast<void *>(work ? work->get() : CUdeviceptr(0))));
    };
    trial.ours = [&](void *const *buffers) {
      rank.getLibrary().launch(*rank.getStream(), launchConvolution(op, buffers),
                               findAccesses(trial, buffers, nullptr));
    };
    return trial.compare(rank.getStream());
  } catch (const CudnnFailure &failure) {
    return failure.what();
  }
}

//===--- binding ----------------------------------------------------------===//

bool areAligned(const Bound &bound) {
  return std::all_of(bound.buffers, bound.buffers + ConvolutionOp::Buffers, [](void *buffer) {
    return reinterpret_cast<uintptr_t>(buffer) % kDnnAlignment == 0;
  });
}

/// Whether cuDNN does it. What it does not do is told once.
bool isForDnn(CudaRank &rank, Dnn &dnn, const ConvolutionOp &op, const Bound &bound) {
  std::string problem = describeConvolution(op);
  Verdicts &verdicts = rank.getDnnUse().verdicts;
  int gpu = rank.getGpu().getOrdinal();
  if (!areAligned(bound))
    return verdicts.isTrusted(gpu, problem + ", not aligned", [] {
      return format("a tensor is at no multiple of %lld bytes", (long long)kDnnAlignment);
    });
  return verdicts.isTrusted(gpu, problem, [&] { return tryConvolution(rank, dnn, op); });
}

/// False where kernels of ours are to do it.
bool bindToDnn(CudaRank &rank, const ConvolutionOp &op, Bound &bound) {
  Dnn *dnn = hasConvolutionGraph(op) ? rank.getDnn() : nullptr;
  if (!dnn || !isForDnn(rank, *dnn, op, bound))
    return false;
  auto p = std::make_unique<PreparedConvolution>();
  try {
    p->plan = &getPlan(*dnn, op);
    int64_t bytes = p->plan->getWorkspaceBytes();
    CUdeviceptr work = rank.getScratch(bytes);
    p->pack.emplace(p->plan->pack(nameTensors(bound.buffers), reinterpret_cast<void *>(work)));
    if (bytes)
      p->more.push_back({work, work + CUdeviceptr(bytes), 1});
  } catch (const CudnnFailure &failure) { // another rank had a plan of the same
    refuse("%s: %s; set PSRT_CUDNN=off to do without it", describeConvolution(op).c_str(),
           failure.what());
  }
  p->name = "cuDNN's " + describeConvolution(op);
  bound.run = runConvolution;
  bound.prepared = static_cast<Prepared *>(rank.keep(std::move(p)));
  return true;
}

} // namespace

void bindConvolution(CudaRank &rank, const ConvolutionOp &op, Bound &bound) {
  if (!bindToDnn(rank, op, bound))
    bindLaunches(rank, bound, launchConvolution(op, bound.buffers));
}

} // namespace psrt::cuda
