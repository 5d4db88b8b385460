// Implements communication among ranks in separate processes: the collectives over any transport.
#ifndef PSRT_COMM_PROCESS_PROCESSCOMMUNICATION_H
#define PSRT_COMM_PROCESS_PROCESSCOMMUNICATION_H

#include "runtime/comm/process/Transport.h"
#include "runtime/core/Backend.h"
#include <map>

namespace psrt {

/// The channels of the queues, by name.
using QueueChannels = std::map<std::string, std::unique_ptr<Transport>>;

/// Makes the communication; `transport` and `monitor` must outlive it. Asynchronous operations use
/// their queue's channel. A collective whose queue has no channel runs synchronously. `comm` names
/// the backend in messages.
std::unique_ptr<Communication> makeProcessCommunication(const Mesh &mesh, Transport &transport,
                                                        QueueChannels channels,
                                                        HeartbeatMonitor &monitor,
                                                        const char *comm);

/// Waits until all ranks have called it.
void meetAll(Transport &transport, int rank, int size);

} // namespace psrt

#endif
