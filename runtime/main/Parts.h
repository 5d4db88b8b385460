// Declares the parts of a compiled program's main; each part has its own file.
#ifndef PSRT_MAIN_PARTS_H
#define PSRT_MAIN_PARTS_H

#include "runtime/main/Flags.h"
#include "runtime/session/Checkpoint.h"
#include "runtime/session/NamedTensors.h"
#include "runtime/session/StepGradients.h"
#include <functional>
#include <optional>

namespace psrt {

/// Implements --info: prints mesh, variables, memory, collectives, inputs and the plan's
/// explanation.
void printInfo(const Program &program);

/// Sets the scalars that `--set` names.
void applySettings(Session &session, const Flags &flags);

/// Resumes from a checkpoint: sets all state and the step. Fails if seed, shuffling or samples per
/// step differ from those of the run that saved the checkpoint.
void resume(Session &session, const NamedTensors &tensors, const Checkpoint &checkpoint,
            const Flags &flags);

/// Fails if --labels or --data-type, which are for token files, is given with files of named
/// tensors.
void checkTokenFlags(const Flags &flags);

/// Returns the program's hash and its flags as text. The text must be equal in all processes of a
/// job.
std::string describeCommand(const ProgramSource &source, const Flags &flags);
/// Compares programs and flags of all ranks. If they differ, fails with BadArgument on rank 0. All
/// ranks make the same call, which returns after the comparison.
void checkSameCommand(Job &job, const ProgramSource &source, const Flags &flags,
                      const std::string &checkpoint);
/// Fails with BadInput if a file that the run reads (data, weights, the checkpoint's index) differs
/// between processes of a job. All processes make the same call.
void checkSameInputs(Session &session, const Flags &flags, const WeightFiles *weights,
                     const std::string &checkpoint);
/// Fails with BadArgument if a process does not see the lock of rank 0 in the folder of --save. In
/// this case, the hosts do not share the folder.
void checkSharedFolder(Session &session, const std::string &folder);

/// Combines the errors of all processes: each process passes its own error (`here`), and gets the
/// error of the lowest rank that has one, or nullopt. All processes make the same call.
std::optional<Status> findErrorOfAny(Session &session, const std::optional<Status> &here);
/// Calls `read`. If `read` fails with BadInput in one process, throws this error in every process
/// of the job, so that no process waits for one that has ended.
void readTogether(Session &session, const std::function<void()> &read);

/// State of a run that is not part of the session.
struct RunState {
  FolderLock *lock = nullptr;      ///< lock of the folder of --save; null except on rank 0
  std::optional<LineMark> losses;  ///< lines of --losses when the loaded checkpoint was saved
  std::vector<std::string> loaded; ///< the files of --weights or --load
  std::string checkpoint;          ///< path of the loaded checkpoint; empty: none
  std::string run;                 ///< unique name of the run, stored in all its checkpoints
};

/// Trains and evaluates according to the flags.
void train(Session &session, const NamedTensors &tensors, const Flags &flags,
           const RunState &state);

/// Calls `check`, which checks the path given with `flag`. If `check` fails, the message begins
/// with `flag`.
void nameFlag(const char *flag, const std::function<void()> &check);

/// Fails if an output cannot be written, or would replace an input or another output. `loaded` are
/// the files of --weights or --load.
void checkOutputPaths(const Session &session, const Flags &flags,
                      const std::vector<std::string> &loaded);

/// Returns path and size of a written file or weight folder: `"w.safetensors" (1.30 MB)`.
std::string describeWritten(const std::string &path);
/// Prints "wrote PATH (SIZE)" on rank 0, unless --quiet is given.
void reportWritten(const Session &session, const Flags &flags, const std::string &path);

/// Prints the result of --check-memory: planned and measured bytes of each pipeline coordinate.
void printMemoryCheck(Session &session);

/// Measures the f32 matmul rate of all ranks together, in flops per second. All ranks run matmuls
/// at the same time. Only rank 0 gets the result.
double measurePeak(Session &session);

/// Returns the location of the first nan or infinite input element of `samples`, or "" if all
/// elements are finite. Skips ignored rows, whose sample is -1.
std::string findBadInput(Session &session, const EntryPoint &entry, const SampleSource &source,
                         const std::vector<int64_t> &samples);

/// Returns a suffix for an error about a nan or infinite loss: the likely cause and a remedy.
/// `scalars` are the values after the step. `isFirst` is true in the first step of the run.
/// `badWeight` is the name of a weight that was nan or infinite when the run started, or "".
std::string explainBadLoss(Session &session, const RecordedScalars &scalars,
                           const EntryPoint &entry, const SampleSource &source,
                           const SampleOrder &order, int64_t step, bool isFirst,
                           const std::string &badWeight);

/// Implements --check: compares the first step with that of the one-rank program `oneRank`. Returns
/// the exit status.
int check(Session &session, const ProgramSource &oneRank, const Flags &flags);

/// Returns a text as a JSON string, with quotes. Replaces control characters by spaces.
std::string quoted(const std::string &text);

/// Writes the executors' traces as Chrome trace JSON.
void writeTrace(Session &session, const std::string &path);

/// Reads one whole gradient into `whole`, divided by `count` (see `StepGradients::divisor`).
void readGradient(Session &session, const NamedTensor &gradient, double count, char *whole);
/// Implements --gradients: writes `loss`, and every gradient as `grad.NAME`.
void writeGradients(Session &session, const NamedTensors &tensors, const std::string &path);

} // namespace psrt

#endif
