#pragma once

namespace posthorn::test {

/// How many random histories a test goes through: fewer under a sanitizer, which is slow and finds its faults in few.
template <typename Count>
constexpr Count Histories([[maybe_unused]] Count plain, [[maybe_unused]] Count sanitized) {
#ifdef POSTHORN_SANITIZED
  return sanitized;
#else
  return plain;
#endif
}

}  // namespace posthorn::test
