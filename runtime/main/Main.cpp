// Defines main of a compiled program. Exit status: 0 success; 1 error in model or data; 2 error in
// the command line; 3 failure of a rank.
#include "runtime/core/NewFile.h"
#include "runtime/data/FolderLock.h"
#include "runtime/data/MappedFile.h"
#include "runtime/main/Launch.h"
#include "runtime/main/Parts.h"
#include "runtime/main/Signals.h"
#include "runtime/main/StandardOutput.h"
#include "runtime/session/CheckpointFolder.h"
#include "runtime/session/Source.h"
#include "shared/PrintableText.h"
#include <atomic>
#include <csignal>
#include <filesystem>
#include <optional>
#include <unistd.h>

namespace psrt {

/// Handles SIGBUS. Data and weights are mapped files; reading a page beyond the end of a truncated
/// file causes this signal.
static void reportLostPages(int) {
  static std::atomic_flag isReported = ATOMIC_FLAG_INIT; // several threads may read the same file
  while (isReported.test_and_set())
    pause();
  static const char text[] =
      "error: a file that this program reads (data or weights) was truncated during the run; start "
      "again with files that nothing else writes to\n";
  (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
  _exit(int(StatusCode::BadInput));
}

/// Fails if the processes of a job read different files, or do not share the folder of --save.
static void compareFiles(Session &session, const Flags &flags, const WeightFiles *weights,
                         const std::string &checkpoint) {
  checkSameInputs(session, flags, weights, checkpoint);
  if (!flags.save.empty() && !flags.check)
    checkSharedFolder(session, flags.save);
}

/// Returns the checkpoint to resume from, or "" for none.
static std::string findCheckpoint(const Flags &flags, bool isFirst) {
  if (flags.load.empty())
    return "";
  if (flags.load != "latest")
    return flags.load;
  if (flags.save.empty())
    PSRT_FAIL(BadArgument, "--load latest loads the last checkpoint of --save; give --save FOLDER");
  if (hasCheckpoint(flags.save))
    return flags.save;
  // A run that is killed during its first save, or an incomplete copy, can leave checkpoints
  // without the pointer "latest".
  std::string newest = findNewestCheckpoint(flags.save);
  if (!newest.empty() && isFirst)
    std::fprintf(stderr,
                 "note: \"%s\" has no pointer \"latest\"; loading the checkpoint that was "
                 "saved last\n",
                 flags.save.c_str());
  return newest;
}

static int runProgram(const ProgramSource &source, const Flags &flags, Job *job) {
  std::signal(SIGBUS, reportLostPages);
  SessionOptions options;
  options.ranks = flags.ranks;
  options.threads = flags.threads;
  options.seed = flags.seed;
  options.checkMemory = flags.checkMemory;
  options.job = job;
  options.watch = true;
  options.comm = flags.comm;
  checkTokenFlags(flags);
  std::optional<WeightFiles> weights;
  std::optional<Checkpoint> checkpoint;
  std::optional<FolderLock> lock; // taken before `latest` is read, so that no other run replaces it
  bool isFirst = !job || job->rank() == 0;
  if (!flags.save.empty() && !flags.check && isFirst)
    nameFlag("--save", [&] { lock.emplace(flags.save); });
  if (!flags.weights.empty() && !std::filesystem::is_directory(flags.weights))
    checkReadable("--weights", flags.weights);
  if (!flags.weights.empty())
    options.given = weights.emplace(flags.weights).names();
  if (std::string folder = findCheckpoint(flags, isFirst); !folder.empty())
    options.given = checkpoint.emplace(folder).names();
  std::string loaded = checkpoint ? checkpoint->getPath() : "";
  if (job) // before connections are opened, since their number depends on the program
    checkSameCommand(*job, source, flags, loaded);
  Session session(source, options);
  if (job)
    job->stopListening();
  compareFiles(session, flags, weights ? &*weights : nullptr, loaded);
  NamedTensors tensors(session.getProgram());
  if (checkpoint)
    resume(session, tensors, *checkpoint, flags);
  if (weights)
    for (const std::string &note : loadWeights(session, tensors, *weights))
      if (session.isFirst())
        std::fprintf(stderr, "note: %s\n", parashard::escapeControls(note).c_str());
  applySettings(session, flags);
  if (flags.check)
    return check(session, linkedCheckSource(), flags);
  RunState state{lock ? &*lock : nullptr, std::nullopt, {}, "", drawUniqueName()};
  if (checkpoint) {
    state.losses = checkpoint->getPosition().losses;
    state.loaded = checkpoint->listFiles();
    state.checkpoint = checkpoint->getPath();
    if (std::string run = checkpoint->getPosition().run; !run.empty())
      state.run = run;
  } else if (weights) {
    state.loaded = weights->listFiles();
  }
  train(session, tensors, flags, state);
  return 0;
}

/// Joins the job of this process. Returns null if all ranks are threads of this process.
static std::unique_ptr<ProcessJob> joinJob(const Flags &flags, const ProcessIdentity &identity,
                                           const Program &program, const std::string &command) {
  std::optional<Comm> comm =
      chooseProcessComm(identity, flags.comm, program.mesh.size(), program.target);
  if (!comm)
    return nullptr;
  checkRanks(program, flags.ranks);
  checkRanks(program, int(identity.size));
  return std::make_unique<ProcessJob>(identity, *comm, command);
}

static int run(const Flags &flags, const ProcessIdentity &identity) {
  bool first = identity.rank <= 0 || identity.rank >= identity.size;
  std::unique_ptr<ProcessJob> job;
  ProgramSource source = linkedSource();
  try {
    Program program = parseProgram({source.json, source.size});
    if (flags.version) {
      if (first)
        std::printf("Parashard %s, LLVM %s\n", program.version.c_str(), program.llvm.c_str());
      return 0;
    }
    if (flags.info) {
      if (first)
        printInfo(program);
      return 0;
    }
    job = joinJob(flags, identity, program, describeCommand(source, flags));
    if (!job)
      return runProgram(source, flags, nullptr);
  } catch (...) {
    return reportBeforeJob(currentStatus(), identity);
  }
  return runInJob(*job, [&] { return runProgram(source, flags, job.get()); });
}

static int runCommand(int argc, char **argv) {
  Flags flags;
  ProcessIdentity identity = findProcessIdentity();
  if (std::optional<int> status = parseFlags(argc, argv, identity.rank, flags))
    return *status;
  return run(flags, identity);
}

} // namespace psrt

int main(int argc, char **argv) {
  psrt::startSignalThread();
  psrt::prepareStandardOutput();
  int status = 0;
  try {
    status = psrt::runCommand(argc, argv);
  } catch (...) {
    status = psrt::reportFailure(psrt::currentStatus(), true);
  }
  return psrt::finishStandardOutput(status);
}
