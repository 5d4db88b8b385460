// Implements the functions of NCCL on streams of the fake driver. As with nonblocking communicators
// in NCCL, ncclCommGetAsyncError first reports a call as in progress.
#include "runtime/device/cuda/nccl/NcclApi.h"
#include "runtime/testing/driver/Fake.h"
#include "runtime/testing/driver/Handles.h"
#include "runtime/testing/nccl/Board.h"
#include "runtime/testing/nccl/Sums.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <unistd.h>
#include <vector>

namespace psrt::nccl {

#define PSRT_NCCL_DECLARE(name, symbol, result, arguments)                                         \
  extern "C" PSRT_FAKE_EXPORT result symbol arguments;
PSRT_NCCL_FUNCTIONS(PSRT_NCCL_DECLARE)
PSRT_NCCL_OPTIONAL_FUNCTIONS(PSRT_NCCL_DECLARE)
#undef PSRT_NCCL_DECLARE

namespace {

using fake::Board;

/// One rank's communicator. `name` is the name of its shared memory (`Board`).
struct Comm {
  Comm(std::string name, int ranks, int rank)
      : name(std::move(name)), ranks(ranks), rank(rank), board(this->name, ranks, aborted) {}
  std::string name;
  int ranks, rank;
  std::atomic<bool> aborted{false};
  Board board;
  std::atomic<bool> isLate{true}; ///< report the last call as in progress once
  std::atomic<int64_t> runs{0};   ///< number of batches run
  std::atomic<int> registered{0};
  std::atomic<int> batches{0}; ///< live batches: enqueued, or captured in a graph
  std::atomic<bool> isFinalized{false};
  int splits = 0;
};
using CommRef = std::shared_ptr<Comm>;

struct Objects {
  std::mutex mutex;
  fake::Handles<Comm> comms;
};

Objects &objects() {
  static Objects &only = *new Objects;
  return only;
}

CommRef find(ncclComm_t handle) {
  std::lock_guard<std::mutex> lock(objects().mutex);
  return objects().comms.find(handle);
}

int number(const char *name, int otherwise) {
  const char *text = std::getenv(name);
  return text && *text ? int(std::strtol(text, nullptr, 10)) : otherwise;
}

size_t sizeOf(ncclDataType_t type) {
  switch (type) {
  case ncclInt8:
  case ncclUint8:
    return 1;
  case ncclFloat16:
  case ncclBfloat16:
    return 2;
  case ncclInt32:
  case ncclFloat32:
    return 4;
  default:
    return 8;
  }
}

//===--- operations -------------------------------------------------------===//

/// One call of a group, as run by a stream.
struct Operation {
  enum Kind { AllReduce, ReduceScatter, AllGather, Send, Receive } kind;
  const char *in;
  char *out;
  size_t bytes; ///< bytes of the smaller of in and out
  ncclDataType_t type;
  ncclRedOp_t reduction;
  int peer;
};

/// The operations enqueued together.
struct Batch {
  explicit Batch(CommRef given) : comm(std::move(given)) { ++comm->batches; }
  ~Batch() { --comm->batches; }
  CommRef comm;
  std::vector<Operation> operations;
};

/// Exchanges data in chunks: each rank puts a chunk into its slot, waits for all ranks, and takes
/// the result.
template <typename Put, typename Take>
void inChunks(Comm &comm, size_t bytes, size_t most, Put &&put, Take &&take) {
  for (size_t done = 0; done < bytes; done += most) {
    size_t n = std::min(most, bytes - done);
    put(comm.board.slot(comm.rank), done, n);
    comm.board.barrier();
    take(done, n);
    comm.board.barrier();
  }
}

void sumSlots(Comm &comm, const Operation &op, char *out, size_t offset, size_t n) {
  std::vector<const void *> parts;
  parts.reserve(size_t(comm.ranks));
  for (int i = 0; i < comm.ranks; ++i)
    parts.push_back(comm.board.slot(i) + offset);
  fake::combine(op.reduction, op.type, parts, out, n / sizeOf(op.type));
}

void allReduce(Comm &comm, const Operation &op) {
  inChunks(
      comm, op.bytes, Board::kSlotBytes,
      [&](char *slot, size_t at, size_t n) { std::memcpy(slot, op.in + at, n); },
      [&](size_t at, size_t n) { sumSlots(comm, op, op.out + at, 0, n); });
}

void reduceScatter(Comm &comm, const Operation &op) {
  size_t most = Board::kSlotBytes / size_t(comm.ranks) / 8 * 8;
  inChunks(
      comm, op.bytes, most,
      [&](char *slot, size_t at, size_t n) {
        for (int to = 0; to < comm.ranks; ++to)
          std::memcpy(slot + size_t(to) * most, op.in + size_t(to) * op.bytes + at, n);
      },
      [&](size_t at, size_t n) { sumSlots(comm, op, op.out + at, size_t(comm.rank) * most, n); });
}

void allGather(Comm &comm, const Operation &op) {
  inChunks(
      comm, op.bytes, Board::kSlotBytes,
      [&](char *slot, size_t at, size_t n) { std::memcpy(slot, op.in + at, n); },
      [&](size_t at, size_t n) {
        for (int from = 0; from < comm.ranks; ++from)
          std::memcpy(op.out + size_t(from) * op.bytes + at, comm.board.slot(from), n);
      });
}

/// Runs all sends and receives of a batch concurrently. Messages between two ranks stay in order.
void exchange(Comm &comm, const std::vector<Operation> &operations) {
  std::vector<size_t> done(operations.size());
  unsigned waits = 0;
  for (bool isOver = false; !isOver; ++waits) {
    isOver = true;
    std::vector<bool> isBusy(size_t(comm.ranks) * 2);
    for (size_t i = 0; i < operations.size(); ++i) {
      const Operation &op = operations[i];
      bool sends = op.kind == Operation::Send;
      size_t line = size_t(op.peer) * 2 + sends;
      if (done[i] == op.bytes || isBusy[line])
        continue;
      isBusy[line] = true;
      isOver = false;
      Board::Mail &mail =
          sends ? comm.board.mail(comm.rank, op.peer) : comm.board.mail(op.peer, comm.rank);
      if (sends && mail.bytes == 0) {
        size_t n = std::min(Board::kMailBytes, op.bytes - done[i]);
        std::memcpy(mail.data, op.in + done[i], n);
        mail.bytes = uint32_t(n);
        done[i] += n;
        waits = 0;
      } else if (!sends && mail.bytes != 0) {
        size_t n = std::min<size_t>(mail.bytes, op.bytes - done[i]);
        std::memcpy(op.out + done[i], mail.data, n);
        mail.bytes = 0;
        done[i] += n;
        waits = 0;
      }
    }
    if (!isOver)
      comm.board.pause(waits);
  }
}

/// $PSRT_FAKE_NCCL_HANG="RANK:N" makes the N-th batch of a rank in a communicator hang.
bool isToHang(int rank, int64_t batch) {
  const char *text = std::getenv("PSRT_FAKE_NCCL_HANG");
  return text && text == std::to_string(rank) + ":" + std::to_string(batch);
}

void runBatch(void *data) {
  const Batch &batch = *static_cast<Batch *>(data);
  Comm &comm = *batch.comm;
  try {
    if (isToHang(comm.rank, ++comm.runs))
      for (unsigned waits = 0;; ++waits)
        comm.board.pause(waits);
    std::vector<Operation> messages;
    for (const Operation &op : batch.operations)
      if (op.kind == Operation::Send || op.kind == Operation::Receive)
        messages.push_back(op);
      else
        (op.kind == Operation::AllReduce       ? allReduce
         : op.kind == Operation::ReduceScatter ? reduceScatter
                                               : allGather)(comm, op);
    exchange(comm, messages);
  } catch (const fake::BoardAborted &) {
    return; // the communicator was aborted, so nobody waits for this batch
  }
}

//===--- groups -----------------------------------------------------------===//

struct Call {
  CommRef comm;
  CUstream stream;
  Operation operation;
};
thread_local int depth = 0;
thread_local std::vector<Call> calls;

void addAccess(std::vector<PsrtFakeAccess> &accesses, const void *pointer, size_t bytes,
               int writes) {
  auto begin = reinterpret_cast<cuda::CUdeviceptr>(pointer);
  accesses.push_back({begin, begin + bytes, writes});
}

void addAccesses(std::vector<PsrtFakeAccess> &accesses, const Operation &op, int ranks) {
  size_t all = op.bytes * size_t(ranks);
  if (op.in)
    addAccess(accesses, op.in, op.kind == Operation::ReduceScatter ? all : op.bytes, 0);
  if (op.out)
    addAccess(accesses, op.out, op.kind == Operation::AllGather ? all : op.bytes, 1);
}

ncclResult_t enqueue() {
  while (!calls.empty()) {
    CommRef comm = calls.front().comm;
    CUstream stream = calls.front().stream;
    auto batch = std::make_unique<Batch>(comm);
    std::vector<PsrtFakeAccess> accesses;
    std::vector<Call> remaining;
    for (Call &call : calls) {
      if (call.comm != comm || call.stream != stream) {
        remaining.push_back(std::move(call));
        continue;
      }
      addAccesses(accesses, call.operation, comm->ranks);
      batch->operations.push_back(call.operation);
    }
    calls = std::move(remaining);
    comm->isLate = true;
    cuda::CUresult result = psrt_fake_enqueue(
        stream, "nccl", runBatch, batch.release(),
        [](void *data) { delete static_cast<Batch *>(data); }, int(accesses.size()),
        accesses.data());
    if (result != cuda::CUDA_SUCCESS)
      return ncclUnhandledCudaError;
  }
  return ncclInProgress;
}

ncclResult_t add(ncclComm_t handle, CUstream stream, const Operation &operation) {
  CommRef comm = find(handle);
  if (!comm || operation.peer >= comm->ranks || operation.peer < 0)
    return ncclInvalidArgument;
  calls.push_back({comm, stream, operation});
  return depth > 0 ? ncclSuccess : enqueue();
}

ncclResult_t publish(CommRef comm, ncclComm_t *handle) {
  std::lock_guard<std::mutex> lock(objects().mutex);
  objects().comms.add(std::move(comm), *handle);
  return ncclInProgress;
}

char *bytesOf(void *pointer) { return static_cast<char *>(pointer); }
const char *bytesOf(const void *pointer) { return static_cast<const char *>(pointer); }

} // namespace

ncclResult_t ncclGetVersion(int *version) {
  *version = number("PSRT_FAKE_NCCL_VERSION", 22800);
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  std::random_device random;
  std::memset(id, 0, sizeof(*id));
  std::snprintf(id->internal, sizeof(id->internal), "/psrt-nccl-%d-%08x%08x", int(getpid()),
                random(), random());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config) {
  if (!comm || rank < 0 || rank >= ranks || !config || config->magic != 0xcafebeef ||
      config->blocking != 0)
    return ncclInvalidArgument;
  auto made = std::make_shared<Comm>(id.internal, ranks, rank);
  return publish(std::move(made), comm);
}

ncclResult_t ncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t *made,
                           ncclConfig_t *) {
  CommRef comm = find(handle);
  if (!comm || !made)
    return ncclInvalidArgument;
  *made = nullptr;
  int own[2] = {color, key};
  try {
    std::memcpy(comm->board.slot(comm->rank), own, sizeof(own));
    comm->board.barrier();
    std::vector<std::pair<int, int>> members; // sorted by key, then rank
    for (int rank = 0; rank < comm->ranks; ++rank) {
      int other[2];
      std::memcpy(other, comm->board.slot(rank), sizeof(other));
      if (other[0] == color)
        members.emplace_back(other[1], rank);
    }
    comm->board.barrier();
    int number = comm->splits++;
    comm->isLate = true;
    if (color == kSplitNoColor)
      return ncclInProgress;
    std::sort(members.begin(), members.end());
    int rank = int(std::find(members.begin(), members.end(), std::pair(key, comm->rank)) -
                   members.begin());
    std::string name = comm->name + "." + std::to_string(number) + "." + std::to_string(color);
    return publish(std::make_shared<Comm>(name, int(members.size()), rank), made);
  } catch (const psrt::fake::BoardAborted &) {
    return ncclInternalError;
  }
}

