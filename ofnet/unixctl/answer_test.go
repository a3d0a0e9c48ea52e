package unixctl

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// Any answer of a daemon is either the command's output, or an error; errors in the command itself are a type of
// their own.
func FuzzAnswersOfAnyContent(f *testing.F) {
	for _, answer := range []string{`{"id":0,"result":"ovs-vswitchd (Open vSwitch) 3.1.0\n","error":null}`, `{"id":0,"result":null,"error":"no such bridge\n"}`, `{"error":{"a":[1]}}`,
		`{"error":false,"result":""}`, `{"result":7}`, `{"result":"\ud800"}`, `null`, `[]`, `{`, "", "\x00\xff", `{"result":"a"}{"result":"b"}`} {
		f.Add(answer)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		text, err := readAnswer(strings.NewReader(answer))
		var refusal Refusal
		refused := errors.As(err, &refusal)
		var said map[string]any
		switch readable := json.NewDecoder(strings.NewReader(answer)).Decode(&said) == nil; {
		case err != nil && text != "":
			t.Errorf("%q: %q and %v", answer, text, err)
		case !readable && (err == nil || refused):
			t.Errorf("%q is no answer: %q, %v", answer, text, err)
		case said["error"] != nil && err == nil:
			t.Errorf("%q is a refusal: %q", answer, text)
		}
	})
}
