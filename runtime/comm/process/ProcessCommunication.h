// Communication among ranks that are processes: one implementation of the collectives over any
// transport.
#ifndef PSRT_COMM_PROCESS_PROCESSCOMMUNICATION_H
#define PSRT_COMM_PROCESS_PROCESSCOMMUNICATION_H

#include "runtime/comm/process/Transport.h"
#include "runtime/core/Backend.h"

namespace psrt {

/// The transports and `watch` outlive it. `background` carries what is started and waited for
/// later; it may be null. `comm` names the backend in messages.
std::unique_ptr<Communication> makeProcessCommunication(const Mesh &mesh, Transport &transport,
                                                        Transport *background, Watch &watch,
                                                        const char *comm);

/// Returns when all ranks have called it.
void meetAll(Transport &transport, int rank, int size);

} // namespace psrt

#endif
