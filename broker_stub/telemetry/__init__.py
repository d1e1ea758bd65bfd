"""Client metrics (KIP-714): what clients are asked for, and what they push."""
