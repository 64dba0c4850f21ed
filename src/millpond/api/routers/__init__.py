"""Routes, one module a noun.  A route reads the request, calls one use case, and shapes its answer."""
