// Implements each kind of collective: which parts are sent to which member, and how received parts
// are combined.
#include "runtime/comm/process/ProcessCollectives.h"
#include "runtime/comm/local/Collectives.h"
#include <algorithm>
#include <cstring>

namespace psrt {

ProcessMessage::ProcessMessage(const MessageOp &op, int peer, void *buffer, std::string activity)
    : activity(std::move(activity)) {
  Exchange::Transfer &transfer = exchange.with(peer);
  (op.receives ? transfer.in : transfer.out)
      .push_back({static_cast<char *>(buffer), size_t(op.bytes)});
}

bool ProcessCollective::overlap(int64_t outBytes) const {
  const char *in = buffer(0), *out = buffer(1);
  return in < out + outBytes && out < in + member.bytes;
}

namespace {

/// Consecutive elements of one operand and of its result. `pair` is the index of the operand among
/// the operands, and of the result among the results.
struct Piece {
  size_t pair;
  int64_t first, count;
};

/// Reduces the buffers of all members. With two members or little data, each member receives all
/// buffers and reduces them. Otherwise each member reduces one share and sends the result to all
/// members (reduce-scatter, then all-gather).
class AllReduce : public ProcessCollective {
public:
  explicit AllReduce(Member given) : ProcessCollective(std::move(given)) {
    for (int64_t count : member.op.counts)
      total += count;
    shared = member.count() > 2 && total * element() > 16384;
    share = shared ? ((total + member.count() - 1) / member.count() + 15) / 16 * 16 : total;
    mine = pieces(shared ? member.index : 0);
    for (const Piece &piece : mine)
      received += piece.count * element();
  }

  size_t scratchBytes() const override { return received * (member.count() - 1); }

  void setScratch(char *scratch) override {
    first = {}, second = {};
    parts.assign(member.count(), nullptr);
    ins.assign(member.count(), nullptr);
    for (int i = 0; i < member.count(); ++i) {
      if (i == member.index)
        continue;
      parts[i] = scratch;
      Exchange::Transfer &transfer = first.with(member.group[i]);
      for (const Piece &piece : mine) {
        transfer.in.push_back({scratch, size_t(piece.count * element())});
        scratch += piece.count * element();
      }
      for (const Piece &piece : pieces(shared ? i : 0))
        transfer.out.push_back(spanOf(0, piece));
    }
    if (!shared)
      return;
    for (int i = 0; i < member.count(); ++i) {
      if (i == member.index)
        continue;
      Exchange::Transfer &transfer = second.with(member.group[i]);
      for (const Piece &piece : mine)
        transfer.out.push_back(spanOf(pairs(), piece));
      for (const Piece &piece : pieces(i))
        transfer.in.push_back(spanOf(pairs(), piece));
    }
  }

  void run(Transport &transport) override {
    transport.run(first, member.activity);
    int64_t at = 0;
    for (const Piece &piece : mine) {
      for (int i = 0; i < member.count(); ++i)
        ins[i] = i == member.index ? spanOf(0, piece).data : parts[i] + at;
      void *out = spanOf(pairs(), piece).data;
      reduceRange(member.op.reduction, member.op.dtype, ins.data(), member.count(), &out, 1, 0,
                  piece.count);
      at += piece.count * element();
    }
    if (shared)
      transport.run(second, member.activity);
  }

private:
  size_t pairs() const { return member.op.counts.size(); }

  Span spanOf(size_t firstBuffer, const Piece &piece) const {
    return {buffer(firstBuffer + piece.pair) + piece.first * element(),
            size_t(piece.count * element())};
  }

  /// Returns the pieces that member `i` reduces. The buffers of all pairs are treated as one
  /// sequence, which is split evenly.
  std::vector<Piece> pieces(int i) const {
    std::vector<Piece> result;
    int64_t lo = i * share, hi = std::min(total, lo + share), start = 0;
    for (size_t pair = 0; pair < pairs(); ++pair) {
      int64_t end = start + member.op.counts[pair];
      int64_t from = std::max(lo, start), to = std::min(hi, end);
      if (from < to)
        result.push_back({pair, from - start, to - from});
      start = end;
    }
    return result;
  }

  int64_t total = 0, share = 0, received = 0;
  bool shared = false;
  std::vector<Piece> mine;
  std::vector<const char *> parts; ///< by member: received elements, to reduce
  std::vector<const void *> ins;
  Exchange first, second;
};

/// Reduces an operand [outer, members, row] to a result [outer, row].
class ReduceScatter : public ProcessCollective {
public:
  explicit ReduceScatter(Member given) : ProcessCollective(std::move(given)) {
    row = member.op.size * member.op.inner;
    part = member.op.outer * row * element();
    packs = member.op.outer > 1 || overlap(part);
  }

  size_t scratchBytes() const override {
    return part * (member.count() - 1) + (packs ? part * member.count() : 0);
  }

  void setScratch(char *scratch) override {
    exchange = {};
    ins.assign(member.count(), nullptr);
    packed = packs ? scratch : buffer(0);
    scratch += packs ? part * member.count() : 0;
    for (int i = 0; i < member.count(); ++i) {
      ins[i] = packed + i * part;
      if (i == member.index)
        continue;
      Exchange::Transfer &transfer = exchange.with(member.group[i]);
      transfer.out.push_back({packed + i * part, size_t(part)});
      transfer.in.push_back({scratch, size_t(part)});
      ins[i] = scratch;
      scratch += part;
    }
  }

