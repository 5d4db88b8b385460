// A program that is open: its ranks, their memory, and everything that a host does with them.
#ifndef PSRT_SESSION_SESSION_H
#define PSRT_SESSION_SESSION_H

#include "runtime/bootstrap/RankThreads.h"
#include "runtime/core/EntryChecks.h"
#include "runtime/core/Executor.h"
#include "runtime/data/Batches.h"
#include "runtime/session/RecordedScalars.h"
#include "runtime/session/DeadlockMonitor.h"
#include <functional>
#include <mutex>
#include <optional>
#include <set>

/// Lets a rank fail before a step. Defined by psrt_faults, which only programs of tests link.
extern "C" __attribute__((weak)) void psrt_test_fault(int rank, int64_t step);

namespace psrt {

inline constexpr int kMaxThreads = 1024; ///< of one rank

struct SessionOptions {
  int ranks = 0;   ///< 0: as the mesh has
  int threads = 0; ///< a rank; 0: cores / ranks
  uint64_t seed = 0;
  bool mentionFlags = false; ///< errors name the executable's flags
  bool checkMemory = false;  ///< hold all that runs against the plan of the memory; slow
  bool watch = false;        ///< end ranks of this process that wait for each other
  std::string comm;          ///< as of DeviceRequest
  Job *job = nullptr; ///< this process is one rank of it; null: all ranks are in this process
  /// Names of the model's tensors whose values are set after opening: no initial value is read.
  std::set<std::string> given;
};

/// One rank's share of a session.
struct Rank {
  ~Rank();
  int index = 0;
  std::vector<int64_t> coordinates;
  int64_t stage = 0; ///< its pipeline coordinate
  int threads = 1;   ///< of the host, for it alone
  std::unique_ptr<RankDevice> device;
  std::unique_ptr<RankMemory> memory;
  std::unique_ptr<RankComm> comm;
  std::unique_ptr<Executor> executor;
  std::vector<InputWriter> writers; ///< by input of the program
};

/// Fails when a program is not compiled for that many ranks; shows the compile line that would fit.
void checkRanks(const Program &program, int ranks);

/// Copies `count` elements of a tensor, row-major from `first` on, to `to`.
using ReadElements = std::function<void(char *to, int64_t first, int64_t count)>;

class Session {
public:
  /// Makes the ranks and sets variables to their initial values. Fails when ranks and mesh do not
  /// match.
  Session(const ProgramSource &source, const SessionOptions &options);
  ~Session();

  const Program &getProgram() const { return program; }
  const ProgramSource &getSource() const { return source; }
  uint64_t getSeed() const { return options.seed; }
  int threadsPerRank() const { return threads; }
  /// Null for a rank of another process.
  Rank *rank(int index) { return ranks[index].get(); }
  /// Whether this process is the one that reads whole tensors and writes files. Among processes,
  /// all make the same calls.
  bool isFirst() const { return !options.job || options.job->rank() == 0; }
  /// Whether other processes have the other ranks.
  bool isOneOfMany() const { return options.job != nullptr; }
  /// Whether any process says so.
  bool isAny(bool here);
  /// A text of each rank, by rank, in the first process (empty in the others).
  std::vector<std::string> collect(const std::string &text);
  /// The first process's text, in every process.
  std::string share(const std::string &text);
  int64_t step = 0; ///< the next step's number

  /// Calls body(Rank &) on all ranks; after a failure of a rank the session is unusable, after bad
  /// input it is not.
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

  /// Binds an entry on all ranks, so that its first run does not.
  void prepare(const std::string &entry, int64_t slot = 0, bool piecewise = false);
  /// Runs an entry on all ranks, or what it does before its update, or that. `microBatch`: as in
  /// Executor::run.
  void run(const EntryPoint &entry, int64_t slot = 0, bool piecewise = false,
           Extent extent = Extent::All, int64_t microBatch = -1);
  const EntryPoint &entry(const std::string &name) const;

