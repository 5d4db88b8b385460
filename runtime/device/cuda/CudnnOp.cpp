// Compares cuDNN with the fallback kernels, measures both and binds the better one.
#include "runtime/device/cuda/CudnnOp.h"
#include "runtime/core/Status.h"
#include "runtime/device/cuda/AlgorithmTimer.h"
#include "runtime/device/cuda/Switches.h"
#include <algorithm>
#include <optional>

namespace psrt::cuda {
namespace {

/// Limit in bytes on a comparison's GPU memory. Larger problems are compared on part of the batch.
constexpr int64_t kMaxTrialBytes = int64_t(1) << 30;

/// Number of times that the filler buffer is written before the timed work (BurstTimer). These
/// writes take a GPU about 0.5 ms. In this time, the host enqueues ten plans.
constexpr int kFillings = 40;

/// Bytes of GPU memory that must stay free for later allocations.
constexpr int64_t kLeftBytes = int64_t(kWorkspaceBytes + kLandingBytes);

void *pointer(CUdeviceptr at) { return reinterpret_cast<void *>(at); }

const CudnnPlan &getPlan(CudnnHandle &cudnnHandle, const CudnnOp &op) {
  return cudnnHandle.getPlan(op.describe(), [&] { return op.makePlan(cudnnHandle.getTarget()); });
}

//===--- the comparison ---------------------------------------------------===//

/// One problem, and the memory for comparing or measuring cuDNN and the fallback kernels.
class Comparison {
public:
  Comparison(CudaRank &rank, CudnnHandle &cudnnHandle, const CudnnOp &op)
      : rank(rank), op(op), plan(getPlan(cudnnHandle, op)), trial(op.makeTrial()),
        work(allocate(std::max(plan.getWorkspaceBytes(), op.getWorkBytes()))),
        own(allocate(op.getOwnBytes())) {
    setRuns();
  }

  /// Returns how the results differ, or an empty string if they match.
  std::string compare() { return trial.compare(rank.getStream()); }

  Trial::Times measure() {
    std::optional<DeviceMemory> filler = allocate(kWorkspaceBytes);
    int fillings = rank.getDriver().isFake() ? 1 : kFillings; // the fake driver fills slowly
    BurstTimer timer(*rank.getStream(), filler->get(), fillings);
    return trial.measure(rank.getStream(), [&](const std::function<void()> &run) {
      return timer.measure([&] { return run(), true; });
    });
  }

private:
  void setRuns() {
    trial.mayDiffer = mayBeNondeterministic();
    trial.prepare = [&](void *const *buffers) {
      launch(op.launchInputs(buffers, at(work)), buffers);
    };
    trial.theirs = [&](void *const *buffers) {
      launch(op.launchBefore(buffers, at(own)), buffers);
      const Driver &driver = rank.getDriver();
      std::vector<Access> accesses = findAccesses(buffers);
      if (driver.isFake())
        driver.access(rank.getStream()->get(), "cuDNN trial", int(accesses.size()),
                      accesses.data());
      if (!pack)
        pack.emplace(plan.pack(op.nameTensors(buffers, at(own)), at(work)));
      plan.run(*pack);
    };
    trial.ours = [&](void *const *buffers) { launch(op.launchOurs(buffers, at(work)), buffers); };
  }

  std::optional<DeviceMemory> allocate(int64_t bytes) const {
    if (bytes == 0)
      return std::nullopt;
    return std::optional<DeviceMemory>(std::in_place, rank.getStream()->getGpu(), size_t(bytes),
                                       "a comparison");
  }
  static void *at(const std::optional<DeviceMemory> &memory) {
    return memory ? pointer(memory->get()) : nullptr;
  }

  /// Returns the accesses to report to the fake driver: all tensors and workspaces, each of them as
  /// written.
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
  const CudnnOp &op;
  const CudnnPlan &plan;
  Trial trial;
  std::optional<DeviceMemory> work, own;
  std::optional<Descriptor> pack; ///< created with the first run's buffers, which all runs use
};

/// Returns the bytes of GPU memory that a trial needs, without cuDNN's workspace.
int64_t getTrialBytes(const CudnnOp &op) {
  return op.makeTrial().getBytes() + op.getOwnBytes() + op.getWorkBytes();
}

/// Calls `use` with a comparison of the problem. Halves the batch until the comparison fits into
/// memory. Returns the result of `use`, or the reason why the comparison could not run.
std::string onTrial(CudaRank &rank, CudnnHandle &cudnnHandle, const CudnnOp &whole,
                    const std::function<std::string(Comparison &)> &use) {
  try {
    int64_t workspace = getPlan(cudnnHandle, whole).getWorkspaceBytes();
    int64_t free = int64_t(rank.getGpu().freeMemory()) - workspace;
    int64_t scratch = whole.getOwnBytes() + workspace;
    std::unique_ptr<CudnnOp> half;
    const CudnnOp *op = &whole;
    while (op && getTrialBytes(*op) > std::min(free, kMaxTrialBytes)) {
      std::unique_ptr<CudnnOp> next = op->halve();
      half = std::move(next);
      op = half.get();
    }
    if (!op || (scratch > 0 && whole.getOwnBytes() > free - kLeftBytes))
      return "there is not enough memory to compare the results";
    Comparison comparison(rank, cudnnHandle, *op);
    return use(comparison);
  } catch (const CudnnFailure &failure) {
    return failure.what();
  }
}

bool areAligned(const std::vector<CudnnTensor> &tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const CudnnTensor &tensor) {
    return tensor.isOfHost || reinterpret_cast<uintptr_t>(tensor.data) % kCudnnAlignment == 0;
  });
}

