// Which queues a program has, and with whom a rank meets in each.
#ifndef PSRT_CORE_QUEUES_H
#define PSRT_CORE_QUEUES_H

#include "runtime/core/Program.h"

namespace psrt {

/// What is started in a queue is over in the order of the starts; queues do not wait for one
/// another.
struct Queue {
  std::string name;
  std::vector<int> peers; ///< whom this rank meets in it, ascending; none: it has no part in it
};

/// All queues in which something is started, by name: the same list for every rank but for the
/// peers.
std::vector<Queue> findQueues(const Program &program, int rank);

} // namespace psrt

#endif
