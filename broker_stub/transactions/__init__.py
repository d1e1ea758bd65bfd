"""The transaction coordinators: transactional ids, their log, and the markers that end transactions."""
