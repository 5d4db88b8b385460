// The CUDA device: GPUs of this process, and ranks on them that enqueue instructions.
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

/// What an instruction was prepared to; each kind of library call derives its own.
struct Prepared {
  virtual ~Prepared() = default;
};

/// cuDNN as the ranks of a process share it.
struct CudnnUse {
  std::once_flag looked;
  CudnnRef library; ///< null where it is not used
  TrialResults verdicts{"cuDNN"};
};

/// What was measured on one kind of GPU.
struct MeasuredAlgorithms {
  explicit MeasuredAlgorithms(const Gpu &gpu) : matmuls(gpu, kOfMatmuls), cudnnHandle(gpu, kOfCudnn) {}
  Algorithms matmuls, cudnnHandle;
};

/// A GPU with the kernels that its ranks launch; several ranks may share one.
struct Place {
  GpuRef gpu;
  std::shared_ptr<CudnnUse> cudnnHandle;
  ModuleRef program; ///< null where the program has no kernels
  std::shared_ptr<const LibraryKernels> library;
  std::shared_ptr<MeasuredAlgorithms> algorithms; ///< of all GPUs of the same kind
  std::shared_ptr<TrialResults> matmuls;             ///< on what cuBLASLt's do besides; of all GPUs
};

/// The parts of a program that its ranks look at.
struct ProgramView {
  std::vector<std::string> kernels;
  Mesh mesh;
};

/// One rank: all its instructions go to one stream, in the order of the calls.
class CudaRank : public RankDevice {
public:
  CudaRank(Place place, std::shared_ptr<const ProgramView> program);
  ~CudaRank() override;

  bool bind(Bound &bound) override;
  void reserve() override {}
  int threads() const override { return 1; }
  std::unique_ptr<RankMemory> makeMemory(MemorySizes sizes) override;
  bool runsLater() const override { return true; }
  void synchronize() override { stream->synchronize(); }
  int64_t getPeakMatmulSize() const override { return getDriver().isFake() ? 256 : 2048; }
  const int64_t *mirror(const int64_t *scalars, size_t count) override;
  void begin(const int64_t *scalars) override;
  void run(const Bound *first, const Bound *last) override;
  void forgetRecordings() override { recordings.clear(); }
  /// Called where instructions are enqueued, between some of them and at both ends of a run; null:
  /// nothing is.
  void setPulse(std::function<void()> function) { pulse = std::move(function); }
  void mark() override { clock.mark(); }
  std::vector<double> takeMarks() override { return clock.take(); }
  double timeOf(const Event &event) const { return clock.timeOf(event); }
  bool wantsExtents() const override { return getDriver().isFake(); }

  const Gpu &getGpu() const { return *place.gpu; }
  const Driver &getDriver() const { return place.gpu->getDriver(); }
  const StreamRef &getStream() const { return stream; }
  /// The memory that was made last, as instructions see it; null before.
  void *getArena() const { return arena; }
  size_t getArenaBytes() const { return arenaBytes; }
  const ProgramView &getProgram() const { return *program; }
  const Recordings &getRecordings() const { return recordings; }
  /// A kernel of the program.
  CUfunction findKernel(int index) const;
  const LibraryKernels &getLibrary() const { return *place.library; }
  /// Memory for one instruction at a time; it stays as long as the rank.
  CUdeviceptr getScratch(int64_t bytes);
  Transfers &getTransfers() { return transfers; }
  /// cuBLASLt; made when it is asked for first.
  Blas &getBlas();
  /// cuDNN, made when it is asked for first; null where it is not used.
  CudnnHandle *getCudnn();
  CudnnUse &getCudnnUse() const { return *place.cudnnHandle; }
  /// Which of cuDNN and the runtime's kernels is faster.
  Algorithms &getCudnnAlgorithms() const { return place.algorithms->cudnnHandle; }
  TrialResults &getMatmulTrials() const { return *place.matmuls; }
  /// Tells the fake what the next operation that is enqueued for an instruction touches,
  /// `more` besides its buffers.
  void announce(const Bound &bound, const char *what, const std::vector<Access> &more = {}) const;
  /// What an instruction may touch, and `more`; empty where nobody asks.
  std::vector<Access> findAccesses(const Bound &bound, const std::vector<Access> &more = {}) const;

