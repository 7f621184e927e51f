"""Payload indexes: the values of declared fields, in order, so that filters need not read payloads."""