  /// Writes the inputs of an entry for `microBatches` micro-batches: rows by sampleOf(microBatch,
  /// row). After a failure with BadInput the session and its communication go on.
  template <typename SampleOf>
  void writeInputs(const EntryPoint &entry, const SampleSource &source, int64_t microBatches,
                   SampleOf sampleOf, int64_t slot = 0, bool cotangents = false) {
    parallelReading([&](Rank &rank) {
      for (size_t i = 0; i < program.inputs.size(); ++i)
        if (belongs(program.inputs[i], entry, cotangents))
          for (int64_t m = 0; m < microBatches; ++m)
            if (int64_t at = inputAt(rank, entry, i, m, slot); at != Addresses::Absent)
              rank.writers[i].write(source, *rank.memory, at,
                                    [&](int64_t row) { return sampleOf(m, row); });
    });
  }
  /// Inputs that an entry reads; `cotangents`: those that its backward takes instead.
  std::vector<const Input *> inputsOf(const EntryPoint &entry, bool cotangents = false) const;

  /// Copies a whole tensor out of the ranks' memory, into that of the first process: parts are
  /// joined, partial values added in rank order. Elsewhere `whole` may be null.
  void gather(const RankTensor &tensor, char *whole);
  /// The same, into that of every process.
  void gatherEverywhere(const RankTensor &tensor, char *whole);
  /// Of an accumulator what all stages added to it.
  void readVariable(int variable, char *whole);
  /// Sets a variable and its copies, each rank the elements that it holds: by calls of `read`, also
  /// from several threads at once. All writing of whole variables goes through here. The first
  /// shard of a partial one gets the values, the others zeros.
  void setVariable(int variable, const ReadElements &read);
  void writeVariable(int variable, const char *whole);
  /// A scalar variable as a number; NaN when there is none of that symbol.
  double readScalar(const std::string &symbol);
  /// For noting scalars whenever a step has been run.
  RecordedScalars recordScalars(const std::vector<std::string> &symbols) const;
  /// The same of a scalar that was noted; waits until it is known.
  double readRecorded(RecordedScalars &notes, const std::string &symbol);
  /// Whether what has been run may still be under way, so that the host can prepare the next step.
  bool runsLater() const;
  void setScalar(const std::string &symbol, double value);
  /// Sets every variable of a kind to zero.
  void zero(const std::string &kind);

private:
  /// A failure with the rank and the step in which it happened.
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
  /// As `parallel`, for a body that only reads: BadInput of a rank is thrown when all have ended,
  /// and wakes no rank of another process.
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
  /// The address; Absent where the rank's stage does not read it.
  int64_t inputAt(const Rank &rank, const EntryPoint &entry, size_t input, int64_t microBatch,
                  int64_t slot) const;
  /// `notes`: where the ranks' parts are taken from instead of their memory.
  void gatherFrom(const RankTensor &tensor, int64_t stage, bool add, char *whole,
                  const RecordedScalars *notes = nullptr);
  void bringFrom(int index, const RankTensor &tensor, int64_t stage, const RecordedScalars *notes,
                 std::vector<char> &received);
  void gatherAll(const RankTensor &tensor, char *whole, const RecordedScalars *notes);
  void gatherOwn(const RankTensor &tensor, char *whole, const RecordedScalars *notes);
  double readScalarFrom(const RecordedScalars *notes, const std::string &symbol);
  void gatherVariable(const Variable &variable, char *whole, const RecordedScalars *notes);
  void scatter(const RankTensor &tensor, const ReadElements &read);
  void makeRank(int index, bool dedicated);
  std::unique_ptr<Communication> makeAmongProcesses(Job &job);
  DeadlockMonitor::Look lookAtRanks() const;
  /// Ends a run in which all ranks wait for each other.
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

/// Writes the initial values of all variables of one rank (its own ranges only), but those given.
/// `checks`: shared by the ranks of the process.
void initializeVariables(const Program &program, const ProgramSource &source,
                         const SessionOptions &options, EntryChecks &checks, Rank &rank);

} // namespace psrt

#endif
