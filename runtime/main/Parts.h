// The parts of a compiled program's main, each in its own file.
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

/// Sets what `--set` names.
void applySettings(Session &session, const Flags &flags);

/// Goes on from a checkpoint: sets all state, and the step. Fails where the flags would take other
/// samples or numbers than the run that saved it.
void resume(Session &session, const NamedTensors &tensors, const Checkpoint &checkpoint,
            const Flags &flags);

/// Fails where flags contradict each other, or one of them would be ignored.
void checkFlags(const Flags &flags);

/// The program and its flags, which are the same for all processes of a job.
std::string describeCommand(const ProgramSource &source, const Flags &flags);
/// Fails with BadArgument in rank 0 of a job where another rank runs another program, or with other
/// flags. The same call in all of them; returns when all have been compared.
void checkSameCommand(Job &job, const ProgramSource &source, const Flags &flags,
                      const std::string &checkpoint);
/// Fails with BadInput where a file that the run reads (data, weights, the checkpoint's index) is
/// not the same for all processes of a job. The same call in all of them.
void checkSameInputs(Session &session, const Flags &flags, const WeightFiles *weights,
                     const std::string &checkpoint);
/// Fails with BadArgument where a process does not see the folder that the first one has locked.
void checkSharedFolder(Session &session, const std::string &folder);

/// Returns the error of the first process that has one, the same in every process; nullopt where
/// none has. `here`: that of this process. The same call in all of them.
std::optional<Status> findErrorOfAny(Session &session, const std::optional<Status> &here);
/// Calls `read`, which reads data and fails with BadInput where these cannot be used. Then it fails
/// in every process of a job: none waits for one that ended.
void readTogether(Session &session, const std::function<void()> &read);

/// What a run has beside its session.
struct RunState {
  FolderLock *lock = nullptr;      ///< of the folder of --save; null but in the first process
  std::optional<LineMark> losses;  ///< the lines of --losses that belong to the loaded checkpoint
  std::vector<std::string> loaded; ///< the files of --weights or --load
  std::string checkpoint;          ///< path of the loaded checkpoint; empty: none
  std::string run;                 ///< the run's unique name, in all that it saves
};

/// Trains and evaluates as the flags say.
void train(Session &session, const NamedTensors &tensors, const Flags &flags,
           const RunState &state);

/// Runs a check of a path; its error begins with the flag that gave the path.
void nameFlag(const char *flag, const std::function<void()> &check);

/// Fails unless everything that is to be written can be, and replaces nothing that is read
/// (`loaded`: the files of --weights or --load) and no other output.
void checkOutputPaths(const Session &session, const Flags &flags,
                      const std::vector<std::string> &loaded);

/// `"w.safetensors" (1.30 MB)` of a file that was written, or of a folder's .safetensors files.
std::string describeWritten(const std::string &path);
/// Prints it, in the first process and without --quiet.
void reportWritten(const Session &session, const Flags &flags, const std::string &path);

/// Prints what --check-memory measured: of each pipeline coordinate, the plan and what was written.
void printMemoryCheck(Session &session);

/// Floating-point operations a second of all ranks together: each multiplies matrices of f32 on its
/// threads while the others do. Only the first process gets the number.
double measurePeak(Session &session);

/// Returns where the first element of the samples is that is nan or infinite; empty: all are
/// finite. Samples below 0 are none.
std::string findBadInput(Session &session, const EntryPoint &entry, const SampleSource &source,
                         const std::vector<int64_t> &samples);

/// Where a loss that is no number comes from, as far as it shows: "; input ..." or "; ...".
/// `scalars`: as they were after that step. `isFirst`: of the run; `badWeight` is a weight that was
/// nan or infinite before it.
std::string explainBadLoss(Session &session, const RecordedScalars &scalars, const EntryPoint &entry,
                           const SampleSource &source, const SampleOrder &order, int64_t step,
                           bool isFirst, const std::string &badWeight);

/// Compares the first step with that of the one-rank program in `oneRank`; the exit status.
int check(Session &session, const ProgramSource &oneRank, const Flags &flags);

/// A string as JSON wants it.
std::string quoted(const std::string &text);

/// Writes what the executors traced as Chrome JSON.
void writeTrace(Session &session, const std::string &path);

/// Gradients and loss after the last backward of a step (before the update), divided by the count.
struct StepGradients {
  double loss = 0;
  double divisor = 0; ///< of accumulated gradients: the step's count, times the scale of the loss
};
StepGradients readLossBeforeUpdate(Session &session);
/// One gradient, whole, divided by `count`.
void readGradient(Session &session, const NamedTensor &gradient, double count, char *whole);
/// Writes `loss` and every `grad.NAME`.
void writeGradients(Session &session, const NamedTensors &tensors, const std::string &path);

} // namespace psrt

#endif
