// Defines the CUDA device: the GPUs of this process and their ranks, which enqueue instructions.
#ifndef PSRT_DEVICE_CUDA_CUDADEVICE_H
#define PSRT_DEVICE_CUDA_CUDADEVICE_H

#include "runtime/core/Backend.h"
#include "runtime/device/cuda/CublasLt.h"
#include "runtime/device/cuda/CudaTransfers.h"
#include "runtime/device/cuda/EventClock.h"
#include "runtime/device/cuda/LibraryKernels.h"
#include "runtime/device/cuda/Module.h"
#include "runtime/device/cuda/Recordings.h"
#include "runtime/device/cuda/ScalarMirror.h"
#include "runtime/device/cuda/cudnn/Plan.h"
#include "runtime/device/cuda/cudnn/Trial.h"
#include <deque>
#include <map>
#include <tuple>

namespace psrt::nccl {
struct Groups;
} // namespace psrt::nccl

namespace psrt::cuda {

/// Base class of the data prepared for an instruction. Each kind of instruction has its own derived
/// class.
struct Prepared {
  virtual ~Prepared() = default;
};

/// The cuDNN library and trial results that the ranks of a process share.
struct CudnnUse {
  std::once_flag looked;
  CudnnRef library; ///< null if cuDNN is not used
  TrialResults trials{"cuDNN"};
};

/// Algorithm choices for one GPU model.
struct MeasuredAlgorithms {
  explicit MeasuredAlgorithms(const Gpu &gpu)
      : matmuls(gpu, kMatmulAlgorithms), cudnn(gpu, kCudnnAlgorithms) {}
  Algorithms matmuls, cudnn;
};

/// A GPU and the resources that its ranks share.
struct GpuResources {
  GpuRef gpu;
  std::shared_ptr<CudnnUse> cudnnUse;
  ModuleRef program; ///< null if the program has no kernels
  std::shared_ptr<const LibraryKernels> library;
  std::shared_ptr<MeasuredAlgorithms> algorithms; ///< shared by all GPUs of the same model
  std::shared_ptr<TrialResults> matmuls; ///< trials of cuBLASLt's epilogues; shared by all GPUs
};

/// The parts of a program that its ranks read.
struct ProgramView {
  std::vector<std::string> kernels;
  Mesh mesh;
};

/// One rank. Its instructions are enqueued on one stream, in call order. Exceptions: transfers to
/// and from host memory, and asynchronous communication, have streams of their own.
class CudaRank : public RankDevice {
public:
  CudaRank(GpuResources resources, std::shared_ptr<const ProgramView> program);
  ~CudaRank() override;

  bool bind(Bound &bound) override;
  void reserve() override {}
  int threads() const override { return 1; }
  std::unique_ptr<RankMemory> makeMemory(MemorySizes sizes) override;
  bool runsLater() const override { return true; }
  void synchronize() override { stream->synchronize(); }
  int64_t getPeakMatmulSize() const override { return getDriver().isFake() ? 256 : 2048; }
  DeviceInfo getInfo() const override {
    return {getGpu().getName(), int64_t(getGpu().totalMemory())};
  }
  const int64_t *mirror(const int64_t *scalars, size_t count) override;
  void begin(const int64_t *scalars) override;
  void run(const Bound *first, const Bound *last) override;
  void forgetRecordings() override { recordings.clear(); }
  /// Sets a function that is called while instructions are enqueued: at the beginning and end of a
  /// run, and between some instructions. Null disables the calls.
  void setPulse(std::function<void()> function) { pulse = std::move(function); }
  void mark() override { clock.mark(); }
  std::vector<double> takeMarks() override { return clock.take(); }
  double timeOf(const Event &event) const { return clock.timeOf(event); }
  bool wantsExtents() const override { return getDriver().isFake(); }

  const Gpu &getGpu() const { return *resources.gpu; }
  const Driver &getDriver() const { return resources.gpu->getDriver(); }
  const StreamRef &getStream() const { return stream; }
  /// Returns the device address of the memory that was created last, or null if there is none.
  void *getArena() const { return arena; }
  size_t getArenaBytes() const { return arenaBytes; }
  const ProgramView &getProgram() const { return *program; }
  const Recordings &getRecordings() const { return recordings; }
  /// Returns a kernel of the program.
  CUfunction findKernel(int index) const;
  const LibraryKernels &getLibrary() const { return *resources.library; }
  /// Returns scratch memory that instructions share, because they run one after another. The memory
  /// lives as long as the rank.
  CUdeviceptr getScratch(int64_t bytes);
  Transfers &getTransfers() { return transfers; }
  /// Returns the rank's cuBLASLt handle and workspace, which are created on first use.
  Blas &getBlas();
  /// Returns the rank's cuDNN handle, which is created on first use, or null if cuDNN is not used.
  CudnnHandle *getCudnn();
  CudnnUse &getCudnnUse() const { return *resources.cudnnUse; }
  /// Returns the choices between cuDNN and the fallback kernels.
  Algorithms &getCudnnAlgorithms() const { return resources.algorithms->cudnn; }
  TrialResults &getMatmulTrials() const { return *resources.matmuls; }
  /// Reports to the fake driver which memory the next enqueued operation accesses: the buffers of
  /// the instruction, and `more`.
  void announce(const Bound &bound, const char *name, const std::vector<Access> &more = {}) const;
  /// Returns the memory that an instruction may access, and `more`. Returns an empty list with a
  /// real driver.
  std::vector<Access> findAccesses(const Bound &bound, const std::vector<Access> &more = {}) const;

