// Making ranks, running entries, moving whole tensors.
#include "runtime/core/Session.h"
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace psrt {

TestFailure TestFailure::fromEnvironment() {
  TestFailure result;
  long long step = -1;
  if (const char *text = std::getenv("PSRT_TEST_FAIL"))
    if (std::sscanf(text, "rank=%d,step=%lld", &result.rank, &step) == 2) {
      result.step = step;
      result.foreign = std::strstr(text, ",throw") != nullptr;
    }
  return result;
}

/// The compile line that would make a program for `ranks` ranks: the data axis (or the first) takes
/// the difference.
static std::string fittingLine(const Program &program, int ranks) {
  Mesh mesh = program.mesh;
  int64_t others = 1, chosen = 0;
  for (size_t i = 0; i < mesh.axes.size(); ++i)
    if (mesh.axes[i].kind == "data")
      chosen = int64_t(i);
  for (size_t i = 0; i < mesh.axes.size(); ++i)
    others *= int64_t(i) == chosen ? 1 : mesh.axes[i].size;
  if (mesh.axes.empty() || ranks % others != 0)
    mesh.axes = {{"dp", "data", ranks}};
  else
    mesh.axes[chosen].size = ranks / others;
  std::string line =
      program.compileLine.empty() ? "ps-compile " + program.model : program.compileLine;
  size_t at = line.find("--mesh");
  if (at != std::string::npos) {
    size_t end = line.find(' ', line.find_first_of(" =", at) + 1);
    line.erase(at, end == std::string::npos ? std::string::npos : end + 1 - at);
  }
  while (!line.empty() && line.back() == ' ')
    line.pop_back();
  return line + " --mesh " + mesh.text();
}

void checkRanks(const Program &program, int ranks) {
  int size = int(program.mesh.size());
  if (ranks < 0)
    PSRT_FAIL(BadArgument, "the number of ranks is %d; it must be at least 1 (0: as compiled)",
              ranks);
  if (ranks > 0 && ranks != size)
    PSRT_FAIL(BadArgument,
              "the program is compiled for %d ranks (mesh %s), not %d; this would fit: %s", size,
              program.mesh.text().c_str(), ranks, fittingLine(program, ranks).c_str());
}

Session::Session(const ProgramSource &source, const SessionOptions &options)
    : source(source), options(options), program(parseProgram({source.json, source.size})),
      testFailure(TestFailure::fromEnvironment()) {
  int size = int(program.mesh.size());
  checkRanks(program, options.ranks);
  if (options.job)
    checkRanks(program, options.job->size());
  if (options.threads < 0 || options.threads > kMaxThreads)
    PSRT_FAIL(BadArgument, "a rank has 1 to %d threads (0: cores / ranks), not %d", kMaxThreads,
              options.threads);
  int here = options.job ? 1 : size, first = options.job ? options.job->rank() : 0;
  int cores =
      options.job ? options.job->cores() : std::max(1, int(std::thread::hardware_concurrency()));
  threads = options.threads > 0 ? options.threads : std::max(1, cores / here);
  bool dedicated = threads * here <= cores;
  device = makeCpuDevice();
  communication = options.job ? options.job->makeCommunication(program.mesh)
                              : makeLocalCommunication(program.mesh, dedicated);
  ranks.resize(size);
  rankThreads = std::make_unique<RankThreads>(here, [this] { communication->abort(); }, first);
  try {
    rankThreads->run([&](int index) { makeRank(index, dedicated); });
  } catch (const Error &error) {
    recover(error.status);
  }
}

Session::~Session() = default;

void Session::makeRank(int index, bool dedicated) {
  auto rank = std::make_unique<Rank>();
  rank->index = index;
  rank->coordinates = program.mesh.coordinates(index);
  rank->arena = std::make_unique<Arena>(program.arenaBytes);
  rank->device = device->makeRank(threads, dedicated);
  rank->comm = communication->makeRank(index);
  rank->executor = std::make_unique<Executor>(program, source.kernels, index, *rank->arena,
                                              *rank->device, *rank->comm, options.seed);
  for (const Input &input : program.inputs)
    rank->writers.emplace_back(input, program.mesh, rank->coordinates);
  initializeVariables(program, source, options, *rank);
  ranks[index] = std::move(rank);
}

void Session::checkUsable() const {
  if (failed)
    PSRT_FAIL(Failed, "a rank failed before; close the program and open it again");
}

void Session::recover(const Status &status) {
  failed |= status.code == StatusCode::Failed;
  communication->reset();
  throw Error(status);
}

const EntryPoint &Session::entry(const std::string &name) const {
  if (const EntryPoint *entry = program.entry(name))
    return *entry;
  std::string names;
  for (const EntryPoint &entry : program.entries)
    names += (names.empty() ? "" : ", ") + entry.name;
  PSRT_FAIL(BadArgument, "the program has no entry \"%s\"; it has: %s", name.c_str(),
            names.c_str());
}

void Session::prepare(const std::string &name, int64_t slot, bool piecewise) {
  const EntryPoint &point = entry(name);
  parallel([&](Rank &rank) { rank.executor->bind(point, slot, piecewise); });
}

void Session::run(const EntryPoint &point, int64_t slot, bool piecewise, int64_t from, int64_t to,
                  int64_t microBatch) {
  parallel([&](Rank &rank) {
    maybeFail(rank);
    rank.executor->run(rank.executor->bind(point, slot, piecewise), step, from, to, microBatch);
  });
}

//===--- inputs -----------------------------------------------------------===//

bool Session::belongs(const Input &input, const EntryPoint &entry, bool cotangents) const {
  if ((input.role == "cotangent") != cotangents)
    return false;
  bool training = entry.name == "step" || entry.name == "forward" || entry.name == "backward";
  return input.entry.empty() || input.entry == entry.name ||
         (training && input.entry == "micro_batch");
}

std::vector<const Input *> Session::inputsOf(const EntryPoint &entry, bool cotangents) const {
  std::vector<const Input *> result;
  for (const Input &input : program.inputs)
    if (belongs(input, entry, cotangents))
      result.push_back(&input);
  return result;
}

char *Session::inputAt(Rank &rank, const EntryPoint &entry, size_t index, int64_t microBatch,
                       int64_t slot) const {
  const Input &input = program.inputs[index];
  if (input.addresses.empty())
    PSRT_FAIL(BadInput, "input \"%s\" has no address", input.name.c_str());
  int64_t address =
      input.addresses[std::min<int64_t>(microBatch, int64_t(input.addresses.size()) - 1)];
  return rank.arena->at(entry.inSlot(address, slot));
}

//===--- whole tensors ----------------------------------------------------===//

template <typename T> static void addElements(char *whole, const char *part, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    T a, b;
    std::memcpy(&a, whole + i * sizeof(T), sizeof(T));
    std::memcpy(&b, part + i * sizeof(T), sizeof(T));
    a += b;
    std::memcpy(whole + i * sizeof(T), &a, sizeof(T));
  }
}

