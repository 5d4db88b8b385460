// Each kind of collective: who sends which part to whom, and what is done with what comes.
#include "runtime/comm/process/ProcessCollectives.h"
#include "runtime/comm/local/Collectives.h"
#include <algorithm>
#include <cstring>

namespace psrt {

ProcessMessage::ProcessMessage(const MessageOp &op, int peer, void *buffer, std::string what)
    : what(std::move(what)) {
  Exchange::Transfer &transfer = exchange.with(peer);
  (op.receives ? transfer.in : transfer.out).push_back({static_cast<char *>(buffer), size_t(op.bytes)});
}

bool ProcessCollective::overlap(int64_t outBytes) const {
  const char *in = buffer(0), *out = buffer(1);
  return in < out + outBytes && out < in + place.bytes;
}

namespace {

/// A run of elements of one pair of buffers.
struct Piece {
  size_t pair;
  int64_t first, count;
};

/// Sums of every member's buffers, to all. Among two, and of little, everyone gets everything and
/// adds it up; else each member adds up a share and sends that to all.
class AllReduce : public ProcessCollective {
public:
  explicit AllReduce(Place given) : ProcessCollective(std::move(given)) {
    for (int64_t count : place.op.counts)
      total += count;
    shared = place.count() > 2 && total * element() > 16384;
    share = shared ? ((total + place.count() - 1) / place.count() + 15) / 16 * 16 : total;
    mine = pieces(shared ? place.index : 0);
    for (const Piece &piece : mine)
      received += piece.count * element();
  }

  size_t scratchBytes() const override { return received * (place.count() - 1); }

  void setScratch(char *scratch) override {
    first = {}, second = {};
    parts.assign(place.count(), nullptr);
    ins.assign(place.count(), nullptr);
    for (int i = 0; i < place.count(); ++i) {
      if (i == place.index)
        continue;
      parts[i] = scratch;
      Exchange::Transfer &transfer = first.with(place.group[i]);
      for (const Piece &piece : mine) {
        transfer.in.push_back({scratch, size_t(piece.count * element())});
        scratch += piece.count * element();
      }
      for (const Piece &piece : pieces(shared ? i : 0))
        transfer.out.push_back(spanOf(0, piece));
    }
    if (!shared)
      return;
    for (int i = 0; i < place.count(); ++i) {
      if (i == place.index)
        continue;
      Exchange::Transfer &transfer = second.with(place.group[i]);
      for (const Piece &piece : mine)
        transfer.out.push_back(spanOf(pairs(), piece));
      for (const Piece &piece : pieces(i))
        transfer.in.push_back(spanOf(pairs(), piece));
    }
  }

  void run(Transport &transport) override {
    transport.run(first, place.what);
    int64_t at = 0;
    for (const Piece &piece : mine) {
      for (int i = 0; i < place.count(); ++i)
        ins[i] = i == place.index ? spanOf(0, piece).data : parts[i] + at;
      void *out = spanOf(pairs(), piece).data;
      reduceRange(place.op.reduction, place.op.dtype, ins.data(), place.count(), &out, 1, 0,
                  piece.count);
      at += piece.count * element();
    }
    if (shared)
      transport.run(second, place.what);
  }

private:
  size_t pairs() const { return place.op.counts.size(); }

  Span spanOf(size_t firstBuffer, const Piece &piece) const {
    return {buffer(firstBuffer + piece.pair) + piece.first * element(),
            size_t(piece.count * element())};
  }

