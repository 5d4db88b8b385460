// Declares the part of cuDNN's graph API that the runtime uses, as in NVIDIA's cudnn_graph.h of
// version 9.0; later versions are compatible. With its own declarations, the runtime builds without
// cuDNN's headers and links no library. If cudnn_graph.h is installed, a test compares the
// declarations.
#ifndef PSRT_DEVICE_CUDA_CUDNN_CUDNNAPI_H
#define PSRT_DEVICE_CUDA_CUDNN_CUDNNAPI_H

#include "runtime/device/cuda/DriverApi.h"
#include <cstddef>

namespace psrt::cuda {

using cudnnHandle_t = struct CudnnTag *;
using cudnnBackendDescriptor_t = void *;

/// Lists of the values of each enumeration, as X(name, value). The declarations below and the test
/// use these lists.
#define PSRT_CUDNN_STATUSES(X)                                                                     \
  X(CUDNN_STATUS_SUCCESS, 0)                                                                       \
  X(CUDNN_STATUS_NOT_INITIALIZED, 1001)                                                            \
  X(CUDNN_STATUS_BAD_PARAM, 2000)                                                                  \
  X(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, 2002)                                                     \
  X(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, 2003)                                               \
  X(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, 2004)                                                    \
  X(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, 2008)                                                   \
  X(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, 2009)                                               \
  X(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, 2010)                                                   \
  X(CUDNN_STATUS_NOT_SUPPORTED, 3000)                                                              \
  X(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, 3001)                                                \
  X(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, 3003)                                                    \
  X(CUDNN_STATUS_INTERNAL_ERROR, 4000)                                                             \
  X(CUDNN_STATUS_EXECUTION_FAILED, 5000)
#define PSRT_CUDNN_DATA_TYPES(X)                                                                   \
  X(CUDNN_DATA_FLOAT, 0)                                                                           \
  X(CUDNN_DATA_HALF, 2)                                                                            \
  X(CUDNN_DATA_INT32, 4)                                                                           \
  X(CUDNN_DATA_BFLOAT16, 9)                                                                        \
  X(CUDNN_DATA_BOOLEAN, 11)
#define PSRT_CUDNN_CONVOLUTION_MODES(X) X(CUDNN_CROSS_CORRELATION, 1)
#define PSRT_CUDNN_POINTWISE_MODES(X)                                                              \
  X(CUDNN_POINTWISE_ADD, 0)                                                                        \
  X(CUDNN_POINTWISE_MUL, 1)                                                                        \
  X(CUDNN_POINTWISE_DIV, 6)                                                                        \
  X(CUDNN_POINTWISE_SUB, 9)                                                                        \
  X(CUDNN_POINTWISE_EXP, 13)                                                                       \
  X(CUDNN_POINTWISE_LOG, 15)                                                                       \
  X(CUDNN_POINTWISE_IDENTITY, 21)                                                                  \
  X(CUDNN_POINTWISE_CMP_GT, 302)                                                                   \
  X(CUDNN_POINTWISE_CMP_GE, 303)                                                                   \
  X(CUDNN_POINTWISE_GEN_INDEX, 501)                                                                \
  X(CUDNN_POINTWISE_BINARY_SELECT, 601)
#define PSRT_CUDNN_REDUCTIONS(X)                                                                   \
  X(CUDNN_REDUCE_TENSOR_ADD, 0)                                                                    \
  X(CUDNN_REDUCE_TENSOR_MAX, 3)
#define PSRT_CUDNN_HEURISTICS(X)                                                                   \
  X(CUDNN_HEUR_MODE_FALLBACK, 2)                                                                   \
  X(CUDNN_HEUR_MODE_A, 3)
#define PSRT_CUDNN_NUMERICAL_NOTES(X)                                                              \
  X(CUDNN_NUMERICAL_NOTE_TENSOR_CORE, 0)                                                           \
  X(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, 1)                                                   \
  X(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, 2)                                           \
  X(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, 4)                                                      \
  X(CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6, 7)                                                     \
  X(CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13, 8)
#define PSRT_CUDNN_DESCRIPTOR_TYPES(X)                                                             \
  X(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, 0)                                                         \
  X(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, 1)                                                       \
  X(CUDNN_BACKEND_ENGINE_DESCRIPTOR, 2)                                                            \
  X(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 3)                                                         \
  X(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, 4)                                                        \
  X(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, 5)                                                    \
  X(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, 10)                                    \
  X(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, 11)                            \
  X(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, 12)                              \
  X(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, 13)                                              \
  X(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, 15)                                                   \
  X(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, 16)                                                     \
  X(CUDNN_BACKEND_TENSOR_DESCRIPTOR, 17)                                                           \
  X(CUDNN_BACKEND_MATMUL_DESCRIPTOR, 18)                                                           \
  X(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, 19)                                                 \
  X(CUDNN_BACKEND_REDUCTION_DESCRIPTOR, 21)                                                        \
  X(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, 22)                                              \
  X(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, 31)
/// Values that later versions added: for properties of a GPU that is not installed (9.8), and for
/// attention (9.13 and 9.17).
#define PSRT_CUDNN_LATER_DESCRIPTOR_TYPES(X)                                                       \
  X(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, 38)                                                       \
  X(CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR, 41)                                               \
  X(CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR, 43)
#define PSRT_CUDNN_ATTRIBUTE_TYPES(X)                                                              \
  X(CUDNN_TYPE_HANDLE, 0)                                                                          \
  X(CUDNN_TYPE_DATA_TYPE, 1)                                                                       \
  X(CUDNN_TYPE_BOOLEAN, 2)                                                                         \
  X(CUDNN_TYPE_INT64, 3)                                                                           \
  X(CUDNN_TYPE_FLOAT, 4)                                                                           \
  X(CUDNN_TYPE_VOID_PTR, 6)                                                                        \
  X(CUDNN_TYPE_CONVOLUTION_MODE, 7)                                                                \
  X(CUDNN_TYPE_HEUR_MODE, 8)                                                                       \
  X(CUDNN_TYPE_NUMERICAL_NOTE, 11)                                                                 \
  X(CUDNN_TYPE_POINTWISE_MODE, 14)                                                                 \
  X(CUDNN_TYPE_BACKEND_DESCRIPTOR, 15)                                                             \
  X(CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 18)                                                        \
  X(CUDNN_TYPE_CHAR, 24)
#define PSRT_CUDNN_ATTRIBUTES(X)                                                                   \
  X(CUDNN_ATTR_POINTWISE_MODE, 0)                                                                  \
  X(CUDNN_ATTR_POINTWISE_MATH_PREC, 1)                                                             \
  X(CUDNN_ATTR_POINTWISE_AXIS, 9)                                                                  \
  X(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, 100)                                                         \
  X(CUDNN_ATTR_CONVOLUTION_CONV_MODE, 101)                                                         \
  X(CUDNN_ATTR_CONVOLUTION_DILATIONS, 102)                                                         \
  X(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 103)                                                    \
  X(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 104)                                                     \
  X(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 105)                                                      \
  X(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 106)                                                      \
  X(CUDNN_ATTR_ENGINEHEUR_MODE, 200)                                                               \
  X(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 201)                                                    \
  X(CUDNN_ATTR_ENGINEHEUR_RESULTS, 202)                                                            \
  X(CUDNN_ATTR_ENGINECFG_ENGINE, 300)                                                              \
  X(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, 400)                                                         \
  X(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 401)                                                  \
  X(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 402)                                                 \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 700)                                           \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 701)                                            \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, 702)                                       \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, 703)                                               \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, 704)                                               \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, 705)                                               \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 706)                                          \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 707)                                           \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, 708)                                      \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, 709)                                              \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, 710)                                             \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, 711)                                             \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 712)                                        \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 713)                                         \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, 714)                                    \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, 715)                                           \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, 716)                                            \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, 717)                                           \
  X(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 750)                                             \
  X(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, 751)                                                     \
  X(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, 752)                                                     \
  X(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, 753)                                                     \
  X(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, 758)                                                     \
  X(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, 800)                                                         \
  X(CUDNN_ATTR_OPERATIONGRAPH_OPS, 801)                                                            \
  X(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 900)                                                         \
  X(CUDNN_ATTR_TENSOR_DATA_TYPE, 901)                                                              \
  X(CUDNN_ATTR_TENSOR_DIMENSIONS, 902)                                                             \
  X(CUDNN_ATTR_TENSOR_STRIDES, 903)                                                                \
  X(CUDNN_ATTR_TENSOR_UNIQUE_ID, 906)                                                              \
  X(CUDNN_ATTR_TENSOR_IS_VIRTUAL, 907)                                                             \
  X(CUDNN_ATTR_TENSOR_IS_BY_VALUE, 908)                                                            \
  X(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, 1000)                                                      \
  X(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, 1001)                                                   \
  X(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 1003)                                                       \
  X(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, 1303)                                                        \
  X(CUDNN_ATTR_MATMUL_COMP_TYPE, 1500)                                                             \
  X(CUDNN_ATTR_OPERATION_MATMUL_ADESC, 1520)                                                       \
  X(CUDNN_ATTR_OPERATION_MATMUL_BDESC, 1521)                                                       \
  X(CUDNN_ATTR_OPERATION_MATMUL_CDESC, 1522)                                                       \
  X(CUDNN_ATTR_OPERATION_MATMUL_DESC, 1523)                                                        \
  X(CUDNN_ATTR_REDUCTION_OPERATOR, 1600)                                                           \
  X(CUDNN_ATTR_REDUCTION_COMP_TYPE, 1601)                                                          \
  X(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, 1610)                                                    \
  X(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, 1611)                                                    \
  X(CUDNN_ATTR_OPERATION_REDUCTION_DESC, 1612)                                                     \
  X(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, 2200)                                                      \
  X(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, 2201)
