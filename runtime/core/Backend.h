// Defines the interfaces of devices and communication backends. A backend binds each instruction
// once to a function that the executor calls.
#ifndef PSRT_CORE_BACKEND_H
#define PSRT_CORE_BACKEND_H

#include "runtime/core/Queues.h"
#include "runtime/core/RankMemory.h"
#include <atomic>
#include <chrono>
#include <memory>
#include <utility>

namespace psrt {

/// An instruction bound to the memory of a rank. Running it is one call without table lookups.
struct Bound {
  void (*run)(const Bound &) = nullptr;
  void *self = nullptr; ///< the RankDevice or RankComm that bound the instruction
  void *prepared =
      nullptr; ///< data that the backend prepared for the instruction; owned by the backend
  const Instruction *instruction = nullptr;
  void *const *buffers = nullptr;   ///< buffers of the instruction; null where absent
  const int64_t *scalars = nullptr; ///< [seed, step, micro_batch, keys.., first..] of the run
  Kernel kernel = nullptr;          ///< code of a KernelOp
  bool accumulate = false;          ///< whether the op adds to its result instead of overwriting it
  int64_t key = 0;                  ///< the random key, or the shard index of a ShardIndexOp
  const std::vector<int64_t> *coordinates = nullptr; ///< coordinates of this rank in the mesh
  /// Bytes from each buffer's address to the end of that buffer in the memory plan (at least 1).
  /// Null unless `RankDevice::wantsExtents`.
  const int64_t *extents = nullptr;
  /// Whether the instruction involves the host, so that a device cannot capture it in a graph.
  bool needsHost = false;
};

/// Returns whether a matmul also computes a bias gradient.
inline bool hasBiasGrad(const Bound &bound) {
  return bound.instruction->buffers.size() > MatmulOp::BiasGrad &&
         bound.buffers[MatmulOp::BiasGrad];
}

/// Returns the `aux` buffer of a matmul, which contains the input of the GELU. Activation `gelu`
/// writes the buffer, and `gelu_grad` reads it. Returns null if the matmul has no `aux`.
inline void *findAux(const Bound &bound) {
  bool mayHave = bound.instruction->buffers.size() > MatmulOp::Aux;
  return mayHave ? bound.buffers[MatmulOp::Aux] : nullptr;
}

/// Records the instruction that a rank is running. The thread that detects deadlocks reads the
/// record.
class Activity {
public:
  void run(const Bound &bound) {
    current.store(&bound, std::memory_order_relaxed);
    begun.store(begun.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    bound.run(bound);
  }
  /// Marks the rank as running no instruction.
  void leave() { current.store(nullptr, std::memory_order_relaxed); }
  /// Returns the current instruction. Returns null between entries, and while an entry waits for
  /// asynchronous work at its end.
  const Bound *getCurrent() const { return current.load(std::memory_order_relaxed); }
  uint64_t countBegun() const { return begun.load(std::memory_order_relaxed); }

private:
  std::atomic<const Bound *> current{nullptr};
  std::atomic<uint64_t> begun{0}; ///< written only by the rank's thread
};

/// The model of a device, and the bytes of its memory. For the host, the model is empty and the
/// memory 0.
struct DeviceInfo {
  std::string model;
  int64_t memory = 0;
};

/// A rank's share of a device. Runs kernels and library calls in call order: immediately on host
/// threads, or later on an asynchronous device.
class RankDevice {
public:
  virtual ~RankDevice() = default;
  /// Sets run, self and prepared. Returns false for communication, which a RankComm binds.
  virtual bool bind(Bound &bound) = 0;
  /// Allocates memory for the bound instructions; called before any of them runs.
  virtual void reserve() = 0;
  virtual int threads() const = 0;
  /// Returns zeroed memory for this rank's instructions. The device must outlive the memory.
  virtual std::unique_ptr<RankMemory> makeMemory(MemorySizes sizes) = 0;
  /// Returns whether `run` may return before its instructions have finished. The host then prepares
  /// the next step while they run.
  virtual bool runsLater() const { return false; }
  /// Waits until all submitted instructions have finished.
  virtual void synchronize() {}
  /// Destroys the recordings of instruction ranges (CUDA graphs). Must be called while no
  /// instruction is running, and before the communication that the recordings use is destroyed.
  virtual void forgetRecordings() {}
  /// Returns the size n of the n x n matmul that measures the peak rate: 256, 512 or 2048.
  virtual int64_t getPeakMatmulSize() const { return 512; }
  virtual DeviceInfo getInfo() const { return {}; }

  /// Returns the address from which instructions read scalars that the host sets before each run:
  /// `scalars` itself, or device memory that lives as long as the device.
  virtual const int64_t *mirror(const int64_t *scalars, size_t /*count*/) { return scalars; }
  /// Called after the host has set the scalars for the next run. `scalars` is the pointer that
  /// `mirror` was called with.
  virtual void begin(const int64_t * /*scalars*/) {}
  /// Runs the instructions [first, last). The same ranges are run repeatedly.
  virtual void run(const Bound *first, const Bound *last) {
    for (; first != last; ++first)
      activity.run(*first);
  }
  Activity &getActivity() { return activity; }

