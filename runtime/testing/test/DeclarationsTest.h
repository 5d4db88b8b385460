// Compares our declarations of a C API with those of its header.
#ifndef PSRT_TESTING_TEST_DECLARATIONSTEST_H
#define PSRT_TESTING_TEST_DECLARATIONSTEST_H

#include <type_traits>

namespace psrt::cuda {

/// Returns true if both types are passed in the same way. Our handles and enumerations are types of
/// their own, so the types need not be equal.
template <typename A, typename B> constexpr bool passedAlike() {
  if constexpr (std::is_void_v<A> || std::is_void_v<B>)
    return std::is_same_v<A, B>;
  else if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>)
    return std::is_const_v<std::remove_pointer_t<A>> == std::is_const_v<std::remove_pointer_t<B>>;
  else
    return std::is_pointer_v<A> == std::is_pointer_v<B> &&
           std::is_floating_point_v<A> == std::is_floating_point_v<B> && sizeof(A) == sizeof(B);
}

template <typename A, typename B> struct CalledAlike : std::false_type {};
template <typename A, typename... As, typename B, typename... Bs>
  requires(sizeof...(As) == sizeof...(Bs))
struct CalledAlike<A (*)(As...), B (*)(Bs...)>
    : std::bool_constant<(passedAlike<A, B>() && ... && passedAlike<As, Bs>())> {};

} // namespace psrt::cuda

#endif
