"""The way of a request through a broker: routes, permissions, fault points, and answers that wait."""
