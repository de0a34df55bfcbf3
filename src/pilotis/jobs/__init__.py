"""Background work: jobs, lanes and schedules. Each runs once in the whole cluster, on a process that holds a lease."""