/// Values that later versions added. Operations on scores (SUBGRAPH) need cuDNN 9.21.
#define PSRT_CUDNN_LATER_ATTRIBUTES(X)                                                             \
  X(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, 204)                                                         \
  X(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, 407)                                                     \
  X(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, 2702)                                               \
  X(CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, 2800)                                                     \
  X(CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, 2801)                                                     \
  X(CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, 2802)                                                     \
  X(CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, 2803)                                                     \
  X(CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC, 2804)                                                 \
  X(CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, 2805)                                                 \
  X(CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH, 2811)                                                  \
  X(CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_INPUT_UID, 2812)                                        \
  X(CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_OUTPUT_UID, 2813)                                       \
  X(CUDNN_ATTR_OPERATION_SDPA_BWD_QDESC, 2851)                                                     \
  X(CUDNN_ATTR_OPERATION_SDPA_BWD_KDESC, 2852)                                                     \
  X(CUDNN_ATTR_OPERATION_SDPA_BWD_VDESC, 2853)                                                     \
  X(CUDNN_ATTR_OPERATION_SDPA_BWD_ODESC, 2854)                                                     \
  X(CUDNN_ATTR_OPERATION_SDPA_BWD_STATSDESC, 2855)                                                 \
  X(CUDNN_ATTR_OPERATION_SDPA_BWD_SCALEDESC, 2856)                                                 \
  X(CUDNN_ATTR_OPERATION_SDPA_BWD_DQDESC, 2859)                                                    \
  X(CUDNN_ATTR_OPERATION_SDPA_BWD_DKDESC, 2860)                                                    \
  X(CUDNN_ATTR_OPERATION_SDPA_BWD_DVDESC, 2861)                                                    \
  X(CUDNN_ATTR_OPERATION_SDPA_BWD_DODDESC, 2862)                                                   \
  X(CUDNN_ATTR_OPERATION_SDPA_BWD_SUBGRAPH, 2867)                                                  \
  X(CUDNN_ATTR_OPERATION_SDPA_BWD_SUBGRAPH_INPUT_UID, 2868)                                        \
  X(CUDNN_ATTR_OPERATION_SDPA_BWD_SUBGRAPH_OUTPUT_UID, 2869)

