// Makes GPUs and ranks, and binds instructions; those are in files of their own.
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/core/Status.h"
#include "runtime/device/cuda/Accesses.h"
#include "runtime/device/cuda/CudaCommunication.h"
#include "runtime/device/cuda/CudaMemory.h"
#include "runtime/device/cuda/Requirements.h"
#include <cstdlib>

namespace psrt::cuda {

CudaRank::CudaRank(Place given, std::shared_ptr<const ProgramView> program)
    : place(std::move(given)), program(std::move(program)),
      stream(std::make_shared<Stream>(place.gpu)), recordings(stream), clock(stream) {}

CudaRank::~CudaRank() {
  // What it has enqueued must not outlive its memory. Errors have been told before.
  place.gpu->tryToEnter();
  getDriver().streamSynchronize(stream->get());
}

std::unique_ptr<RankMemory> CudaRank::makeMemory(size_t bytes) {
  return std::make_unique<CudaMemory>(stream, bytes);
}

const int64_t *CudaRank::mirror(const int64_t *scalars, size_t count) {
  return mirrors.try_emplace(scalars, stream, count).first->second.seen();
}

void CudaRank::begin(const int64_t *scalars) {
  place.gpu->enter();
  mirrors.at(scalars).upload(scalars);
}

void CudaRank::run(const Bound *first, const Bound *last) {
  recordings.run(first, last, [&] {
    for (const Bound *bound = first; bound != last; ++bound)
      bound->run(*bound);
  });
}

CUfunction CudaRank::findKernel(int index) const {
  if (!place.program)
    PSRT_FAIL(BadInput, "the program has no kernels for a GPU; compile it again");
  return place.program->find(program->kernels.at(index));
}

Blas &CudaRank::getBlas() {
  if (!blas)
    blas = std::make_unique<Blas>(place.gpu);
  return *blas;
}

CUdeviceptr CudaRank::getScratch(int64_t bytes) {
  if (bytes == 0)
    return 0;
  // Smaller ones stay: what was recorded before uses them.
  if (scratches.empty() || scratches.back().size() < size_t(bytes))
    scratches.emplace_back(place.gpu, size_t(bytes), "instructions to work in");
  return scratches.back().get();
}

std::vector<Access> CudaRank::findAccesses(const Bound &bound,
                                           const std::vector<Access> &more) const {
  std::vector<Access> result;
  if (!getDriver().isStandin())
    return result;
  result = accessesOf(bound);
  if (bound.scalars) {
    auto begin = reinterpret_cast<CUdeviceptr>(bound.scalars);
    result.push_back({begin, begin + 3 * sizeof(int64_t), 0});
  }
  result.insert(result.end(), more.begin(), more.end());
  return result;
}

void CudaRank::announce(const Bound &bound, const char *what,
                        const std::vector<Access> &more) const {
  if (!getDriver().isStandin())
    return;
  std::vector<Access> accesses = findAccesses(bound, more);
  getDriver().access(stream->get(), what, int(accesses.size()), accesses.data());
}

int64_t alignmentOf(const Bound &bound) {
  uintptr_t bits = 256;
  for (size_t i = 0; i < bound.instruction->buffers.size(); ++i)
    bits |= reinterpret_cast<uintptr_t>(bound.buffers[i]);
  return int64_t(bits & -bits);
}

namespace {
/// Chooses the binding by the type of the operation: one line for each kind of instruction.
struct Binder {
  CudaRank &rank;
  Bound &bound;
  bool operator()(const KernelOp &op) { return bindKernel(rank, op, bound), true; }
  bool operator()(const CopyOp &op) { return bindCopy(op, bound), true; }
  bool operator()(const MatmulOp &op) { return bindMatmul(rank, op, bound), true; }
  bool operator()(const AttentionOp &op) { return bindAttention(rank, op, bound), true; }
  bool operator()(const EmbeddingOp &op) { return bindEmbedding(rank, op, bound), true; }
  bool operator()(const ConvolutionOp &op) { return bindConvolution(rank, op, bound), true; }
  bool operator()(const MaxPoolOp &op) { return bindMaxPool(rank, op, bound), true; }
  bool operator()(const ShardIndexOp &) { return bindShardIndex(rank, bound), true; }
  bool operator()(const CollectiveOp &op) {
    if (op.kind != CollectiveOp::ShardSlice)
      return false;
    return bindShardSlice(rank, op, bound), true;
  }
  bool operator()(const MessageOp &) { return false; }
  bool operator()(const WaitOp &) { return false; }
};
} // namespace

bool CudaRank::bind(Bound &bound) {
  place.gpu->enter();
  bound.self = this;
  auto bindAnew = [&] { return std::visit(Binder{*this, bound}, bound.instruction->op); };
  if (!std::holds_alternative<KernelOp>(bound.instruction->op) &&
      !std::holds_alternative<MatmulOp>(bound.instruction->op))
    return bindAnew();
  auto [it, isNew] = shared.try_emplace({bound.instruction, bound.accumulate, alignmentOf(bound)});
  if (isNew) {
    bindAnew();
    it->second = {bound.run, bound.prepared};
  }
  std::tie(bound.run, bound.prepared) = it->second;
  return true;
}

//===--- the device -------------------------------------------------------===//

/// Where the ranks of this process begin among those of the machine.
static int findPlace(const DeviceRequest &request) {
  if (request.alone)
    return 0;
  for (const char *name :
       {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"})
    if (const char *text = std::getenv(name))
      return std::max(0, std::atoi(text));
  return request.first;
}

/// The ranks of a process on each GPU, by their numbers in the mesh: one after the other.
static std::vector<std::vector<int>> spread(const DeviceRequest &request, int place, int gpus) {
  std::vector<std::vector<int>> result(gpus);
  for (int i = 0; i < request.ranks; ++i)
    result[(place + i) % gpus].push_back(request.first + i);
  return result;
}

CudaDevice::CudaDevice(const DeviceRequest &request)
    : firstPlace(findPlace(request)), program(std::make_shared<ProgramView>()),
      ranks(std::make_shared<RankTable>()) {
  if (!request.alone)
    PSRT_FAIL(BadArgument,
              "ranks as processes on CUDA are not built yet; run all in one process: "
              "--ranks %lld",
              (long long)request.program.mesh.size());
  program->kernels = request.program.kernelNames;
  program->mesh = request.program.mesh;
  DriverRef driver = loadDriver();
  int count = 0;
  driver->check(driver->deviceGetCount(&count), "to count the GPUs");
  std::vector<std::vector<int>> byGpu = spread(request, firstPlace, count);
  for (int i = 0; i < count; ++i) {
    Place place;
    if (!byGpu[i].empty()) {
      place.gpu = std::make_shared<Gpu>(driver, i);
      checkTarget(request.program, *place.gpu);
      checkMemory(request.program, byGpu[i], *place.gpu);
      place.library = std::make_shared<LibraryKernels>(place.gpu);
      if (request.source.image)
        place.program = std::make_shared<Module>(place.gpu, request.source.image, "the program");
    }
    places.push_back(std::move(place));
  }
}

std::unique_ptr<RankDevice> CudaDevice::makeRank(int, bool, int place) {
  auto rank = std::make_unique<CudaRank>(places[(firstPlace + place) % places.size()], program);
  ranks->set(place, rank.get());
  return rank;
}

std::unique_ptr<Communication> CudaDevice::makeCommunication(const Mesh &mesh, bool dedicated) {
  return std::make_unique<CudaCommunication>(mesh, dedicated, ranks);
}

} // namespace psrt::cuda

extern "C" psrt::Device *psrt_make_cuda_device(const psrt::DeviceRequest &request) {
  return new psrt::cuda::CudaDevice(request);
}
