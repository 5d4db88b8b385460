// Text files that are written line by line, and go on where an earlier run has left them.
#ifndef PSRT_MAIN_LINEFILE_H
#define PSRT_MAIN_LINEFILE_H

#include "runtime/data/OutputFile.h"
#include "runtime/session/Checkpoint.h"
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace psrt {

/// Flushed by line, so that it can be followed. The file is created when the first line is written:
/// a run that fails before, or has nothing to write, leaves what is there as it is. Where it cannot
/// be written, the failure is kept and nothing more is written: the run saves before it ends.
class LineFile {
public:
  /// Returns the lines of an earlier run that stay, given the text of the file that is there.
  using Keep = std::function<std::string(std::string_view text)>;
  /// Without a path, nothing is written. Without `keep`, no line of an earlier run stays.
  explicit LineFile(std::string path, Keep keep = {});
  void write(const std::string &line);
  /// At the end of a run: makes an empty file where there is none.
  void finish();
  /// All lines are on the disk, if nothing failed.
  void sync();
  /// Returns why the file cannot be written; empty: it can.
  const std::string &getFailure() const { return failure; }
  /// Returns how many lines the file has, and their sum; nothing where this run has written none,
  /// and for a device or a pipe.
  std::optional<LineMark> mark() const;

private:
  template <typename Body> void keepFailure(Body &&body);
  void open();
  void add(std::string_view text);

  std::string path;
  Keep keep;
  std::optional<OutputFile> file;
  bool isKept = false; ///< a regular file, whose lines a later run can go on from
  LineCounter counter;
  std::string failure;
};

/// Returns the lines of a log (a JSON object a line) but those of `step` and later steps, and but a
/// last line that was cut short.
std::string keepLogLines(std::string_view text, int64_t step);

/// Returns the lines of a file of losses up to `step`, which has a loss a line. `mark`: the lines
/// that the file had when the checkpoint was saved. A file that does not begin with them is taken
/// to begin at step 0; one that is shorter stays whole.
std::string keepLossLines(std::string_view text, int64_t step, const std::optional<LineMark> &mark);

} // namespace psrt

#endif
