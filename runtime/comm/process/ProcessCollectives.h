// Implements collectives among processes: exchanges of data, and reductions in the same order as in
// comm/local.
#ifndef PSRT_COMM_PROCESS_PROCESSCOLLECTIVES_H
#define PSRT_COMM_PROCESS_PROCESSCOLLECTIVES_H

#include "runtime/comm/process/Transport.h"
#include "runtime/core/Program.h"

namespace psrt {

/// An operation of one rank with other ranks, on fixed buffers.
class ProcessOp {
public:
  virtual ~ProcessOp() = default;
  /// Returns the bytes of scratch memory that `run` needs. Before `run`, the caller passes the
  /// memory to `setScratch`. Operations that do not run at the same time may share the memory.
  virtual size_t scratchBytes() const { return 0; }
  virtual void setScratch(char *scratch) {}
  virtual void run(Transport &transport) = 0;
};

/// Sends or receives a message's tensor.
class ProcessMessage : public ProcessOp {
public:
  /// Errors contain `activity`.
  ProcessMessage(const MessageOp &op, int peer, void *buffer, std::string activity);
  void run(Transport &transport) override { transport.run(exchange, activity); }

private:
  Exchange exchange;
  std::string activity;
};

/// One collective of one rank. Its result is bitwise equal to that of comm/local.
class ProcessCollective : public ProcessOp {
public:
  /// Data that all kinds need.
  struct Member {
    CollectiveOp op;
    std::vector<int> group; ///< ranks of the members, by shard
    int index = 0;          ///< index of this rank
    int64_t bytes = 0;      ///< bytes of this rank's operand
    void *const *buffers = nullptr;
    std::string activity; ///< "all_reduce over dp"
    int count() const { return int(group.size()); }
  };
  static std::unique_ptr<ProcessCollective> make(Member member);

  explicit ProcessCollective(Member member) : member(std::move(member)) {}

protected:
  char *buffer(size_t i) const { return static_cast<char *>(member.buffers[i]); }
  int64_t element() const { return dtypeSize(member.op.dtype); }
  bool overlap(int64_t outBytes) const;
  const Member member;
};

} // namespace psrt

#endif
