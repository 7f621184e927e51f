"""Which settings suit a collection: predicted from a sample, and measured."""
