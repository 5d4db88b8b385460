// Chooses how ranks communicate, and reports failures to the job.
#include "runtime/main/Launch.h"
#include <cstdio>
#include <filesystem>
#include <unistd.h>

namespace psrt {

std::optional<Comm> chooseProcessComm(const ProcessIdentity &identity, std::optional<Comm> given,
                                      int64_t ranks, const Target &target) {
  if (given == Comm::Nccl && target.device != DeviceKind::Cuda)
    PSRT_FAIL(BadArgument,
              "--comm nccl needs GPUs, and the program is compiled for \"%s\"; omit the flag, or "
              "compile with --target cuda:sm_90",
              target.text.c_str());
  bool isGiven = given && given != Comm::Nccl; // nccl connects processes through mpi or tcp
  Comm comm = isGiven ? *given : findComm(identity);
  std::string name = "./";
  name += std::filesystem::read_symlink("/proc/self/exe").filename();
  if (comm == Comm::Local) {
    // Each process would train the whole model and overwrite the files of the other processes.
    if (identity.size > 1)
      PSRT_FAIL(
          BadArgument,
          "started as one of %lld processes (%s) with --comm local; start one process: %s --ranks "
          "%lld, or omit --comm",
          (long long)identity.size, identity.variable.c_str(), name.c_str(), (long long)ranks);
    return std::nullopt;
  }
  if (identity.size == 1 && ranks == 1)
    return std::nullopt;
  if (identity.size == 1)
    PSRT_FAIL(BadArgument,
              "--comm %s needs one process per rank, and there is only one process; start with %s",
              nameOf(comm),
              format(comm == Comm::Mpi ? "mpirun -n %lld %s"
                                       : "torchrun --nproc-per-node %lld --no-python -- %s",
                     (long long)ranks, name.c_str())
                  .c_str());
  return comm;
}

int reportFailure(const Status &status, bool prints) {
  std::fflush(stdout);
  if (prints)
    std::fprintf(stderr, "error: %s\n", status.text().c_str());
  std::fflush(stderr);
  return int(status.code);
}

Status currentStatus() {
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

int reportBeforeJob(Status status, const ProcessIdentity &identity) {
  if (identity.rank > 0 && identity.rank < identity.size)
    status.message = format("rank %lld: ", (long long)identity.rank) + status.message;
  return reportFailure(status, true);
}

int runInJob(ProcessJob &job, const std::function<int()> &body) {
  job.setLastResort([](const Status &status) { _exit(reportFailure(status, true)); });
  try {
    int result = body();
    job.leave();
    return result;
  } catch (...) {
    Status status = currentStatus();
    int result = reportFailure(status, job.fail(status));
    _exit(result); // MPI must not be finalized: MPI_Finalize would wait for ranks that are gone
  }
}

} // namespace psrt
