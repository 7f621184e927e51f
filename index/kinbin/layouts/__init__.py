"""Maps: a sample of the items laid out in the plane, by the exact kernel of its pairs."""