  /// What member `i` adds up, of all pairs one after the other.
  std::vector<Piece> pieces(int i) const {
    std::vector<Piece> result;
    int64_t lo = i * share, hi = std::min(total, lo + share), start = 0;
    for (size_t pair = 0; pair < pairs(); ++pair) {
      int64_t end = start + place.op.counts[pair];
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
  std::vector<const char *> parts; ///< by member: its part of what this one adds up
  std::vector<const void *> ins;
  Exchange first, second;
};

/// Operand [outer, members, row], result [outer, row].
class ReduceScatter : public ProcessCollective {
public:
  explicit ReduceScatter(Place given) : ProcessCollective(std::move(given)) {
    row = place.op.size * place.op.inner;
    part = place.op.outer * row * element();
    packs = place.op.outer > 1 || overlap(part);
  }

  size_t scratchBytes() const override {
    return part * (place.count() - 1) + (packs ? part * place.count() : 0);
  }

  void setScratch(char *scratch) override {
    exchange = {};
    ins.assign(place.count(), nullptr);
    packed = packs ? scratch : buffer(0);
    scratch += packs ? part * place.count() : 0;
    for (int i = 0; i < place.count(); ++i) {
      ins[i] = packed + i * part;
      if (i == place.index)
        continue;
      Exchange::Transfer &transfer = exchange.with(place.group[i]);
      transfer.out.push_back({packed + i * part, size_t(part)});
      transfer.in.push_back({scratch, size_t(part)});
      ins[i] = scratch;
      scratch += part;
    }
  }

  void run(Transport &transport) override {
    int64_t bytes = row * element();
    if (packs)
      for (int64_t o = 0; o < place.op.outer; ++o)
        for (int i = 0; i < place.count(); ++i)
          std::memcpy(packed + i * part + o * bytes, buffer(0) + (o * place.count() + i) * bytes,
                      bytes);
    transport.run(exchange, place.what);
    void *out = buffer(1);
    reduceRange(place.op.reduction, place.op.dtype, ins.data(), place.count(), &out, 1, 0,
                place.op.outer * row);
  }

private:
  int64_t row = 0, part = 0;
  bool packs = false;
  char *packed = nullptr;
  std::vector<const void *> ins;
  Exchange exchange;
};

/// Operand [outer, row], result [outer, members, row].
class AllGather : public ProcessCollective {
public:
  explicit AllGather(Place given) : ProcessCollective(std::move(given)) {
    row = place.op.size * place.op.inner * element();
    part = place.op.outer * row;
    packs = place.op.outer > 1 || overlap(part * place.count());
  }

  size_t scratchBytes() const override { return packs ? part * place.count() : 0; }

  void setScratch(char *scratch) override {
    exchange = {};
    gathered = packs ? scratch : buffer(1);
    for (int i = 0; i < place.count(); ++i)
      if (i != place.index) {
        Exchange::Transfer &transfer = exchange.with(place.group[i]);
        transfer.out.push_back({gathered + place.index * part, size_t(part)});
        transfer.in.push_back({gathered + i * part, size_t(part)});
      }
  }

  void run(Transport &transport) override {
    std::memcpy(gathered + place.index * part, buffer(0), part);
    transport.run(exchange, place.what);
    if (packs)
      for (int64_t o = 0; o < place.op.outer; ++o)
        for (int i = 0; i < place.count(); ++i)
          std::memcpy(buffer(1) + (o * place.count() + i) * row, gathered + i * part + o * row,
                      row);
  }

private:
  int64_t row = 0, part = 0;
  bool packs = false;
  char *gathered = nullptr;
  Exchange exchange;
};

/// Part i along `split` goes to member i, which places it as this member's along `concat`.
class AllToAll : public ProcessCollective {
public:
  explicit AllToAll(Place given)
      : ProcessCollective(std::move(given)), part(place.bytes / place.count()) {
    partShape = place.op.shape;
    partShape[place.op.split] /= place.count();
  }

  size_t scratchBytes() const override { return 2 * place.bytes; }

  void setScratch(char *scratch) override {
    exchange = {};
    packed = scratch;
    received = scratch + place.bytes;
    for (int i = 0; i < place.count(); ++i)
      if (i != place.index) {
        Exchange::Transfer &transfer = exchange.with(place.group[i]);
        transfer.out.push_back({packed + i * part, size_t(part)});
        transfer.in.push_back({received + i * part, size_t(part)});
      }
  }

  void run(Transport &transport) override {
    const CollectiveOp &op = place.op;
    for (int i = 0; i < place.count(); ++i)
      PartCopy{op.shape, element(), op.split, place.count(), i, 0, 1, 0}.run(
          buffer(0), (i == place.index ? received : packed) + i * part);
    transport.run(exchange, place.what);
    for (int i = 0; i < place.count(); ++i)
      PartCopy{partShape, element(), 0, 1, 0, op.concat, place.count(), i}.run(received + i * part,
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
  explicit Permute(Place given)
      : ProcessCollective(std::move(given)),
        source(permuteSource(place.op, place.index, place.count())), packs(overlap(place.bytes)) {}

  size_t scratchBytes() const override { return packs ? place.bytes : 0; }

  void setScratch(char *scratch) override {
    exchange = {};
    sent = packs ? scratch : buffer(0);
    int target = place.op.targets[place.index];
    if (target != place.index)
      exchange.with(place.group[target]).out.push_back({sent, size_t(place.bytes)});
    if (source != place.index)
      exchange.with(place.group[source]).in.push_back({buffer(1), size_t(place.bytes)});
  }

  void run(Transport &transport) override {
    if (packs)
      std::memcpy(sent, buffer(0), place.bytes);
    if (source == place.index)
      std::memmove(buffer(1), buffer(0), place.bytes);
    transport.run(exchange, place.what);
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
  void run(Transport &) override { sliceShard(place.op, place.index, buffer(0), buffer(1)); }
};

} // namespace

std::unique_ptr<ProcessCollective> ProcessCollective::make(Place place) {
  switch (place.op.kind) {
  case CollectiveOp::AllReduce:
    return std::make_unique<AllReduce>(std::move(place));
  case CollectiveOp::ReduceScatter:
    return std::make_unique<ReduceScatter>(std::move(place));
  case CollectiveOp::AllGather:
    return std::make_unique<AllGather>(std::move(place));
  case CollectiveOp::AllToAll:
    return std::make_unique<AllToAll>(std::move(place));
  case CollectiveOp::Permute:
    return std::make_unique<Permute>(std::move(place));
  case CollectiveOp::ShardSlice:
    return std::make_unique<ShardSlice>(std::move(place));
  }
  PSRT_FAIL(BadInput, "an unknown collective");
}

} // namespace psrt
