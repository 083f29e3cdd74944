#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace regatta::base {

// XXH3-128 in 32 hexadecimal digits (canonical byte order). Detects damage, not tampering.
class Digest {
 public:
  Digest();
  ~Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  // The digest of everything so far; more updates may follow.
  [[nodiscard]] std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

[[nodiscard]] std::string digest_of(std::string_view bytes);

}  // namespace regatta::base
