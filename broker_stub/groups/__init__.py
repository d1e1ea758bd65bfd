"""The group coordinators: members, rebalances and committed offsets."""
