// Brings micro-batches to the device while it still works on earlier ones: host memory of the kind
// that is faster (host_copies.h), a copy on a stream of its own, and a device-side copy into memory
// that stays where it is.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "trainer/device/device.h"
#include "trainer/model/batch_room.h"
#include "trainer/model/host_copies.h"

namespace regatta::trainer::model {

// The stream that everything is computed on (trainer/device/device.h).
inline constexpr device::Stream kCompute = 0;

class InputFeed {
 public:
  explicit InputFeed(device::Device& device);
  // Waits for the copies under way, which read this object's memory.
  ~InputFeed();

  // Whether upload() can take a batch of this room without moving the inputs.
  [[nodiscard]] bool has_room(const BatchRoom& room) const;
  // Makes room; nothing may still use the inputs.
  void reserve(const BatchRoom& room);
  // Enqueues the batch's arrival for everything enqueued on the compute stream afterwards. The
  // batch is read before this returns; at most two uploads are under way, a third waits.
  void upload(const samples::PackedBatch& batch, const StepInputs& step, const BatchRoom& room);

  // Tried by the first reserve(); nothing before it, and on the host, where nothing is copied.
  [[nodiscard]] const std::optional<HostCopies>& host_copies() const { return host_copies_; }

  // The inputs of the last upload; addresses change only in reserve().
  [[nodiscard]] device::View ids() const { return ints(layout_.ids, room_.tokens); }
  [[nodiscard]] device::View types() const { return ints(layout_.types, room_.tokens); }
  [[nodiscard]] device::View sorted() const { return ints(layout_.sorted, room_.tokens); }
  [[nodiscard]] device::View masked_rows() const { return ints(layout_.masked_rows, room_.masked); }
  [[nodiscard]] device::View masked_labels() const {
    return ints(layout_.masked_labels, room_.masked);
  }
  [[nodiscard]] device::View first_rows() const { return ints(layout_.first_rows, room_.samples); }
  [[nodiscard]] device::View sample_labels() const {
    return ints(layout_.sample_labels, room_.samples);
  }
  [[nodiscard]] device::View answers() const { return ints(layout_.answers, 2 * room_.samples); }
  [[nodiscard]] device::View values() const { return floats(layout_.values, room_.samples); }
  [[nodiscard]] device::View mlm_scale() const { return floats(layout_.loss_scales, 1); }
  [[nodiscard]] device::View sample_scale() const { return floats(layout_.loss_scales + 1, 1); }
  [[nodiscard]] device::TokenIdentity identity() const;

 private:
  static constexpr int kSlots = 2;
  struct Slot {
    device::HostMemory pinned;
    std::vector<std::int32_t> ordinary;  // in place of it
    device::DeviceMemory staging;
    device::Event copied = 0, taken = 0;  // 0: never used

    [[nodiscard]] std::int32_t* host() {
      return ordinary.empty() ? pinned.ints() : ordinary.data();
    }
  };

  [[nodiscard]] device::View ints(std::int64_t offset, std::int64_t count) const;
  [[nodiscard]] device::View floats(std::int64_t offset, std::int64_t count) const;

  device::Device& device_;
  device::Stream copies_;
  std::array<Slot, kSlots> slots_;
  std::size_t next_ = 0;
  std::int64_t capacity_ = 0;  // int32
  device::DeviceMemory inputs_;
  BatchRoom room_;
  InputLayout layout_;
  std::optional<HostCopies> host_copies_;
};

}  // namespace regatta::trainer::model
