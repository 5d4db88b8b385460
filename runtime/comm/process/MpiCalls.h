/* The few calls of MPI that the runtime makes, as a library of their own offers them: it is loaded
   when MPI is asked for, so that programs run where there is none. */
#ifndef PSRT_COMM_PROCESS_MPICALLS_H
#define PSRT_COMM_PROCESS_MPICALLS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/** All return 0, or an error whose text `error` gives. Several threads may call them, each on a
   channel of its own. */
typedef struct psrt_mpi_calls {
  size_t size; /**< sizeof(psrt_mpi_calls) of the library */
  const char *(*library)(void);
  const char *(*error)(void);
  /** Initializes MPI unless the process has done it; `threads`: whether it bears several. */
  int (*start)(int *rank, int *size, int *threads);
  int (*share)(void *data, size_t bytes); /**< rank 0's bytes, to all */
  int (*open)(int channel);               /**< before it is used; 0, 1, 2, ... */
  int (*send)(int channel, int to, const void *data, size_t bytes); /**< begun; `test` ends it */
  int (*receive)(int channel, int from, void *data, size_t bytes);
  int (*test)(int channel, int *done); /**< whether all that was begun on the channel is done */
  int (*finish)(void);                 /**< finalizes MPI if `start` initialized it */
} psrt_mpi_calls;

/** The one symbol of libpsrt_comm_mpi.so. */
extern const psrt_mpi_calls psrt_mpi;

#ifdef __cplusplus
}
#endif

#endif
