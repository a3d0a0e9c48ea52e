package contivmodel

// RequestIDHeader is the header with the id of a request, of the client's choice, which the answer repeats:
// letters, digits, dots, dashes and underlines, 64 at most. netmaster gives an id to a request without a proper one.
const RequestIDHeader = "X-Request-Id"
