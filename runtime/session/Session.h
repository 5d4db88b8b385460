// Defines an open program: its ranks, their memory, and the host's operations on them.
#ifndef PSRT_SESSION_SESSION_H
#define PSRT_SESSION_SESSION_H

#include "runtime/bootstrap/RankThreads.h"
#include "runtime/core/EntryChecks.h"
#include "runtime/core/Executor.h"
#include "runtime/data/Batches.h"
#include "runtime/session/DeadlockMonitor.h"
#include "runtime/session/RecordedScalars.h"
#include <functional>
#include <mutex>
#include <optional>
#include <set>

/// Makes a rank fail before a step. Defined by psrt_faults, which only test programs link.
extern "C" __attribute__((weak)) void psrt_test_fault(int rank, int64_t step);

namespace psrt {

inline constexpr int kMaxThreads = 1024;               ///< maximum number of threads of one rank
inline constexpr int64_t kMaxSteps = int64_t(1) << 53; ///< maximum number of steps

struct SessionOptions {
  int ranks = 0;   ///< 0: as in the mesh
  int threads = 0; ///< threads per rank; 0: cores / ranks
  uint64_t seed = 0;
  bool mentionFlags = false; ///< whether errors mention flags of the executable
  bool checkMemory = false;  ///< check each instruction against the memory plan; slow
  bool watch = false;        ///< detect deadlocks among the ranks of this process, and end the run
  std::optional<Comm> comm;  ///< as in DeviceRequest
  Job *job =
      nullptr; ///< job in which this process is one rank; null: all ranks are in this process
  /// Names of tensors that the caller sets after opening. Their initial values are not read.
  std::set<std::string> given;
};

/// One rank of a session.
struct Rank {
  ~Rank();
  int index = 0;
  std::vector<int64_t> coordinates;
  int64_t stage = 0; ///< pipeline coordinate of the rank
  int threads = 1;   ///< host threads of this rank
  std::unique_ptr<RankDevice> device;
  std::unique_ptr<RankMemory> memory;
  std::unique_ptr<RankComm> comm;
  std::unique_ptr<Executor> executor;
  std::vector<InputWriter> writers; ///< one per input of the program
};

/// Fails if the program is not compiled for `ranks` ranks; 0 is always accepted. The message
/// contains a compile line for this number of ranks.
void checkRanks(const Program &program, int ranks);

/// Copies the elements [first, first + count) of a tensor, in row-major order, to `to`.
using ReadElements = std::function<void(char *to, int64_t first, int64_t count)>;

/// An open program.
class Session {
public:
  /// Makes the ranks and sets the variables to their initial values. Fails if the number of ranks
  /// does not fit the mesh.
  Session(const ProgramSource &source, const SessionOptions &options);
  ~Session();

  const Program &getProgram() const { return program; }
  const ProgramSource &getSource() const { return source; }
  uint64_t getSeed() const { return options.seed; }
  int threadsPerRank() const { return threads; }
  /// Returns a rank, or null for a rank of another process.
  Rank *rank(int index) { return ranks[index].get(); }
  /// Returns whether this process runs rank 0. The process of rank 0 gathers tensors and writes
  /// files.
  bool isFirst() const { return !options.job || options.job->rank() == 0; }
  /// Returns whether this session is one process of a job.
  bool isOneOfMany() const { return options.job != nullptr; }
  /// Returns whether `here` is true in any process.
  bool isAny(bool here);
  /// On rank 0, returns the text of each process, by rank. In the other processes, returns an empty
  /// list. Without a job, returns only `text`.
  std::vector<std::string> collect(const std::string &text);
  /// Returns the text of rank 0's process in every process.
  std::string broadcast(const std::string &text);
  int64_t step = 0; ///< number of the next step
  /// Number of earlier runs of this step's forwards, which drew other random numbers.
  int64_t earlierRuns = 0;

  /// Calls body(Rank &) on all ranks. A failed rank makes the session unusable; bad input does not.
  template <typename Body> void parallel(Body &&body) {
    checkUsable();
    try {
      rankThreads->run([&](int index) {
        try {
          body(*ranks[index]);
        } catch (const Error &error) {
          throw Error(located(error.status, index));
        } catch (const Aborted &) {
          throw;
        } catch (const std::exception &error) {
          Status status;
          status.code = StatusCode::Failed;
          status.message = error.what();
          throw Error(located(status, index));
        }
      });
    } catch (const Error &error) {
      recover(error.status);
    }
  }

