// Draws inputs for language models: 4 micro-batches of 4 samples. A sample has 6 tokens below 10,
// and 6 labels. About a quarter of the labels is ignored.
!floats = tensor<16x6xf32>
!ids = tensor<16x6xi64>
module {
  ps.variable buffer @drawn.ids init #ps.distribution<uniform, 0.0, 10.0> : !floats
  ps.variable buffer @drawn.labels init #ps.distribution<uniform, -3.0, 10.0> : !floats
  func.func @forward() -> (!ids {ps.name = "ids"}, !ids {ps.name = "labels"}) {
    %x = ps.read @drawn.ids : !floats
    %ids = ps.convert %x : !floats -> !ids
    %y = ps.read @drawn.labels : !floats
    %floor = ps.floor %y : !floats
    %classes = ps.convert %floor : !floats -> !ids
    %zero = ps.constant dense<0> : !ids
    %valid = ps.compare ge %classes, %zero : !ids -> tensor<16x6xi1>
    %ignored = ps.constant dense<-100> : !ids
    %labels = ps.select %valid, %classes, %ignored : tensor<16x6xi1>, !ids
    return %ids, %labels : !ids, !ids
  }
}
