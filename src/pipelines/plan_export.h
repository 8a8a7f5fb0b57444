#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "dif/status.h"
#include "ir/program.h"
#include "plan/plan_record.h"
#include "runtime/session.h"

/// Plans as records: what a backend reported about a program, with the layout that our planner gave it.
namespace dif {

/// The record of what `backend` decided, as its report tells. Errors: Unavailable (a plug-in that does not
/// lay out memory with our planner, or whose report contradicts it).
Result<plan::PlanRecord> record_plan(const ir::Program& program, const runtime::PreparedReport& report,
                                     const std::string& backend);

/// Asks the context's backend for a plan; no constant is needed. Errors also: those of
/// PreparedProgram::plan.
Result<plan::PlanRecord> plan_program(const std::shared_ptr<runtime::Context>& context,
                                      const ir::Program& program);

/// Writes FOLDER/NAME.difplan for each plan, NAME being the program's. Creates the folder, and
/// removes plans of their parts, NAME.NUMBER.difplan, that an earlier run left there. Errors: Io.
Status export_plans(const std::vector<plan::PlanRecord>& plans, const std::filesystem::path& folder);

}  // namespace dif
