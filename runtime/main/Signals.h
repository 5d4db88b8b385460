// Handles signals that stop a run. After the first signal, the run finishes the current step, and
// saves if `--save` is given. A second SIGTERM or SIGINT ends the process at once.
#ifndef PSRT_MAIN_SIGNALS_H
#define PSRT_MAIN_SIGNALS_H

namespace psrt {

/// Starts a thread that receives the signals of the process. Compute threads block signals
/// (`SignalShield`), so without this thread a signal would be handled only between two steps.
void startSignalThread();

/// Installs handlers: SIGTERM, SIGINT, SIGHUP and SIGUSR1 request a stop. A second SIGTERM or
/// SIGINT ends the process by this signal, even if the process hangs. Signals that are ignored at
/// the start (nohup) stay ignored. With `prints`, the first signal prints a note on stderr.
void listenForStop(bool prints);

/// Returns whether a signal has requested a stop.
bool isStopRequested();

} // namespace psrt

#endif
