// The schedules, and what every schedule must hold.
#include "lib/Schedules/PipelineSchedule.h"
#include "lib/Support/JsonDocument.h"
#include "shared/NearestNames.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include <algorithm>
#include <cmath>
#include <optional>

using namespace llvm;

namespace parashard::schedules {
namespace {

Error fail(const Twine &message) { return createStringError(inconvertibleErrorCode(), message); }

//===----------------------------------------------------------------------===//
// Forwards and backwards in turn: gpipe, 1f1b, interleaved
//===----------------------------------------------------------------------===//

/// The end of the round of micro-batches that begins with `first`: as many as there are ranks, for
/// by then the first of them has been through the other ranks. The last round has what remains too,
/// since a shorter one would wait for itself.
int64_t getEndOfRound(const ScheduleSize &size, int64_t first) {
  bool isLast = size.microBatches - first < 2 * size.ranks;
  return isLast ? size.microBatches : first + size.ranks;
}

/// One phase of all micro-batches on all chunks of a rank, which take turns in each round.
std::vector<Task> orderByRounds(const ScheduleSize &size, Work work) {
  std::vector<Task> tasks;
  for (int64_t first = 0, end; first < size.microBatches; first = end) {
    end = getEndOfRound(size, first);
    for (int64_t turn = 0; turn < size.chunks; ++turn)
      for (int64_t m = first; m < end; ++m)
        tasks.push_back({work, work == Work::Forward ? turn : size.chunks - 1 - turn, m});
  }
  return tasks;
}

/// `ahead` forwards, then a forward and a backward in turn, then the backwards that remain.
std::vector<Task> alternate(ArrayRef<Task> forwards, ArrayRef<Task> backwards, int64_t ahead) {
  std::vector<Task> row;
  size_t next = std::min<size_t>(ahead, forwards.size());
  append_range(row, forwards.take_front(next));
  for (const Task &backward : backwards) {
    if (next < forwards.size())
      row.push_back(forwards[next++]);
    row.push_back(backward);
  }
  return row;
}

PipelineSchedule makeAlternating(const ScheduleSize &size,
                          function_ref<int64_t(int64_t rank)> forwardsAhead) {
  PipelineSchedule table;
  for (int64_t rank = 0; rank < size.ranks; ++rank)
    table.rows.push_back(alternate(orderByRounds(size, Work::Forward),
                                   orderByRounds(size, Work::Backward), forwardsAhead(rank)));
  return table;
}

PipelineSchedule makeGPipe(const ScheduleSize &size) {
  return makeAlternating(size, [&](int64_t) { return size.microBatches; });
}

PipelineSchedule make1F1B(const ScheduleSize &size) {
  return makeAlternating(size, [&](int64_t rank) { return size.ranks - 1 - rank; });
}

/// Ahead of a backward are the forwards of its whole round through all chunks but the last, and for
/// each rank behind it one on the way there and one on the way back.
PipelineSchedule makeInterleaved(const ScheduleSize &size) {
  int64_t rounds = std::max<int64_t>(1, size.microBatches / size.ranks);
  int64_t longest = size.microBatches - (rounds - 1) * size.ranks;
  return makeAlternating(size, [&](int64_t rank) {
    return (size.chunks - 1) * longest + 2 * (size.ranks - 1 - rank);
  });
}

//===----------------------------------------------------------------------===//
// Weight gradients apart: zb-h1, zb-v
//===----------------------------------------------------------------------===//

/// 1F1B whose weight gradients fill what would be idle: rank r puts off r of them to its end, where
/// it would wait for the ranks behind it.
PipelineSchedule makeZeroBubbleH1(const ScheduleSize &size) {
  PipelineSchedule table = make1F1B(size);
  for (auto [rank, row] : enumerate(table.rows)) {
    std::vector<Task> split;
    int64_t put = int64_t(rank), next = 0;
    for (Task task : row) {
      if (task.work == Work::Backward)
        task.work = Work::BackwardInput;
      split.push_back(task);
      if (task.work == Work::BackwardInput && task.microBatch >= put)
        split.push_back({Work::BackwardWeight, 0, next++});
    }
    while (next < size.microBatches)
      split.push_back({Work::BackwardWeight, 0, next++});
    row = std::move(split);
  }
  return table;
}

/// Lists tasks as they become ready when each takes the same time: a forward before a backward
/// before a weight gradient, the later chunk first. What a rank holds is bounded by what 1F1B holds
/// on its first rank, and so is what of it may be of the first chunk, which would starve the other.
class ReadyList {
public:
  ReadyList(const ScheduleSize &size, const Placement &placement)
      : size(size), placement(placement), stages(placement.getNumStages()) {}

