#pragma once

#include <cstdint>
#include <vector>

#include "dif/status.h"
#include "ir/program.h"

namespace dif::opt {

/// Rows begin .. end-1 of an image.
struct Rows {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t count() const { return end - begin; }
  friend bool operator==(const Rows&, const Rows&) = default;
};

/// What lies between two group norms of an image program, as a program over a slab of rows. All slabs of one
/// height are one program: a slab is moved by feeding it other rows.
///
/// Inputs, in this order: the rows of each image; per norm the mean and the scale (1 / sqrt(var + eps)) of
/// each channel, f32 [C]; per mask 1 or 0 for each row, in the image's dtype, [1, R, 1, 1] or [1, 1, R, 1].
/// Outputs: the slab's rows of each image that the stage makes.
struct SlabProgram {
  /// Rows of an image [1, H, W, C] or [1, C, H, W] that the slab from row 0 on takes or gives. Rows outside
  /// of 0 .. height-1 are fed as zeros.
  struct Image {
    ir::ValueId value = ir::kNoId;  ///< of the whole program
    int row_axis = 0;
    std::int64_t height = 0;
    Rows rows;
  };
  /// A row counts (1) when it lies in the image: a convolution's padding is zeros after the norm, not before.
  struct Mask {
    ir::TensorType type;
    std::int64_t height = 0;
    Rows rows;
  };

  ir::Program program;
  std::vector<Image> inputs;
  std::vector<ir::OpId> norms;  ///< of the whole program
  std::vector<Mask> masks;
  std::vector<Image> outputs;

  /// `rows` for the slab that begins at row `first` of the outputs. Pre: `first` is a multiple of the stage's
  /// row_multiple.
  Rows moved(const Rows& rows, std::int64_t height, std::int64_t first) const;
};

/// The part of a program in which every row of an image depends on rows near it, but for group norms, cut
/// into stages: stage i makes what the norms of stage i + 1 take their statistics of. Operations are as late
/// as they can be, so that little is kept from one stage to the next.
class ImageStages {
 public:
  struct Stage {
    std::vector<ir::OpId> ops;        ///< in the order of the program
    std::vector<ir::ValueId> reads;   ///< images that come from before it
    std::vector<ir::OpId> norms;      ///< of `ops`
    std::vector<ir::ValueId> writes;  ///< images, of `height` rows each
    std::int64_t height = 0;
    std::int64_t row_multiple = 1;  ///< slabs begin and end at multiples of this (upsampling)
  };

  /// `program` outlives the result. Errors: Declined, saying what stands in the way (no group norm behind the
  /// last operation that needs a whole image, several images at a time).
  static Result<ImageStages> find(const ir::Program& program);

  const ir::Program& program() const { return *program_; }
  const std::vector<Stage>& stages() const { return stages_; }
  /// Everything before stage `first`, as one program with the inputs of the whole one; it gives
  /// `images_before(first)`. Pre: first < stages().size().
  Result<ir::Program> part_before(std::size_t first) const;
  /// What the stages from `first` on read of what comes before them.
  std::vector<ir::ValueId> images_before(std::size_t first) const;
  /// Stage `stage` for slabs of `rows` rows. Pre: rows is a multiple of row_multiple, at most height.
  Result<SlabProgram> slab(std::size_t stage, std::int64_t rows) const;

  /// The axis of `value` that rows are counted along; -1: it is no image.
  int row_axis(ir::ValueId value) const { return row_axes_[value]; }
  bool is_constant(ir::ValueId value) const { return constant_[value]; }

 private:
  explicit ImageStages(const ir::Program& program) : program_(&program) {}
  void find_constants();
  void find_row_axes();
  bool is_local(const ir::Op& op) const;
  Status number_stages();
  Status fill_stages();
  std::int64_t height(ir::ValueId image) const;

  const ir::Program* program_;
  std::vector<bool> constant_;  ///< per value
  std::vector<int> row_axes_;   ///< per value
  std::vector<int> made_in_;    ///< per value: its stage; -1 before the first
  std::vector<Stage> stages_;
};

}  // namespace dif::opt
