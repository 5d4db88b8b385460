// What a device and a communication backend offer to the executor: binding instructions, once, to
// functions.
#ifndef PSRT_CORE_BACKEND_H
#define PSRT_CORE_BACKEND_H

#include "runtime/core/Queues.h"
#include "runtime/core/RankMemory.h"
#include <atomic>
#include <chrono>
#include <memory>
#include <utility>

namespace psrt {

/// One instruction bound to one rank's memory; running it is one call and touches no table.
struct Bound {
  void (*run)(const Bound &) = nullptr;
  void *self = nullptr;     ///< the RankDevice or RankComm that bound it
  void *prepared = nullptr; ///< what that backend made for it (owned by the backend)
  const Instruction *instruction = nullptr;
  void *const *buffers = nullptr;   ///< the instruction's buffers; null where absent
  const int64_t *scalars = nullptr; ///< [seed, step, micro_batch, keys.., first..]
  Kernel kernel = nullptr;          ///< of a KernelOp
  bool accumulate = false;          ///< of an op with a ref: add instead of set
  int64_t key = 0;                  ///< of an op with a random key
  const std::vector<int64_t> *coordinates = nullptr; ///< of this rank in the mesh
  /// Bytes from each buffer on, as the plan of the memory has them (at least 1); null where the
  /// device did not ask.
  const int64_t *extents = nullptr;
  /// Running it involves the host each time: it cannot be part of what a device records once.
  bool needsHost = false;
};

/// Whether a matmul also sums an operand.
inline bool hasSums(const Bound &bound) {
  return bound.instruction->buffers.size() > MatmulOp::Sums && bound.buffers[MatmulOp::Sums];
}

/// Where a matmul's activation writes, or reads, what it is of; null: nowhere.
inline void *findAux(const Bound &bound) {
  bool mayHave = bound.instruction->buffers.size() > MatmulOp::Aux;
  return mayHave ? bound.buffers[MatmulOp::Aux] : nullptr;
}

/// Which instruction a rank runs, for the thread that watches over all ranks.
class Activity {
public:
  void run(const Bound &bound) {
    current.store(&bound, std::memory_order_relaxed);
    begun.store(begun.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    bound.run(bound);
  }
  /// The rank runs none any more.
  void leave() { current.store(nullptr, std::memory_order_relaxed); }
  /// Null between entries, and where an entry waits for all that it has started.
  const Bound *getCurrent() const { return current.load(std::memory_order_relaxed); }
  uint64_t countBegun() const { return begun.load(std::memory_order_relaxed); }

private:
  std::atomic<const Bound *> current{nullptr};
  std::atomic<uint64_t> begun{0}; ///< written by the rank's thread alone
};

/// One rank's share of a device: runs kernels and library calls, on its threads at once, or on a
/// device later, in the order of the calls.
class RankDevice {
public:
  virtual ~RankDevice() = default;
  /// Sets run, self and prepared; false when the instruction is not one of a device.
  virtual bool bind(Bound &bound) = 0;
  /// Allocates what the instructions bound so far need; called before any of them runs.
  virtual void reserve() = 0;
  virtual int threads() const = 0;
  /// Memory for this rank's instructions, zeroed; the device outlives it.
  virtual std::unique_ptr<RankMemory> makeMemory(MemorySizes sizes) = 0;
  /// Whether instructions are over only some time after they were run: the host may then prepare
  /// the next step.
  virtual bool runsLater() const { return false; }
  /// Returns when all is over that instructions have begun, where they do not end it themselves.
  virtual void synchronize() {}
  /// Forgets what it has recorded of runs: called when nothing is run any more, before the
  /// communication whose operations are in recordings ends.
  virtual void forgetRecordings() {}
  /// The sides of square matrices whose matmul shows how fast it multiplies: 256, 512 or 2048.
  virtual int64_t getPeakMatmulSize() const { return 512; }

  /// Where instructions see scalars that the host sets before each run of an entry: there
  /// themselves, or in a memory of the device, which lasts as long as it.
  virtual const int64_t *mirror(const int64_t *scalars, size_t /*count*/) { return scalars; }
  /// The scalars (as given to `mirror`) are set for the run that follows.
  virtual void begin(const int64_t * /*scalars*/) {}
  /// Runs the instructions from `first` to before `last`. The same range comes again and again.
  virtual void run(const Bound *first, const Bound *last) {
    for (; first != last; ++first)
      activity.run(*first);
  }
  Activity &getActivity() { return activity; }

