#include "pipelines/slab_decoder.h"

#include <algorithm>
#include <array>
#include <functional>
#include <future>
#include <map>
#include <new>
#include <system_error>

#include "base/checked_math.h"
#include "base/error.h"
#include "io/host_tensor.h"
#include "opt/image_stages.h"
#include "pipelines/host_image.h"
#include "plan/plan.h"

namespace dif {

using ir::OpId;
using ir::ValueId;
using opt::ImageStages;
using opt::Rows;
using opt::SlabProgram;
using runtime::Binding;

namespace {

/// The slabs of a stage, all of one height; the last one may begin inside the one before.
std::vector<std::int64_t> first_rows(std::int64_t height, std::int64_t rows) {
  std::vector<std::int64_t> first;
  for (std::int64_t row = 0; row < height; row += rows) first.push_back(std::min(row, height - rows));
  return first;
}

Result<std::int64_t> choose_rows(const ImageStages& stages, std::size_t stage, std::uint64_t bytes) {
  const std::int64_t height = stages.stages()[stage].height, multiple = stages.stages()[stage].row_multiple;
  for (std::int64_t n_slabs = 1;; n_slabs += std::max<std::int64_t>(1, n_slabs / 4)) {
    const std::int64_t rows = std::min(height, ceil_div(ceil_div(height, n_slabs), multiple) * multiple);
    if (rows == multiple) return rows;
    DIF_ASSIGN(const SlabProgram slab, stages.slab(stage, rows));
    if (run_bytes(slab.program) <= bytes) return rows;
  }
}

Result<std::vector<SlabProgram>> slabs_of(const ImageStages& stages, const SlabLayout& layout) {
  std::vector<SlabProgram> slabs;
  for (std::size_t i = 0; i < layout.rows.size(); ++i) {
    DIF_ASSIGN(SlabProgram slab, stages.slab(layout.first_stage + i, layout.rows[i]));
    slabs.push_back(std::move(slab));
  }
  return slabs;
}

/// The most rows above or below an image that slabs read of it.
std::int64_t margin_of(const std::vector<SlabProgram>& slabs, ValueId image) {
  std::int64_t margin = 0;
  for (const SlabProgram& slab : slabs)
    for (const SlabProgram::Image& input : slab.inputs) {
      if (input.value != image) continue;
      const SlabProgram::Image& output = slab.outputs.front();
      const Rows last = slab.moved(input.rows, input.height, output.height - output.rows.count());
      margin = std::max({margin, -input.rows.begin, last.end - input.height});
    }
  return margin;
}

bool is_read_after(const std::vector<ImageStages::Stage>& stages, std::size_t stage, ValueId image) {
  for (std::size_t s = stage + 1; s < stages.size(); ++s)
    if (std::ranges::find(stages[s].reads, image) != stages[s].reads.end()) return true;
  return false;
}

/// Of the images between the stages, the most at one time.
std::uint64_t image_bytes(const ImageStages& found, const SlabLayout& layout,
                          const std::vector<SlabProgram>& slabs) {
  const std::vector<ImageStages::Stage>& stages = found.stages();
  ImageMemoryPlan memory;
  std::map<ValueId, std::size_t> images;  // and their blocks
  const auto add = [&](const std::vector<ValueId>& values) {
    for (const ValueId image : values)
      images[image] = memory.take(HostImage::bytes_with_margin(
          found.program().type(image), found.row_axis(image), margin_of(slabs, image)));
  };
  add(found.images_before(layout.first_stage));
  for (std::size_t stage = layout.first_stage; stage < stages.size(); ++stage) {
    add(stages[stage].writes);
    std::erase_if(images, [&](const auto& image) {
      if (is_read_after(stages, stage, image.first)) return false;
      memory.give(image.second);
      return true;
    });
  }
  return memory.most_bytes();
}

class SlabDecoder final : public Decoder {
 public:
  SlabDecoder(const ir::Program& program, const SlabLayout& layout, std::string reason)
      : Decoder(DecodeWay::kSlabs, std::move(reason)), program_(program), layout_(layout) {}

