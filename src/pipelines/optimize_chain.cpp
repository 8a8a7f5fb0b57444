#include "pipelines/optimize_chain.h"

#include "base/error.h"

namespace dif {

Result<ChainPasses> optimize_chain(frontends::Chain& chain, const opt::Pipeline& pipeline) {
  ChainPasses passes;
  for (frontends::Stage* stage : {&chain.encode, &chain.step, &chain.decode}) {
    DIF_ASSIGN(auto reports, opt::run(stage->program, pipeline));
    passes.emplace(stage->program.name, std::move(reports));
  }
  return passes;
}

opt::Preferences preferences_of(const runtime::BackendLibrary& library) {
  return {.channels_last = (library.prefers() & DIF_PREFERS_CHANNELS_LAST) != 0,
          .folded_upsampling = (library.prefers() & DIF_PREFERS_FOLDED_UPSAMPLING) != 0,
          .joined_linears = (library.prefers() & DIF_PREFERS_JOINED_LINEARS) != 0};
}

}  // namespace dif