  /// Binds an entry on all ranks in advance of its first run.
  void prepare(EntryKind entry, int64_t slot = 0, bool piecewise = false);
  /// Runs an entry, or the part of it that `extent` selects, on all ranks. `microBatch` is as in
  /// Executor::run.
  void run(const EntryPoint &entry, int64_t slot = 0, bool piecewise = false,
           Extent extent = Extent::All, int64_t microBatch = -1);
  /// Must be called before the caller changes gradients after the part before the update.
  void beginNewGradients();
  /// Runs the update of the step entry. hasNewGradients: the host has changed gradients since the
  /// part before the update.
  void runUpdate(const EntryPoint &step, bool hasNewGradients);
  const EntryPoint &entry(EntryKind kind) const;
  /// Returns the entry with this name. Fails with BadArgument if there is none.
  const EntryPoint &entry(const std::string &name) const;

  /// Writes the inputs of an entry for `microBatches` micro-batches: row r of micro-batch m is
  /// sample sampleOf(m, r). The session stays usable after a failure with BadInput.
  template <typename SampleOf>
  void writeInputs(const EntryPoint &entry, const SampleSource &source, int64_t microBatches,
                   SampleOf sampleOf, int64_t slot = 0) {
    parallelReading([&](Rank &rank) {
      for (const Input &input : program.inputs)
        if (belongs(input, entry, false))
          writeInput(rank, entry, input, source, microBatches, sampleOf, slot);
    });
  }
  /// Writes some inputs or cotangents of an entry.
  template <typename SampleOf>
  void writeInputs(const EntryPoint &entry, const std::vector<const Input *> &inputs,
                   const SampleSource &source, int64_t microBatches, SampleOf sampleOf,
                   int64_t slot) {
    parallelReading([&](Rank &rank) {
      for (const Input *input : inputs)
        writeInput(rank, entry, *input, source, microBatches, sampleOf, slot);
    });
  }
  /// Sets inputs or cotangents of an entry to zero, in one micro-batch.
  void zeroInputs(const EntryPoint &entry, const std::vector<const Input *> &inputs, int64_t slot);
  /// Returns the inputs that an entry reads, without cotangents. If `cotangents` is set, returns
  /// only the cotangents that the entry reads.
  std::vector<const Input *> inputsOf(const EntryPoint &entry, bool cotangents = false) const;

