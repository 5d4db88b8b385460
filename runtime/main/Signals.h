// Handles signals that stop a run: the first finishes the step in progress, a second one stops at
// once.
#ifndef PSRT_MAIN_SIGNALS_H
#define PSRT_MAIN_SIGNALS_H

namespace psrt {

/// Starts a thread that receives the signals of the process. Compute threads block signals
/// (`SignalShield`), and a step may be long.
void startSignalThread();

/// Makes SIGTERM, SIGINT, SIGHUP and SIGUSR1 ask the run to stop. A second SIGTERM or SIGINT ends
/// the process by that signal, even if the process hangs. Signals that the process was started to
/// ignore (nohup) stay ignored. `prints` tells whether the first signal prints a line on stderr.
void listenForStop(bool prints);

/// Returns whether one of these signals was received.
bool isStopRequested();

} // namespace psrt

#endif
