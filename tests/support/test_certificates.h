#pragma once

#include <string>

namespace posthorn::test {

/// Keys and certificates made for one test run, in a temporary folder that goes with the object.
class TestCertificates {
 public:
  TestCertificates();
  ~TestCertificates();
  TestCertificates(const TestCertificates&) = delete;
  TestCertificates& operator=(const TestCertificates&) = delete;

  [[nodiscard]] std::string ca() const { return folder_ + "/ca.pem"; }  // signed the ones below
  /// For 127.0.0.1 and `hooks.test`; `client` for nobody in particular; `expired` like the server's, but of last year.
  [[nodiscard]] std::string server() const { return folder_ + "/server.pem"; }
  [[nodiscard]] std::string client() const { return folder_ + "/client.pem"; }
  [[nodiscard]] std::string expired() const { return folder_ + "/expired.pem"; }
  [[nodiscard]] std::string key() const { return folder_ + "/key.pem"; }  // the same for all
  [[nodiscard]] std::string missing() const { return folder_ + "/missing.pem"; }

 private:
  std::string folder_;
};

}  // namespace posthorn::test
