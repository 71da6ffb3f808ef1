"""The search: the feedback loop, the trials of a task, the scheduler of many tasks, transfer."""
