#include "trainer/device/device.h"

#include <utility>

#include "base/error.h"

namespace regatta::trainer::device {

std::int64_t size_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::Float32:
    case Dtype::Int32:
      return 4;
    case Dtype::BFloat16:
    case Dtype::Float16:
      return 2;
    case Dtype::Float8E4M3:
    case Dtype::Float8E5M2:
    case Dtype::Byte:
      return 1;
  }
  base::check(false, "every element type has a size");
  return 0;
}

View View::slice(std::int64_t begin, std::int64_t count) const {
  base::check(begin >= 0 && count >= 0 && begin <= size && count <= size - begin,
              "a slice lies inside its view");
  return {static_cast<char*>(data) + begin * size_of(dtype), count, dtype};
}

DeviceMemory::DeviceMemory(Device& device, std::int64_t count, Dtype dtype) : device_(&device) {
  base::check(count >= 0, "a device allocation has no negative size");
  view_ = {device.allocate(count * size_of(dtype)), count, dtype};
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)), view_(std::exchange(other.view_, View{})) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  if (this != &other) {
    if (device_ != nullptr) device_->release(view_.data);
    device_ = std::exchange(other.device_, nullptr);
    view_ = std::exchange(other.view_, View{});
  }
  return *this;
}

DeviceMemory::~DeviceMemory() {
  if (device_ != nullptr) device_->release(view_.data);
}

HostMemory::HostMemory(Device& device, std::int64_t bytes)
    : device_(&device), data_(device.allocate_host(bytes)) {}
HostMemory::HostMemory(HostMemory&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)), data_(std::exchange(other.data_, nullptr)) {}
HostMemory& HostMemory::operator=(HostMemory&& other) noexcept {
  if (this != &other) {
    if (device_ != nullptr) device_->release_host(data_);
    device_ = std::exchange(other.device_, nullptr);
    data_ = std::exchange(other.data_, nullptr);
  }
  return *this;
}
HostMemory::~HostMemory() {
  if (device_ != nullptr) device_->release_host(data_);
}

}  // namespace regatta::trainer::device
