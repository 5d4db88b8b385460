// Finds the groups of ranks that communicate in a program and creates a communicator for each.
#ifndef PSRT_DEVICE_CUDA_NCCL_GROUPS_H
#define PSRT_DEVICE_CUDA_NCCL_GROUPS_H

#include "runtime/core/Program.h"
#include "runtime/device/cuda/Gpu.h"
#include "runtime/device/cuda/nccl/Nccl.h"
#include <map>
#include <set>

namespace psrt::nccl {

/// Identifies groups of ranks. The ranks of a group differ only along the given mesh axes, or only
/// in their pipeline coordinate, which is one of the given coordinates. Each queue of asynchronous
/// operations has its own communicators, so that queues do not wait for each other.
struct GroupKey {
  std::string queue; ///< empty for synchronous operations
  bool overPipeline = false;
  /// Mesh axes, or pipeline coordinates if `overPipeline` is set.
  std::vector<int64_t> along;
  auto operator<=>(const GroupKey &) const = default;

  static GroupKey of(const CollectiveOp &op);
  /// Returns the group of a message's sender and receiver. `coordinate` is the pipeline coordinate
  /// of the rank that runs the instruction.
  static GroupKey of(const MessageOp &op, int64_t coordinate);
  /// Returns the ranks of `rank`'s group, in the order of their indices in the communicator.
  /// Returns an empty vector if the rank is in none of these groups.
  std::vector<int> members(const Mesh &mesh, int rank) const;
  /// Returns the group as text, e.g. "over dp,tp" or "among pipeline coordinates 0,1, queue all".
  std::string text(const Mesh &mesh) const;
};

/// The groups in which a program communicates.
struct Groups {
  Mesh mesh;
  std::set<GroupKey> keys;
};

/// Returns all groups of more than one rank that a program communicates in. The result is the same
/// on every rank.
Groups findGroups(const Program &program);

/// One rank's NCCL communicator of a group.
class Communicator {
public:
  Communicator(NcclRef library, ncclComm_t comm, std::string name)
      : library(std::move(library)), comm(comm), name(std::move(name)) {}
  ~Communicator();
  Communicator(const Communicator &) = delete;
  Communicator &operator=(const Communicator &) = delete;
  ncclComm_t get() const { return comm; }
  const Nccl &getLibrary() const { return *library; }
  /// Waits until NCCL has finished the host part of the last call. Fails if this takes too long, or
  /// if another rank is lost. `call` names the call in messages.
  void settle(const char *call) const;
  /// Registers memory with NCCL, which may speed up communication from this memory. Does nothing
  /// with NCCL before 2.19.
  void registerMemory(void *memory, size_t bytes);
  /// Fails if NCCL has reported an asynchronous error.
  void checkHealth() const;
  /// Aborts running operations. Any thread may call this function.
  void abort();

private:
  NcclRef library;
  ncclComm_t comm;
  std::string name;
  void *registration = nullptr;
  bool isAborted = false;
};

/// All communicators of one rank.
class Communicators {
public:
  /// Creates the communicators. All ranks must call the constructor with the same id and groups.
  Communicators(NcclRef library, const cuda::GpuRef &gpu, const ncclUniqueId &id,
                const Groups &groups, int rank);
  const Communicator &find(const GroupKey &key) const;
  /// Registers memory that outlives the communicators.
  void registerMemory(void *memory, size_t bytes);
  void checkHealth() const;
  void abort();

private:
  NcclRef library;
  std::unique_ptr<Communicator> world;
  std::map<GroupKey, std::unique_ptr<Communicator>> groups;
};

} // namespace psrt::nccl

#endif
