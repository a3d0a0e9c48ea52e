package logging

import (
	"errors"
	"testing"
	"time"
)

func TestTheSameTroubleIsToldOnceAMinute(t *testing.T) {
	var of Trouble
	now := time.Now()
	for i, c := range []struct {
		text  string
		ahead time.Duration
		want  bool
	}{{"a", 0, true}, {"a", time.Second, false}, {"b", time.Second, true}, {"b", toldAgain, false}, {"b", time.Second + toldAgain, true}, {"b", 0, true}} {
		if got := of.IsNews(errors.New(c.text), now.Add(c.ahead)); got != c.want {
			t.Errorf("%d: %v", i, got)
		}
	}
}