  Status prepare(const PrepareProgram& prepare) {
    DIF_ASSIGN(stages_, ImageStages::find(program_));
    DIF_ASSIGN(ir::Program first, stages_->part_before(layout_.first_stage));
    DIF_TRY(add_part(std::move(first), 1, 0, prepare));
    memory_.set_context(context());
    DIF_ASSIGN(slabs_, slabs_of(*stages_, layout_));
    set_host_image_bytes(image_bytes(*stages_, layout_, slabs_));
    for (std::size_t i = 0; i < slabs_.size(); ++i) {
      const std::size_t stage = layout_.first_stage + i;
      const auto runs =
          static_cast<std::int64_t>(first_rows(stages_->stages()[stage].height, layout_.rows[i]).size());
      ir::Program program = slabs_[i].program;
      Status prepared = add_part(std::move(program), runs, layout_.rows[i], prepare);
      if (!prepared)
        return with_context(std::move(prepared.error()), "{} of {} rows at a time in stage {} of the decode",
                            layout_.rows[i], stages_->stages()[stage].height, stage);
    }
    return ok();
  }

  Status run(std::span<std::byte> latents, std::span<float> image, bool allow_nonfinite) override {
    images_.clear();
    statistics_.clear();
    allow_nonfinite_ = allow_nonfinite;
    DIF_TRY(run_first(latents));
    for (std::size_t i = 0; i < slabs_.size(); ++i) {
      DIF_TRY(run_stage(i));
      drop_images(layout_.first_stage + i);
    }
    const ValueId output = program_.outputs.front().value;
    const std::span<std::byte> made = images_.at(output).bytes();
    std::ranges::copy(made, std::as_writable_bytes(image).begin());
    images_.clear();
    return ok();
  }

  Status reserve_host_memory() override {
    try {
      for (const ValueId image : stages_->images_before(layout_.first_stage)) add_image(image);
      for (std::size_t i = 0; i < slabs_.size(); ++i) {
        for (const SlabProgram::Image& output : slabs_[i].outputs) add_image(output.value);
        drop_images(layout_.first_stage + i);
      }
    } catch (const std::bad_alloc&) {
      return fail(ErrorCode::kOutOfMemory,
                  "the system has no memory left for the images between the slabs of the decode; --decode "
                  "tiles needs less and gives another picture");
    }
    images_.clear();
    return ok();
  }

 private:
  HostImage& add_image(ValueId value) {
    const ir::TensorType& type = program_.type(value);
    HostImage image(type, stages_->row_axis(value), margin_of(slabs_, value), memory_);
    return images_.insert_or_assign(value, std::move(image)).first->second;
  }

  Status run_first(std::span<std::byte> latents) {
    const ir::Program& program = parts().front().program;
    const std::array inputs = {Binding::of(program.type(program.inputs.front()), latents)};
    const std::vector<ValueId> made = stages_->images_before(layout_.first_stage);
    std::vector<Binding> outputs;
    for (const ValueId value : made) {
      HostImage& image = add_image(value);
      outputs.push_back(Binding::of(image.type(), image.bytes()));
    }
    DIF_TRY(run_part(0, inputs, outputs));
    for (const ValueId value : made) {
      open_sums(value);
      add_to_sums(value, {0, images_.at(value).height()});
    }
    return ok();
  }

  Status run_stage(std::size_t i) {
    const SlabProgram& slab = slabs_[i];
    DIF_ASSIGN(std::vector<std::vector<float>> statistics, statistics_of(slab));
    for (const SlabProgram::Image& output : slab.outputs) {
      add_image(output.value);
      open_sums(output.value);
    }
    // The last row is where the slab ends; before it, where the next one begins, which may write it again.
    std::vector<std::int64_t> firsts = first_rows(slab.outputs.front().height, layout_.rows[i]);
    const std::size_t n_slabs = firsts.size();
    firsts.push_back(slab.outputs.front().height);
    const auto sum = [&](std::size_t s) {
      for (const SlabProgram::Image& output : slab.outputs)
        add_to_sums(output.value, {firsts[s], firsts[s + 1]});
    };
    std::future<void> summing;  // beside the device, which is busy with other rows
    for (std::size_t s = 0; s < n_slabs; ++s) {
      DIF_TRY(run_slab(i, firsts[s], statistics, s + 1 < n_slabs));
      if (summing.valid()) summing.get();
      if (s == 0) continue;
      try {
        summing = std::async(std::launch::async, sum, s - 1);
      } catch (const std::system_error&) {  // the system has no thread left
        sum(s - 1);
      }
    }
    if (summing.valid()) summing.get();
    sum(n_slabs - 1);
    return ok();
  }

