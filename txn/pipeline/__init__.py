"""Read-process-write: a consumer, a transform and a transactional producer in one object."""
