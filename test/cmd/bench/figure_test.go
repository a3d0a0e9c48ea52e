package main

import (
	"strings"
	"testing"
)

func TestAMissedGoalIsAnError(t *testing.T) {
	var out strings.Builder
	if err := printFigures(&out, []figure{{Name: "a", Met: true}, {Name: "b", Met: true}}); err != nil {
		t.Error(err)
	}
	err := printFigures(&out, []figure{{Name: "quick", Met: true}, {Name: "slow", Goal: "1 s"}, {Name: "large"}})
	if err == nil || err.Error() != "2 of 3 goals are missed: slow; large" {
		t.Error(err)
	}
	if got := strings.Count(out.String(), "MISSED"); got != 2 {
		t.Errorf("%d are marked: %s", got, &out)
	}
}