  /// `ahead`: its outputs are complete once the next one is back.
  Status run_slab(std::size_t stage, std::int64_t first, std::vector<std::vector<float>>& statistics,
                  bool ahead) {
    const SlabProgram& slab = slabs_[stage];
    const ir::Program& program = slab.program;
    std::vector<Binding> inputs, outputs;
    std::vector<std::vector<std::byte>> copies;  // of what does not lie together, or not in the image
    const auto type = [&] { return program.type(program.inputs[inputs.size()]); };
    for (const SlabProgram::Image& input : slab.inputs) {
      const Rows rows = slab.moved(input.rows, input.height, first);
      HostImage& image = images_.at(input.value);
      std::span<std::byte> bytes = image.where(rows);
      if (bytes.empty()) {
        bytes = copies.emplace_back(type().bytes());
        image.read(rows, bytes);
      }
      inputs.push_back(Binding::of(type(), bytes));
    }
    for (std::vector<float>& values : statistics)
      inputs.push_back(Binding::of(type(), std::as_writable_bytes(std::span(values))));
    for (const SlabProgram::Mask& mask : slab.masks) {
      DIF_ASSIGN(io::HostTensor rows, mask_of(mask, slab.moved(mask.rows, mask.height, first)));
      inputs.push_back(Binding::of(type(), copies.emplace_back(std::move(rows.data))));
    }
    std::vector<std::span<std::byte>> apart(slab.outputs.size());
    for (std::size_t i = 0; i < slab.outputs.size(); ++i) {
      const ir::TensorType& made = program.type(program.outputs[i].value);
      const Rows rows = slab.moved(slab.outputs[i].rows, slab.outputs[i].height, first);
      std::span<std::byte> bytes = images_.at(slab.outputs[i].value).where(rows);
      if (bytes.empty()) bytes = apart[i] = copies.emplace_back(made.bytes());
      outputs.push_back(Binding::of(made, bytes));
    }
    ahead = ahead && std::ranges::all_of(apart, &std::span<std::byte>::empty);
    DIF_TRY(run_part(1 + stage, inputs, outputs, ahead));
    for (std::size_t i = 0; i < slab.outputs.size(); ++i)
      if (!apart[i].empty())
        images_.at(slab.outputs[i].value)
            .write(slab.moved(slab.outputs[i].rows, slab.outputs[i].height, first), apart[i]);
    return ok();
  }

  static Result<io::HostTensor> mask_of(const SlabProgram::Mask& mask, const Rows& rows) {
    std::vector<float> values;
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      values.push_back(row >= 0 && row < mask.height ? 1.0f : 0.0f);
    return io::convert(io::HostTensor::f32(mask.type.shape, values), mask.type.dtype);
  }

  // --- statistics

  /// The norms that read an image get its sums.
  void open_sums(ValueId image) {
    for (std::size_t s = layout_.first_stage; s < stages_->stages().size(); ++s)
      for (const OpId norm : stages_->stages()[s].norms)
        if (program_.ops[norm].operands[0] == image)
          statistics_.insert_or_assign(norm, GroupSums(images_.at(image), program_.view(norm).i64("groups")));
  }

  void add_to_sums(ValueId image, const Rows& rows) {
    for (auto& [norm, sums] : statistics_)
      if (program_.ops[norm].operands[0] == image) sums.add(images_.at(image), rows);
  }

  /// Mean and scale of each norm of a slab, in the order of its inputs.
  Result<std::vector<std::vector<float>>> statistics_of(const SlabProgram& slab) const {
    std::vector<std::vector<float>> found;
    for (const OpId norm : slab.norms) {
      const GroupSums& sums = statistics_.at(norm);
      if (!allow_nonfinite_ && !sums.all_finite())
        return fail(ErrorCode::kNonFinite, "what module {} normalises holds NaN or infinity",
                    module_of(program_, norm));
      const ir::OpView op = program_.view(norm);
      std::vector<float> mean(static_cast<std::size_t>(op.in(1).numel())), scale(mean.size());
      sums.finish(op.f32("eps"), mean, scale);
      found.push_back(std::move(mean));
      found.push_back(std::move(scale));
    }
    return found;
  }

