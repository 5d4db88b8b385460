// Creates GPUs and ranks, and dispatches instructions to their bind functions.
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/core/Status.h"
#include "runtime/device/cuda/Accesses.h"
#include "runtime/device/cuda/CudaCommunication.h"
#include "runtime/device/cuda/CudaMemory.h"
#include "runtime/device/cuda/Requirements.h"
#include "runtime/device/cuda/nccl/NcclCommunication.h"
#include <cstdio>
#include <cstdlib>

namespace psrt::cuda {

CudaRank::CudaRank(GpuResources given, std::shared_ptr<const ProgramView> program)
    : resources(std::move(given)), program(std::move(program)),
      stream(std::make_shared<Stream>(resources.gpu)), recordings(stream), transfers(stream),
      clock(stream) {}

CudaRank::~CudaRank() {
  // Enqueued work must not outlive the rank's memory. Errors have been reported before.
  resources.gpu->tryToEnter();
  getDriver().streamSynchronize(stream->get());
}

std::unique_ptr<RankMemory> CudaRank::makeMemory(MemorySizes sizes) {
  auto memory = std::make_unique<CudaMemory>(stream, sizes);
  // Communication only accesses the memory on the device, never the offloaded host memory.
  arena = memory->at(0);
  arenaBytes = sizes.bytes;
  return memory;
}

const int64_t *CudaRank::mirror(const int64_t *scalars, size_t count) {
  return mirrors.try_emplace(scalars, stream, count).first->second.seen();
}

void CudaRank::begin(const int64_t *scalars) {
  resources.gpu->enter();
  mirrors.at(scalars).upload(scalars);
}

/// Number of instructions between two calls of the pulse function: about 1/12 of a GPT-2 step.
static constexpr ptrdiff_t kPulseDistance = 64;

void CudaRank::run(const Bound *first, const Bound *last) {
  recordings.run(first, last, [&] {
    if (!pulse)
      return RankDevice::run(first, last);
    pulse();
    for (const Bound *from = first; from != last;) {
      const Bound *to = from + std::min(kPulseDistance, last - from);
      RankDevice::run(std::exchange(from, to), to);
      pulse();
    }
  });
}

CUfunction CudaRank::findKernel(int index) const {
  if (!resources.program)
    PSRT_FAIL(BadInput, "the program has no GPU kernels; compile it again");
  return resources.program->find(program->kernels.at(index));
}

Blas &CudaRank::getBlas() {
  if (!blas)
    blas = std::make_unique<Blas>(
        resources.gpu,
        std::shared_ptr<Algorithms>(resources.algorithms, &resources.algorithms->matmuls));
  return *blas;
}

CudnnHandle *CudaRank::getCudnn() {
  std::call_once(resources.cudnnUse->looked,
                 [&] { resources.cudnnUse->library = loadCudnn(getDriver()); });
  if (!resources.cudnnUse->library || std::exchange(hasTriedCudnn, true))
    return cudnnHandle.get();
  try {
    cudnnHandle = std::make_unique<CudnnHandle>(resources.cudnnUse->library, *stream);
    resources.algorithms->cudnn.open(resources.cudnnUse->library->version);
  } catch (const CudnnFailure &failure) {
    std::fprintf(
        stderr,
        "note: cuDNN is not used; attention and convolutions run on slower fallback kernels: %s\n",
        failure.what());
  }
  return cudnnHandle.get();
}

CUdeviceptr CudaRank::getScratch(int64_t bytes) {
  if (bytes == 0)
    return 0;
  // Smaller scratches are kept, because earlier instructions and captured graphs use them.
  if (scratches.empty() || scratches.back().size() < size_t(bytes))
    scratches.emplace_back(resources.gpu, size_t(bytes), "the scratch of instructions");
  return scratches.back().get();
}

std::vector<Access> CudaRank::findAccesses(const Bound &bound,
                                           const std::vector<Access> &more) const {
  std::vector<Access> result;
  if (!getDriver().isFake())
    return result;
  result = accessesOf(bound);
  if (bound.scalars) {
    auto begin = reinterpret_cast<CUdeviceptr>(bound.scalars);
    result.push_back({begin, begin + 3 * sizeof(int64_t), 0});
  }
  result.insert(result.end(), more.begin(), more.end());
  return result;
}

void CudaRank::announce(const Bound &bound, const char *name,
                        const std::vector<Access> &more) const {
  if (!getDriver().isFake())
    return;
  std::vector<Access> accesses = findAccesses(bound, more);
  getDriver().access(stream->get(), name, int(accesses.size()), accesses.data());
}

int64_t alignmentOf(const Bound &bound) {
  uintptr_t bits = 256;
  for (size_t i = 0; i < bound.instruction->buffers.size(); ++i)
    bits |= reinterpret_cast<uintptr_t>(bound.buffers[i]);
  return int64_t(bits & -bits);
}

namespace {
/// Calls the bind function for the operation's type.
struct Binder {
  CudaRank &rank;
  Bound &bound;
  bool operator()(const KernelOp &op) { return bindKernel(rank, op, bound), true; }
  bool operator()(const CopyOp &op) { return bindCopy(op, bound), true; }
  bool operator()(const MatmulOp &op) { return bindMatmul(rank, op, bound), true; }
  bool operator()(const LibraryOp auto &op) { return bindCall(rank, op, bound), true; }
  bool operator()(const ShardIndexOp &) { return bindShardIndex(rank, bound), true; }
  bool operator()(const CollectiveOp &op) {
    if (op.kind != CollectiveOp::ShardSlice)
      return false;
    return bindShardSlice(rank, op, bound), true;
  }
  bool operator()(const MessageOp &) { return false; }
  bool operator()(const TransferOp &op) { return rank.getTransfers().bind(op, bound), true; }
  bool operator()(const WaitOp &op) {
    if (op.isForTransfer)
      rank.getTransfers().bind(op, bound);
    return op.isForTransfer;
  }
};
} // namespace

bool CudaRank::bind(Bound &bound) {
  resources.gpu->enter();
  bound.self = this;
  auto bindNew = [&] { return std::visit(Binder{*this, bound}, bound.instruction->op); };
  if (!std::holds_alternative<KernelOp>(bound.instruction->op) &&
      !std::holds_alternative<MatmulOp>(bound.instruction->op))
    return bindNew();
  auto [it, isNew] = shared.try_emplace({bound.instruction, bound.accumulate, alignmentOf(bound)});
  if (isNew) {
    bindNew();
    it->second = {bound.run, bound.prepared};
  }
  std::tie(bound.run, bound.prepared) = it->second;
  return true;
}

//===--- the device -------------------------------------------------------===//

/// Returns this process's index among the processes of this machine. If the launcher has set none
/// of the variables below, returns the rank.
static int findLocalRank(const DeviceRequest &request) {
  for (const char *name :
       {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"})
    if (const char *text = std::getenv(name))
      return std::max(0, std::atoi(text));
  return request.first;
}

/// Returns the GPU of a process that runs one rank. If CUDA_VISIBLE_DEVICES leaves one GPU visible,
/// returns that GPU.
static int chooseGpu(const DeviceRequest &request, int count) {
  int localRank = findLocalRank(request);
  if (localRank < count)
    return localRank;
  const char *visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (count == 1 && visible && *visible)
    return 0;
  refuse(
      "rank %d is process %d (counting from 0) on this machine, but the machine has only %d GPU%s; "
      "each process needs its own GPU; start fewer processes here, or use --ranks %lld to run all "
      "ranks in one process, where they may share a GPU",
      request.first, localRank, count, count == 1 ? "" : "s",
      (long long)request.program.mesh.size());
}

/// Returns the GPU of each rank of a process. All ranks share GPU 0 with `--comm local`, without
/// NCCL, or if there are fewer GPUs than ranks. Otherwise, each rank has its own GPU.
static std::vector<int> chooseGpus(const DeviceRequest &request, int count) {
  std::vector<int> own(request.ranks), shared(request.ranks, 0);
  for (int i = 0; i < request.ranks; ++i)
    own[i] = i;
  bool fits = request.ranks <= count;
  if (request.comm == Comm::Nccl && !fits)
    refuse(
        "--comm nccl needs one GPU per rank, but there are %d ranks and %d GPU%s; omit the flag to "
        "share GPU 0 among all ranks",
        request.ranks, count, count == 1 ? "" : "s");
  if (request.ranks == 1 || request.comm == Comm::Local || !fits)
    return shared;
  if (request.comm == Comm::Nccl || nccl::hasNccl())
    return own;
  std::fprintf(
      stderr,
      "note: all %d ranks share GPU 0, although there are %d GPUs, because NCCL was not found; "
      "install libnccl.so.2, or set PSRT_NCCL to its path\n",
      request.ranks, count);
  return shared;
}

CudaDevice::CudaDevice(const DeviceRequest &request)
    : groups(std::make_shared<nccl::Groups>(nccl::findGroups(request.program))),
      firstRank(request.first), program(std::make_shared<ProgramView>()),
      ranks(std::make_shared<RankTable>()) {
  program->kernels = request.program.kernelNames;
  program->mesh = request.program.mesh;
  DriverRef driver = loadDriver();
  auto cudnnUse = std::make_shared<CudnnUse>();
  auto matmuls = std::make_shared<TrialResults>("cuBLASLt");
  int count = 0;
  driver->check(driver->deviceGetCount(&count), "to count the GPUs");
  gpus = request.alone ? chooseGpus(request, count) : std::vector{chooseGpu(request, count)};
  for (int i = 0; i < count; ++i) {
    GpuResources gpuResources;
    std::vector<int> numbers; // numbers of the ranks on this GPU
    for (int each = 0; each < request.ranks; ++each)
      if (gpus[each] == i)
        numbers.push_back(request.first + each);
    if (!numbers.empty()) {
      gpuResources.gpu = std::make_shared<Gpu>(driver, i);
      gpuResources.cudnnUse = cudnnUse;
      gpuResources.matmuls = matmuls;
      checkTarget(request.program, *gpuResources.gpu);
      checkMemory(request.program, numbers, *gpuResources.gpu);
      gpuResources.algorithms = findAlgorithms(*gpuResources.gpu);
      gpuResources.library = std::make_shared<LibraryKernels>(gpuResources.gpu);
      if (request.source.image)
        gpuResources.program =
            std::make_shared<Module>(gpuResources.gpu, request.source.image, "the program");
    }
    resources.push_back(std::move(gpuResources));
  }
}

std::shared_ptr<MeasuredAlgorithms> CudaDevice::findAlgorithms(const Gpu &gpu) const {
  for (const GpuResources &other : resources)
    if (other.gpu && other.gpu->getName() == gpu.getName() &&
        other.gpu->getProcessors() == gpu.getProcessors())
      return other.algorithms;
  return std::make_shared<MeasuredAlgorithms>(gpu);
}

std::unique_ptr<RankDevice> CudaDevice::makeRank(int, bool, int index) {
  auto rank = std::make_unique<CudaRank>(resources[gpus[index]], program);
  ranks->set(firstRank + index, rank.get());
  return rank;
}

std::unique_ptr<Communication> CudaDevice::makeCommunication(const Mesh &mesh, bool dedicated) {
  if (gpus.size() > 1 && gpus.front() != gpus.back())
    return std::make_unique<nccl::NcclCommunication>(
        *groups, makeLocalCommunication(mesh, dedicated), /*areProcesses=*/false, ranks);
  return std::make_unique<CudaCommunication>(mesh, dedicated, ranks);
}

std::unique_ptr<Communication>
CudaDevice::makeProcessCommunication(std::unique_ptr<Communication> host) {
  return std::make_unique<nccl::NcclCommunication>(*groups, std::move(host), /*areProcesses=*/true,
                                                   ranks);
}

} // namespace psrt::cuda

extern "C" psrt::Device *psrt_make_cuda_device(const psrt::DeviceRequest &request) {
  return new psrt::cuda::CudaDevice(request);
}