/// As in NCCL, finalizing is in progress as long as a graph contains operations of the
/// communicator.
ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  CommRef comm = find(handle);
  if (!comm || comm->isFinalized.exchange(true))
    return ncclInvalidArgument;
  comm->isLate = true;
  return ncclInProgress;
}

static ncclResult_t remove(ncclComm_t handle) {
  std::lock_guard<std::mutex> lock(objects().mutex);
  objects().comms.remove(handle);
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  CommRef comm = find(handle);
  if (!comm)
    return ncclInvalidArgument;
  if (!comm->isFinalized || comm->batches > 0) {
    std::fprintf(stderr, "fake NCCL: destroying a communicator %s\n",
                 comm->isFinalized ? "that a graph still uses" : "that was not finalized");
    std::abort();
  }
  return remove(handle);
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  CommRef comm = find(handle);
  if (!comm)
    return ncclInvalidArgument;
  comm->aborted = true;
  return remove(handle);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t *error) {
  CommRef comm = find(handle);
  if (!comm)
    return ncclInvalidArgument;
  bool isBusy = comm->isLate.exchange(false) || (comm->isFinalized && comm->batches > 0);
  *error = isBusy ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) {
  static const char *const texts[] = {"no error",       "unhandled cuda error", "system error",
                                      "internal error", "invalid argument",     "invalid usage",
                                      "remote error",   "in progress"};
  return result >= 0 && result < 8 ? texts[result] : "unknown";
}

