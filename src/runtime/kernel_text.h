#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

/// For backends whose kernels are texts that a driver compiles.
namespace dif::runtime {

/// Replaces every @name@ of a text. Pre: each name stands in the list.
std::string fill(std::string_view text,
                 std::initializer_list<std::pair<std::string_view, std::string>> values);

}  // namespace dif::runtime
