/* Declares the MPI calls of the runtime. The calls are in a separate library, libpsrt_comm_mpi.so,
   which is loaded only if the user selects MPI. Programs therefore also run on machines without
   MPI. */
#ifndef PSRT_COMM_PROCESS_MPICALLS_H
#define PSRT_COMM_PROCESS_MPICALLS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The table of calls. Functions that return int return 0, or an error code whose text `error`
   returns. Several threads may make calls, each on its own channel. */
typedef struct psrt_mpi_calls {
  size_t size; /**< sizeof(psrt_mpi_calls) of the library */
  const char *(*library)(void);
  const char *(*error)(void);
  /** Initializes MPI unless the process has initialized it. Sets `threads` to 1 if several threads
      may call MPI one at a time, else to 0. */
  int (*start)(int *rank, int *size, int *threads);
  int (*broadcast)(void *data, size_t bytes); /**< copies rank 0's bytes to all ranks */
  int (*open)(int channel); /**< opens channel 0, 1, 2, ... before its first use */
  /** Starts a send. The data may be reused once `test` sets `done`. */
  int (*send)(int channel, int to, const void *data, size_t bytes);
  /** Starts a receive. The data is complete once `test` sets `done`. */
  int (*receive)(int channel, int from, void *data, size_t bytes);
  int (*test)(int channel,
              int *done); /**< sets `done` if all transfers of the channel are complete */
  int (*finish)(void);    /**< finalizes MPI if `start` initialized it */
} psrt_mpi_calls;

/** The one symbol of libpsrt_comm_mpi.so. */
extern const psrt_mpi_calls psrt_mpi;

#ifdef __cplusplus
}
#endif

#endif