  std::vector<std::vector<Task>> run() {
    std::vector<std::vector<Task>> rows(size.ranks);
    for (now = 0; !isDone(); ++now) {
      SmallVector<std::pair<int64_t, Task>> chosen; // what begins now sees what ended before
      for (int64_t rank = 0; rank < size.ranks; ++rank)
        if (std::optional<Task> task = choose(rank))
          chosen.push_back({rank, *task});
      for (auto [rank, task] : chosen) {
        rows[rank].push_back(task);
        Stage &stage = stages[placement.getStage(rank, task.chunk)];
        std::vector<int64_t> &ends = stage.getEnds(task.work);
        ends.push_back(now + 1);
      }
    }
    return rows;
  }

private:
  /// When the first, second, ... micro-batch came to the end of a phase.
  struct Stage {
    std::vector<int64_t> forwards, backwards, weights;

    std::vector<int64_t> &getEnds(Work work) {
      return work == Work::Forward ? forwards : work == Work::BackwardInput ? backwards : weights;
    }
    int64_t getLive() const { return int64_t(forwards.size() - weights.size()); }
  };

  bool isDone() const {
    return all_of(stages, [&](const Stage &stage) {
      return int64_t(stage.weights.size()) == size.microBatches;
    });
  }
  bool hasEnded(const std::vector<int64_t> &ends, size_t which) const {
    return which < ends.size() && ends[which] <= now;
  }
  const Stage &get(int64_t rank, int64_t chunk) const {
    return stages[placement.getStage(rank, chunk)];
  }

  bool mayForward(int64_t rank, int64_t chunk) const {
    int64_t number = placement.getStage(rank, chunk), live = 0;
    size_t next = stages[number].forwards.size();
    for (int64_t other = 0; other < size.chunks; ++other)
      live += get(rank, other).getLive();
    bool hasRoom = live < size.chunks * size.ranks &&
                   (chunk > 0 || get(rank, 0).getLive() < size.chunks * size.ranks - 1 - rank);
    return int64_t(next) < size.microBatches && hasRoom &&
           (number == 0 || hasEnded(stages[number - 1].forwards, next));
  }
  bool mayBackward(int64_t rank, int64_t chunk) const {
    int64_t number = placement.getStage(rank, chunk);
    size_t next = stages[number].backwards.size();
    bool isLast = number + 1 == placement.getNumStages();
    return hasEnded(stages[number].forwards, next) &&
           (isLast || hasEnded(stages[number + 1].backwards, next));
  }
  bool mayWeight(int64_t rank, int64_t chunk) const {
    const Stage &stage = get(rank, chunk);
    return hasEnded(stage.backwards, stage.weights.size());
  }

  std::optional<Task> choose(int64_t rank) const {
    for (Work work : {Work::Forward, Work::BackwardInput, Work::BackwardWeight})
      for (int64_t chunk = size.chunks - 1; chunk >= 0; --chunk) {
        const Stage &stage = get(rank, chunk);
        if (work == Work::Forward && mayForward(rank, chunk))
          return Task{work, chunk, int64_t(stage.forwards.size())};
        if (work == Work::BackwardInput && mayBackward(rank, chunk))
          return Task{work, chunk, int64_t(stage.backwards.size())};
        if (work == Work::BackwardWeight && mayWeight(rank, chunk))
          return Task{work, chunk, int64_t(stage.weights.size())};
      }
    return std::nullopt;
  }

