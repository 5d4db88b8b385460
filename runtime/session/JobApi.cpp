// Implements the functions of the C API that join and leave a job.
#include "runtime/session/JobApi.h"
#include "runtime/session/SameCall.h"
#include <algorithm>
#include <unistd.h>

using namespace psrt;

/// This process in its job.
struct psrt_job {
  pid_t process = getpid();
  std::string error;
  ProcessIdentity identity;
  bool joined = false;
  std::shared_ptr<ProcessJob> job; ///< shared with the programs of the job; null if alone
};

namespace {

/// Calls body() as `guard` does. Fails in a process that was forked from the one that joined.
template <typename Body> psrt_status guarded(psrt_job *job, Body &&body) {
  if (!job)
    return PSRT_BAD_ARGUMENT;
  return guard(job->error, [&] {
    if (job->process != getpid())
      PSRT_FAIL(Failed,
                "process %lld joined the job; this process, %lld, was forked from it; join the job "
                "after fork",
                (long long)job->process, (long long)getpid());
    body();
  });
}

/// Returns how the processes communicate: as the caller demands, or else as the launcher needs.
Comm chooseComm(const char *given, const ProcessIdentity &identity) {
  if (!given)
    return findComm(identity);
  std::optional<Comm> comm = findName<Comm>(given);
  if (comm != Comm::Mpi && comm != Comm::Tcp)
    PSRT_FAIL(BadArgument, "comm is \"%s\"; expected \"mpi\", \"tcp\" or NULL", given);
  return *comm;
}

void join(psrt_job &job, const psrt_job_options *given) {
  psrt_job_options options = {};
  options.size = sizeof(options);
  if (given)
    options = *given;
  if (options.size != sizeof(psrt_job_options))
    PSRT_FAIL(BadArgument,
              "psrt_job_options.size is %zu, expected %zu; set it to sizeof(psrt_job_options)",
              options.size, sizeof(psrt_job_options));
  job.identity = findProcessIdentity();
  Comm comm = chooseComm(options.comm, job.identity);
  if (job.identity.size > 1)
    job.job =
        std::make_shared<ProcessJob>(job.identity, comm, options.command ? options.command : "");
  if (job.job && options.exit_after_failure)
    job.job->setLastResort([](const Status &status) { _exit(int(status.code)); });
  job.joined = true;
}

} // namespace

std::shared_ptr<ProcessJob> psrt::findJob(const psrt_job *job) {
  if (!job)
    return nullptr;
  if (!job->joined)
    PSRT_FAIL(BadArgument, "this process has not joined the job, or has left it");
  return job->job;
}

extern "C" {

psrt_status psrt_join(const psrt_job_options *options, psrt_job **job) {
  if (!job)
    return PSRT_BAD_ARGUMENT;
  *job = new psrt_job;
  return guarded(*job, [&] { join(**job, options); });
}

int32_t psrt_job_rank(const psrt_job *job) { return job && job->job ? job->job->rank() : 0; }

int32_t psrt_job_size(const psrt_job *job) { return job && job->job ? job->job->size() : 1; }

psrt_status psrt_barrier(psrt_job *job, const char *purpose) {
  return guarded(job, [&] {
    if (std::shared_ptr<ProcessJob> found = findJob(job))
      checkSameCall(*found, {format("waits at the barrier \"%s\"", purpose ? purpose : "")},
                    std::nullopt);
  });
}

psrt_status psrt_broadcast(psrt_job *job, void *data, size_t bytes) {
  return guarded(job, [&] {
    std::shared_ptr<ProcessJob> found = findJob(job);
    if (!found)
      return;
    std::optional<Status> problem;
    if (!data && bytes > 0)
      problem = Status{StatusCode::BadArgument, "data is NULL"};
    checkSameCall(*found, {format("broadcasts %zu bytes", bytes)}, problem);
    std::string shared = found->broadcast({static_cast<char *>(data), bytes});
    std::copy(shared.begin(), shared.end(), static_cast<char *>(data));
  });
}

psrt_status psrt_leave(psrt_job *job) {
  return guarded(job, [&] {
    std::shared_ptr<ProcessJob> found = findJob(job);
    job->joined = false;
    if (!found)
      return;
    checkSameCall(*found, {"leaves the job"}, std::nullopt);
    found->leave();
  });
}

psrt_status psrt_fail(psrt_job *job, const char *message) {
  return guarded(job, [&] {
    if (std::shared_ptr<ProcessJob> found = findJob(job)) {
      Status status;
      status.code = StatusCode::Failed;
      status.message = message ? message : "unknown reason";
      found->fail(status);
    }
  });
}

int32_t psrt_job_failed_rank(const psrt_job *job, int32_t *reported) {
  std::optional<JobFailure> failure =
      job && job->job ? job->job->findFailure() : std::optional<JobFailure>();
  if (reported)
    *reported = failure && failure->reported;
  return failure ? failure->rank : -1;
}

const char *psrt_job_error(const psrt_job *job) { return job ? job->error.c_str() : "no job"; }

void psrt_close_job(psrt_job *job) { delete job; }

} // extern "C"
