package fault

import (
	"encoding/json"
	"mime"
	"strings"
)

// ProblemType is the media type of a Problem, of RFC 9457. Clients that accept it receive the status of an error's
// kind.
const ProblemType = "application/problem+json"

// Problem is an error as the body of netmaster's response. Its members are those that clients of netmaster know,
// not those of RFC 9457.
type Problem struct {
	Code    int      `json:"code"`
	Reason  string   `json:"reason"`  // the wire form of a Kind
	Message string   `json:"message"` // the message for users
	Field   string   `json:"field"`
	Details []string `json:"details"`
	Request string   `json:"requestId,omitempty"`
}

// ProblemOf converts an error to a problem with a status. Of the message only the first line is included.
func ProblemOf(err error, code int) Problem {
	message, _, _ := strings.Cut(Explain(err), "\n")
	p := Problem{Code: code, Reason: KindOf(err).String(), Message: message, Details: []string{}}
	if e := As(err); e != nil {
		p.Field = e.Field
		p.Details = append(p.Details, e.Details...)
	}
	return p
}

// ReadProblem parses the problem in the body of a response; ok is false if it has none.
func ReadProblem(contentType string, body []byte) (p Problem, ok bool) {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil || media != ProblemType || json.Unmarshal(body, &p) != nil || p.Message == "" {
		return Problem{}, false
	}
	return p, true
}

// Fault converts a problem to an error.
func (p Problem) Fault() *Error {
	return New(ParseKind(p.Reason), "%s", p.Message).WithField(p.Field).WithDetails(p.Details...)
}