  ScheduleSize size;
  Placement placement;
  std::vector<Stage> stages;
  int64_t now = 0;
};

PipelineSchedule makeZeroBubbleV(const ScheduleSize &size) {
  PipelineSchedule table;
  table.rows = ReadyList(size, {PlacementKind::V, size.ranks, size.chunks}).run();
  return table;
}

constexpr int64_t kAnyChunks = 1 << 10;
constexpr Schedule kSchedules[] = {
    {"gpipe", "all forwards, then all backwards", PlacementKind::Loop, 1, 1, makeGPipe},
    {"1f1b", "a forward and a backward in turn", PlacementKind::Loop, 1, 1, make1F1B},
    {"interleaved", "1f1b over several chunks of the model on each rank", PlacementKind::Loop, 2,
     kAnyChunks, makeInterleaved},
    {"zb-h1", "1f1b whose weight gradients fill the bubble", PlacementKind::Loop, 1, 1,
     makeZeroBubbleH1},
    {"zb-v", "two chunks there and back, and weight gradients that fill the bubble",
     PlacementKind::V, 2, 2, makeZeroBubbleV},
};

} // namespace

ArrayRef<Schedule> getSchedules() { return kSchedules; }

bool PipelineSchedule::splitsBackward() const {
  return any_of(rows, [](const std::vector<Task> &row) {
    return any_of(row, [](const Task &task) { return task.work == Work::BackwardWeight; });
  });
}

Expected<PipelineSchedule> makePipelineSchedule(StringRef name, const ScheduleSize &size) {
  std::vector<std::string> names;
  for (const Schedule &schedule : getSchedules())
    names.push_back(schedule.name);
  const Schedule *schedule =
      find_if(getSchedules(), [&](const Schedule &s) { return s.name == name; });
  if (schedule == getSchedules().end())
    return fail("there is no schedule '" + name + "'" + describeNearest(name.str(), names));
  if (size.ranks < 1 || size.microBatches < 1)
    return fail("a pipeline has at least 1 rank and 1 micro-batch, not " + Twine(size.ranks) +
                " and " + Twine(size.microBatches));
  if (size.chunks < schedule->leastChunks || size.chunks > schedule->mostChunks)
    return fail("the schedule '" + name + "' takes " +
                (schedule->mostChunks > schedule->leastChunks ? "at least " : "") +
                Twine(schedule->leastChunks) + (schedule->leastChunks == 1 ? " chunk" : " chunks") +
                " on each rank, not " + Twine(size.chunks));
  PipelineSchedule table = schedule->make(size);
  table.name = name.str();
  table.placement = {schedule->placement, size.ranks, size.chunks};
  table.microBatches = size.microBatches;
  return table;
}

//===----------------------------------------------------------------------===//
// What holds in every table
//===----------------------------------------------------------------------===//

std::string describeTask(const Task &task) {
  static constexpr char kLetters[] = {'F', 'B', 'I', 'W'};
  std::string text = kLetters[int(task.work)] + std::to_string(task.microBatch);
  return task.chunk ? text + "." + std::to_string(task.chunk) : text;
}

namespace {

/// What a rank has done of one chunk, while its row is read.
struct ChunkProgress {
  int64_t forwards = 0, backwards = 0, weights = 0; ///< micro-batches, in order from the first one
};

class RowChecker {
public:
  RowChecker(const PipelineSchedule &table, int64_t rank) : table(table), rank(rank) {
    chunks.resize(table.placement.chunks);
  }

  Error check() {
    for (const Task &task : table.rows[rank])
      if (Error error = add(task))
        return error;
    for (auto [chunk, progress] : enumerate(chunks)) {
      for (int64_t done : {progress.forwards, progress.backwards, progress.weights})
        if (done < table.microBatches)
          return failAt("does " + Twine(progress.forwards) + " forwards, " +
                        Twine(progress.backwards) + " backwards and " + Twine(progress.weights) +
                        " weight gradients of chunk " + Twine(chunk) + ", expected " +
                        Twine(table.microBatches) + " of each");
    }
    return Error::success();
  }

private:
  Error failAt(const Twine &message) const {
    return fail("schedule '" + table.name + "', rank " + Twine(rank) + ": " + message);
  }

  Error add(const Task &task) {
    std::string text = describeTask(task);
    if (task.chunk < 0 || task.chunk >= table.placement.chunks)
      return failAt(text + " is of chunk " + Twine(task.chunk) + ", there are " +
                    Twine(table.placement.chunks));
    if (task.microBatch < 0 || task.microBatch >= table.microBatches)
      return failAt(text + " is of micro-batch " + Twine(task.microBatch) + ", there are " +
                    Twine(table.microBatches));
    ChunkProgress &progress = chunks[task.chunk];
    if (task.work == Work::Forward)
      return advance(task, progress.forwards, true, "");
    if (task.work != Work::BackwardWeight)
      if (Error error =
              advance(task, progress.backwards, task.microBatch < progress.forwards, "its forward"))
        return error;
    if (task.work != Work::BackwardInput)
      return advance(task, progress.weights, task.microBatch < progress.backwards,
                     "the gradient of its inputs");
    return Error::success();
  }