const char *ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, CUstream stream) {
  return add(comm, stream,
             {Operation::AllReduce, bytesOf(in), bytesOf(out), count * sizeOf(type), type, op, 0});
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, CUstream stream) {
  return add(
      comm, stream,
      {Operation::ReduceScatter, bytesOf(in), bytesOf(out), count * sizeOf(type), type, op, 0});
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, CUstream stream) {
  return add(
      comm, stream,
      {Operation::AllGather, bytesOf(in), bytesOf(out), count * sizeOf(type), type, ncclSum, 0});
}

ncclResult_t ncclSend(const void *in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      CUstream stream) {
  return add(comm, stream,
             {Operation::Send, bytesOf(in), nullptr, count * sizeOf(type), type, ncclSum, peer});
}

ncclResult_t ncclRecv(void *out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      CUstream stream) {
  return add(
      comm, stream,
      {Operation::Receive, nullptr, bytesOf(out), count * sizeOf(type), type, ncclSum, peer});
}

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (depth == 0)
    return ncclInvalidUsage;
  return --depth > 0 ? ncclSuccess : enqueue();
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *, size_t, void **handle) {
  if (!find(comm) || !handle)
    return ncclInvalidArgument;
  ++find(comm)->registered;
  *handle = comm;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *) {
  CommRef found = find(comm);
  return found && found->registered-- > 0 ? ncclSuccess : ncclInvalidArgument;
}

} // namespace psrt::nccl