static void addInto(Dtype dtype, char *whole, const char *part, int64_t count) {
  switch (dtype) {
  case Dtype::F32:
    return addElements<float>(whole, part, count);
  case Dtype::F64:
    return addElements<double>(whole, part, count);
  case Dtype::I64:
    return addElements<int64_t>(whole, part, count);
  case Dtype::I32:
    return addElements<int32_t>(whole, part, count);
  default:
    PSRT_FAIL(BadInput, "a partial tensor of %s cannot be read", dtypeName(dtype));
  }
}

/// Adds what the others need to know to the failures of calls that all processes make.
template <typename Body> void Session::amongProcesses(Body &&body) {
  try {
    body();
  } catch (const Error &error) {
    if (!options.job)
      throw;
    recover(located(error.status, options.job->rank()));
  }
}

static const char *const kReading = "reading a whole tensor";

void Session::gather(Dtype dtype, const Placement &placement, int64_t address, char *whole) {
  checkUsable();
  int64_t size = dtypeSize(dtype), bytes = placement.localCount() * size;
  bool partial = program.mesh.shards(placement.partial) > 1, first = isFirst();
  if (partial && first)
    std::memset(whole, 0, placement.count() * size);
  std::vector<char> received;
  std::vector<int64_t> elsewhere;
  for (int index = 0; index < int(ranks.size()); ++index) {
    if (!ranks[index])
      elsewhere = program.mesh.coordinates(index);
    const std::vector<int64_t> &coordinates = ranks[index] ? ranks[index]->coordinates : elsewhere;
    if (!placement.isOwner(program.mesh, coordinates))
      continue;
    const char *base = ranks[index] ? ranks[index]->arena->at(address) : nullptr;
    if (options.job && index != 0) {
      received.resize(first ? bytes : 0);
      amongProcesses([&] { communication->bring(index, base, received.data(), bytes, kReading); });
      base = received.data();
    }
    if (!first)
      continue;
    forEachRun(placement, program.mesh, coordinates,
               [&](int64_t local, int64_t global, int64_t count) {
                 if (partial)
                   addInto(dtype, whole + global * size, base + local * size, count);
                 else
                   std::memcpy(whole + global * size, base + local * size, count * size);
               });
  }
}

