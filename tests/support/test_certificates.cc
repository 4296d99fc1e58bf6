#include "tests/support/test_certificates.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>

namespace posthorn::test {

namespace {

using KeyPtr = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using CertificatePtr = std::unique_ptr<X509, decltype(&X509_free)>;
constexpr long kDay = 86'400;

void Check(bool good) {
  if (!good) throw std::runtime_error("cannot make test certificates");
}

void Extend(X509* certificate, int kind, const char* value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value);
  Check(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1);
  X509_EXTENSION_free(extension);
}

CertificatePtr Make(EVP_PKEY* key, const char* name, long serial, long valid_from, long valid_to, X509* issuer) {
  CertificatePtr certificate(X509_new(), &X509_free);
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), valid_from);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), valid_to);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME* subject = X509_get_subject_name(certificate.get());
  std::string text = name;
  Check(X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_ASC,
                                   static_cast<unsigned char*>(static_cast<void*>(text.data())), -1, -1, 0) == 1);
  X509_set_issuer_name(certificate.get(), issuer == nullptr ? subject : X509_get_subject_name(issuer));
  if (issuer == nullptr) {
    Extend(certificate.get(), NID_basic_constraints, "critical,CA:TRUE");
    Extend(certificate.get(), NID_key_usage, "critical,keyCertSign");
  } else {
    Extend(certificate.get(), NID_subject_alt_name, "IP:127.0.0.1,DNS:hooks.test");
  }
  Check(X509_sign(certificate.get(), key, EVP_sha256()) > 0);
  return certificate;
}

template <typename Write>
void WriteFile(const std::string& path, Write write) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  Check(file != nullptr);
  Check(write(file) == 1);
  std::fclose(file);
}

}  // namespace

TestCertificates::TestCertificates() {
  std::string folder = (std::filesystem::temp_directory_path() / "posthorn-certificates-XXXXXX").string();
  Check(mkdtemp(folder.data()) != nullptr);
  folder_ = folder;
  // One key for all: what is tested is who signed what for which name.
  const KeyPtr pkey(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  Check(pkey != nullptr);
  WriteFile(key(),
            [&](std::FILE* f) { return PEM_write_PrivateKey(f, pkey.get(), nullptr, nullptr, 0, nullptr, nullptr); });
  const auto authority = Make(pkey.get(), "test authority", 1, -kDay, kDay, nullptr);
  const auto save = [&](const std::string& path, X509* c) {
    WriteFile(path, [&](std::FILE* f) { return PEM_write_X509(f, c); });
  };
  save(ca(), authority.get());
  save(server(), Make(pkey.get(), "server", 2, -kDay, kDay, authority.get()).get());
  save(client(), Make(pkey.get(), "client", 3, -kDay, kDay, authority.get()).get());
  save(expired(), Make(pkey.get(), "expired", 4, -400 * kDay, -kDay, authority.get()).get());
}

TestCertificates::~TestCertificates() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace posthorn::test
