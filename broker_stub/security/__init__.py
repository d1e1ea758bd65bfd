"""Who a client is and what it may do: SASL, principals and ACLs."""
