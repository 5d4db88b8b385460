// RUN: not ps-opt %s "-ps-optimizer=optimizer=rmsprop(lr=1)" 2>&1 | FileCheck %s --check-prefix=RULE
// RUN: not ps-opt %s "-ps-optimizer=optimizer=\"adam(lr=x)\"" 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not ps-opt %s "-ps-optimizer=optimizer=\"sgd(lr=1e39)\"" 2>&1 | FileCheck %s --check-prefix=LARGE
// RUN: not ps-opt %s "-ps-optimizer=optimizer=\"sgd(lr=inf)\"" 2>&1 | FileCheck %s --check-prefix=INFINITE
// RUN: not ps-opt %s "-ps-optimizer=optimizer=\"adam(momentum=0.9)\"" 2>&1 | FileCheck %s --check-prefix=KEY
// RUN: not ps-opt %s "-ps-optimizer=optimizer=\"adam(betas=(0.9,1.5))\"" 2>&1 | FileCheck %s --check-prefix=BETA
// RUN: not ps-opt %s "-ps-optimizer=optimizer=\"adam(lr=1\"" 2>&1 | FileCheck %s --check-prefix=CLOSE
// RUN: not ps-opt %s "-ps-optimizer=optimizer=\"ndim<2=adam(lr=1)\"" 2>&1 | FileCheck %s --check-prefix=MATCH
// RUN: not ps-opt %s "-ps-optimizer=optimizer=\"*.bias=adam(lr=1)\"" 2>&1 | FileCheck %s --check-prefix=GLOB
// RUN: not ps-opt %s "-ps-optimizer=optimizer=\"sgd(nesterov=true)\"" 2>&1 | FileCheck %s --check-prefix=NESTEROV

// RULE: optimizer 'rmsprop(lr=1)', column 1: expected sgd, adam or adamw
// NUMBER: optimizer 'adam(lr=x)', column 9: expected a number
// LARGE: optimizer 'sgd(lr=1e39)', column 8: expected a number that f32 can hold
// INFINITE: optimizer 'sgd(lr=inf)', column 8: expected a number that is finite and at least 0
// KEY: optimizer 'adam(momentum=0.9)', column 6: expected lr, betas, eps or weight_decay
// BETA: column 17: expected a number in [0, 1)
// CLOSE: column 10: expected ',' or ')'
// MATCH: --optimizer: no filter matches parameter 'w'; add a last --optimizer without a filter
// GLOB: --optimizer "*.bias=adam(lr=1)": matches no parameter; the only name is 'w'
// NESTEROV: nesterov needs a momentum above 0 and no dampening
ps.variable parameter @w : tensor<4x8xf32>
ps.variable gradient @w.grad of @w : tensor<4x8xf32>
func.func @update() {
  return
}
