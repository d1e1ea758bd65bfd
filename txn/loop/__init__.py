"""Read-process-write: what pipelines and jobs have in common."""