  /// Counts a task whose micro-batches must come in order, each after what it needs.
  Error advance(const Task &task, int64_t &done, bool isReady, const Twine &needs) const {
    std::string text = describeTask(task);
    if (task.microBatch < done)
      return failAt(text + " is there twice");
    if (Task before{task.work, task.chunk, done}; task.microBatch > done && !isThere(before))
      return failAt(describeTask(before) + " is missing, but " + text + " is there");
    if (task.microBatch > done)
      return failAt(text + " stands before that of micro-batch " + Twine(done) +
                    (task.work == Work::Forward
                         ? "; running statistics are updated in the order of the micro-batches"
                         : "; gradients are added up in the order of the micro-batches"));
    Work before = task.work == Work::BackwardWeight ? Work::BackwardInput : Work::Forward;
    if (!isReady && !isThere({before, task.chunk, task.microBatch}))
      return failAt(text + " is there, but " + needs + ", " +
                    describeTask({before, task.chunk, task.microBatch}) + ", is missing");
    if (!isReady)
      return failAt(text + " stands before " + needs);
    ++done;
    return Error::success();
  }

  /// Whether the row has a task, or one that does its work too.
  bool isThere(const Task &wanted) const {
    return any_of(table.rows[rank], [&](const Task &task) {
      bool does =
          task.work == wanted.work || (task.work == Work::Backward && wanted.work != Work::Forward);
      return does && task.chunk == wanted.chunk && task.microBatch == wanted.microBatch;
    });
  }

