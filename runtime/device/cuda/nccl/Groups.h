// Which ranks communicate with each other in a program, and a communicator for each such group.
#ifndef PSRT_DEVICE_CUDA_NCCL_GROUPS_H
#define PSRT_DEVICE_CUDA_NCCL_GROUPS_H

#include "runtime/core/Program.h"
#include "runtime/device/cuda/Gpu.h"
#include "runtime/device/cuda/nccl/Nccl.h"
#include <map>
#include <set>

namespace psrt::nccl {

/// Ranks that differ along these axes, or are at these pipeline coordinates; what is started in a
/// queue has communicators of its own, so that queues do not wait for one another.
struct GroupKey {
  std::string queue; ///< empty: what is not started, but done among the instructions
  bool overPipeline = false;
  std::vector<int64_t> along;
  auto operator<=>(const GroupKey &) const = default;

  static GroupKey of(const CollectiveOp &op);
  static GroupKey of(const MessageOp &op, int64_t stage);
  /// The ranks of `rank`'s group, in the order in which sums add them up; empty where it is in
  /// none.
  std::vector<int> members(const Mesh &mesh, int rank) const;
  /// "over dp,tp", "among pipeline coordinates 0,1"; with its queue where it has one.
  std::string text(const Mesh &mesh) const;
};

/// Groups of a mesh.
struct Groups {
  Mesh mesh;
  std::set<GroupKey> keys;
};

/// All groups of more than one rank in which a program communicates: the same for every rank.
Groups findGroups(const Program &program);

/// One rank's end of a group.
class Communicator {
public:
  Communicator(NcclRef library, ncclComm_t comm, std::string what)
      : library(std::move(library)), comm(comm), what(std::move(what)) {}
  ~Communicator();
  Communicator(const Communicator &) = delete;
  Communicator &operator=(const Communicator &) = delete;
  ncclComm_t get() const { return comm; }
  const Nccl &getLibrary() const { return *library; }
  /// Returns when what was called last is no longer under way on the host; fails when that takes
  /// too long, or when another rank is gone.
  void settle(const char *call) const;
  /// Tells NCCL of memory that will be communicated, which may then be faster; versions before 2.19
  /// do without.
  void announce(void *memory, size_t bytes);
  /// Fails when NCCL has noticed an error since.
  void checkHealth() const;
  /// Ends what is under way on the GPU; any thread may call it.
  void abort();

private:
  NcclRef library;
  ncclComm_t comm;
  std::string what;
  void *registration = nullptr;
  bool isAborted = false;
};

/// One rank's communicators.
class Communicators {
public:
  /// All ranks call it, with the same id and groups.
  Communicators(NcclRef library, const cuda::GpuRef &gpu, const ncclUniqueId &id,
                const Groups &groups, int rank);
  const Communicator &find(const GroupKey &key) const;
  /// Of memory that lasts longer than they do.
  void announce(void *memory, size_t bytes);
  void checkHealth() const;
  void abort();

private:
  NcclRef library;
  std::unique_ptr<Communicator> world;
  std::map<GroupKey, std::unique_ptr<Communicator>> groups;
};

} // namespace psrt::nccl

#endif