  void run(Transport &transport) override {
    int64_t bytes = row * element();
    if (packs)
      for (int64_t o = 0; o < member.op.outer; ++o)
        for (int i = 0; i < member.count(); ++i)
          std::memcpy(packed + i * part + o * bytes, buffer(0) + (o * member.count() + i) * bytes,
                      bytes);
    transport.run(exchange, member.activity);
    void *out = buffer(1);
    reduceRange(member.op.reduction, member.op.dtype, ins.data(), member.count(), &out, 1, 0,
                member.op.outer * row);
  }

private:
  int64_t row = 0, part = 0;
  bool packs = false;
  char *packed = nullptr;
  std::vector<const void *> ins;
  Exchange exchange;
};

/// Gathers operands [outer, row] into a result [outer, members, row].
class AllGather : public ProcessCollective {
public:
  explicit AllGather(Member given) : ProcessCollective(std::move(given)) {
    row = member.op.size * member.op.inner * element();
    part = member.op.outer * row;
    packs = member.op.outer > 1 || overlap(part * member.count());
  }

  size_t scratchBytes() const override { return packs ? part * member.count() : 0; }

  void setScratch(char *scratch) override {
    exchange = {};
    gathered = packs ? scratch : buffer(1);
    for (int i = 0; i < member.count(); ++i)
      if (i != member.index) {
        Exchange::Transfer &transfer = exchange.with(member.group[i]);
        transfer.out.push_back({gathered + member.index * part, size_t(part)});
        transfer.in.push_back({gathered + i * part, size_t(part)});
      }
  }

  void run(Transport &transport) override {
    std::memcpy(gathered + member.index * part, buffer(0), part);
    transport.run(exchange, member.activity);
    if (packs)
      for (int64_t o = 0; o < member.op.outer; ++o)
        for (int i = 0; i < member.count(); ++i)
          std::memcpy(buffer(1) + (o * member.count() + i) * row, gathered + i * part + o * row,
                      row);
  }

private:
  int64_t row = 0, part = 0;
  bool packs = false;
  char *gathered = nullptr;
  Exchange exchange;
};

/// Splits the operand along `split` and sends part i to member i. Each member concatenates the
/// received parts along `concat`, in order of the senders.
class AllToAll : public ProcessCollective {
public:
  explicit AllToAll(Member given)
      : ProcessCollective(std::move(given)), part(member.bytes / member.count()) {
    partShape = member.op.shape;
    partShape[member.op.split] /= member.count();
  }

  size_t scratchBytes() const override { return 2 * member.bytes; }

  void setScratch(char *scratch) override {
    exchange = {};
    packed = scratch;
    received = scratch + member.bytes;
    for (int i = 0; i < member.count(); ++i)
      if (i != member.index) {
        Exchange::Transfer &transfer = exchange.with(member.group[i]);
        transfer.out.push_back({packed + i * part, size_t(part)});
        transfer.in.push_back({received + i * part, size_t(part)});
      }
  }

  void run(Transport &transport) override {
    const CollectiveOp &op = member.op;
    for (int i = 0; i < member.count(); ++i)
      PartCopy{op.shape, element(), op.split, member.count(), i, 0, 1, 0}.run(
          buffer(0), (i == member.index ? received : packed) + i * part);
    transport.run(exchange, member.activity);
    for (int i = 0; i < member.count(); ++i)
      PartCopy{partShape, element(), 0, 1, 0, op.concat, member.count(), i}.run(received + i * part,
                                                                                buffer(1));
  }

private:
  int64_t part;
  std::vector<int64_t> partShape;
  char *packed = nullptr, *received = nullptr;
  Exchange exchange;
};

class Permute : public ProcessCollective {
public:
  explicit Permute(Member given)
      : ProcessCollective(std::move(given)),
        source(permuteSource(member.op, member.index, member.count())),
        packs(overlap(member.bytes)) {}

  size_t scratchBytes() const override { return packs ? member.bytes : 0; }

  void setScratch(char *scratch) override {
    exchange = {};
    sent = packs ? scratch : buffer(0);
    int target = member.op.targets[member.index];
    if (target != member.index)
      exchange.with(member.group[target]).out.push_back({sent, size_t(member.bytes)});
    if (source != member.index)
      exchange.with(member.group[source]).in.push_back({buffer(1), size_t(member.bytes)});
  }

  void run(Transport &transport) override {
    if (packs)
      std::memcpy(sent, buffer(0), member.bytes);
    if (source == member.index)
      std::memmove(buffer(1), buffer(0), member.bytes);
    transport.run(exchange, member.activity);
  }

private:
  int source;
  bool packs;
  char *sent = nullptr;
  Exchange exchange;
};

class ShardSlice : public ProcessCollective {
public:
  using ProcessCollective::ProcessCollective;
  void run(Transport &) override { sliceShard(member.op, member.index, buffer(0), buffer(1)); }
};

} // namespace

std::unique_ptr<ProcessCollective> ProcessCollective::make(Member member) {
  switch (member.op.kind) {
  case CollectiveOp::AllReduce:
    return std::make_unique<AllReduce>(std::move(member));
  case CollectiveOp::ReduceScatter:
    return std::make_unique<ReduceScatter>(std::move(member));
  case CollectiveOp::AllGather:
    return std::make_unique<AllGather>(std::move(member));
  case CollectiveOp::AllToAll:
    return std::make_unique<AllToAll>(std::move(member));
  case CollectiveOp::Permute:
    return std::make_unique<Permute>(std::move(member));
  case CollectiveOp::ShardSlice:
    return std::make_unique<ShardSlice>(std::move(member));
  }
  PSRT_FAIL(BadInput, "unknown collective");
}

} // namespace psrt
