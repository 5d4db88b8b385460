// Where rank 0 listens, as it tells the other processes of a job: through MPI, or by a file.
#ifndef PSRT_COMM_PROCESS_RENDEZVOUSFILE_H
#define PSRT_COMM_PROCESS_RENDEZVOUSFILE_H

#include "runtime/bootstrap/Rendezvous.h"
#include <optional>
#include <string>

namespace psrt {

/// Sent as it lies in memory.
struct RendezvousInfo {
  uint64_t job = 0; ///< by chance: no other job has it
  JobKey secret;    ///< drawn by rank 0
  uint16_t port = 0;
  char addresses[14][46] = {}; ///< of rank 0's host, those that are not there empty

  std::vector<Candidate> candidates() const;
  /// The job's key: of the secret, and of PSRT_JOB_SECRET where it is set.
  JobKey key() const;
  /// For messages: the addresses and the port.
  std::string describe() const;
};

RendezvousInfo makeRendezvousInfo(const Socket &listener);

/// What a file of a job says; nothing where it is not there.
/// \throws BadArgument where it is something else, which nobody wants replaced, or where another
/// user may have written it.
std::optional<RendezvousInfo> readRendezvousFile(const std::string &path);

/// A info in a file, for as long as processes look for it. Only this user may read the file: it
/// has the job's secret. A file that an earlier job has left is replaced.
class RendezvousFile {
public:
  /// \throws BadArgument where the file is not a info, or belongs to a job whose ranks are
  /// meeting now; BadInput where it cannot be written.
  RendezvousFile(const std::string &path, const RendezvousInfo &info);
  /// Takes the file away, unless another job has replaced it.
  ~RendezvousFile();
  RendezvousFile(const RendezvousFile &) = delete;

private:
  std::string path;
  uint64_t job;
};

} // namespace psrt

#endif