  template <typename T> T *keep(std::unique_ptr<T> prepared) {
    T *result = prepared.get();
    kept.push_back(std::move(prepared));
    return result;
  }
  static CudaRank &of(const Bound &bound) { return *static_cast<CudaRank *>(bound.self); }

private:
  Place place;
  std::shared_ptr<const ProgramView> program;
  StreamRef stream;
  void *arena = nullptr;
  size_t arenaBytes = 0;
  std::deque<DeviceMemory> scratches; ///< the last one is the largest
  std::unique_ptr<Blas> blas;
  std::unique_ptr<CudnnHandle> cudnnHandle; ///< it outlives what was recorded of its plans
  bool hasTriedCudnn = false;
  std::map<const int64_t *, ScalarMirror> mirrors; ///< by what the host has
  std::function<void()> pulse;
  Recordings recordings;
  Transfers transfers;
  EventClock clock;
  std::deque<std::unique_ptr<Prepared>> kept;
  /// Runs of one function share what its instructions were prepared to where no addresses are in
  /// it, but for what these are multiples of.
  std::map<std::tuple<const Instruction *, bool, int64_t>,
           std::pair<void (*)(const Bound &), void *>>
      shared;
};

class RankTable;

class CudaDevice : public Device {
public:
  /// Fails where this machine cannot run the program: no driver or GPU, another architecture, too
  /// little memory.
  explicit CudaDevice(const DeviceRequest &request);
  std::unique_ptr<RankDevice> makeRank(int threads, bool dedicated, int place) override;
  std::unique_ptr<Communication> makeCommunication(const Mesh &mesh, bool dedicated) override;
  bool hasOwnCommunication() const override { return true; }
  std::unique_ptr<Communication>
  makeProcessCommunication(std::unique_ptr<Communication> host) override;

private:
  std::shared_ptr<const nccl::Groups> groups; ///< in which the program communicates
  int firstRank;                              ///< of this process
  std::vector<int> gpus;                      ///< of each rank of this process
  std::shared_ptr<ProgramView> program;
  std::shared_ptr<MeasuredAlgorithms> findAlgorithms(const Gpu &gpu) const;

  std::vector<Place> places; ///< by GPU, empty where no rank is
  std::shared_ptr<RankTable> ranks;
};

/// The largest power of two, up to 256, that all buffers' addresses are multiples of.
int64_t alignmentOf(const Bound &bound);

// Each fills run and prepared for its kind of instruction (one file each).

void bindKernel(CudaRank &rank, const KernelOp &op, Bound &bound);
void bindCopy(const CopyOp &op, Bound &bound);
void bindShardIndex(CudaRank &rank, Bound &bound);
void bindShardSlice(CudaRank &rank, const CollectiveOp &op, Bound &bound);
void bindMatmul(CudaRank &rank, const MatmulOp &op, Bound &bound);
void bindFloat8Matmul(CudaRank &rank, const MatmulOp &op, Bound &bound);
/// A matmul with an activation, at addresses that are multiples of `alignment`.
void bindActivatedMatmul(CudaRank &rank, const MatmulOp &op, Bound &bound, int64_t alignment);
void bindAttention(CudaRank &rank, const AttentionOp &op, Bound &bound);
void bindEmbedding(CudaRank &rank, const EmbeddingOp &op, Bound &bound);
void bindMaxPool(CudaRank &rank, const MaxPoolOp &op, Bound &bound);
void bindConvolution(CudaRank &rank, const ConvolutionOp &op, Bound &bound);

/// Makes an instruction these launches of the runtime's kernels, which may use that scratch.
void bindLaunches(CudaRank &rank, Bound &bound, Launches launches, CUdeviceptr work = 0,
                  int64_t workBytes = 0);

} // namespace psrt::cuda

#endif
