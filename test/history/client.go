package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// Outcome is the outcome of a call for its client.
type Outcome string

// The outcomes.
const (
	Done    Outcome = "done"
	Refused Outcome = "refused"
	Unknown Outcome = "unknown" // it may have happened, or happen later
	Spared  Outcome = "spared"  // not carried out: a dry run, or another operation of its apply was refused
)

// Call is an operation with its result for the client.
type Call struct {
	Operation
	Client     int
	Start, End time.Duration // since the start of the run
	// From and To are revisions of the store: From is at least every revision returned to any client before the call
	// began, To at least every revision that the response may depend on and, if the response is lost, that the call
	// may have caused.
	From, To int64

	Outcome  Outcome
	Kind     fault.Kind // of a refusal
	Message  string
	Details  []string
	Revision int64 // of a success
	exact    int64 // as in the response, where Revision is the end of a large change
	Body     []byte

	Tag, ETag int64   // revisions of the object: the call's condition, and that in the response
	tags      []int64 // of each member of an apply: its condition

	Applied bool    // is a member of an apply
	Result  string  // its result in the apply
	mates   []*Call // all members of the apply
}

func (c *Call) String() string {
	text := fmt.Sprintf("client %d, %s to %s, revisions %d to %d: %s for %d: %s", c.Client,
		c.Start.Round(time.Millisecond), c.End.Round(time.Millisecond), c.From, c.To, c.Operation, c.Tag, c.Outcome)
	switch c.Outcome {
	case Done:
		return fmt.Sprintf("%s at %d %s", text, c.Revision, c.Result)
	case Refused:
		return fmt.Sprintf("%s: %s: %s", text, c.Kind, c.Message)
	}
	return text + ": " + c.Message
}

// uncertain are the kinds of refusals after which it is unknown whether anything happened.
var uncertain = map[fault.Kind]bool{fault.Unavailable: true, fault.NotLeader: true}

// answer sends an operation to one netmaster and records the response. It returns false if nothing can have been
// sent.
func (c *Call) answer(ctx context.Context, client *http.Client, base string) (sent bool) {
	method, path, body := c.request()
	if c.Members != nil {
		method, path, body = c.applyRequest()
	}
	var content []byte
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			c.Outcome, c.Message = Unknown, err.Error()
			return true
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(content))
	if err != nil {
		c.Outcome, c.Message = Unknown, err.Error()
		return true
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", fault.ProblemType)
	c.guard(req.Header)
	resp, err := client.Do(req)
	if err != nil {
		c.Outcome, c.Message = Unknown, err.Error()
		var dial *net.OpError
		return !errors.As(err, &dial) || dial.Op != "dial"
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		c.Outcome, c.Message = Unknown, err.Error()
		return true
	}
	c.read(resp, answer)
	return true
}

func (c *Call) read(resp *http.Response, answer []byte) {
	if resp.StatusCode == http.StatusOK {
		c.Outcome, c.Body = Done, answer
		c.Revision, _ = strconv.ParseInt(resp.Header.Get(mastercfg.RevisionHeader), 10, 64) // reads have none
		c.ETag = etagOf(resp.Header)
		return
	}
	problem, ok := fault.ReadProblem(resp.Header.Get("Content-Type"), answer)
	if !ok {
		c.Outcome, c.Message = Unknown, resp.Status+": "+strings.TrimSpace(string(answer))
		return
	}
	c.Outcome, c.Kind, c.Message = Refused, fault.ParseKind(problem.Reason), problem.Message
	c.Details = problem.Details
	if uncertain[c.Kind] {
		c.Outcome = Unknown
	}
}
