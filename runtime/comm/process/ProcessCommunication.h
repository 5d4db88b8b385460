// Implements communication among ranks in separate processes, over any transport.
#ifndef PSRT_COMM_PROCESS_PROCESSCOMMUNICATION_H
#define PSRT_COMM_PROCESS_PROCESSCOMMUNICATION_H

#include "runtime/comm/process/Transport.h"
#include "runtime/core/Backend.h"
#include <map>

namespace psrt {

/// The channels of the queues, by name.
using QueueChannels = std::map<std::string, std::unique_ptr<Transport>>;

/// Creates a Communication; `transport` and `monitor` must outlive it. Asynchronous operations use
/// the channel of their queue. A collective whose queue has no channel runs synchronously. `comm`
/// is the name of the backend for messages.
std::unique_ptr<Communication> makeProcessCommunication(const Mesh &mesh, Transport &transport,
                                                        QueueChannels channels,
                                                        HeartbeatMonitor &monitor,
                                                        const char *comm);

/// Waits until all ranks have called this function (a barrier).
void runBarrier(Transport &transport, int rank, int size);

} // namespace psrt

#endif
