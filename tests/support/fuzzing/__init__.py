"""A running service asked what nobody would ask: it answers everything as its document says, lives, and grows no fatter.

contract.py     what an answer has to be, by openapi.json
bodies.py       valid requests, harmed: bytes, values, media types, encodings, headers
generated.py    requests that schemathesis makes of the document, valid ones and others
service.py      the server process, filled again and again, and looked at
__main__.py     the long run: `make fuzz-api`
"""