  /// Records the time at which the previous instruction ends and the next one begins.
  virtual void mark() { marks.push_back(now()); }
  /// Returns the times recorded since the last call, in seconds of the steady clock.
  virtual std::vector<double> takeMarks() { return std::exchange(marks, {}); }
  /// Returns whether bound instructions need `Bound::extents`.
  virtual bool wantsExtents() const { return false; }

protected:
  static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  std::vector<double> marks;
  Activity activity;
};

/// The time span of asynchronous work, in seconds of the steady clock.
struct AsyncTimes {
  const Bound *bound;
  double start, end;
};

/// The communication of one rank.
class RankComm {
public:
  virtual ~RankComm() = default;
  /// Sets run, self and prepared. Returns false if the instruction does not communicate.
  virtual bool bind(Bound &bound) = 0;
  /// Allocates memory for the bound instructions; called before any of them runs.
  virtual void reserve() = 0;
  /// Waits for all ranks of the mesh.
  virtual void barrier() = 0;
  /// Waits until all started communication has finished.
  virtual void drain() {}
  /// Starts recording the time spans of asynchronous communication.
  virtual void startTrace() {}
  /// Returns the time spans of the communication that has finished since the last call.
  virtual std::vector<AsyncTimes> takeTimes() { return {}; }
};

/// The communication among the ranks of a mesh: the threads of this process, or one rank in each
/// process.
class Communication {
public:
  virtual ~Communication() = default;
  virtual std::unique_ptr<RankComm> makeRank(int rank) = 0;
  /// Makes all current and later waits throw Aborted. Thread-safe.
  virtual void abort() = 0;
  /// Makes the communication usable again after `abort`. Must be called while no rank communicates.
  virtual void reset() = 0;
  /// Returns the number of ranks of this process that sleep until another rank arrives.
  virtual int countWaiting() const { return 0; }
  /// Sends `data` of rank `from` to `received` on rank 0. Works only in jobs of several processes,
  /// while no entry runs. All processes must make the same call. Error messages contain `purpose`.
  virtual void sendToRank0(int from, const void *data, void *received, size_t bytes,
                           const std::string &purpose) {}
  /// Broadcasts `data` of rank 0 to all ranks, under the conditions of `sendToRank0`.
  virtual void broadcast(void *data, size_t bytes, const std::string &purpose) {}
};

/// A device, shared by the ranks of this process.
class Device {
public:
  virtual ~Device() = default;
  /// Creates the RankDevice of one rank. `threads` includes the rank's own thread; `dedicated`
  /// means that each thread has its own core; `localRank` is the rank's index in this process.
  virtual std::unique_ptr<RankDevice> makeRank(int threads, bool dedicated, int localRank) = 0;
  /// Returns the communication among ranks that are threads of this process, or null to use
  /// `makeLocalCommunication`.
  virtual std::unique_ptr<Communication> makeCommunication(const Mesh & /*mesh*/,
                                                           bool /*dedicated*/) {
    return nullptr;
  }
  /// Returns whether ranks in separate processes communicate through `makeProcessCommunication`.
  virtual bool hasOwnCommunication() const { return false; }
  /// Returns the communication among ranks in separate processes. `host` connects the same ranks
  /// through host memory.
  virtual std::unique_ptr<Communication>
  makeProcessCommunication(std::unique_ptr<Communication> host) {
    return host;
  }
};

/// The job of this process: a launcher has started several processes, and each process is one rank.
class Job {
public:
  virtual ~Job() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Returns the number of cores for this process: its share of the cores that it may run on.
  virtual int cores() const = 0;
  /// Gathers one text per rank. Returns the texts by rank on rank 0, and an empty list on other
  /// ranks.
  virtual std::vector<std::string> collect(const std::string &text) = 0;
  /// Returns the text of rank 0 on every rank.
  virtual std::string broadcast(const std::string &text) = 0;
  /// Returns whether all ranks have passed the same value.
  virtual bool agree(uint64_t value) = 0;
  /// Waits until all ranks have called this function.
  virtual void barrier() = 0;
  /// Connects the ranks. All processes make the call with the same mesh and queue names.
  virtual std::unique_ptr<Communication> makeCommunication(const Mesh &mesh,
                                                           const std::vector<Queue> &queues) = 0;
  /// Closes the listening sockets. Afterwards `makeCommunication` must not be called.
  virtual void stopListening() = 0;
};

/// How ranks communicate: as threads of one process, over MPI, over TCP sockets, or with NCCL.
enum class Comm : uint8_t { Local, Mpi, Tcp, Nccl };

template <> struct EnumNames<Comm> {
  static constexpr const char *what = "communication";
  static constexpr EnumName<Comm> table[] = {
      {Comm::Local, "local"}, {Comm::Mpi, "mpi"}, {Comm::Tcp, "tcp"}, {Comm::Nccl, "nccl"}};
};

/// The parameters of a new device.
struct DeviceRequest {
  const Program &program;
  const ProgramSource &source;
  int ranks = 1;            ///< number of ranks in this process
  int first = 0;            ///< number of the first rank in this process
  bool alone = true;        ///< whether all ranks are in this process
  std::optional<Comm> comm; ///< requested communication; nullopt: automatic
};

/// Makes the device that the program was compiled for.
std::unique_ptr<Device> makeDevice(const DeviceRequest &request);

/// Make the CPU device, and the communication among ranks that are threads of this process.
std::unique_ptr<Device> makeCpuDevice();
std::unique_ptr<Communication> makeLocalCommunication(const Mesh &mesh, bool dedicated);

} // namespace psrt

#endif
