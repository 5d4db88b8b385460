// What becomes of standard output: a closed pipe loses no run, any other failed write is an error.
#ifndef PSRT_MAIN_STANDARDOUTPUT_H
#define PSRT_MAIN_STANDARDOUTPUT_H

#include <string>

namespace psrt {

/// Opens /dev/null for each of the three standard descriptors that is closed, so that no file of
/// the run takes its number; makes writes to closed pipes and beyond limits fail instead of
/// killing.
void prepareStandardOutput();

/// Writes text at once. Where that fails, says so on stderr and returns false.
bool writeStandardOutput(const std::string &text);

/// The exit status of a program that would end with `status`: 1 instead of 0, and a line on stderr,
/// where something could not be written. A closed pipe is no error.
int finishStandardOutput(int status);

} // namespace psrt

#endif