/// Whether every rank holds all of a tensor.
static bool isEverywhere(const Mesh &mesh, const Placement &placement) {
  bool split = mesh.shards(placement.partial) > 1;
  for (const std::vector<Placement::Factor> &dim : placement.factors)
    for (const Placement::Factor &factor : dim)
      split |= mesh.shards(factor.axes) > 1;
  return !split;
}

void Session::gatherEverywhere(Dtype dtype, const Placement &placement, int64_t address,
                               char *whole) {
  if (!options.job)
    return gather(dtype, placement, address, whole);
  checkUsable();
  int64_t bytes = placement.count() * dtypeSize(dtype);
  if (isEverywhere(program.mesh, placement)) {
    std::memcpy(whole, ranks[options.job->rank()]->arena->at(address), bytes);
    return;
  }
  gather(dtype, placement, address, whole);
  amongProcesses([&] { communication->share(whole, bytes, kReading); });
}

bool Session::isAny(bool here) {
  if (!options.job)
    return here;
  char any = here;
  amongProcesses([&] {
    for (int from = 1; from < options.job->size(); ++from) {
      char other = 0;
      communication->bring(from, &any, &other, 1, "agreeing on the next step");
      any |= isFirst() && other;
    }
    communication->share(&any, 1, "agreeing on the next step");
  });
  return any;
}

std::vector<std::string> Session::collect(const std::string &text) {
  std::vector<std::string> result;
  if (isFirst())
    result.push_back(text);
  for (int from = 1; options.job && from < options.job->size(); ++from)
    amongProcesses([&] {
      uint64_t bytes = text.size();
      communication->bring(from, &bytes, &bytes, sizeof(bytes), "collecting texts");
      std::string received(isFirst() ? bytes : 0, ' ');
      communication->bring(from, text.data(), received.data(), bytes, "collecting texts");
      if (isFirst())
        result.push_back(std::move(received));
    });
  return result;
}

void Session::scatter(Dtype dtype, const Placement &placement, int64_t address, const char *whole) {
  int64_t size = dtypeSize(dtype);
  parallel([&](Rank &rank) {
    char *base = rank.arena->at(address);
    std::memset(base, 0, placement.localCount() * size);
    if (program.mesh.shardIndex(placement.partial, rank.coordinates) != 0)
      return;
    forEachRun(placement, program.mesh, rank.coordinates,
               [&](int64_t local, int64_t global, int64_t count) {
                 std::memcpy(base + local * size, whole + global * size, count * size);
               });
  });
}

void Session::readVariable(int index, char *whole) {
  const Variable &variable = program.variables[index];
  gather(variable.dtype, variable.placement, variable.address, whole);
}

void Session::writeVariable(int index, const char *whole) {
  const Variable &variable = program.variables[index];
  scatter(variable.dtype, variable.placement, variable.address, whole);
}

double Session::readScalar(const std::string &symbol) {
  int index = program.variable(symbol);
  if (index < 0 || program.variables[index].placement.count() != 1)
    return NAN;
  const Variable &variable = program.variables[index];
  char bytes[8] = {};
  gatherEverywhere(variable.dtype, variable.placement, variable.address, bytes);
  float f;
  double d;
  int64_t i;
  std::memcpy(&f, bytes, 4);
  std::memcpy(&d, bytes, 8);
  std::memcpy(&i, bytes, 8);
  return variable.dtype == Dtype::F32 ? f : variable.dtype == Dtype::F64 ? d : double(i);
}

void Session::setScalar(const std::string &symbol, double value) {
  int index = program.variable(symbol);
  if (index < 0)
    PSRT_FAIL(BadArgument, "the program has no scalar \"%s\"", symbol.c_str());
  const Variable &variable = program.variables[index];
  if (variable.dtype != Dtype::F32 || variable.placement.count() != 1)
    PSRT_FAIL(BadArgument, "variable \"%s\" is no f32 scalar", symbol.c_str());
  float x = float(value);
  for (std::unique_ptr<Rank> &rank : ranks)
    if (rank)
      std::memcpy(rank->arena->at(variable.address), &x, 4);
}

void Session::zero(const std::string &kind) {
  parallel([&](Rank &rank) {
    for (const Variable &variable : program.variables)
      if (variable.kind == kind)
        std::memset(rank.arena->at(variable.address), 0,
                    variable.placement.localCount() * dtypeSize(variable.dtype));
  });
}

} // namespace psrt
