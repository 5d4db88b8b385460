// Defines main of a compiled program. Exit status: 0 success; 1 error in model or data; 2 error in
// the command line; 3 failure of a rank.
#include "runtime/comm/process/ProcessJob.h"
#include "runtime/core/NewFile.h"
#include "runtime/data/FolderLock.h"
#include "runtime/main/Parts.h"
#include "runtime/main/Signals.h"
#include "runtime/main/StandardOutput.h"
#include "runtime/session/CheckpointFolder.h"
#include "runtime/session/Source.h"
#include "shared/PrintableText.h"
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <unistd.h>

namespace psrt {

/// Returns the communication backend: that of --comm, or the one for the launcher.
static Comm chooseComm(const Flags &flags, const ProcessIdentity &identity) {
  if (flags.comm && flags.comm != Comm::Nccl) // nccl connects processes through mpi or tcp
    return *flags.comm;
  bool pmi = std::getenv("PMI_RANK") || std::getenv("PMIX_RANK");
  switch (identity.launcher) {
  case ProcessIdentity::None:
    return Comm::Local;
  case ProcessIdentity::Mpi:
    return Comm::Mpi;
  case ProcessIdentity::Torchrun:
    return Comm::Tcp;
  case ProcessIdentity::Slurm:
    return pmi ? Comm::Mpi : Comm::Tcp;
  }
  return Comm::Local;
}

/// Joins the job of this process. Returns null if all ranks are threads of this process.
static std::unique_ptr<ProcessJob> joinJob(const Flags &flags, const ProcessIdentity &identity,
                                           const Program &program, const std::string &command) {
  if (flags.comm == Comm::Nccl && program.target.device != DeviceKind::Cuda)
    PSRT_FAIL(BadArgument,
              "--comm nccl needs GPUs, and the program is compiled for \"%s\"; omit the flag, or "
              "compile with --target cuda:sm_90",
              program.target.text.c_str());
  Comm comm = chooseComm(flags, identity);
  std::string name = "./";
  name += std::filesystem::read_symlink("/proc/self/exe").filename();
  long long ranks = program.mesh.size();
  if (comm == Comm::Local) {
    // Each process would train the whole model and overwrite the files of the other processes.
    if (identity.size > 1)
      PSRT_FAIL(
          BadArgument,
          "started as one of %lld processes (%s) with --comm local; start one process: %s --ranks "
          "%lld, or omit --comm",
          (long long)identity.size, identity.variable.c_str(), name.c_str(), ranks);
    return nullptr;
  }
  if (identity.size == 1 && ranks == 1)
    return nullptr;
  if (identity.size == 1)
    PSRT_FAIL(BadArgument,
              "--comm %s needs one process per rank, and there is only one process; start with %s",
              nameOf(comm),
              format(comm == Comm::Mpi ? "mpirun -n %lld %s"
                                       : "torchrun --nproc-per-node %lld --no-python -- %s",
                     ranks, name.c_str())
                  .c_str());
  checkRanks(program, flags.ranks);
  checkRanks(program, int(identity.size));
  return std::make_unique<ProcessJob>(identity, comm, command);
}

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
    PSRT_FAIL(BadArgument, "--load latest is the last checkpoint of --save; give --save FOLDER");
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

static int report(const Status &status, bool prints) {
  std::fflush(stdout);
  if (prints)
    std::fprintf(stderr, "error: %s\n", status.text().c_str());
  std::fflush(stderr);
  return int(status.code);
}

static Status currentStatus() {
  try {
    throw;
  } catch (const Error &error) {
    return error.status;
  } catch (const std::filesystem::filesystem_error &error) {
    Status status;
    status.code = StatusCode::BadInput;
    status.message = "cannot use \"" + error.path1().string() + "\": " + error.code().message();
    return status;
  } catch (const std::exception &error) {
    Status status;
    status.code = StatusCode::Failed;
    status.message = error.what();
    return status;
  }
}

/// Runs as one rank of a job. A failure of this rank ends the whole job.
static int runInJob(const ProgramSource &source, const Flags &flags, ProcessJob &job) {
  job.setLastResort([](const Status &status) { _exit(report(status, true)); });
  try {
    int result = runProgram(source, flags, &job);
    job.leave();
    return result;
  } catch (...) {
    Status status = currentStatus();
    int result = report(status, job.fail(status));
    _exit(result); // MPI must not be finalized: MPI_Finalize would wait for ranks that are gone
  }
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
    // This process has not joined the job, so every process prints its own error: flags or
    // environment may differ between hosts.
    Status status = currentStatus();
    if (!first)
      status.message = format("rank %lld: ", (long long)identity.rank) + status.message;
    return report(status, true);
  }
  return runInJob(source, flags, *job);
}

} // namespace psrt

int main(int argc, char **argv) {
  psrt::startSignalThread();
  psrt::prepareStandardOutput();
  psrt::Flags flags;
  psrt::ProcessIdentity identity;
  try {
    identity = psrt::findProcessIdentity();
  } catch (...) {
    return psrt::report(psrt::currentStatus(), true);
  }
  if (std::optional<int> status = psrt::parseFlags(argc, argv, identity.rank, flags))
    return psrt::finishStandardOutput(*status);
  return psrt::finishStandardOutput(psrt::run(flags, identity));
}
