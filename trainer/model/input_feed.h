// Brings micro-batches to the device while it still works on earlier ones: pinned host memory, a
// copy on a stream of its own, and a device-side copy into memory that stays where it is.
#pragma once

#include <array>
#include <cstdint>

#include "trainer/model/batch_room.h"
#include "trainer/device/device.h"

namespace regatta::trainer {

class InputFeed {
 public:
  explicit InputFeed(Device& device);
  // Waits for the copies under way, which read this object's memory.
  ~InputFeed();

  // Whether upload() can take a batch of this room without moving the inputs.
  [[nodiscard]] bool has_room(const BatchRoom& room) const;
  // Makes room; nothing may still use the inputs.
  void reserve(const BatchRoom& room);
  // Enqueues the batch's arrival for everything enqueued on the compute stream afterwards. The
  // batch is read before this returns; at most two uploads are under way, a third waits.
  void upload(const PackedBatch& batch, const StepInputs& step, const BatchRoom& room);

  // The inputs of the last upload; addresses change only in reserve().
  [[nodiscard]] View ids() const { return ints(layout_.ids, room_.tokens); }
  [[nodiscard]] View types() const { return ints(layout_.types, room_.tokens); }
  [[nodiscard]] View sorted() const { return ints(layout_.sorted, room_.tokens); }
  [[nodiscard]] View masked_rows() const { return ints(layout_.masked_rows, room_.masked); }
  [[nodiscard]] View masked_labels() const { return ints(layout_.masked_labels, room_.masked); }
  [[nodiscard]] View first_rows() const { return ints(layout_.first_rows, room_.samples); }
  [[nodiscard]] View next_sentence_labels() const {
    return ints(layout_.next_sentence_labels, room_.samples);
  }
  [[nodiscard]] View mlm_scale() const { return scale(0); }
  [[nodiscard]] View nsp_scale() const { return scale(1); }
  [[nodiscard]] TokenIdentity identity() const;

 private:
  static constexpr int kSlots = 2;
  struct Slot {
    HostMemory host;
    DeviceMemory staging;
    Event copied = 0, taken = 0;  // 0: never used
  };

  [[nodiscard]] View ints(std::int64_t offset, std::int64_t count) const;
  [[nodiscard]] View scale(std::int64_t index) const;

  Device& device_;
  Stream copies_;
  std::array<Slot, kSlots> slots_;
  std::size_t next_ = 0;
  std::int64_t capacity_ = 0;  // int32
  DeviceMemory inputs_;
  BatchRoom room_;
  InputLayout layout_;
};

}  // namespace regatta::trainer
