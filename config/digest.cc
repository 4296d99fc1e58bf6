#include <openssl/evp.h>

#include <array>
#include <cstdint>
#include <memory>

#include "config/load.h"

namespace posthorn::config {

std::string Digest(const std::map<std::string, std::string>& files) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  const auto add = [&](const std::string& bytes) {
    // Lengths first, so that bytes cannot move from one name or document to the next unseen.
    std::array<unsigned char, 8> length{};
    for (std::size_t i = 0; i < length.size(); ++i) {
      length[i] = static_cast<unsigned char>(static_cast<std::uint64_t>(bytes.size()) >> (8 * i));
    }
    EVP_DigestUpdate(context.get(), length.data(), length.size());
    EVP_DigestUpdate(context.get(), bytes.data(), bytes.size());
  };
  for (const auto& [name, bytes] : files) {
    add(name);
    add(bytes);
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned int size = 0;
  EVP_DigestFinal_ex(context.get(), hash.data(), &size);
  constexpr std::size_t kShort = 8;
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < kShort; ++i) {
    text += kHex[hash[i] >> 4];
    text += kHex[hash[i] & 15];
  }
  return text;
}

}  // namespace posthorn::config
