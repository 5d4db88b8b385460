// Comparing, then binding.
#include "runtime/device/cuda/DnnOp.h"
#include "runtime/core/Status.h"
#include <algorithm>
#include <optional>

namespace psrt::cuda {
namespace {

/// Of GPU memory for a comparison; larger problems are compared on a part of the batch.
constexpr int64_t kMostTrialBytes = int64_t(1) << 30;

void *pointer(CUdeviceptr at) { return reinterpret_cast<void *>(at); }

const DnnPlan &getPlan(Dnn &dnn, const DnnOp &op) {
  return dnn.getPlan(op.describe(), [&] { return op.makePlan(dnn.getTarget()); });
}

//===--- the comparison ---------------------------------------------------===//

/// One problem with the memory that both sides work in.
class Comparison {
public:
  Comparison(CudaRank &rank, Dnn &dnn, const DnnOp &op)
      : rank(rank), op(op), plan(getPlan(dnn, op)), trial(op.makeTrial()),
        work(allocate(std::max(plan.getWorkspaceBytes(), op.getWorkBytes()))),
        own(allocate(op.getOwnBytes())) {}

  std::string run() {
    trial.mayDiffer = mayBeNondeterministic();
    trial.prepare = [&](void *const *buffers) {
      launch(op.launchInputs(buffers, at(work)), buffers);
    };
    trial.theirs = [&](void *const *buffers) {
      launch(op.launchBefore(buffers, at(own)), buffers);
      const Driver &driver = rank.getDriver();
      std::vector<Access> accesses = findAccesses(buffers);
      if (driver.isStandin())
        driver.access(rank.getStream()->get(), "cuDNN on trial", int(accesses.size()),
                      accesses.data());
      plan.run(plan.pack(op.nameTensors(buffers, at(own)), at(work)));
    };
    trial.ours = [&](void *const *buffers) { launch(op.launchOurs(buffers, at(work)), buffers); };
    return trial.compare(rank.getStream());
  }

private:
  std::optional<DeviceMemory> allocate(int64_t bytes) const {
    if (bytes == 0)
      return std::nullopt;
    return std::optional<DeviceMemory>(std::in_place, rank.getStream()->getGpu(), size_t(bytes),
                                       "a comparison");
  }
  static void *at(const std::optional<DeviceMemory> &memory) {
    return memory ? pointer(memory->get()) : nullptr;
  }

  /// All may be written, for the stand-in.
  std::vector<Access> findAccesses(void *const *buffers) const {
    std::vector<Access> result;
    for (size_t i = 0; i < trial.tensors.size(); ++i)
      if (auto begin = reinterpret_cast<CUdeviceptr>(buffers[i]))
        result.push_back({begin, begin + CUdeviceptr(trial.tensors[i].getBytes()), 1});
    for (const std::optional<DeviceMemory> *memory : {&work, &own})
      if (*memory)
        result.push_back({(*memory)->get(), (*memory)->get() + (*memory)->size(), 1});
    return result;
  }

  void launch(const Launches &launches, void *const *buffers) const {
    if (!launches.empty())
      rank.getLibrary().launch(*rank.getStream(), launches, findAccesses(buffers));
  }

  CudaRank &rank;
  const DnnOp &op;
  const DnnPlan &plan;
  Trial trial;
  std::optional<DeviceMemory> work, own;
};

/// Of device memory, without cuDNN's workspace.
int64_t getTrialBytes(const DnnOp &op) {
  return op.makeTrial().getBytes() + op.getOwnBytes() + op.getWorkBytes();
}

/// Empty, or why cuDNN is not used for it.
std::string compare(CudaRank &rank, Dnn &dnn, const DnnOp &whole) {
  try {
    int64_t free = int64_t(rank.getGpu().freeMemory()) - getPlan(dnn, whole).getWorkspaceBytes();
    std::unique_ptr<DnnOp> half;
    const DnnOp *op = &whole;
    while (op && getTrialBytes(*op) > std::min(free, kMostTrialBytes)) {
      std::unique_ptr<DnnOp> next = op->halve();
      half = std::move(next);
      op = half.get();
    }
    if (!op)
      return "there is no memory to compare them";
    return Comparison(rank, dnn, *op).run();
  } catch (const CudnnFailure &failure) {
    return failure.what();
  }
}

bool areAligned(const std::vector<DnnTensor> &tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const DnnTensor &tensor) {
    return tensor.isOfHost || reinterpret_cast<uintptr_t>(tensor.data) % kDnnAlignment == 0;
  });
}

