// Finds the queues of a program and the peers of a rank in each.
#ifndef PSRT_CORE_QUEUES_H
#define PSRT_CORE_QUEUES_H

#include "runtime/core/Program.h"

namespace psrt {

/// A queue of asynchronous communication. Work in a queue finishes in the order of its starts;
/// queues are independent of each other.
struct Queue {
  std::string name;
  std::vector<int>
      peers; ///< ranks that this rank meets in the queue, ascending; empty: not a member
};

/// Returns all queues with work, by name. The list is the same on every rank except for the peers.
std::vector<Queue> findQueues(const Program &program, int rank);

} // namespace psrt

#endif