  /// What no later stage reads.
  void drop_images(std::size_t stage) {
    const auto read_later = [&](ValueId image) {
      return is_read_after(stages_->stages(), stage, image) || image == program_.outputs.front().value;
    };
    std::erase_if(images_, [&](const auto& entry) { return !read_later(entry.first); });
    std::erase_if(statistics_, [&](const auto& entry) {
      return images_.count(program_.ops[entry.first].operands[0]) == 0;
    });
  }

  const ir::Program program_;
  const SlabLayout layout_;
  std::optional<ImageStages> stages_;
  std::vector<SlabProgram> slabs_;
  ImageMemory memory_;
  std::map<ValueId, HostImage> images_;
  std::map<OpId, GroupSums> statistics_;
  bool allow_nonfinite_ = false;
};

}  // namespace

Result<SlabLayout> choose_slabs(const ir::Program& program, std::uint64_t bytes) {
  DIF_ASSIGN(const ImageStages stages, ImageStages::find(program));
  SlabLayout layout;
  for (std::size_t first = stages.stages().size(); first-- > 0;) {
    DIF_ASSIGN(const ir::Program part, stages.part_before(first));
    layout.first_stage = first;
    if (run_bytes(part) <= bytes) break;
  }
  for (std::size_t stage = layout.first_stage; stage < stages.stages().size(); ++stage) {
    DIF_ASSIGN(const std::int64_t rows, choose_rows(stages, stage, bytes));
    layout.rows.push_back(rows);
  }
  return layout;
}

Result<SlabBytes> slab_bytes(const ir::Program& program, const SlabLayout& layout) {
  DIF_ASSIGN(const ImageStages found, ImageStages::find(program));
  DIF_ASSIGN(const ir::Program first, found.part_before(layout.first_stage));
  DIF_ASSIGN(const std::vector<SlabProgram> slabs, slabs_of(found, layout));
  SlabBytes bytes = {image_bytes(found, layout, slabs), plan::make_plan(first).arena_bytes};
  for (const SlabProgram& slab : slabs) {
    std::uint64_t run = plan::make_plan(slab.program).arena_bytes;
    for (const ValueId input : slab.program.inputs)  // the rows at an edge may not lie in the image
      run = saturating_add(run, slab.program.type(input).bytes());
    bytes.run = std::max(bytes.run, run);
  }
  return bytes;
}

Result<std::unique_ptr<Decoder>> make_slab_decoder(const ir::Program& program, const SlabLayout& layout,
                                                   std::string reason, const PrepareProgram& prepare) {
  auto decoder = std::make_unique<SlabDecoder>(program, layout, std::move(reason));
  DIF_TRY(decoder->prepare(prepare));
  return decoder;
}

Result<std::unique_ptr<Decoder>> make_slab_decoder(const ir::Program& program, std::uint64_t bytes,
                                                   const std::string& reason, const PrepareProgram& prepare) {
  std::optional<SlabLayout> tried;
  while (true) {
    DIF_ASSIGN(const SlabLayout layout, choose_slabs(program, bytes));
    auto decoder = make_slab_decoder(program, layout, reason, prepare);
    if (decoder) (*decoder)->set_slab_bytes(std::max<std::uint64_t>(1, bytes));  // nothing fits into one
    if (decoder || decoder.error().code != ErrorCode::kOutOfMemory) return decoder;
    if (bytes == 0)
      return with_context(std::move(decoder.error()),
                          "the decode does not fit in slabs of the fewest rows either; --decode tiles needs "
                          "less and gives another picture");
    bytes = bytes < (std::uint64_t{1} << 20) || tried == layout ? 0 : bytes / 2;
    tried = layout;
  }
}

std::uint64_t run_bytes(const ir::Program& program) {
  std::uint64_t bytes = plan::make_plan(program).arena_bytes;
  for (const ValueId input : program.inputs) bytes = saturating_add(bytes, program.type(input).bytes());
  for (const ir::Output& output : program.outputs)
    bytes = saturating_add(bytes, program.type(output.value).bytes());
  return bytes;
}

}  // namespace dif
