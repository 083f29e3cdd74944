#include "trainer/model/input_feed.h"

namespace regatta::trainer::model {
InputFeed::InputFeed(device::Device& device) : device_(device), copies_(device.make_stream()) {}

InputFeed::~InputFeed() { device_.synchronize(); }

bool InputFeed::has_room(const BatchRoom& room) const {
  return input_layout(room).size <= capacity_;
}

void InputFeed::reserve(const BatchRoom& room) {
  if (has_room(room)) return;
  device_.synchronize();
  capacity_ = input_layout(room).size;
  inputs_ = device::DeviceMemory(device_, capacity_, device::Dtype::Int32);
  if (!host_copies_ && !device_.is_on_host()) {
    host_copies_ = try_host_copies(device_, copies_, 4 * capacity_);
  }
  for (Slot& slot : slots_) {
    if (!host_copies_ || host_copies_->use_pinned()) {
      slot.pinned = device::HostMemory(device_, 4 * capacity_);
    } else {
      slot.ordinary.resize(static_cast<std::size_t>(capacity_));
    }
    slot.staging = device::DeviceMemory(device_, capacity_, device::Dtype::Int32);
    slot.copied = slot.taken = 0;
  }
}

void InputFeed::upload(const samples::PackedBatch& batch, const StepInputs& step,
                       const BatchRoom& room) {
  reserve(room);
  room_ = room;
  layout_ = input_layout(room);
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % kSlots;
  if (slot.copied != 0) device_.wait_host(slot.copied);
  write_inputs(batch, step, room, slot.host());
  if (slot.taken != 0) device_.wait(copies_, slot.taken);
  const device::View staging = slot.staging.view().slice(0, layout_.size);
  device_.copy_to_device(copies_, staging, slot.host());
  slot.copied = device_.record(copies_);
  device_.wait(kCompute, slot.copied);
  device_.copy(kCompute, inputs_.view().slice(0, layout_.size), staging);
  slot.taken = device_.record(kCompute);
}

device::View InputFeed::ints(std::int64_t offset, std::int64_t count) const {
  return inputs_.view().slice(offset, count);
}

device::View InputFeed::floats(std::int64_t offset, std::int64_t count) const {
  device::View view = ints(offset, count);
  view.dtype = device::Dtype::Float32;  // the same 32 bits
  return view;
}

device::TokenIdentity InputFeed::identity() const {
  return {ints(layout_.ordinals, room_.tokens), ints(layout_.positions, room_.tokens),
          ints(layout_.cumulative, room_.samples + 1), ints(layout_.step, 1), room_.max_length};
}

}  // namespace regatta::trainer::model