  /// Gathers a tensor to `whole` on rank 0: joins shards, and adds partial values in rank order.
  /// In other processes, `whole` may be null.
  void gather(const RankTensor &tensor, char *whole);
  /// Copies bytes of rank 0's process to all processes.
  void broadcast(char *data, int64_t bytes);
  /// Gathers a tensor to `whole` in every process.
  void gatherEverywhere(const RankTensor &tensor, char *whole);
  /// Gathers a variable. For an accumulator, adds the values of all stages that accumulate into it.
  void readVariable(int variable, char *whole);
  /// Sets a variable and its copies in other dtypes. Each rank calls `read` for its own elements,
  /// possibly from several threads at once. In a partial variable, shard 0 gets the values, and the
  /// other shards get zeros. If several stages add to an accumulator, one of them gets the values.
  void setVariable(int variable, const ReadElements &read);
  /// Sets a variable from its row-major global elements.
  void writeVariable(int variable, const char *whole);
  /// Returns a scalar variable as a number, or NaN if the program has no such scalar.
  double readScalar(const std::string &symbol);
  /// Returns an object that records scalars after each step.
  RecordedScalars recordScalars(const std::vector<std::string> &symbols) const;
  /// Waits for the value of a recorded scalar, and returns it as `readScalar` does.
  double readRecorded(RecordedScalars &recorded, const std::string &symbol);
  /// Returns whether `run` may return before its work has finished, so that the host can prepare
  /// the next step meanwhile.
  bool runsLater() const;
  /// Sets a scalar and the variables that hold its forms.
  void setScalar(const std::string &symbol, double value);
  /// Sets all variables of a kind to zero.
  void zero(VariableKind kind);
  /// Sets those variables of a kind to zero that a run of `entry` with piecewise = false does not
  /// overwrite. Programs of earlier compilers never overwrite; then sets all to zero.
  void zeroKept(VariableKind kind, const EntryPoint &entry);

private:
  /// Adds the rank and the step to the status of a failure.
  Status located(Status status, int rank) const {
    if (status.code == StatusCode::Failed) {
      status.rank = rank;
      status.step = step;
    }
    return status;
  }
  void checkUsable() const;
  [[noreturn]] void recover(const Status &status);
  template <typename Body> void amongProcesses(Body &&body);
  /// Calls `body` like `parallel`. If a rank fails with BadInput, the other ranks finish `body`
  /// before the error is thrown, so `body` must not communicate.
  template <typename Body> void parallelReading(Body &&body) {
    std::mutex mutex;
    std::optional<Status> bad;
    parallel([&](Rank &rank) {
      try {
        body(rank);
      } catch (const Error &error) {
        if (error.status.code != StatusCode::BadInput)
          throw;
        std::lock_guard<std::mutex> lock(mutex);
        if (!bad || rank.index < bad->rank)
          bad = located(error.status, rank.index);
      }
    });
    if (bad)
      throw Error(*bad);
  }
  bool belongs(const Input &input, const EntryPoint &entry, bool cotangents) const;
  /// Returns the address of an input, or Absent if the rank's stage does not read the input.
  int64_t inputAt(const Rank &rank, const EntryPoint &entry, const Input &input, int64_t microBatch,
                  int64_t slot) const;
  template <typename SampleOf>
  void writeInput(Rank &rank, const EntryPoint &entry, const Input &input,
                  const SampleSource &source, int64_t microBatches, SampleOf sampleOf,
                  int64_t slot) {
    for (int64_t m = 0; m < microBatches; ++m)
      if (int64_t at = inputAt(rank, entry, input, m, slot); at != Addresses::Absent)
        rank.writers[&input - program.inputs.data()].write(
            source, *rank.memory, at, [&](int64_t row) { return sampleOf(m, row); });
  }
  /// If `recorded` is set, reads recorded scalars from `recorded` instead of from the ranks'
  /// memory.
  void gatherFrom(const RankTensor &tensor, int64_t stage, bool add, char *whole,
                  const RecordedScalars *recorded = nullptr);
  void bringFrom(int index, const RankTensor &tensor, int64_t stage,
                 const RecordedScalars *recorded, std::vector<char> &received);
  void gatherAll(const RankTensor &tensor, char *whole, const RecordedScalars *recorded);
  void gatherOwn(const RankTensor &tensor, char *whole, const RecordedScalars *recorded);
  double readScalarFrom(const RecordedScalars *recorded, const std::string &symbol);
  void writeScalar(const Variable &variable, double value);
  void gatherVariable(const Variable &variable, char *whole, const RecordedScalars *recorded);
  /// Sets the shards of a tensor. If `stage` is not -1, the ranks of other pipeline coordinates get
  /// zeros.
  void scatter(const RankTensor &tensor, const ReadElements &read, int64_t stage = -1);
  void makeRank(int index, bool dedicated);
  std::unique_ptr<Communication> makeAmongProcesses(Job &job);
  DeadlockMonitor::Look lookAtRanks() const;
  /// Ends a run whose ranks have all waited for each other for `silence` seconds.
  void endDeadlock(double silence);

  ProgramSource source;
  SessionOptions options;
  Program program;
  int threads = 1;
  bool failed = false;
  std::unique_ptr<Device> device;
  std::unique_ptr<Communication> communication;
  EntryChecks entryChecks;
  std::vector<std::unique_ptr<Rank>> ranks;
  std::unique_ptr<RankThreads> rankThreads;
  std::unique_ptr<DeadlockMonitor> deadlockMonitor;
};

/// Writes the initial values of one rank's shards of all variables, except those in
/// `options.given`. `checks` is shared by the ranks of the process.
void initializeVariables(const Program &program, const ProgramSource &source,
                         const SessionOptions &options, EntryChecks &checks, Rank &rank);

} // namespace psrt

#endif