  /// Notes when what was run before is over and what is run next begins.
  virtual void mark() { marks.push_back(now()); }
  /// The times of all marks since the last call, in seconds of the steady clock.
  virtual std::vector<double> takeMarks() { return std::exchange(marks, {}); }
  /// Whether bound instructions are to have extents.
  virtual bool wantsExtents() const { return false; }

protected:
  static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  std::vector<double> marks;
  Activity activity;
};

/// When something that was started was under way beside the instructions, in seconds of the steady
/// clock.
struct AsyncTimes {
  const Bound *bound;
  double start, end;
};

/// One rank's end of the communication.
class RankComm {
public:
  virtual ~RankComm() = default;
  virtual bool bind(Bound &bound) = 0;
  virtual void reserve() = 0;
  /// All ranks of the mesh meet.
  virtual void barrier() = 0;
  /// Returns when all that was started is over.
  virtual void drain() {}
  /// Notes from now on when what is started is under way, where it does not run at once.
  virtual void startTrace() {}
  /// Of what was over by now, and not taken before.
  virtual std::vector<AsyncTimes> takeTimes() { return {}; }
};

/// The communication among the ranks of a mesh: those of this process, or one of each process.
class Communication {
public:
  virtual ~Communication() = default;
  virtual std::unique_ptr<RankComm> makeRank(int rank) = 0;
  /// Wakes every rank that waits, now or later, with Aborted; any thread may call it.
  virtual void abort() = 0;
  /// Makes the communication usable again; no rank may be inside it.
  virtual void reset() = 0;
  /// How many ranks of this process are asleep until another one of them comes.
  virtual int countWaiting() const { return 0; }
  /// Among processes, outside of entries: bytes of rank `from` into `received` of rank 0; every
  /// process calls it. `what` is for messages.
  virtual void bring(int from, const void *data, void *received, size_t bytes,
                     const std::string &what) {}
  /// The same: bytes of rank 0 to all.
  virtual void share(void *data, size_t bytes, const std::string &what) {}
};

/// A device, shared by the ranks of this process.
class Device {
public:
  virtual ~Device() = default;
  /// `threads`: how many the rank may use, its own included; `dedicated`: a core stands ready for
  /// each; `place`: which of the process's ranks it is.
  virtual std::unique_ptr<RankDevice> makeRank(int threads, bool dedicated, int place) = 0;
  /// The communication among ranks that are threads of this process, where it is not the host's.
  virtual std::unique_ptr<Communication> makeCommunication(const Mesh & /*mesh*/,
                                                           bool /*dedicated*/) {
    return nullptr;
  }
  /// Whether ranks that are processes communicate by `makeProcessCommunication`'s means.
  virtual bool hasOwnCommunication() const { return false; }
  /// That among ranks that are processes; `host` brings them together.
  virtual std::unique_ptr<Communication>
  makeProcessCommunication(std::unique_ptr<Communication> host) {
    return host;
  }
};

/// The processes that a launcher started as one job, a rank each; this one's view.
class Job {
public:
  virtual ~Job() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Cores that this process need not share.
  virtual int cores() const = 0;
  /// Rank 0 returns the texts of all ranks, the other ranks return nothing.
  virtual std::vector<std::string> collect(const std::string &text) = 0;
  /// Returns when all ranks have called it.
  virtual void meet() = 0;
  /// Every process calls it, for the same mesh and names of queues.
  virtual std::unique_ptr<Communication> makeCommunication(const Mesh &mesh,
                                                           const std::vector<Queue> &queues) = 0;
  /// Closes the listeners. No further communication can be made.
  virtual void stopListening() = 0;
};

/// What a device is made for.
struct DeviceRequest {
  const Program &program;
  const ProgramSource &source;
  int ranks = 1;     ///< in this process
  int first = 0;     ///< the number of the first of them
  bool alone = true; ///< there are no ranks in other processes
  std::string comm;  ///< how the user wants ranks to communicate: "local", "nccl"; empty: as fits
};

/// The device that the program was compiled for.
std::unique_ptr<Device> makeDevice(const DeviceRequest &request);

/// Factories of the backends that are linked in.
std::unique_ptr<Device> makeCpuDevice();
std::unique_ptr<Communication> makeLocalCommunication(const Mesh &mesh, bool dedicated);

} // namespace psrt

#endif
