// Signals that end a run: the first one lets the step in progress end, a second one does not wait.
#ifndef PSRT_MAIN_SIGNALS_H
#define PSRT_MAIN_SIGNALS_H

namespace psrt {

/// Starts a thread that takes the signals of the process: those that compute take none
/// (`SignalShield`), and a step may be long.
void startSignalThread();

/// From now on SIGTERM, SIGINT, SIGHUP and SIGUSR1 ask the run to stop. The second SIGTERM or
/// SIGINT ends the process by that signal, also where it hangs. Signals that the process was
/// started to ignore (nohup) stay ignored. `prints`: whether the first one is answered by a line on
/// stderr.
void listenForStop(bool prints);

/// Whether one of these signals has come.
bool isStopRequested();

} // namespace psrt

#endif