/// PSRT_CUDNN_VALUES lists the values above that cuDNN 9.0 has. PSRT_CUDNN_LATER_VALUES lists those
/// that later versions added.
#define PSRT_CUDNN_VALUES(X)                                                                       \
  PSRT_CUDNN_STATUSES(X)                                                                           \
  PSRT_CUDNN_DATA_TYPES(X)                                                                         \
  PSRT_CUDNN_CONVOLUTION_MODES(X)                                                                  \
  PSRT_CUDNN_POINTWISE_MODES(X)                                                                    \
  PSRT_CUDNN_REDUCTIONS(X)                                                                         \
  PSRT_CUDNN_HEURISTICS(X)                                                                         \
  PSRT_CUDNN_NUMERICAL_NOTES(X)                                                                    \
  PSRT_CUDNN_DESCRIPTOR_TYPES(X)                                                                   \
  PSRT_CUDNN_ATTRIBUTE_TYPES(X)                                                                    \
  PSRT_CUDNN_ATTRIBUTES(X)
#define PSRT_CUDNN_LATER_VALUES(X)                                                                 \
  PSRT_CUDNN_LATER_DESCRIPTOR_TYPES(X)                                                             \
  PSRT_CUDNN_LATER_ATTRIBUTES(X)

#define PSRT_CUDNN_VALUE(name, value) name = value,
enum cudnnStatus_t : int { PSRT_CUDNN_STATUSES(PSRT_CUDNN_VALUE) };
enum cudnnDataType_t : int { PSRT_CUDNN_DATA_TYPES(PSRT_CUDNN_VALUE) };
enum cudnnConvolutionMode_t : int { PSRT_CUDNN_CONVOLUTION_MODES(PSRT_CUDNN_VALUE) };
enum cudnnPointwiseMode_t : int { PSRT_CUDNN_POINTWISE_MODES(PSRT_CUDNN_VALUE) };
enum cudnnReduceTensorOp_t : int { PSRT_CUDNN_REDUCTIONS(PSRT_CUDNN_VALUE) };
enum cudnnBackendHeurMode_t : int { PSRT_CUDNN_HEURISTICS(PSRT_CUDNN_VALUE) };
enum cudnnBackendNumericalNote_t : int { PSRT_CUDNN_NUMERICAL_NOTES(PSRT_CUDNN_VALUE) };
enum cudnnBackendDescriptorType_t : int {
  PSRT_CUDNN_DESCRIPTOR_TYPES(PSRT_CUDNN_VALUE) PSRT_CUDNN_LATER_DESCRIPTOR_TYPES(PSRT_CUDNN_VALUE)
};
enum cudnnBackendAttributeType_t : int { PSRT_CUDNN_ATTRIBUTE_TYPES(PSRT_CUDNN_VALUE) };
enum cudnnBackendAttributeName_t : int {
  PSRT_CUDNN_ATTRIBUTES(PSRT_CUDNN_VALUE) PSRT_CUDNN_LATER_ATTRIBUTES(PSRT_CUDNN_VALUE)
};
#undef PSRT_CUDNN_VALUE

