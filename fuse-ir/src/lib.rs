//! Graph, planner, schedules and evaluators: the stages between syntax and emission, without `syn`.