/// Returns true if cuDNN computes the problem correctly. Otherwise, prints the reason once.
bool isRight(CudaRank &rank, CudnnHandle &cudnnHandle, const CudnnOp &op, const Bound &bound) {
  std::string problem = op.describe();
  TrialResults &trials = rank.getCudnnUse().trials;
  int gpu = rank.getGpu().getOrdinal();
  if (!areAligned(op.nameTensors(bound.buffers, nullptr)))
    return trials.isTrusted(gpu, problem + ", not aligned", [] {
      return format("a tensor is not aligned to %lld bytes", (long long)kCudnnAlignment);
    });
  return trials.isTrusted(gpu, problem, [&] {
    return onTrial(rank, cudnnHandle, op,
                   [](Comparison &comparison) { return comparison.compare(); });
  });
}

/// Returns the key of a measurement: the problem and the switches that select cuDNN's engines.
std::string nameMeasured(const CudnnOp &op) {
  return op.describe() + (mayRoundToTf32() ? ", tf32" : "") +
         (mayBeNondeterministic() ? ", nondeterministic" : "");
}

/// Returns true if the fallback kernels are faster, according to a new or a stored measurement.
bool areOursFaster(CudaRank &rank, CudnnHandle &cudnnHandle, const CudnnOp &op) {
  constexpr const char *kTheirs = "cudnn", *kOurs = "own";
  /// The fallback kernels must take less than this fraction of cuDNN's time. A smaller gain is
  /// noise.
  constexpr double kMinGain = 0.97;
  Algorithms &algorithms = rank.getCudnnAlgorithms();
  if (!algorithms.areMeasured())
    return false;
  auto isUsable = [&](const std::string &text) { return text == kTheirs || text == kOurs; };
  auto measure = [&]() -> std::optional<std::string> {
    Trial::Times times;
    std::string reason = onTrial(rank, cudnnHandle, op, [&](Comparison &comparison) {
      times = comparison.measure();
      return std::string();
    });
    if (!reason.empty())
      return std::nullopt;
    return times.ours < times.theirs * kMinGain ? kOurs : kTheirs;
  };
  return algorithms.choose(nameMeasured(op), isUsable, measure) == kOurs;
}

//===--- the instruction ------------------------------------------------------===//

struct PreparedCudnnOp : Prepared {
  std::unique_ptr<CudnnOp> op;
  const CudnnPlan *plan = nullptr;
  std::optional<Descriptor> pack;
  Launches before;
  std::string name;
  std::vector<Access> more; ///< the workspace
};

void runCudnnOp(const Bound &bound) {
  const auto &p = *static_cast<const PreparedCudnnOp *>(static_cast<Prepared *>(bound.prepared));
  CudaRank &rank = CudaRank::of(bound);
  if (!p.before.empty())
    rank.getLibrary().launch(*rank.getStream(), p.before, rank.findAccesses(bound, p.more));
  rank.announce(bound, p.name.c_str(), p.more);
  try {
    p.plan->run(*p.pack);
  } catch (const CudnnFailure &failure) {
    refuse("%s failed: %s; set PSRT_CUDNN=off to run without cuDNN", p.name.c_str(),
           failure.what());
  }
}

} // namespace

bool bindToCudnn(CudaRank &rank, std::unique_ptr<CudnnOp> given, Bound &bound) {
  CudnnHandle *cudnnHandle = rank.getCudnn();
  if (!cudnnHandle || !isRight(rank, *cudnnHandle, *given, bound) ||
      areOursFaster(rank, *cudnnHandle, *given))
    return false;
  auto p = std::make_unique<PreparedCudnnOp>();
  p->op = std::move(given);
  const CudnnOp &op = *p->op;
  try {
    p->plan = &getPlan(*cudnnHandle, op);
    // The scratch memory contains cuDNN's workspace, then the memory that launchBefore() writes.
    int64_t workspace = alignScratch(p->plan->getWorkspaceBytes());
    int64_t bytes = workspace + op.getOwnBytes();
    CUdeviceptr work = rank.getScratch(bytes);
    void *own = pointer(work + CUdeviceptr(workspace));
    p->before = op.launchBefore(bound.buffers, own);
    p->pack.emplace(p->plan->pack(op.nameTensors(bound.buffers, own), pointer(work)));
    if (bytes)
      p->more.push_back({work, work + CUdeviceptr(bytes), 1});
  } catch (const CudnnFailure &failure) {
    // This rank's plan can fail although another rank's trial has succeeded.
    refuse("%s: %s; set PSRT_CUDNN=off to run without cuDNN", op.describe().c_str(),
           failure.what());
  }
  for (const KernelLaunch &launch : p->before)
    rank.getLibrary().find(launch.kernel); // loads the kernel before the first run
  p->name = "cuDNN's " + op.describe();
  bound.run = runCudnnOp;
  bound.prepared = static_cast<Prepared *>(rank.keep(std::move(p)));
  return true;
}

} // namespace psrt::cuda