/// X(name in Cudnn, symbol in libcudnn, result, arguments)
#define PSRT_CUDNN_FUNCTIONS(X)                                                                    \
  X(getVersion, cudnnGetVersion, size_t, ())                                                       \
  X(getErrorString, cudnnGetErrorString, const char *, (cudnnStatus_t status))                     \
  X(getLastErrorString, cudnnGetLastErrorString, void, (char *message, size_t bytes))              \
  X(create, cudnnCreate, cudnnStatus_t, (cudnnHandle_t * handle))                                  \
  X(destroy, cudnnDestroy, cudnnStatus_t, (cudnnHandle_t handle))                                  \
  X(setStream, cudnnSetStream, cudnnStatus_t, (cudnnHandle_t handle, CUstream stream))             \
  X(createDescriptor, cudnnBackendCreateDescriptor, cudnnStatus_t,                                 \
    (cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t * descriptor))                    \
  X(destroyDescriptor, cudnnBackendDestroyDescriptor, cudnnStatus_t,                               \
    (cudnnBackendDescriptor_t descriptor))                                                         \
  X(finalize, cudnnBackendFinalize, cudnnStatus_t, (cudnnBackendDescriptor_t descriptor))          \
  X(setAttribute, cudnnBackendSetAttribute, cudnnStatus_t,                                         \
    (cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,                        \
     cudnnBackendAttributeType_t type, int64_t count, const void *elements))                       \
  X(getAttribute, cudnnBackendGetAttribute, cudnnStatus_t,                                         \
    (const cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,                  \
     cudnnBackendAttributeType_t type, int64_t requested, int64_t *count, void *elements))         \
  X(execute, cudnnBackendExecute, cudnnStatus_t,                                                   \
    (cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack))

} // namespace psrt::cuda

#endif
