#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace posthorn::cli {

/// The least a receiver can do, for benchmarks: answers every request with 204, counts nothing but their number.
/// HTTP/1.1 with `content-length` bodies only.
///
/// Threads  Start and Stop from the owner; serves on a thread of its own.
class MinimalSink {
 public:
  MinimalSink();
  ~MinimalSink();
  MinimalSink(const MinimalSink&) = delete;
  MinimalSink& operator=(const MinimalSink&) = delete;

  /// `listen` is an IPv4 address and a port. Errors: false and why.
  [[nodiscard]] bool Start(const std::string& listen, std::string* why);
  void Stop();
  [[nodiscard]] std::string address() const;
  [[nodiscard]] std::uint64_t requests() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace posthorn::cli
