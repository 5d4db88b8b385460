// Communication among ranks that are processes: one implementation of the collectives over any
// transport.
#ifndef PSRT_COMM_PROCESS_PROCESSCOMMUNICATION_H
#define PSRT_COMM_PROCESS_PROCESSCOMMUNICATION_H

#include "runtime/comm/process/Transport.h"
#include "runtime/core/Backend.h"
#include <map>

namespace psrt {

/// Channels of queues, by name.
using QueueChannels = std::map<std::string, std::unique_ptr<Transport>>;

/// `transport` and `monitor` outlive it. What is started goes through its queue's channel; a
/// collective whose queue has none is over when it is started. `comm` names the backend in
/// messages.
std::unique_ptr<Communication> makeProcessCommunication(const Mesh &mesh, Transport &transport,
                                                        QueueChannels channels, HeartbeatMonitor &monitor,
                                                        const char *comm);

/// Returns when all ranks have called it.
void meetAll(Transport &transport, int rank, int size);

} // namespace psrt

#endif
