// Declares the parts of a compiled program's main; each part has its own file.
#ifndef PSRT_MAIN_PARTS_H
#define PSRT_MAIN_PARTS_H

#include "runtime/main/Flags.h"
#include "runtime/session/Checkpoint.h"
#include "runtime/session/NamedTensors.h"
#include <functional>
#include <optional>

namespace psrt {

/// Prints mesh, variables, memory, collectives, data and the plan's explanation.
void printInfo(const Program &program);

/// Sets the scalars that `--set` names.
void applySettings(Session &session, const Flags &flags);

/// Resumes from a checkpoint: sets all state and the step. Fails if the flags would read other
/// samples or numbers than the run that saved the checkpoint.
void resume(Session &session, const NamedTensors &tensors, const Checkpoint &checkpoint,
            const Flags &flags);

/// Fails if --labels or --data-type, which describe token files, is given for files of named
/// tensors.
void checkTokenFlags(const Flags &flags);

/// Returns a text of the program and its flags, which must be equal in all processes of a job.
std::string describeCommand(const ProgramSource &source, const Flags &flags);
/// Fails with BadArgument on rank 0 of a job if another rank runs another program or has other
/// flags. All ranks make the same call; it returns when all have been compared.
void checkSameCommand(Job &job, const ProgramSource &source, const Flags &flags,
                      const std::string &checkpoint);
/// Fails with BadInput if a file that the run reads (data, weights, the checkpoint's index) differs
/// between processes of a job. All processes make the same call.
void checkSameInputs(Session &session, const Flags &flags, const WeightFiles *weights,
                     const std::string &checkpoint);
/// Fails with BadArgument if a process does not see the folder that rank 0 has locked.
void checkSharedFolder(Session &session, const std::string &folder);

/// Returns the error of the first process that has one, the same in every process, or nullopt if no
/// process has an error. `here` is the error of this process. All processes make the same call.
std::optional<Status> findErrorOfAny(Session &session, const std::optional<Status> &here);
/// Calls `read`, which fails with BadInput if its data cannot be used. One process's error is then
/// thrown in every process of the job, so that none waits for a process that ended.
void readTogether(Session &session, const std::function<void()> &read);

/// The state of a run apart from its session.
struct RunState {
  FolderLock *lock = nullptr;      ///< lock of the folder of --save; null except on rank 0
  std::optional<LineMark> losses;  ///< the lines of --losses that belong to the loaded checkpoint
  std::vector<std::string> loaded; ///< the files of --weights or --load
  std::string checkpoint;          ///< path of the loaded checkpoint; empty: none
  std::string run;                 ///< unique name of the run, stored in all its checkpoints
};

/// Trains and evaluates according to the flags.
void train(Session &session, const NamedTensors &tensors, const Flags &flags,
           const RunState &state);

/// Runs a check of a path and makes an error begin with the flag that gave the path.
void nameFlag(const char *flag, const std::function<void()> &check);

/// Fails if an output cannot be written, or if it would replace an input or another output.
/// `loaded` are the files of --weights or --load.
void checkOutputPaths(const Session &session, const Flags &flags,
                      const std::vector<std::string> &loaded);

/// Returns `"w.safetensors" (1.30 MB)` for a written file, or for a folder with its .safetensors
/// files.
std::string describeWritten(const std::string &path);
/// Prints "wrote PATH (SIZE)" in the first process, unless --quiet is given.
void reportWritten(const Session &session, const Flags &flags, const std::string &path);

/// Prints the result of --check-memory: planned and measured bytes of each pipeline coordinate.
void printMemoryCheck(Session &session);

/// Measures floating-point operations per second of all ranks together: all ranks run f32 matmuls
/// on their threads at the same time. Only the first process gets the result.
double measurePeak(Session &session);

/// Returns the location of the first nan or infinite element of the samples, or "" if all are
/// finite. Negative samples are skipped.
std::string findBadInput(Session &session, const EntryPoint &entry, const SampleSource &source,
                         const std::vector<int64_t> &samples);

/// Explains a nan or infinite loss as far as possible: ": input ..." or "; ...". `scalars` are the
/// values after that step. `isFirst` means the first step of the run; `badWeight` then names a
/// weight that was nan or infinite before the step.
std::string explainBadLoss(Session &session, const RecordedScalars &scalars,
                           const EntryPoint &entry, const SampleSource &source,
                           const SampleOrder &order, int64_t step, bool isFirst,
                           const std::string &badWeight);

/// Compares the first step with that of the one-rank program `oneRank`. Returns the exit status.
int check(Session &session, const ProgramSource &oneRank, const Flags &flags);

/// Returns the text as a JSON string with quotes. Control characters become spaces.
std::string quoted(const std::string &text);

/// Writes the executors' traces as Chrome trace JSON.
void writeTrace(Session &session, const std::string &path);

/// Loss and gradient divisor after the last backward of a step, before the update.
struct StepGradients {
  double loss = 0;
  double divisor = 0; ///< divides accumulated gradients: the step's count times the loss scale
};
/// Reads the loss, the step's count and the loss scale before the update.
StepGradients readLossBeforeUpdate(Session &session);
/// Reads one whole gradient into `whole`, divided by `count`.
void readGradient(Session &session, const NamedTensor &gradient, double count, char *whole);
/// Writes `loss` and every gradient as `grad.NAME`.
void writeGradients(Session &session, const NamedTensors &tensors, const std::string &path);

} // namespace psrt

#endif
