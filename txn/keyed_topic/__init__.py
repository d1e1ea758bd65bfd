"""A compacted topic that keeps the newest entry of each key: the ledger's topic, and the one of jobs' positions."""
