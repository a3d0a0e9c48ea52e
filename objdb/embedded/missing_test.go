package embedded_test

import (
	"slices"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
)

func TestAMemberTellsWhichOthersAreMissing(t *testing.T) {
	t.Parallel() // it mostly waits
	members := testetcd.NewMembers(t, 3, 0)
	missing := func() []string {
		names, err := members[0].Missing(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	testkit.Eventually(t, time.Minute, "all are there", func() bool { return len(missing()) == 0 })
	testetcd.Stop(t, members[2])
	if names := missing(); len(names) != 1 || slices.Contains(names, "") {
		t.Errorf("after one has stopped %q are missing", names)
	}
}

// Its process answers, but the cluster has one member less.
func TestAMemberThatTakesNoPartIsMissing(t *testing.T) {
	t.Parallel() // it mostly waits
	members := testetcd.NewMembers(t, 3, 0)
	missing := func() int {
		names, err := members[0].Missing(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	testkit.Eventually(t, time.Minute, "all are there", func() bool { return missing() == 0 })
	members[2].PauseSending()
	testkit.Eventually(t, time.Minute, "the silent one is missing", func() bool { return missing() == 1 })
	members[2].ResumeSending()
	testkit.Eventually(t, time.Minute, "all are there again", func() bool { return missing() == 0 })
}
