#include "base/digest.h"

#include <xxhash.h>

#include <new>

#include "base/ascii.h"

namespace regatta::base {

struct Digest::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() {
    if (xxh == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(xxh);
  }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Digest::Digest() : state_(std::make_unique<State>()) {}
Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;

void Digest::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

void Digest::update(std::string_view text) {
  XXH3_128bits_update(state_->xxh, text.data(), text.size());
}

std::string Digest::hex() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_->xxh));
  return base::hex({reinterpret_cast<const char*>(canonical.digest), sizeof canonical.digest});
}

std::string digest_of(std::string_view bytes) {
  Digest digest;
  digest.update(bytes);
  return digest.hex();
}

}  // namespace regatta::base
