package fault

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
)

func TestAnErrorIsToldAndReadAsAProblem(t *testing.T) {
	told := New(InUse, "network blue:web").WithField("networkName").WithDetails("endpointGroup blue:front").WithExplanation("network blue:web is in use\nmore")
	body, err := json.Marshal(ProblemOf(told, 409))
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"code":409,"reason":"in-use","message":"network blue:web is in use","field":"networkName","details":["endpointGroup blue:front"]}`; string(body) != want {
		t.Errorf("got %s\nwant %s", body, want)
	}
	p, ok := ReadProblem("application/problem+json; charset=utf-8", body)
	if !ok {
		t.Fatal("it is not read")
	}
	if got := p.Fault(); got.Kind != InUse || got.Error() != "network blue:web is in use" || got.Field != told.Field || !slices.Equal(got.Details, told.Details) {
		t.Errorf("%+v", got)
	}
	if body, _ := json.Marshal(ProblemOf(errors.New("broken"), 500)); string(body) != `{"code":500,"reason":"internal","message":"broken","field":"","details":[]}` {
		t.Errorf("without a kind: %s", body)
	}
}

func TestOtherAnswersAreNoProblems(t *testing.T) {
	for name, c := range map[string]struct{ media, body string }{
		"text":              {"text/plain", "network blue:web"},
		"another document":  {"application/json", `{"message":"network blue:web"}`},
		"no media type":     {"", `{"message":"network blue:web"}`},
		"not JSON":          {ProblemType, "<html>"},
		"without a message": {ProblemType, `{"reason":"in-use"}`},
	} {
		if p, ok := ReadProblem(c.media, []byte(c.body)); ok {
			t.Errorf("%s: %+v", name, p)
		}
	}
}
