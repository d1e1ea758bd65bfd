"""Authentication and authorization of clients: SASL, principals and ACLs."""