  template <typename T> T *keep(std::unique_ptr<T> prepared) {
    T *result = prepared.get();
    kept.push_back(std::move(prepared));
    return result;
  }
  static CudaRank &of(const Bound &bound) { return *static_cast<CudaRank *>(bound.self); }

private:
  GpuResources resources;
  std::shared_ptr<const ProgramView> program;
  StreamRef stream;
  void *arena = nullptr;
  size_t arenaBytes = 0;
  /// Scratch allocations in order of size. New instructions use the last one. Earlier instructions
  /// and captured graphs may use the others.
  std::deque<DeviceMemory> scratches;
  std::unique_ptr<Blas> blas;
  std::unique_ptr<CudnnHandle> cudnnHandle; ///< outlives captured graphs of its plans
  bool hasTriedCudnn = false;
  std::map<const int64_t *, ScalarMirror> mirrors; ///< by address of the host's scalars
  std::function<void()> pulse;
  Recordings recordings;
  Transfers transfers;
  EventClock clock;
  std::deque<std::unique_ptr<Prepared>> kept;
  /// Bound::run and Bound::prepared for each kernel or matmul instruction, accumulate flag and
  /// alignment. All runs of a function share these entries, because the prepared data depends on
  /// the alignment of the addresses, but not on the addresses themselves.
  std::map<std::tuple<const Instruction *, bool, int64_t>,
           std::pair<void (*)(const Bound &), void *>>
      shared;
};

class RankTable;

class CudaDevice : public Device {
public:
  /// Fails if this machine cannot run the program: no driver, no GPU, wrong architecture or too
  /// little memory.
  explicit CudaDevice(const DeviceRequest &request);
  std::unique_ptr<RankDevice> makeRank(int threads, bool dedicated, int index) override;
  std::unique_ptr<Communication> makeCommunication(const Mesh &mesh, bool dedicated) override;
  bool hasOwnCommunication() const override { return true; }
  std::unique_ptr<Communication>
  makeProcessCommunication(std::unique_ptr<Communication> host) override;

private:
  std::shared_ptr<const nccl::Groups> groups; ///< groups of ranks that communicate in the program
  int firstRank;                              ///< number of this process's first rank
  std::vector<int> gpus;                      ///< GPU ordinal of each rank of this process
  std::shared_ptr<ProgramView> program;
  std::shared_ptr<MeasuredAlgorithms> findAlgorithms(const Gpu &gpu) const;

  std::vector<GpuResources> resources; ///< by GPU ordinal; GPUs without ranks have empty elements
  std::shared_ptr<RankTable> ranks;
};

/// Returns the largest power of two, up to 256, that divides the addresses of all buffers.
int64_t alignmentOf(const Bound &bound);

// Each bind function sets `bound.run` and `bound.prepared` for one kind of instruction.

void bindKernel(CudaRank &rank, const KernelOp &op, Bound &bound);
void bindCopy(const CopyOp &op, Bound &bound);
void bindShardIndex(CudaRank &rank, Bound &bound);
void bindShardSlice(CudaRank &rank, const CollectiveOp &op, Bound &bound);
void bindMatmul(CudaRank &rank, const MatmulOp &op, Bound &bound);
void bindFloat8Matmul(CudaRank &rank, const MatmulOp &op, Bound &bound);
/// Binds a matmul with an activation. Addresses are multiples of `alignment`.
void bindActivatedMatmul(CudaRank &rank, const MatmulOp &op, Bound &bound, int64_t alignment);
void bindCall(CudaRank &rank, const AttentionOp &op, Bound &bound);
void bindCall(CudaRank &rank, const EmbeddingOp &op, Bound &bound);
void bindCall(CudaRank &rank, const MaxPoolOp &op, Bound &bound);
void bindCall(CudaRank &rank, const ConvolutionOp &op, Bound &bound);
void bindCall(CudaRank &rank, const SortOp &op, Bound &bound);

/// Binds an instruction to launches of the runtime's kernels, which may use the scratch `work`.
void bindLaunches(CudaRank &rank, Bound &bound, Launches launches, CUdeviceptr work = 0,
                  int64_t workBytes = 0);

} // namespace psrt::cuda

#endif
