#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/reference/kernels.h"
#include "ops/common/elements.ref.h"

namespace dif::reference {

namespace {

/// Keys and values of one key head of one batch, as f64. Keys lie transposed, so that the scores of one query
/// are sums over rows.
struct Head {
  std::vector<double> keys;    ///< [D, Sk]
  std::vector<double> values;  ///< [Sk, Dv]
};

template <DType dtype>
Head load_head(const runtime::KernelArgs& args, std::int64_t batch, std::int64_t head) {
  const ir::TensorType &k = *args.in[1].type, &v = *args.in[2].type;
  const Elements<dtype> keys(args.in[1]), values(args.in[2]);
  const std::int64_t n_keys = k.dim(1), n_heads = k.dim(2), width = k.dim(3), value_width = v.dim(3);
  Head result;
  result.keys.resize(static_cast<std::size_t>(width * n_keys));
  result.values.resize(static_cast<std::size_t>(n_keys * value_width));
  for (std::int64_t key = 0; key < n_keys; ++key) {
    const std::int64_t row = (batch * n_keys + key) * n_heads + head;
    for (std::int64_t d = 0; d < width; ++d)
      result.keys[static_cast<std::size_t>(d * n_keys + key)] = static_cast<double>(keys[row * width + d]);
    values.decode(row * value_width, value_width, result.values.data() + key * value_width);
  }
  return result;
}

/// Turns the scores of the allowed keys into probabilities. Where there are none, nothing reads the result.
void softmax(std::vector<double>& scores, const std::vector<bool>& allowed) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::size_t key = 0; key < scores.size(); ++key)
    if (allowed[key] && !(scores[key] <= largest)) largest = scores[key];
  for (std::size_t key = 0; key < scores.size(); ++key) {
    scores[key] = allowed[key] ? std::exp(scores[key] - largest) : 0.0;
    sum += scores[key];
  }
  for (double& score : scores) score /= sum;
}

/// What one query row sees.
std::vector<bool> allowed_keys(const ir::OpView& op, const runtime::KernelArgs& args, std::int64_t batch,
                               std::int64_t query) {
  const std::int64_t n_keys = op.in(1).dim(1);
  std::vector<bool> allowed(static_cast<std::size_t>(n_keys));
  for (std::int64_t key = 0; key < n_keys; ++key) {
    const bool hidden =
        op.has(3) && load<std::uint8_t>(args.in[3].buffer.pointer(), batch * n_keys + key) == 0;
    allowed[static_cast<std::size_t>(key)] = !hidden && !(op.flag("causal") && key > query);
  }
  return allowed;
}

/// scale * query . key, for every key.
void score(const std::vector<double>& query, double scale, const Head& head, std::vector<double>& scores) {
  std::ranges::fill(scores, 0.0);
  const double* keys = head.keys.data();
  for (const double element : query) {
    const double factor = element * scale;
    for (double& sum : scores) sum += factor * *keys++;
  }
}

/// Sum of the allowed values, each times its probability.
void mix(const std::vector<double>& probabilities, const std::vector<bool>& allowed, const Head& head,
         std::vector<double>& sums) {
  std::ranges::fill(sums, 0.0);
  for (std::size_t key = 0; key < probabilities.size(); ++key) {
    if (!allowed[key]) continue;
    const double* value = head.values.data() + key * sums.size();
    for (double& sum : sums) sum += probabilities[key] * *value++;
  }
}

}  // namespace

Status attention(const ir::OpView& op, const runtime::KernelArgs& args) {
  const std::int64_t n_batches = op.in(0).dim(0), n_queries = op.in(0).dim(1), n_heads = op.in(0).dim(2);
  const std::int64_t width = op.in(0).dim(3), value_width = op.in(2).dim(3);
  const std::int64_t per_key_head = n_heads / op.in(1).dim(2);
  if (op.out().numel() == 0) return ok();
  return for_float(op.out().dtype, [&]<DType dtype>() {
    const Elements<dtype> q(args.in[0]), y(args.out[0]);
    std::vector<double> query(static_cast<std::size_t>(width)),
        scores(static_cast<std::size_t>(op.in(1).dim(1)));
    std::vector<double> sums(static_cast<std::size_t>(value_width));
    for (std::int64_t batch = 0; batch < n_batches; ++batch)
      for (std::int64_t h = 0; h < n_heads; ++h) {
        const Head head = load_head<dtype>(args, batch, h / per_key_head);
        for (std::int64_t i = 0; i < n_queries; ++i) {
          const std::int64_t row = (batch * n_queries + i) * n_heads + h;
          const std::vector<bool> allowed = allowed_keys(op, args, batch, i);
          q.decode(row * width, width, query.data());
          score(query, static_cast<double>(op.f32("scale")), head, scores);
          softmax(scores, allowed);
          mix(scores, allowed, head, sums);
          for (std::int64_t d = 0; d < value_width; ++d)
            y.set(row * value_width + d, sums[static_cast<std::size_t>(d)]);
        }
      }
  });
}

}  // namespace dif::reference