  const PipelineSchedule &table;
  int64_t rank;
  std::vector<ChunkProgress> chunks;
};

} // namespace

Error checkPipelineSchedule(const PipelineSchedule &table) {
  if (int64_t(table.rows.size()) != table.placement.ranks)
    return fail("schedule '" + table.name + "' has " + Twine(table.rows.size()) + " rows for " +
                Twine(table.placement.ranks) + " ranks");
  for (int64_t rank = 0; rank < table.placement.ranks; ++rank)
    if (Error error = RowChecker(table, rank).check())
      return error;
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Tables of users
//===----------------------------------------------------------------------===//

/// "I3.1"; nothing where a text is no task.
static std::optional<Task> parseTask(StringRef text) {
  static constexpr StringLiteral kLetters = "FBIW";
  size_t letter = text.empty() ? StringRef::npos : kLetters.find(text.front());
  if (letter == StringRef::npos)
    return std::nullopt;
  Task task{Work(letter), 0, 0};
  auto [microBatch, chunk] = text.drop_front().split('.');
  bool hasChunk = text.contains('.');
  if (microBatch.getAsInteger(10, task.microBatch) ||
      (hasChunk && chunk.getAsInteger(10, task.chunk)))
    return std::nullopt;
  return task;
}

static Expected<std::vector<Task>> readRow(JsonValue row, const Twine &place) {
  std::vector<Task> tasks;
  if (!row.isArray())
    return fail(place + " is no list of tasks such as \"F0\"");
  for (JsonValue entry : row.getElements()) {
    std::optional<std::string> text = entry.getAsString();
    std::optional<Task> task = text ? parseTask(*text) : std::nullopt;
    if (!task)
      return fail(place + " has " + (text ? "\"" + *text + "\"" : "an entry that is no string") +
                  "; expected F, B, I or W, a micro-batch, and .CHUNK: \"F0\", \"W3.1\"");
    tasks.push_back(*task);
  }
  return tasks;
}

Expected<PipelineSchedule> readPipelineSchedule(StringRef json, StringRef name) {
  Expected<JsonDocument> document = JsonDocument::parse(json);
  if (!document)
    return fail("schedule '" + name + "': " + toString(document.takeError()));
  PipelineSchedule table;
  table.name = name.str();
  JsonValue root = document->getRoot();
  for (const auto &[key, value] : root.getMembers())
    if (key != "placement" && key != "chunks" && key != "rows")
      return fail("schedule '" + name + "' has \"" + key +
                  "\"; expected placement, chunks and rows");
  std::string placement = root.getString("placement").value_or("loop");
  if (placement != "loop" && placement != "v")
    return fail("schedule '" + name + "' has the placement \"" + placement +
                "\"; expected loop or v");
  if (std::optional<double> chunks = root.get("chunks") ? root.get("chunks")->getAsNumber() : 1;
      !chunks || *chunks != std::floor(*chunks))
    return fail("schedule '" + name + "': \"chunks\" is a whole number");
  std::optional<JsonValue> rows = root.get("rows");
  if (!rows || !rows->isArray())
    return fail("schedule '" + name + "' has no \"rows\", a list of tasks for each rank");
  for (auto [rank, row] : enumerate(rows->getElements())) {
    Expected<std::vector<Task>> tasks =
        readRow(row, "schedule '" + name + "', rank " + Twine(rank));
    if (!tasks)
      return tasks.takeError();
    for (const Task &task : *tasks)
      if (task.work == Work::Forward)
        table.microBatches = std::max(table.microBatches, task.microBatch + 1);
    table.rows.push_back(std::move(*tasks));
  }
  table.placement = {placement == "v" ? PlacementKind::V : PlacementKind::Loop,
                     int64_t(table.rows.size()), root.getInteger("chunks").value_or(1)};
  constexpr int64_t kMost = 1 << 20;
  if (table.rows.empty() || table.placement.chunks < 1 || table.placement.chunks > kMost ||
      table.microBatches > kMost)
    return fail("schedule '" + name + "' has " + Twine(table.rows.size()) + " ranks, " +
                Twine(table.placement.chunks) + " chunks and " + Twine(table.microBatches) +
                " micro-batches; expected at least 1 and at most " + Twine(kMost) + " of each");
  if (Error error = checkPipelineSchedule(table))
    return std::move(error);
  return table;
}

//===----------------------------------------------------------------------===//
// By name or file
//===----------------------------------------------------------------------===//

static bool isFile(StringRef schedule) { return schedule.ends_with(".json"); }

static Expected<PipelineSchedule> readPipelineScheduleFile(StringRef path) {
  auto file = MemoryBuffer::getFile(path);
  if (!file)
    return fail("schedule '" + path + "' cannot be read: " + file.getError().message());
  return readPipelineSchedule((*file)->getBuffer(), path);
}

StringRef chooseSchedule(const Placement &placement) {
  if (placement.chunks == 1)
    return "1f1b";
  return placement.kind == PlacementKind::V ? "zb-v" : "interleaved";
}

Expected<PlacementKind> findPlacement(StringRef schedule) {
  if (schedule.empty())
    return PlacementKind::Loop;
  if (isFile(schedule)) {
    Expected<PipelineSchedule> table = readPipelineScheduleFile(schedule);
    if (!table)
      return table.takeError();
    return table->placement.kind;
  }
  for (const Schedule &known : getSchedules())
    if (schedule == known.name)
      return known.placement;
  return makePipelineSchedule(schedule, {1, 1, 1}).takeError(); // says which there are
}

/// "2 ranks x 3 chunks (loop), 8 micro-batches"
static std::string describeSize(const Placement &placement, int64_t microBatches) {
  return (Twine(placement.ranks) + " ranks x " + Twine(placement.chunks) + " chunks (" +
          (placement.kind == PlacementKind::V ? "v" : "loop") + "), " + Twine(microBatches) +
          " micro-batches")
      .str();
}

Expected<PipelineSchedule> findPipelineSchedule(StringRef schedule, const Placement &placement,
                                  int64_t microBatches) {
  if (placement.getNumStages() == 1)
    return makePipelineSchedule("1f1b", {1, 1, microBatches});
  if (schedule.empty())
    schedule = chooseSchedule(placement);
  Expected<PipelineSchedule> table =
      isFile(schedule) ? readPipelineScheduleFile(schedule)
                       : makePipelineSchedule(schedule, {placement.ranks, placement.chunks, microBatches});
  if (!table)
    return table.takeError();
  const Placement &has = table->placement;
  if (has.kind != placement.kind || has.ranks != placement.ranks ||
      has.chunks != placement.chunks || table->microBatches != microBatches)
    return fail("schedule '" + schedule + "' is for " + describeSize(has, table->microBatches) +
                "; the plan has " + describeSize(placement, microBatches));
  return table;
}

} // namespace parashard::schedules
