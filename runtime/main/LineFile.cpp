// Writes text files line by line, and flushes each line.
#include "runtime/main/LineFile.h"
#include "runtime/core/Status.h"
#include "runtime/data/MappedFile.h"
#include <nlohmann/json.hpp>
#include <sys/stat.h>

namespace psrt {

LineFile::LineFile(std::string path, Keep keep) : path(std::move(path)), keep(std::move(keep)) {}

void LineFile::open() {
  struct stat info;
  bool isThere = stat(path.c_str(), &info) == 0;
  isKept = !isThere || (S_ISREG(info.st_mode) && !isOwnStream(path));
  std::string kept;
  if (isThere && isKept && keep) {
    MappedFile earlier(path);
    kept = keep({earlier.data(), earlier.size()});
  }
  // Replaces the existing file only after the new file contains the lines to keep.
  file.emplace(path, OutputFile::Takes::Devices);
  add(kept);
  file->publish();
}

void LineFile::add(std::string_view text) {
  file->write(text.data(), text.size());
  counter.add(text);
}

/// Calls `body`, unless an earlier write failed. Stores the error of `body`.
template <typename Body> void LineFile::keepFailure(Body &&body) {
  if (path.empty() || !failure.empty())
    return;
  try {
    body();
  } catch (const Error &error) {
    failure = error.status.message;
  }
}

void LineFile::begin() {
  if (!file)
    keepFailure([&] { open(); });
}

void LineFile::write(const std::string &line) {
  begin();
  keepFailure([&] {
    add(line + "\n");
    file->flush();
  });
}

void LineFile::finish() {
  struct stat info;
  if (!file && stat(path.c_str(), &info) != 0)
    keepFailure([&] { open(); });
}

void LineFile::sync() {
  if (file)
    keepFailure([&] { file->sync(); });
}

std::optional<LineMark> LineFile::mark() const {
  if (!file || !isKept || !failure.empty())
    return std::nullopt;
  return counter.mark();
}

//===--- lines of an earlier run ------------------------------------------===//

/// Calls `body(line, isWhole)` for each line, without its newline. `isWhole` is false for a last
/// line without a newline.
template <typename Body> static void forEachLine(std::string_view text, Body &&body) {
  while (!text.empty()) {
    size_t end = text.find('\n');
    bool isWhole = end != std::string_view::npos;
    body(text.substr(0, end), isWhole);
    text.remove_prefix(isWhole ? end + 1 : text.size());
  }
}

std::string keepLogLines(std::string_view text, int64_t step, int64_t every) {
  std::string kept;
  // Offset in `kept` of the last line, if an earlier run wrote the line only because the run ended
  // there.
  size_t lastAt = std::string::npos;
  forEachLine(text, [&](std::string_view line, bool isWhole) {
    auto json = nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
    bool hasStep = json.is_object() && json.contains("step") && json["step"].is_number_integer();
    int64_t at = hasStep ? json["step"].get<int64_t>() : 0;
    if (hasStep ? at >= step : !isWhole)
      return;
    bool isDue = !hasStep || (at + 1) % every == 0 || json.contains("eval_loss");
    lastAt = isDue ? std::string::npos : kept.size();
    kept.append(line).append("\n");
  });
  return kept.substr(0, lastAt);
}

/// Returns the first `count` complete lines.
static std::string_view takeLines(std::string_view text, int64_t count) {
  size_t end = 0;
  for (size_t next; count > 0 && (next = text.find('\n', end)) != std::string_view::npos; --count)
    end = next + 1;
  return text.substr(0, end);
}

std::string keepLossLines(std::string_view text, int64_t step,
                          const std::optional<LineMark> &mark) {
  if (mark) {
    std::string_view lines = takeLines(text, mark->lines);
    LineCounter counter;
    counter.add(lines);
    if (counter.mark() == *mark)
      return std::string(lines);
  }
  return std::string(takeLines(text, step));
}

} // namespace psrt
