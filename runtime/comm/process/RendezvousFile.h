// Describes where rank 0 listens. Rank 0 shares the description with the other processes through
// MPI or a file.
#ifndef PSRT_COMM_PROCESS_RENDEZVOUSFILE_H
#define PSRT_COMM_PROCESS_RENDEZVOUSFILE_H

#include "runtime/bootstrap/Rendezvous.h"
#include <optional>
#include <string>

namespace psrt {

/// The address of rank 0 and the job's secret. Sent as raw bytes.
struct RendezvousInfo {
  uint64_t job = 0; ///< random id of the job
  JobKey secret;    ///< drawn by rank 0
  uint16_t port = 0;
  char addresses[14][46] = {}; ///< numeric addresses of rank 0's host; unused ones are empty

  std::vector<Candidate> candidates() const;
  /// Returns the job's key, derived from the secret and from PSRT_JOB_SECRET if set.
  JobKey key() const;
  /// Returns the addresses and the port, for messages.
  std::string describe() const;
};

/// Returns the addresses of this process, which is rank 0, with a new job id and secret.
RendezvousInfo makeRendezvousInfo(const Socket &listener);

/// Reads a rendezvous file. Returns nullopt if the file cannot be opened. Throws BadArgument if it
/// is another kind of file, or if it belongs to a user other than this user and root.
std::optional<RendezvousInfo> readRendezvousFile(const std::string &path);

/// A rendezvous file, which exists until all processes have connected. Only this user may read the
/// file, as it contains the job's secret. The file of an earlier job is replaced.
class RendezvousFile {
public:
  /// Writes the file. Throws BadArgument if `path` is another kind of file, or the rendezvous file
  /// of a job that is still connecting. Throws BadInput if the file cannot be written.
  RendezvousFile(const std::string &path, const RendezvousInfo &info);
  /// Removes the file, unless another job has replaced it.
  ~RendezvousFile();
  RendezvousFile(const RendezvousFile &) = delete;

private:
  std::string path;
  uint64_t job;
};

} // namespace psrt

#endif
