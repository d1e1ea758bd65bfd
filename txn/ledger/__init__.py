"""The topic that records which batch of each sink was committed last."""
