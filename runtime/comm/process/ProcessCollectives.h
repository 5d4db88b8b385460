// Collectives among processes: exchanges of parts, and the same ordered arithmetic as in
// comm/local.
#ifndef PSRT_COMM_PROCESS_PROCESSCOLLECTIVES_H
#define PSRT_COMM_PROCESS_PROCESSCOLLECTIVES_H

#include "runtime/comm/process/Transport.h"
#include "runtime/core/Program.h"

namespace psrt {

/// What one rank does with others, on fixed buffers.
class ProcessOp {
public:
  virtual ~ProcessOp() = default;
  /// How much memory it needs besides its buffers; it is given before it runs, and may be another's
  /// too.
  virtual size_t scratchBytes() const { return 0; }
  virtual void setScratch(char *scratch) {}
  virtual void run(Transport &transport) = 0;
};

/// The tensor of a message, to or from one rank.
class ProcessMessage : public ProcessOp {
public:
  /// `what`: for messages to the user.
  ProcessMessage(const MessageOp &op, int peer, void *buffer, std::string what);
  void run(Transport &transport) override { transport.run(exchange, what); }

private:
  Exchange exchange;
  std::string what;
};

/// One collective of one rank. Its result is, bit by bit, that of comm local.
class ProcessCollective : public ProcessOp {
public:
  /// What all kinds need.
  struct Place {
    CollectiveOp op;
    std::vector<int> group; ///< the members' ranks, by shard
    int index = 0;          ///< this rank's
    int64_t bytes = 0;      ///< of this rank's operand
    void *const *buffers = nullptr;
    std::string what; ///< "all_reduce over dp"
    int count() const { return int(group.size()); }
  };
  static std::unique_ptr<ProcessCollective> make(Place place);

  explicit ProcessCollective(Place place) : place(std::move(place)) {}

protected:
  char *buffer(size_t i) const { return static_cast<char *>(place.buffers[i]); }
  int64_t element() const { return dtypeSize(place.op.dtype); }
  bool overlap(int64_t outBytes) const;
  const Place place;
};

} // namespace psrt

#endif
