// Handles errors of standard output: a closed pipe does not end a run, any other failed write is an
// error.
#ifndef PSRT_MAIN_STANDARDOUTPUT_H
#define PSRT_MAIN_STANDARDOUTPUT_H

#include <string>

namespace psrt {

/// Opens /dev/null for each standard descriptor that is closed, so that no file of the run takes
/// its number. Makes writes to closed pipes and beyond file-size limits fail instead of killing the
/// process.
void prepareStandardOutput();

/// Writes text and flushes. On failure, prints a message on stderr and returns false.
bool writeStandardOutput(const std::string &text);

/// Returns the exit status of a program that would end with `status`. If some output could not be
/// written, prints an error and turns 0 into 1. A closed pipe is not an error.
int finishStandardOutput(int status);

} // namespace psrt

#endif
