#include "pipelines/chain_builder.h"

#include "base/error.h"
#include "frontends/family.h"
#include "pipelines/flow_schedule.h"
#include "pipelines/optimize_chain.h"
#include "pipelines/picture_size.h"
#include "pipelines/scheduler_config.h"
#include "pipelines/tile_decoder.h"

namespace dif {

using frontends::Chain;
using frontends::Model;

namespace {

Status check_settings(const Model& model, const GenerationSettings& settings) {
  DIF_TRY(fit_size(settings.width, settings.height, model.size_multiple(), Fit::kExact));
  if (settings.steps < 1 || settings.steps > frontends::kMaxSteps)
    return invalid_input("steps {}: expected 1 to {}", settings.steps, frontends::kMaxSteps);
  if (!(settings.guidance >= 0 && settings.guidance <= frontends::kMaxGuidance))
    return invalid_input("guidance {}: expected a number from 0 to {}", settings.guidance,
                         frontends::kMaxGuidance);
  if (settings.decode.way == DecodeWay::kTiles) {
    const std::int64_t scale = model.size_multiple();
    DIF_TRY(tile_sizes(settings.decode, settings.height / scale, settings.width / scale, scale));
  }
  return ok();
}

}  // namespace

bool guidance_is_active(const Model& model, float guidance) {
  return model.supports_guidance() && guidance > 1.0f + 1e-6f;
}

opt::Pipeline passes_for(const GenerationSettings& settings, const runtime::BackendLibrary& library) {
  return settings.passes ? *settings.passes : opt::default_pipeline(preferences_of(library));
}

Result<Chain> build_chain(const Model& model, const GenerationSettings& settings) {
  DIF_TRY(check_settings(model, settings));
  DIF_ASSIGN(const FlowSchedulerConfig scheduler, read_scheduler_config(model.scheduler_config()));
  frontends::ChainRequest request;
  request.width = settings.width;
  request.height = settings.height;
  request.steps = settings.steps;
  if (guidance_is_active(model, settings.guidance)) request.guidance = settings.guidance;
  request.text_tokens = settings.text_tokens;
  request.dtype = settings.dtype;
  request.vae_dtype = settings.vae_dtype;
  request.state_dtype = settings.state_dtype;
  DIF_ASSIGN(Chain chain, model.build(request));
  DIF_ASSIGN(const FlowSchedule schedule,
             flux2_schedule(scheduler, chain.latent_rows * chain.latent_columns, settings.steps));
  chain.step.constants.add_table("schedule.model_time", {settings.steps},
                                 model_times(schedule, ModelTimeRule::kDiffusers, settings.dtype));
  chain.step.constants.add_table("schedule.delta_sigma", {settings.steps, 1}, schedule.deltas);
  return chain;
}

}  // namespace dif
