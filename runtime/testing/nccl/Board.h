// Connects the ranks of a fake communicator, which are threads or processes of one machine, through
// shared memory with one slot per rank.
#ifndef PSRT_TESTING_NCCL_BOARD_H
#define PSRT_TESTING_NCCL_BOARD_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace psrt::fake {

/// Thrown by waits when the communicator is aborted.
struct BoardAborted {};

/// The shared memory of one communicator: one slot per rank, and one mailbox from each rank to
/// each rank.
class Board {
public:
  static constexpr size_t kSlotBytes = 1 << 18; ///< bytes of a rank's slot
  static constexpr size_t kMailBytes = 1 << 16; ///< bytes of a mailbox from one rank to another

  /// Opens the board; all ranks use the same name. The name is removed from the system once all
  /// ranks have opened it.
  Board(const std::string &name, int ranks, const std::atomic<bool> &aborted);
  ~Board();
  Board(const Board &) = delete;

  char *slot(int rank) const;
  /// Waits until all ranks have called this function.
  void barrier();

  /// A mailbox from one rank to another. The sender fills an empty mailbox; the receiver empties
  /// it.
  struct Mail {
    std::atomic<uint32_t> bytes;
    char data[kMailBytes];
  };
  /// Returns the mailbox from one rank to another.
  Mail &mail(int from, int to) const;
  /// Pauses a loop that waits, once per iteration: yields the thread or, if `waits` (the number of
  /// earlier iterations) is large, sleeps. Throws BoardAborted if the communicator is aborted.
  void pause(unsigned waits) const;

private:
  struct Header;
  Header *header = nullptr;
  size_t size = 0;
  int ranks;
  const std::atomic<bool> &aborted;
};

} // namespace psrt::fake

#endif
