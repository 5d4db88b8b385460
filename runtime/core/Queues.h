// Finds the queues of a program and the peers of a rank in each.
#ifndef PSRT_CORE_QUEUES_H
#define PSRT_CORE_QUEUES_H

#include "runtime/core/Program.h"

namespace psrt {

/// A queue of asynchronous communication. Work in a queue completes in the order in which it was
/// started. Different queues are independent.
struct Queue {
  std::string name;
  std::vector<int>
      peers; ///< ranks that this rank communicates with in the queue, ascending; may be empty
};

/// Returns the queues that any rank uses, sorted by name. Every rank gets the same queues, each
/// with its own peers.
std::vector<Queue> findQueues(const Program &program, int rank);

} // namespace psrt

#endif
