"""The way of a request through a broker: routes, permissions, fault points, and responses that are sent later."""
