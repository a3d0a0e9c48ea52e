package contivmodel

// RequestIDHeader is the header with the id of a request, chosen by the client, which the response repeats: at
// most 64 letters, digits, dots, dashes and underscores. netmaster assigns an id to a request without a valid one.
const RequestIDHeader = "X-Request-Id"
