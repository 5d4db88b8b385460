// Tracks which buffers are live while the code runs.
#include "runtime/core/MemoryCheck.h"
#include "runtime/core/Status.h"
#include <algorithm>
#include <cstring>

namespace psrt {

/// A bit pattern that, repeated, is a NaN as f16, bf16, f32 and f64, and far out of range as an
/// index.
static constexpr uint16_t kPoison = 0x7FF7;

static void poison(Arena &arena, MemoryRange range) {
  const char bytes[2] = {char(kPoison & 0xFF), char(kPoison >> 8)};
  for (int64_t at = range.begin; at < range.end; ++at)
    *arena.host(at) = bytes[at % 2];
}

MemoryCheck::MemoryCheck(const Program &program, int64_t coordinate, Arena &arena)
    : program(program), coordinate(coordinate), arena(arena), copy(arena.size()) {
  for (const EntryPoint &entry : program.entries)
    if (!entry.programs[coordinate].hasBuffers && !entry.programs[coordinate].code.empty())
      PSRT_FAIL(BadArgument, "--check-memory: the table of this program has no lifetimes of its "
                             "buffers; compile it again");
  // Also fill the inputs with NaN, so that later writes to them are visible.
  holdForGood({});
  poisonRest();
  device.planned = host.planned = 0;
}

std::pair<MemoryCheck::Ends &, int64_t> MemoryCheck::partOf(int64_t address) {
  if (program.isInHost(address, coordinate))
    return {host, program.hostBase[coordinate]};
  return {device, 0};
}

//===--- the memory plan --------------------------------------------------===//

void MemoryCheck::hold(MemoryRange range) {
  if (range.begin >= range.end)
    return;
  if (range.begin < 0 || range.end > int64_t(arena.size()))
    PSRT_FAIL(BadInput,
              "the memory plan has a buffer at bytes %lld to %lld, but the arena has %zu bytes",
              (long long)range.begin, (long long)range.end, arena.size());
  auto above = held.lower_bound(range.begin);
  const MemoryRange *other = nullptr;
  if (above != held.end() && above->second.begin < range.end)
    other = &above->second;
  else if (above != held.begin() && std::prev(above)->second.end > range.begin)
    other = &std::prev(above)->second;
  if (other)
    PSRT_FAIL(
        BadInput,
        "%s: the memory plan has a buffer at bytes %lld to %lld, which overlaps the buffer in use "
        "at bytes %lld to %lld",
        current ? current->label.c_str() : "variables", (long long)range.begin,
        (long long)range.end, (long long)other->begin, (long long)other->end);
  held[range.begin] = range;
  auto [ends, begin] = partOf(range.begin);
  ends.planned = std::max(ends.planned, range.end - begin);
}

void MemoryCheck::release(MemoryRange range) {
  auto at = held.find(range.begin);
  if (at == held.end())
    return;
  held.erase(at);
  poison(arena, range);
  poison(copy, range);
}

static MemoryRange rangeOf(const BufferLifetime &buffer) {
  return {buffer.address, buffer.address + buffer.bytes};
}

MemoryRange MemoryCheck::rangeInScratch(const BufferLifetime &buffer,
                                        const ProgramEntry &element) const {
  int64_t scratch = element.bases.empty() ? 0 : element.bases.back();
  return {scratch + buffer.address, scratch + buffer.address + buffer.bytes};
}

void MemoryCheck::holdForGood(const EntryCode &next) {
  held.clear();
  for (const Variable &variable : program.variables)
    if (variable.addresses.isAt(coordinate)) {
      int64_t address = variable.addresses.at(coordinate);
      hold({address, address + variable.localBytes()});
    }
  hold({next.slotBase, next.slotBase + next.slots * next.slotBytes});
}

void MemoryCheck::poisonRest() {
  int64_t from = 0;
  for (const auto &[first, range] : held) {
    poison(arena, {from, range.begin});
    from = range.end;
  }
  poison(arena, {from, arena.end()});
}

void MemoryCheck::begin(const EntryCode &next) {
  code = &next;
  current = nullptr;
  open.clear();
  births.clear();
  for (const BufferLifetime &buffer : next.buffers)
    births.push_back(&buffer);
  deaths = births;
  std::sort(births.begin(), births.end(), [](auto *a, auto *b) { return a->begin < b->begin; });
  std::sort(deaths.begin(), deaths.end(), [](auto *a, auto *b) { return a->end < b->end; });
  born = dead = 0;
  holdForGood(next);
  for (; born < births.size() && births[born]->begin < 0; ++born)
    hold(rangeOf(*births[born]));
  poisonRest();
  std::memcpy(copy.host(0), arena.host(0), arena.end());
  for (const auto &[first, range] : held)
    accept(range);
}

void MemoryCheck::enter(const ProgramEntry &element) {
  current = &element;
  int64_t at = &element - code->code.data();
  for (; born < births.size() && births[born]->begin <= at; ++born)
    hold(rangeOf(*births[born]));
}

void MemoryCheck::finish(const ProgramEntry &element) {
  if (element.function >= 0)
    for (const BufferLifetime &buffer : program.functions[element.function].buffers)
      release(rangeInScratch(buffer, element));
  int64_t at = &element - code->code.data();
  for (; dead < deaths.size() && deaths[dead]->end <= at; ++dead)
    release(rangeOf(*deaths[dead]));
}

//===--- instructions -----------------------------------------------------===//

/// Returns the token with which an asynchronous collective, message or copy is started. Returns -1
/// for all other instructions.
static int64_t startedToken(const Instruction &instruction) {
  if (const auto *collective = std::get_if<CollectiveOp>(&instruction.op))
    return collective->token;
  if (const auto *message = std::get_if<MessageOp>(&instruction.op))
    return message->token;
  if (const auto *transfer = std::get_if<TransferOp>(&instruction.op))
    return transfer->token;
  return -1;
}

const MemoryRange *MemoryCheck::find(int64_t address) const {
  auto above = held.upper_bound(address);
  if (above == held.begin() || std::prev(above)->second.end <= address)
    return nullptr;
  return &std::prev(above)->second;
}

void MemoryCheck::before(const Bound &bound, const ProgramEntry &element) {
  if (&element != current)
    enter(element);
  if (element.function >= 0) {
    const Function &function = program.functions[element.function];
    int64_t at = bound.instruction - function.code.data();
    for (const BufferLifetime &buffer : function.buffers)
      if (buffer.begin == at)
        hold(rangeInScratch(buffer, element));
  }
  named.clear();
  for (size_t i = 0; i < bound.instruction->buffers.size(); ++i) {
    if (!bound.buffers[i])
      continue;
    int64_t address = static_cast<char *>(bound.buffers[i]) - arena.host(0);
    const MemoryRange *range = find(address);
    if (!range)
      reject(bound, address, "uses");
    named.push_back(*range);
  }
  if (int64_t token = startedToken(*bound.instruction); token >= 0)
    open[token].insert(open[token].end(), named.begin(), named.end());
}

void MemoryCheck::after(const Bound &bound) {
  if (const auto *wait = std::get_if<WaitOp>(&bound.instruction->op)) {
    named = open[wait->token];
    open.erase(wait->token);
  }
  checkUnchanged(bound);
  if (startedToken(*bound.instruction) < 0)
    for (const MemoryRange &range : named)
      accept(range);
  if (current->function < 0)
    return;
  const Function &function = program.functions[current->function];
  int64_t at = bound.instruction - function.code.data();
  for (const BufferLifetime &buffer : function.buffers)
    if (buffer.end == at)
      release(rangeInScratch(buffer, *current));
}

void MemoryCheck::checkUnchanged(const Bound &bound) {
  std::vector<MemoryRange> own = named;
  for (const auto &[token, ranges] : open) // asynchronous work may change these ranges at any time
    own.insert(own.end(), ranges.begin(), ranges.end());
  std::sort(own.begin(), own.end(), [](auto &a, auto &b) { return a.begin < b.begin; });
  int64_t from = 0;
  for (const MemoryRange &range : own) {
    checkUnchanged(bound, from, range.begin);
    from = std::max(from, range.end);
  }
  checkUnchanged(bound, from, arena.end());
}

void MemoryCheck::checkUnchanged(const Bound &bound, int64_t begin, int64_t end) {
  if (begin >= end || std::memcmp(arena.host(begin), copy.host(begin), end - begin) == 0)
    return;
  while (*arena.host(begin) == *copy.host(begin))
    ++begin;
  reject(bound, begin, "changed");
}

void MemoryCheck::accept(MemoryRange range) {
  std::memcpy(copy.host(range.begin), arena.host(range.begin), range.end - range.begin);
  // Buffers begin at even addresses. A word that is still poison was not written.
  auto [ends, begin] = partOf(range.begin);
  for (int64_t at = (range.end - 1) / 2 * 2; at >= std::max(range.begin, begin + ends.measured);
       at -= 2) {
    uint16_t word;
    std::memcpy(&word, arena.host(at), 2);
    if (word != kPoison)
      ends.measured = std::min(at + 2, range.end) - begin;
  }
}

void MemoryCheck::reject(const Bound &bound, int64_t address, const char *action) const {
  std::string held = "there is no buffer at this time";
  if (const MemoryRange *other = find(address))
    held = format("bytes %lld to %lld belong to a buffer that this instruction does not use",
                  (long long)other->begin, (long long)other->end);
  else if (address >= int64_t(arena.size()))
    held = format("the arena has %zu bytes", arena.size());
  const Instruction &instruction = *bound.instruction;
  std::string where = instruction.location.empty() ? "" : ", at " + instruction.location + ",";
  PSRT_FAIL(Failed,
            "%s of %s%s %s arena address %lld: %s; the program violates its memory plan; keep the "
            "program and report this bug",
            instructionName(program, instruction).c_str(), current->label.c_str(), where.c_str(),
            action, (long long)address, held.c_str());
}

} // namespace psrt
