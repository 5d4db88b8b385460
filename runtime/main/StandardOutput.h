// Handles failed writes to standard output. After a closed pipe, the run continues without output.
// Any other failure makes the exit status nonzero.
#ifndef PSRT_MAIN_STANDARDOUTPUT_H
#define PSRT_MAIN_STANDARDOUTPUT_H

#include <string>

namespace psrt {

/// Opens /dev/null for each closed standard descriptor, so that a later file does not get its
/// number. Ignores SIGPIPE and SIGXFSZ, so that a write to a closed pipe or beyond a file-size
/// limit fails instead of killing the process.
void prepareStandardOutput();

/// Writes text and flushes. On failure, prints a message on stderr and returns false.
bool writeStandardOutput(const std::string &text);

/// Returns the exit status of a program: `status`, or 1 if `status` is 0 and output could not be
/// written. Prints an error in this case. A closed pipe is not an error.
int finishStandardOutput(int status);

} // namespace psrt

#endif