/// Whether cuDNN does it. What it does not do is told once.
bool isForDnn(CudaRank &rank, Dnn &dnn, const DnnOp &op, const Bound &bound) {
  std::string problem = op.describe();
  Verdicts &verdicts = rank.getDnnUse().verdicts;
  int gpu = rank.getGpu().getOrdinal();
  if (!areAligned(op.nameTensors(bound.buffers, nullptr)))
    return verdicts.isTrusted(gpu, problem + ", not aligned", [] {
      return format("a tensor is at no multiple of %lld bytes", (long long)kDnnAlignment);
    });
  return verdicts.isTrusted(gpu, problem, [&] { return compare(rank, dnn, op); });
}

//===--- what is run ------------------------------------------------------===//

struct PreparedDnnOp : Prepared {
  std::unique_ptr<DnnOp> op;
  const DnnPlan *plan = nullptr;
  std::optional<Descriptor> pack;
  Launches before;
  std::string name;
  std::vector<Access> more; ///< workspace
};

void runDnnOp(const Bound &bound) {
  const auto &p = *static_cast<const PreparedDnnOp *>(static_cast<Prepared *>(bound.prepared));
  CudaRank &rank = CudaRank::of(bound);
  if (!p.before.empty())
    rank.getLibrary().launch(*rank.getStream(), p.before, rank.findAccesses(bound, p.more));
  rank.announce(bound, p.name.c_str(), p.more);
  try {
    p.plan->run(*p.pack);
  } catch (const CudnnFailure &failure) {
    refuse("%s, %s; set PSRT_CUDNN=off to do without it", p.name.c_str(), failure.what());
  }
}

} // namespace

bool bindToDnn(CudaRank &rank, std::unique_ptr<DnnOp> given, Bound &bound) {
  Dnn *dnn = rank.getDnn();
  if (!dnn || !isForDnn(rank, *dnn, *given, bound))
    return false;
  auto p = std::make_unique<PreparedDnnOp>();
  p->op = std::move(given);
  const DnnOp &op = *p->op;
  try {
    p->plan = &getPlan(*dnn, op);
    // What our kernels write lies behind cuDNN's workspace.
    int64_t workspace = alignScratch(p->plan->getWorkspaceBytes());
    int64_t bytes = workspace + op.getOwnBytes();
    CUdeviceptr work = rank.getScratch(bytes);
    void *own = pointer(work + CUdeviceptr(workspace));
    p->before = op.launchBefore(bound.buffers, own);
    p->pack.emplace(p->plan->pack(op.nameTensors(bound.buffers, own), pointer(work)));
    if (bytes)
      p->more.push_back({work, work + CUdeviceptr(bytes), 1});
  } catch (const CudnnFailure &failure) { // another rank had a plan of the same
    refuse("%s: %s; set PSRT_CUDNN=off to do without it", op.describe().c_str(), failure.what());
  }
  for (const KernelLaunch &launch : p->before)
    rank.getLibrary().find(launch.kernel); // so that no run looks it up first
  p->name = "cuDNN's " + op.describe();
  bound.run = runDnnOp;
  bound.prepared = static_cast<Prepared *>(rank.keep(std::move(p)));
  return true;
}

} // namespace psrt::cuda
