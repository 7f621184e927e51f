"""The REST service of Kinbin: settings, wire models, routes, admission. Arithmetic and storage are the library's.

A request passes these modules in this order:

    gate.py        size of the declared body, host (hosts.py), API key; request id, access log, last resort for errors
    bodies.py      the body is read within its limits and parsed (npy.py: matrices)
    schemas.py     the envelope is validated, strictly; vectors stay raw for the library to check
    admission.py   a bounded queue before a bounded pool of threads; the rest is refused at once
    routes/        the library is called, and its answer put into JSON (convert.py)
    problems.py    every error, the library's and the service's, becomes one problem document

`app.create_app(settings)` makes the application, `server.run(settings)` serves it, and `local.LocalService(path)`
answers the client of the same process.
"""

__all__: list[str] = []
