// Defines the whole dialect `ps`, with one file per family of ops.
#ifndef PARASHARD_DIALECTS_PS_TD
#define PARASHARD_DIALECTS_PS_TD
include "dialects/ps/VariableOps.td"
include "dialects/ps/ConstantOps.td"
include "dialects/ps/ElementwiseOps.td"
include "dialects/ps/Float8Ops.td"
include "dialects/ps/MovementOps.td"
include "dialects/ps/ReductionOps.td"
include "dialects/ps/ContractionOps.td"
include "dialects/ps/ConvolutionOps.td"
include "dialects/ps/PoolingOps.td"
include "dialects/ps/NormalizationOps.td"
include "dialects/ps/LossOps.td"
include "dialects/ps/EmbeddingOps.td"
include "dialects/ps/SortOps.td"
include "dialects/ps/AttentionOps.td"
include "dialects/ps/RandomOps.td"
include "dialects/ps/CollectiveOps.td"
include "dialects/ps/StructureOps.td"
#endif
